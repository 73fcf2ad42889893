"""Earlier states of a store, and how much an answer changed between two."""

from datetime import UTC, datetime

import pytest

import eddyline as el
from eddyline.api.durable import from_epoch, stamp
from eddyline.errors import PlanError, StoreError
from eddyline.ingest.sections import to_sections
from eddyline.store import Options, Store
from tests.data.moving_store import QUERIES, orders, plan, visits

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
HOUR = 3600.0


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with one batch of orders and one of visits each hour, and every hour kept."""
    return filled(tmp_path_factory.mktemp("time") / "state", "24 KB")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The same within a budget that the joins do not fit."""
    return filled(tmp_path_factory.mktemp("small") / "state", "10 KB")


def filled(where, budget):
    """Return a store with the batches of six hours."""
    made = plan(budget=budget)
    sections = to_sections(made.empty().snapshot)
    with Store.create(
        where, stamp(made.layout), "run", sections, options=Options(keep="hourly for 2 days")
    ) as kept:
        for hour in range(6):
            for stream, rows in (("orders", orders(hour, 700)), ("visits", visits(hour, 700))):
                kept.commit(
                    stream,
                    f"q-{stream}",
                    hour,
                    lambda epoch, stream=stream, rows=rows: to_sections(
                        el.State(from_epoch(epoch)).update(stream, rows).snapshot
                    ),
                    at=START + hour * HOUR,
                )
    return where


def exact_states():
    """The same rows without a budget that is too small, after each hour."""
    state, states = plan(budget="64 MB").empty(), []
    for hour in range(6):
        state = el.State(state.snapshot)
        state.update("orders", orders(hour, 700)).update("visits", visits(hour, 700))
        states.append(el.State(state.snapshot))
    return states


def test_a_state_as_of_a_time_is_that_of_its_epoch(store):
    truth = exact_states()
    for hour in range(6):
        for moment in (
            datetime.fromtimestamp(START + hour * HOUR + 60, UTC),
            f"2026-01-01 0{hour}:30",
            f"2026-01-01T0{hour + 1}:30:00+01:00",
        ):
            state = el.open(store, as_of=moment)
            assert state.answer("orders_kept").value == truth[hour].answer("orders_kept").value
    assert el.open(store, as_of=2).origin.freshness.epoch == 2


@pytest.mark.parametrize("moment", ["yesterday", "2026-13-01", 1.5])
def test_what_is_not_a_time_is_refused(store, moment):
    with pytest.raises(StoreError, match="is not a time"):
        el.open(store, as_of=moment)


def test_a_time_that_is_not_kept_is_refused(store):
    with pytest.raises(StoreError, match="its oldest one is of"):
        el.open(store, as_of="2025-01-01")


def test_changes_have_intervals_that_hold(store):
    truth, now = exact_states(), el.open(store)
    held = asked = 0
    for hour in range(5):
        then = el.open(store, as_of=f"2026-01-01 0{hour}:30")
        for name in ("orders_kept", "visits_by_buyers", "money", "buyers"):
            found = now.change(name, then)
            exact = float(truth[5].answer(name).value) - float(truth[hour].answer(name).value)
            if found.exact:
                assert float(found.value) == exact
            asked += 1
            held += float(found.low) <= exact <= float(found.high)
    assert held >= asked - 1  # each fails with a probability of at most 5%, and most are far from it
    assert now.change("orders_kept", now).value == 0
    assert now.change("orders_kept", now).exact


def test_sql_that_both_cover_can_be_compared(store):
    then = el.open(store, as_of="2026-01-01 02:30")
    found = el.open(store).change(QUERIES["orders_kept"], then)
    assert found.exact
    assert found.value == el.open(store).answer("orders_kept").value - then.answer("orders_kept").value


