"""Distinct counts and set expressions by SQL: exact while small, within intervals beyond, net of deletes.

Chance of failing of the statistical test: 5 intervals at 99.9%, seeds fixed: below 1%, once and for all.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline as el
from tests.data.sets import DDL, SCHEMA, SETS
from tests.oracles.duckdb_sql import exact, net_rows

# DuckDB counts one expression only; Spark runs the very text in tests/spark/test_sets.py.
FOR_DUCKDB = SETS | {
    "pairs": "SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM r WHERE a > 1 AND b IS NOT NULL)"
}
ROW = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(0, 6),
        "b": st.none() | st.sampled_from("xyz"),
        "d": st.none() | st.decimals(0, 4, places=1),
    }
)
CHANGES = st.lists(st.tuples(ROW, st.integers(0, 2)), max_size=12)


def workload(**settings):
    built = el.Workload(samples=False, **{"budget": "1 MB", "seed": 3, **settings})
    for stream in "rst":
        built.stream(stream, DDL)
    for name, text in SETS.items():
        built.query(name, text)
    return built


@pytest.fixture(scope="module")
def plan():
    return workload().plan()


@given(st.fixed_dictionaries(dict.fromkeys("rst", CHANGES)))
def test_small_sets_are_exact_net_of_deletes(plan, changes):
    state, net = plan.empty(), {}
    for name, rows in changes.items():
        table = pa.Table.from_pylist([row for row, _ in rows] * 2, schema=SCHEMA)
        weights = np.array([2 for _ in rows] + [copies - 2 for _, copies in rows], dtype=np.int64)
        state.update(name, table, weights)
        net[name] = net_rows(table, weights)
    for name, text in FOR_DUCKDB.items():
        estimate = state.answer(name)
        assert estimate.exact
        assert estimate.value == exact(text, net), name


def ints(values):
    values = np.asarray(values, dtype=np.int32)
    return pa.table(
        {"a": values, "b": pa.array(["x"] * len(values)), "d": pa.nulls(len(values), pa.decimal128(6, 1))}
    )


def test_large_sets_lie_in_their_intervals(plan):
    rng = np.random.default_rng(8)
    sets = {name: np.unique(rng.integers(0, 60_000, 40_000)) for name in "rst"}
    state = plan.empty()
    for name, values in sets.items():
        state.update(name, ints(np.concatenate([values, values[:500], [10**6]])))
        state.update(name, ints([10**6]), np.array([-1]))
    r, s, t = (set(values.tolist()) for values in sets.values())
    truth = {"distinct": r, "both": r & s, "either": r | s, "precedence": r | (s & t), "twice": r}
    for name, elements in truth.items():
        estimate = state.answer(name, confidence=0.999)
        assert estimate.low <= len(elements) <= estimate.high, name
        assert (estimate.exact, estimate.method) == (False, "distinct")
    scales = state.answer("scales")
    assert (scales.low, scales.high) == (0, 1)
    again = el.State.from_bytes(state.to_bytes())
    assert again.answer("both") == state.answer("both")


def test_equal_members_share_one_synopsis_with_joins_and_all_keep_the_budget(plan):
    ids = [kept.id for kept in plan.layout.kept]
    assert len(ids) == len(set(ids))
    reads_a_of_r = {
        planned.quantities["set"].sketches[0][0]
        for planned in plan.layout.queries
        if planned.name in ("both", "precedence", "scales")
    }
    assert len(reads_a_of_r) == 1
    for budget in (400_000, 10**6, 5 * 10**6):
        mixed = workload(budget=budget).query("join", "SELECT COUNT(*) FROM r JOIN s USING (a)").plan()
        assert mixed.nbytes <= budget
    with pytest.raises(el.PlanError, match="at least"):
        workload(budget="10 KB").plan()
    with pytest.raises(el.PlanError, match="distinct on"):
        plan.empty().answer("SELECT COUNT(DISTINCT d) FROM r")


def test_samples_give_back_values_and_counts():
    plan = (
        el.Workload(budget="4 MB", seed=1, samples=False)
        .stream("r", DDL)
        .sample("r", "a", size=500)
        .sample("r", "a", "b", size=500, where="a < 100")
        .plan()
    )
    state = (
        plan.empty()
        .update("r", ints(np.repeat(np.arange(200), 3)))
        .update("r", ints(np.arange(50)), np.full(50, -3))
    )
    sample = state.sample("r", "a")
    assert sample.rate == 1.0
    assert dict(zip(sample.values, sample.counts, strict=True)) == dict.fromkeys(range(50, 200), 3)
    pairs = state.sample("r", "a", "b", where="a < 100")
    assert (len(pairs), pairs.values) == (50, None)
    many = plan.empty().update("r", ints(np.arange(300_000))).sample("r", "a")
    assert len(many) >= 500
    assert 0.5 < len(many) / many.rate / 300_000 < 2
    with pytest.raises(el.PlanError, match=r"w\.sample"):
        state.sample("r", "b")
    with pytest.raises(el.PlanError, match="1,000,000"):
        el.Workload(samples=False).stream("r", DDL).sample("r", "a", size=0)
