"""Distinct counts over joins by SQL: exact while everything decodes, net of deletes, in every form.

Chance of failing of the statistical test: 4 intervals at 99.9%, seeds fixed: below 1%, once and for all.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.data.distinct_joins import FORMS, R_SCHEMA, S_SCHEMA, R, S
from tests.oracles.duckdb_sql import exact, net_rows

INT, WORD = st.none() | st.integers(0, 4), st.none() | st.sampled_from("uxy")
R_ROWS = st.lists(
    st.tuples(st.fixed_dictionaries({"a": INT, "b": INT, "d": WORD}), st.integers(0, 2)), max_size=12
)
S_ROWS = st.lists(
    st.tuples(st.fixed_dictionaries({"b": INT, "c": WORD, "d": WORD}), st.integers(0, 2)), max_size=12
)


def for_duckdb(text):
    """DuckDB counts one expression: several are counted as the distinct rows in which none is NULL."""
    head, _, rest = text.partition(" FROM ")
    columns = head.removeprefix("SELECT COUNT(DISTINCT ").removesuffix(")")
    if "," not in columns or "DISTINCT" not in head:
        return text
    names = columns.split(", ")
    listed = ", ".join(f"{name} AS c{i}" for i, name in enumerate(names))
    there = " AND ".join(f"c{i} IS NOT NULL" for i in range(len(names)))
    return f"SELECT COUNT(*) FROM (SELECT DISTINCT {listed} FROM {rest}) WHERE {there}"


def plan_of(forms, **limits):
    workload = el.Workload(samples=False, **{"budget": "4 MB", "seed": 2, "max_distinct": 1 << 14, **limits})
    workload.stream("r", R).stream("s", S)
    for name in forms:
        workload.query(name, FORMS[name])
    return workload.plan()


@pytest.fixture(scope="module")
def plan():
    return plan_of(FORMS)


@settings(max_examples=25)
@given(R_ROWS, S_ROWS)
def test_small_joins_are_exact_net_of_deletes(plan, r_rows, s_rows):
    state, net = plan.empty(), {}
    for name, rows, schema in (("r", r_rows, R_SCHEMA), ("s", s_rows, S_SCHEMA)):
        table = pa.Table.from_pylist([row for row, _ in rows] * 2, schema=schema)
        weights = np.array([2 for _ in rows] + [copies - 2 for _, copies in rows], dtype=np.int64)
        state.update(name, table, weights)
        net[name] = net_rows(table, weights)
    for name, text in FORMS.items():
        estimate = state.answer(name)
        assert estimate.exact
        assert estimate.value == exact(for_duckdb(text), net), name


def test_large_joins_lie_in_their_intervals():
    names = ["two_sided", "full", "semi", "with_key"]
    plan = plan_of(names, budget="24 MB", max_distinct=1 << 20)
    rng = np.random.default_rng(3)
    a, b, c, d = (rng.integers(0, size, 40_000) for size in (8_000, 9_000, 9_000, 7_000))
    state = plan.empty()
    state.update("r", {"a": a.astype(np.int32), "b": b})
    state.update("s", {"b": c.astype(np.int32), "c": d.astype(str)})
    tables = {
        "r": pa.table({"a": a, "b": b, "d": pa.nulls(40_000, pa.string())}),
        "s": pa.table({"b": c, "c": d.astype(str), "d": pa.nulls(40_000, pa.string())}),
    }
    for name in names:
        estimate = state.answer(name, confidence=0.999)
        truth = exact(for_duckdb(FORMS[name]), tables)
        assert estimate.low <= truth <= estimate.high, name
        assert (estimate.exact, estimate.method) == (False, "join-distinct")


def test_the_budget_holds_and_too_little_is_refused():
    for budget in (3 * 10**6, 10**7):
        assert plan_of(["two_sided"], budget=budget, max_distinct=1 << 30).nbytes <= budget
    with pytest.raises(el.PlanError, match="at least"):
        plan_of(["two_sided"], budget="20 KB")
