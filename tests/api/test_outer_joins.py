"""Outer, semi and anti joins: exact on every form while everything is held; then intervals that hold, or a refusal."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eddyline as el
from eddyline.errors import PlanError, SqlError
from tests.data.outer_joins import (
    GROUPED,
    QUERIES,
    STREAMS,
    for_duckdb,
    made_table,
    random_text,
    skewed_tables,
)
from tests.oracles.coverage import Coverage
from tests.oracles.duckdb_sql import exact, exact_answers, net_rows
from tests.oracles.grouped import exact_groups, intervals, values_by_group


def workload(texts, budget="8 MB", seed=5, **options):
    made = el.Workload(budget=budget, seed=seed, **options)
    for name, schema in STREAMS.items():
        made.stream(name, schema)
    for i, text in enumerate(texts):
        made.query(f"q{i}", text)
    return made


def assert_exact(found, value, text):
    assert (found is None) == (value is None), text
    assert found is None or float(found) == pytest.approx(float(value), rel=1e-9, abs=1e-9), text


def with_deletes(plan, rng, rows, keys):
    """A state of inserts and a state of deletes, merged and stored, and the net rows."""
    left, right, net = plan.empty(), plan.empty(), {}
    for name, number in zip(STREAMS, rows, strict=True):
        table = made_table(rng, name, number, keys)
        gone = rng.random(number) < 0.3
        deleted = table.filter(pa.array(gone))
        left.update(name, table)
        right.update(name, deleted, weights=np.full(len(deleted), -1))
        weights = [1] * number + [-1] * len(deleted)
        net[name] = net_rows(pa.concat_tables([table, deleted]), weights)
    return el.State.from_bytes((left + right).to_bytes()), net


@given(
    seed=st.integers(0, 2**30),
    rows=st.tuples(*[st.sampled_from([0, 1, 6, 40])] * 3),
    keys=st.sampled_from([2, 8, 40]),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_every_form_is_exact_while_everything_is_held(seed, rows, keys):
    """Deletes, NULL keys, duplicates, empty sides, merged states and stored ones among it."""
    state, net = with_deletes(PLAN, np.random.default_rng(seed), rows, keys)
    for i, value in enumerate(exact_answers([for_duckdb(text) for text in QUERIES], net)):
        answer = state.answer(f"q{i}")
        assert answer.exact
        assert_exact(answer.value, value, QUERIES[i])
    for i, text in enumerate(GROUPED, start=len(QUERIES)):
        assert_same_groups(state.answer(f"q{i}"), text, net)


PLAN = workload([*QUERIES, *GROUPED]).plan()


def test_texts_made_at_random_are_answered_as_duckdb_does_or_refused():
    """150 texts that are answered, over four sets of tables.

    DuckDB 2.0.0 itself errs on one kind of them, which this seed does not make: over registered Arrow tables and with
    its optimizer, `LEFT JOIN c u ON t.k = u.j AND u.k IS NULL WHERE u.j IS NULL` has no rows.
    """
    rng = np.random.default_rng(20)
    answered = {}
    while len(answered) < 150:
        text = random_text(rng)
        try:
            workload([text])
        except SqlError:
            continue
        answered[text] = None
    texts = list(answered)
    plan = workload(texts).plan()
    for rows, keys in [((30, 30, 30), 8), ((6, 40, 1), 3), ((40, 0, 12), 20), ((0, 9, 9), 2)]:
        state, net = with_deletes(plan, rng, rows, keys)
        for i, text in enumerate(texts):
            if "GROUP BY" in text:
                assert_same_groups(state.answer(f"q{i}"), text, net)
            else:
                assert_exact(state.answer(f"q{i}").value, exact(for_duckdb(text), net), text)


def assert_same_groups(groups, text, net):
    truth, printed = exact_groups(for_duckdb(text), net, len(groups.group_columns)), values_by_group(groups)
    assert groups.exact
    assert len(printed) == len(groups), "no group stands there twice"
    assert printed.keys() == truth.keys(), text
    for group, values in truth.items():
        for found, value in zip(printed[group], values, strict=True):
            assert_exact(found, value, (text, group))


@pytest.mark.parametrize("weight", [1 << 25, 1 << 40])
def test_sums_beyond_floats_and_beyond_machine_integers_are_exact(weight):
    """Two or three relations of heavy rows: 2^50 to 2^120 joined rows."""
    texts = [
        "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
        "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k",
        "SELECT COUNT(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        "SELECT b.h, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j GROUP BY b.h",
    ]
    state = workload(texts).plan().empty()
    for name, keys in (("a", [1, 2, None]), ("b", [1, 3, None]), ("c", [1, 3, 3])):
        table = made_table(np.random.default_rng(1), name, 3, 2)
        table = table.set_column(0, "k", pa.array(keys, pa.int64())).set_column(
            1, "j", pa.array(keys, pa.int64())
        )
        state.update(name, table.slice(0, 3), weights=np.full(3, weight))
    w = weight
    assert state.answer("q0").value == w**3 + 2 * w
    assert state.answer("q1").value == w**2 + 4 * w
    assert state.answer("q2").value == 2 * w
    assert sum(int(row["n"]) for row in state.answer("q3")) == w**3 + 2 * w


def test_a_side_with_more_deletes_than_inserts_is_missing():
    state = workload(["SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k"]).plan().empty()
    rows = {
        name: pa.table({"k": [1], "j": [1], m: pa.array([1], pa.int32()), g: ["u"]}) for name, m, g in NAMED
    }
    state.update("a", rows["a"]).update("b", rows["b"], weights=np.array([-1]))
    assert state.answer("q0").value == 1
    state.update("b", rows["b"], weights=np.array([3]))
    assert state.answer("q0").value == 2


NAMED = (("a", "x", "g"), ("b", "y", "h"), ("c", "z", "w"))


def test_a_condition_that_no_null_meets_makes_the_same_plan_as_an_inner_join():
    outer = workload(["SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND a.x > 1 WHERE b.y > 2"]).plan()
    inner = workload(["SELECT COUNT(*) FROM a JOIN b ON a.k = b.k WHERE b.y > 2 AND a.x > 1"]).plan()
    assert outer.layout.samples == inner.layout.samples
    assert outer.layout.samples[0].sketches


def test_texts_that_were_not_planned_are_answered_from_what_is_kept():
    state = workload(["SELECT COUNT(*) FROM a JOIN b ON a.k = b.k"]).plan().empty()
    tables = {name: made_table(np.random.default_rng(3), name, 50, 9) for name in STREAMS}
    for name, table in tables.items():
        state.update(name, table)
    texts = [
        "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k",
        "SELECT COUNT(*) FROM b LEFT ANTI JOIN a ON a.k = b.k",
    ]
    for text, value in zip(texts, exact_answers([for_duckdb(text) for text in texts], tables), strict=True):
        assert state.answer(text).value == value
    with pytest.raises(PlanError, match="does not cover"):
        state.answer("SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND a.x > 1")
    with pytest.raises(PlanError, match="does not cover"):
        state.answer("SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE y > 1)")


def test_a_subquery_of_not_in_without_rows_lets_null_pass_though_its_stream_has_rows():
    """Ad hoc, all rows of the stream decided whether the subquery is empty: 2 instead of 3, called exact."""
    made = el.Workload(budget="1 MB", seed=1).stream("a", "k INT, v INT").stream("b", "k INT, h INT")
    made.query("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k").explore("a", "v").explore("b", "h")
    state = made.plan().empty()
    state.update(
        "a", pa.table({"k": pa.array([1, None, 2], pa.int32()), "v": pa.array([1, 2, 3], pa.int32())})
    )
    state.update("b", pa.table({"k": pa.array([1, 5], pa.int32()), "h": pa.array([1, 1], pa.int32())}))
    text = "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE h > {})"
    assert (state.answer(text.format(9)).value, state.answer(text.format(0)).value) == (3, 1)


def test_a_sample_that_shows_no_row_of_not_in_does_not_guess_whether_there_is_one():
    rng = np.random.default_rng(1)
    made = el.Workload(budget="30 KB", seed=1).stream("a", "k INT, v INT").stream("b", "k INT, h INT")
    made.query("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k").explore("a", "v").explore("b", "h")
    state = made.plan().empty()
    for stream, column in (("a", "v"), ("b", "h")):
        keys, other = rng.integers(0, 4_000, (2, 8_000))
        state.update(stream, pa.table({"k": pa.array(keys, pa.int32()), column: pa.array(other, pa.int32())}))
    text = "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE h > {})"
    assert state.answer(text.format(100)).low > 0
    with pytest.raises(PlanError, match="has no row of the subquery of NOT IN"):
        state.answer(text.format(4_000))


NULL_IN_SUBQUERY = {
    "count": "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b)",
    "sum": "SELECT SUM(x) FROM a WHERE k NOT IN (SELECT k FROM b)",
    "filtered": "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE y > 99)",
    "groups": "SELECT g, COUNT(*) AS n FROM a WHERE k NOT IN (SELECT k FROM b) GROUP BY g",
    "several": "SELECT COUNT(*) AS n, MAX(x) AS m FROM a WHERE k NOT IN (SELECT k FROM b)",
}


def test_not_in_of_rows_with_a_null_is_exactly_nothing_once_sampled():
    """It was 0 with an upper end, though NULL is always followed."""
    tables = skewed_tables(1)
    state = sampled_state([*NULL_IN_SUBQUERY.values()], tables, "12 KB", 1)
    before = state.answer("q0")
    assert not before.exact
    null = tables["b"].slice(0, 1).set_column(0, "k", pa.nulls(1, pa.int64()))
    null = null.set_column(
        null.column_names.index("y"), "y", pa.array([5], tables["b"].schema.field("y").type)
    )
    state.update("b", null)
    assert [state.answer(f"q{i}").exact for i in range(5)] == [True, True, False, True, True]
    count = state.answer("q0")
    assert (count.value, count.low, count.high, count.method) == (0, 0, 0, "exact")
    assert state.answer("q1").value is None
    assert len(state.answer("q3")) == 0
    assert state.answer("q4").to_arrow().to_pylist()[0]["m"] is None
    assert not state.update("b", null, np.array([-1])).answer("q0").exact
    assert state.answer("q0") == before


def test_windows_have_outer_joins():
    made = el.Workload(budget="1 MB", seed=2)
    made.stream("r", "k BIGINT, at TIMESTAMP", event_time="at").stream(
        "s", "k BIGINT, at TIMESTAMP", event_time="at"
    )
    made.query(
        "left_rows", "SELECT COUNT(*) FROM r LEFT JOIN s ON r.k = s.k", window="1 hour", slide="30 minutes"
    )
    state = made.plan().empty()
    minutes = pa.array([0, 10, 40, 70, 100], pa.int64())
    at = pa.compute.add(
        pa.compute.multiply(minutes, 60_000_000), 1_700_000_000_000_000 // 3_600_000_000 * 3_600_000_000
    )
    table = pa.table({"k": [1, 2, 1, 3, None], "at": at.cast(pa.timestamp("us", "UTC"))})
    state.update("r", table).update("s", table.slice(0, 4))
    assert state.answer("left_rows").exact


def test_sketches_alone_do_not_answer_them():
    for text in (
        "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k",
        "SELECT COUNT(*) FROM a WHERE k IN (SELECT k FROM b)",
    ):
        with pytest.raises(PlanError, match=r"stream samples alone|keeps no stream sample"):
            workload([text], samples=False)
    state = workload([QUERIES[0]]).plan().empty()
    with pytest.raises(PlanError, match=r"stream samples alone|keeps no stream sample"):
        state.answer(QUERIES[0], method="hash")


SAMPLED = {
    "left": "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k",
    "left_sum": "SELECT SUM(a.x) FROM a LEFT JOIN b ON a.k = b.k AND b.y > 2",
    "left_avg": "SELECT AVG(a.x) FROM a LEFT JOIN b ON a.k = b.k",
    "guarded": "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND a.x > 2",
    "right": "SELECT COUNT(*) FROM b RIGHT JOIN a ON a.k = b.k",
    "semi": "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > 2)",
    "anti": "SELECT COUNT(*) FROM a LEFT ANTI JOIN b ON a.k = b.k",
    "anti_sum": "SELECT SUM(x) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND y > 3)",
    "not_in": "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE y > 1)",
    "full": "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k",
    "full_sum": "SELECT SUM(a.x) FROM a FULL JOIN b ON a.k = b.k AND a.x > 3",
}


def sampled_state(texts, tables, budget, seed):
    state = workload(texts, budget, seed).plan().empty()
    for name, table in tables.items():
        for start in range(0, table.num_rows, 2_000):
            state.update(name, table.slice(start, 2_000))
    return state


@pytest.mark.calibration
def test_intervals_of_sampled_outer_semi_and_anti_joins_hold_as_often_as_they_say():
    """40 seeds at 20 KB and at 8 KB."""
    coverage = Coverage()
    for seed in range(40):
        tables = skewed_tables(seed)
        truths = exact_answers([for_duckdb(text) for text in SAMPLED.values()], tables)
        for budget in ("20 KB", "8 KB"):
            state = sampled_state(SAMPLED.values(), tables, budget, seed)
            for i, (name, truth) in enumerate(zip(SAMPLED, truths, strict=True)):
                answer = state.answer(f"q{i}")
                assert answer.method in ("sample", "sample and skimmed")
                coverage.add((budget, seed), answer.low - 1e-9 <= truth <= answer.high + 1e-9, name)
    coverage.check()
    assert coverage.misses / coverage.trials >= 0.001, "the intervals are wider than they need to be"


GROUPED_SAMPLED = {
    "by_g": "SELECT a.g, COUNT(*) AS n, SUM(a.x) AS s, AVG(b.y) AS v FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.g",
    "by_h": "SELECT b.h, COUNT(*) AS n, SUM(a.x) AS s FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.h",
    "anti": "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k) GROUP BY g",
    "full": "SELECT b.h, COUNT(*) AS n FROM a FULL JOIN b ON a.k = b.k GROUP BY b.h",
}


@pytest.mark.calibration
@pytest.mark.parametrize("name", GROUPED_SAMPLED)
def test_intervals_of_sampled_groups_hold_and_the_rest_adds_up(name):
    """24 seeds of 8 to 12 groups."""
    coverage, rests = Coverage(), Coverage()
    for seed in range(24):
        tables = skewed_tables(seed)
        groups = sampled_state([GROUPED_SAMPLED[name]], tables, "10 KB", seed).answer("q0")
        truth = exact_groups(GROUPED_SAMPLED[name], tables, 1)
        assert not groups.exact
        for column, aggregate in enumerate(groups.aggregates):
            for group, (low, high) in intervals(groups, aggregate).items():
                value = truth.get(group, (0.0,) * 3)[column]
                if value is not None:
                    coverage.add(seed, low - 1e-9 <= value <= high + 1e-9, aggregate)
        shown = set(values_by_group(groups))
        left = sum(values[0] for group, values in truth.items() if group not in shown)
        rests.add(seed, groups.rest["n"].low <= left <= groups.rest["n"].high)
    coverage.check()
    rests.check(wrong=0.69)
    assert coverage.misses / coverage.trials >= 0.001, "the intervals are wider than they need to be"


def test_a_followed_join_value_is_a_group_known_whole():
    text = "SELECT a.k, COUNT(*) AS n, COUNT(b.y) AS m FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k"
    tables = skewed_tables(3)
    groups = sampled_state([text], tables, "10 KB", 3).answer("q0")
    truth = exact_groups(text, tables, 1)
    assert not groups.exact
    assert all(groups.to_arrow()["exact"].to_pylist())
    assert (None,) in values_by_group(groups), "rows with a NULL key are always held"
    for group, values in values_by_group(groups).items():
        assert values == truth[group]


def test_rows_that_nothing_followed_shows_are_allowed_for():
    """Three of 3,000 keys have no partner, and the sample hardly sees one: the interval reaches their rows."""
    keys = np.arange(3_000)
    tables = skewed_tables(1, rows=3_000, keys=3_000)
    tables["a"] = tables["a"].set_column(0, "k", pa.array(keys))
    for seed in range(10):
        alone = np.random.default_rng(seed).choice(keys, 3, replace=False)
        matched = np.setdiff1d(keys, alone)
        b = tables["b"].slice(0, 1).take(pa.array(np.zeros(len(matched), dtype=np.int64)))
        state = sampled_state(
            ["SELECT COUNT(*) FROM a LEFT ANTI JOIN b ON a.k = b.k"],
            {"a": tables["a"], "b": b.set_column(0, "k", pa.array(matched))},
            "4 KB",
            seed,
        )
        answer = state.answer("q0")
        assert not answer.exact
        assert answer.low <= 3 <= answer.high <= 3_000


FEW = {
    "not_exists": "SELECT COUNT(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "not_in": "SELECT COUNT(*) FROM a WHERE a.k NOT IN (SELECT k FROM b)",
    "anti": "SELECT SUM(a.x) FROM a LEFT ANTI JOIN b ON a.k = b.k",
    "negative": "SELECT SUM(-a.x) FROM a LEFT ANTI JOIN b ON a.k = b.k",
}


@pytest.mark.calibration
@pytest.mark.parametrize("rows", [1, 4])
def test_what_a_few_rows_of_an_anti_join_take_off_unseen_is_allowed_for(rows):
    """40 seeds: 95% intervals held in 30% to 80% where none of so few rows is followed."""
    coverage = Coverage()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        keys, x = rng.integers(0, 4_000, 12_000), rng.integers(0, 100, 12_000)
        few = rng.choice(4_000, rows, replace=False)
        w = el.Workload(budget="8 KB", seed=seed).stream("a", "k BIGINT, x BIGINT").stream("b", "k BIGINT")
        for name, text in FEW.items():
            w.query(name, text)
        state = w.plan().empty().update("a", {"k": keys, "x": x}).update("b", {"k": few})
        kept = ~np.isin(keys, few)
        truths = {"anti": x[kept].sum(), "negative": -x[kept].sum()}
        for name in FEW:
            answer = state.answer(name)
            assert not answer.exact
            coverage.add(seed, answer.low <= truths.get(name, kept.sum()) <= answer.high, name)
    coverage.check()


@pytest.mark.calibration
def test_averages_over_outer_and_anti_joins_whose_relation_is_known_whole():
    """60 seeds: exact totals nearly give the average, and what is divided by is calibrated as what it divides is.

    Divided by the number of rows as the sample has it, intervals held in 86% to 91%.
    """
    texts = {
        "anti": "SELECT AVG(x) FROM a LEFT ANTI JOIN b ON a.k = b.k",
        "outer": "SELECT AVG(x) FROM a LEFT JOIN b ON a.k = b.k",
    }
    coverage = Coverage()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        keys = rng.integers(0, 3_000, 9_000)
        x, few = rng.integers(0, 100, 3_000)[keys], rng.choice(3_000, 2, replace=False)
        w = el.Workload(budget="16 KB", seed=seed).stream("a", "k BIGINT, x BIGINT").stream("b", "k BIGINT")
        for name, text in texts.items():
            w.query(name, text)
        w.query("spread", "SELECT VARIANCE(x) FROM a LEFT ANTI JOIN b ON a.k = b.k")
        state = w.plan().empty().update("a", {"k": keys, "x": x}).update("b", {"k": few})
        for name, truth in (("anti", x[~np.isin(keys, few)].mean()), ("outer", x.mean())):
            answer = state.answer(name)
            assert not answer.exact
            coverage.add(seed, answer.low <= truth <= answer.high, name)
    coverage.check(wrong=0.84)


def test_the_reduction_keeps_values_that_an_anti_join_counts():
    """Of 4,000 keys, 200 have no partner, and rows come key by key: more of these are followed than of the others."""
    keys = np.random.default_rng(1).permutation(4_000)
    state = workload(["SELECT COUNT(*) FROM a LEFT ANTI JOIN b ON a.k = b.k"], "12 KB", 1).plan().empty()
    for some in np.split(keys, 8):
        for name, own in (("a", some), ("b", some[some >= 200])):
            table = made_table(np.random.default_rng(2), name, len(own), 9)
            state.update(name, table.set_column(0, "k", pa.array(own)))
    (sample,) = state.snapshot.samples.values()
    followed = next(d for d in sample.dictionaries if len(d) and d.key(0).min() < 200).key(0)
    assert 100 < len(followed) < 3_000
    assert (followed < 200).sum() / 200 > 1.4 * (followed >= 200).sum() / 3_800


def test_deep_sides_are_refused_in_a_sentence_once_the_data_no_longer_fit():
    texts = [
        "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
        "SELECT b.k, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.k",
        "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k",
        "SELECT SUM(c.z) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
    ]
    plan = workload(texts, "8 KB").plan()
    assert plan.explain().count("not answered once the data no longer fit") == 2
    state = plan.empty()
    for name in STREAMS:
        state.update(name, made_table(np.random.default_rng(4), name, 2_000, 1_000))
    with pytest.raises(PlanError, match=r"optional side is itself a join.*larger budget"):
        state.answer("q0")
    with pytest.raises(PlanError, match=r"groups by the join column of the optional side.*larger budget"):
        state.answer("q1")
    assert not state.answer("q2").exact
    assert not state.answer("q3").exact, "its measure is NULL without the deep side: an inner join does"
    assert "q0: not answered: query 'q0' has an outer" in state.explain()
