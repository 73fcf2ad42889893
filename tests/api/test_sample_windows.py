"""Windows with stream samples: exact while all panes fit, under shared rosters from then on."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.windows import DDL, MINUTE, PANES, SLIDE, START
from tests.oracles.duckdb_sql import exact_answers, net_rows

WINDOW = {"window": "15 minutes", "slide": "5 minutes"}
QUERIES = {
    "pairs": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "total": "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.x > 2",
    "mean": "SELECT AVG(b.x) FROM a JOIN b ON a.k = b.k",
    "both": "SELECT COUNT(*) FROM (SELECT k FROM a INTERSECT SELECT k FROM b)",
    "chain": "SELECT COUNT(*) FROM a p JOIN b ON p.k = b.k JOIN a q ON b.x = q.x",
}
MINUTES = (0, 2, 9, 11, 4, 23, 30, 31, 60)


def planned(budget, queries=QUERIES):
    made = el.Workload(budget=budget, seed=3)
    for name in "ab":
        made.stream(name, DDL, changes="w", event_time="ts")
    for name, text in queries.items():
        made.query(name, text, **WINDOW)
    return made.query("ever", QUERIES["pairs"]).plan()


def rows(stream, minute, count=40, values=12):
    """Rows whose times lie around a minute; each delete takes back the row before it."""
    rng = np.random.default_rng([minute, ord(stream)])
    times = START + minute * MINUTE + rng.integers(-4 * MINUTE, 4 * MINUTE, count)
    made = {"k": rng.integers(0, values, count), "x": rng.integers(0, 9, count).astype(np.int32)}
    weights = np.ones(count, dtype=np.int64)
    for place in range(3, count, 7):
        weights[place] = -1
        times[place] = times[place - 1]
        for column in made.values():
            column[place] = column[place - 1]
    stamps = pa.array(times.astype("datetime64[us]"), pa.timestamp("us", "UTC"))
    return pa.table({**made, "w": weights, "ts": stamps})


def truth(seen, bounds):
    """The exact answers over the last complete window."""
    net = {}
    for name, tables in seen.items():
        whole = pa.concat_tables(tables)
        times = whole["ts"].cast(pa.int64()).to_numpy()
        inside = whole.filter(pa.array((times >= bounds[0]) & (times < bounds[1])))
        net[name] = net_rows(inside.select(["k", "x"]), inside["w"].to_numpy())
    return dict(zip(QUERIES, exact_answers(QUERIES.values(), net), strict=True))


def check(state, seen):
    panes = state.snapshot.panes_of("pairs")
    wanted = truth(seen, panes.bounds)
    for name, value in wanted.items():
        answer = state.answer(name)
        assert answer.exact
        assert answer.value == (None if value is None else pytest.approx(value)), name


def samples_of(state):
    (panes,) = state.snapshot.windows.values()
    return [sample for pane in panes.panes.values() for sample in pane.samples.values()]


def test_windows_are_exact_while_their_panes_fit():
    plan = planned("1 MB")
    state, seen = plan.empty(), {"a": [], "b": []}
    for minute in MINUTES:
        for name in "ab":
            seen[name].append(rows(name, minute))
            state.update(name, seen[name][-1])
        if minute != 4:  # the pane before it may have been dropped: rows are late there
            check(state, seen)
        assert el.State.from_bytes(state.to_bytes()) == state
        assert state.nbytes <= plan.nbytes


def test_panes_of_two_states_are_merged_and_subtracted():
    plan = planned("1 MB")
    whole, parts = plan.empty(), []
    for minute in MINUTES[:4]:
        for name in "ab":
            table = rows(name, minute)
            whole.update(name, table)
            parts.append(plan.empty().update(name, table))
    total = plan.empty()
    for part in reversed(parts):
        total = part + total
    assert total == whole
    assert whole - parts[-1] + parts[-1] == whole
    churn = rows("a", 11)
    back = churn.set_column(2, "w", pa.array(-churn["w"].to_numpy()))
    assert el.State.from_bytes(whole.to_bytes()).update("a", churn).update("a", back) == whole


def spilled(plan, count=1500, values=3000):
    state = plan.empty()
    for minute in MINUTES:
        for name in "ab":
            state.update(name, rows(name, minute, count, values))
            assert state.nbytes <= plan.nbytes
    return state


@pytest.mark.parametrize("budget", ["24 KB", "48 KB"])
def test_panes_that_overflow_share_their_rosters_and_stay_within_the_budget(budget):
    plan = planned(budget)
    state = spilled(plan)
    samples = samples_of(state)
    assert all(sample.grouped for sample in samples)
    for sample in samples:
        for a, b in zip(sample.rosters, samples[0].rosters, strict=True):
            assert a.same(b)
    again = el.State.from_bytes(state.to_bytes())
    assert again == state
    assert again.nbytes == state.nbytes
    assert len(state.to_bytes()) < 2 * plan.nbytes + 40_000  # the plan itself, and both kinds of panes
    for name in (*QUERIES, "ever"):
        answer = state.answer(name)
        assert again.answer(name) == answer
        assert answer.value is None or answer.low <= answer.value <= answer.high
    assert "at a rate of" in state.explain()


def test_an_empty_pane_equals_a_missing_one_in_the_second_stage():
    plan = planned("48 KB", {"pairs": QUERIES["pairs"]})
    state = plan.empty()
    for name in "ab":
        state.update(name, rows(name, 30, 4000, 100_000))
    assert samples_of(state)[0].grouped
    one = pa.table(
        {
            "k": [1],
            "x": pa.array([1], pa.int32()),
            "w": [1],
            "ts": pa.array(np.array([START + 18 * MINUTE], "datetime64[us]"), pa.timestamp("us", "UTC")),
        }
    )
    back = one.set_column(2, "w", pa.array([-1]))
    busy = el.State.from_bytes(state.to_bytes()).update("a", one).update("a", back)
    assert busy.snapshot.panes_of("pairs").panes.keys() > state.snapshot.panes_of("pairs").panes.keys()
    assert busy == state
    assert state == busy


def test_the_same_batches_give_the_same_bytes_and_old_panes_are_dropped():
    plan = planned("48 KB")
    assert spilled(plan).to_bytes() == spilled(plan).to_bytes()
    state = spilled(plan)
    far = rows("a", 10_000)
    state.update("a", far)
    assert len(state.snapshot.panes_of("pairs").panes) <= 3
    answer = state.answer("pairs")
    assert answer.value == 0
    newest = state.snapshot.panes_of("pairs").newest
    assert newest == int(far["ts"].cast(pa.int64()).to_numpy().max()) // SLIDE
    assert state.snapshot.floor("a") == (newest - PANES) * SLIDE


def test_late_rows_change_nothing():
    plan = planned("1 MB", {"pairs": QUERIES["pairs"]})
    state = plan.empty().update("a", rows("a", 60)).update("b", rows("b", 60))
    before = state.answer("pairs")
    (panes,) = state.snapshot.windows.values()
    state.update("a", rows("a", 0))
    (after,) = state.snapshot.windows.values()
    assert state.answer("pairs") == before
    assert panes.newest == after.newest
    assert panes.panes.keys() == after.panes.keys()
    assert state.answer("ever").exact


def test_states_with_different_rosters_are_merged_pane_by_pane():
    plan = planned("48 KB")
    one, other = plan.empty(), plan.empty()
    for minute in MINUTES[:4]:
        one.update("a", rows("a", minute, 2000, 4000)).update("b", rows("b", minute, 500, 4000))
        other.update("b", rows("b", minute + 100, 2000, 50))
    for total in (one + other, other + one, one - other, other - one):
        assert total.nbytes <= plan.nbytes
        for name in QUERIES:
            answer = total.answer(name)
            assert answer.value is None or answer.low <= answer.value <= answer.high


@pytest.mark.parametrize("budget", [20_000, 64_000, 1_000_000])
@pytest.mark.parametrize("others", [{}, {"n": "SELECT COUNT(*) FROM a"}], ids=["alone", "others a count"])
def test_a_workload_of_windows_only_leaves_room_for_row_counts(budget, others):
    made = el.Workload(budget=budget, seed=3)
    for name in "ab":
        made.stream(name, DDL, changes="w", event_time="ts")
    for name, text in {
        "keys": "SELECT COUNT(DISTINCT k) FROM a",
        "pairs": QUERIES["pairs"],
        **others,
    }.items():
        made.query(name, text, **WINDOW)
    plan = made.plan()
    assert plan.nbytes <= budget
    state = plan.empty().update("a", rows("a", 0)).update("a", rows("a", 30))
    assert state.answer("keys").exact