@pytest.mark.parametrize("which", ["store", "small"])
def test_groups_are_matched_and_their_changes_have_intervals_that_hold(which, request):
    """Of some 2,000 intervals at 95%, each from two at 97.5%, below 93% held would take a fault."""
    where, truth = request.getfixturevalue(which), exact_states()
    now, held, asked, exact, one_sided = el.open(where), 0, 0, 0, 0
    for hour in (0, 3):
        then = el.open(where, as_of=f"2026-01-01 0{hour}:30")
        for name, column in (("by_region", "region"), ("busiest", "customer")):
            found = now.change(name, then)
            wanted = [
                {row[column]: row["n"] for row in each.answer(name)} for each in (truth[5], truth[hour])
            ]
            assert len(set(found.to_arrow().column(column).to_pylist())) == len(found)
            for row in found:
                key = row[column]
                difference = wanted[0].get(key, 0) - wanted[1].get(key, 0)
                if row["exact"]:
                    assert row["n"] == difference
                    exact += 1
                asked += 1
                held += row["n_low"] <= difference <= row["n_high"]
                one_sided += key not in wanted[1]
            if found.exact:
                assert {row[column] for row in found} == wanted[0].keys() | wanted[1].keys()
    assert held >= 0.93 * asked
    assert one_sided > 10
    assert exact > 0 if which == "store" else exact < asked


def test_groups_of_one_moment_only_count_from_zero_where_that_is_certain():
    w = el.Workload(budget="1 MB", seed=3).stream("s", "k STRING, x INT")
    w = w.query(
        "by_k", "SELECT k, COUNT(*) AS n, SUM(x) AS total, AVG(x) AS mean, MIN(x) AS least FROM s GROUP BY k"
    )
    w = w.query("many", "SELECT k, COUNT(*) AS n FROM s GROUP BY k HAVING COUNT(*) > 1")
    empty = w.plan().empty()
    then = el.State(empty.snapshot).update("s", {"k": ["a", "a", None, "gone", "gone"], "x": [1, 2, 3, 4, 5]})
    now = el.State(empty.snapshot).update("s", {"k": ["a", "a", "a", None, "new"], "x": [1, 2, 4, 3, 9]})
    change = now.change("by_k", then)
    shown = {
        row["k"]: tuple(row[name] for name in ("n", "total", "mean", "least", "exact")) for row in change
    }
    assert shown.pop("a") == (1, 4, pytest.approx(7 / 3 - 1.5), 0, True)
    assert shown == {
        None: (0, 0, 0, 0, True),
        "new": (1, 9, None, None, True),
        "gone": (-2, -9, None, None, True),
    }
    assert change.exact
    assert change["new"]["mean"].known  # NULL: the group has no mean at one of the moments
    many = now.change("many", then)
    assert {row["k"]: row["n"] for row in many} == {"a": 1, "gone": None}
    assert not many["gone"]["n"].known
    assert (many["gone"]["n"].low, many["a"]["n"].low) == (None, 1)
    assert any("HAVING" in note for note in many.notes), many.notes
    every = now.change("SELECT COUNT(*) AS n, SUM(x) AS total FROM s", then)
    assert [(row["n"], row["total"]) for row in every] == [(0, 4)]


def test_other_queries_are_refused(store):
    now = el.open(store)
    other = plan({**QUERIES, "orders_kept": "SELECT COUNT(*) FROM orders WHERE customer > 5"}).empty()
    with pytest.raises(PlanError, match="cannot be compared"):
        now.change("orders_kept", other)


def test_sql_as_of_an_epoch_or_a_time_is_that_of_the_opened_state(store):
    state = el.open(store)
    for clause, moment in (
        ("VERSION AS OF 4", 4),
        ("TIMESTAMP AS OF '2026-01-01 02:30'", "2026-01-01 02:30"),
    ):
        then = el.open(store, as_of=moment)
        assert then.origin.freshness.epoch != state.origin.freshness.epoch
        counted = state.answer(f"SELECT COUNT(*) FROM orders {clause}")
        wanted = then.answer("SELECT COUNT(*) FROM orders")
        assert (counted.value, counted.low, counted.high) == (wanted.value, wanted.low, wanted.high)
        assert counted.freshness.epoch == then.origin.freshness.epoch
        around = "WITH c AS (SELECT COUNT(*) AS n FROM orders{}) SELECT n * 2 AS twice FROM c"
        made, by_hand = state.sql(around.format(f" {clause}")), then.sql(around.format(""))
        assert made.to_pylist() == by_hand.to_pylist()


NOW_AND_THEN = """
SELECT a.n - b.n AS more, a.n AS n
FROM (SELECT COUNT(*) AS n FROM orders o JOIN visits v ON o.customer = v.customer) a
CROSS JOIN (
    SELECT COUNT(*) AS n FROM orders {clause} o JOIN visits {clause} v ON o.customer = v.customer
) b
"""


def test_the_difference_of_two_moments_in_one_statement(small):
    """Its interval is that of `change`, and holds the difference of the exact answers."""
    state, truth = el.open(small), exact_states()
    joined = "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer"
    for hour, clause in ((1, "TIMESTAMP AS OF '2026-01-01 01:30'"), (2, "VERSION AS OF 6")):
        then = el.open(small, as_of="2026-01-01 01:30" if hour == 1 else 6)
        (row,) = state.sql(NOW_AND_THEN.format(clause=clause)).to_pylist()
        change = state.change(joined, then)
        assert not change.exact
        assert row["more"] == pytest.approx(change.value)
        assert (row["more_low"], row["more_high"]) == pytest.approx((change.low, change.high))
        exact = [each.answer(joined).value for each in (truth[5], truth[hour])]
        assert row["more_low"] <= exact[0] - exact[1] <= row["more_high"]


def test_groups_of_two_moments_are_joined(store):
    state = el.open(store)
    grouped = "(SELECT region, COUNT(*) AS n FROM orders{} GROUP BY region)"
    text = f"SELECT a.region, a.n - b.n AS more FROM {grouped.format('')} a JOIN {grouped.format(' VERSION AS OF 4')} b "
    found = state.sql(f"{text} ON a.region = b.region ORDER BY a.region").to_pylist()
    each = [
        s.sql("SELECT region, COUNT(*) AS n FROM orders GROUP BY region").to_pylist()
        for s in (state, el.open(store, as_of=4))
    ]
    now, then = ({row["region"]: row["n"] for row in rows} for rows in each)
    assert {row["region"]: row["more"] for row in found} == {
        r: now[r] - then[r] for r in now.keys() & then.keys()
    }


def test_a_planned_query_of_two_moments(store):
    state = el.open(store)
    (row,) = state.sql(
        "SELECT a.* FROM (SELECT * FROM orders_kept) a UNION ALL SELECT * FROM orders_kept VERSION AS OF 4"
    ).to_pylist()[1:]
    assert next(iter(row.values())) == el.open(store, as_of=4).answer("orders_kept").value


def test_rows_of_two_moments_are_not_joined(store):
    text = "SELECT COUNT(*) FROM orders VERSION AS OF 4 o JOIN visits v ON o.customer = v.customer"
    with pytest.raises(el.UnsupportedQuery, match="rows of two moments cannot be joined"):
        el.open(store).sql(text)
    with pytest.raises(el.UnsupportedQuery, match="the same moment"):
        el.open(store).answer(text)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (
            "SELECT COUNT(*) FROM orders TIMESTAMP AS OF current_timestamp()",
            el.UnsupportedQuery,
            "the number of an epoch",
        ),
        ("SELECT COUNT(*) FROM orders VERSION AS OF 999", el.StoreError, "epoch 999 is not in"),
    ],
)
def test_sql_as_of_what_cannot_be_answered_is_refused(store, text, error, words):
    with pytest.raises(error, match=words):
        el.open(store).sql(text)


def test_as_of_needs_a_store():
    with pytest.raises(el.PlanError, match="needs a store"):
        plan().empty().answer("SELECT COUNT(*) FROM orders VERSION AS OF 1")
