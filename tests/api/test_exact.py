"""One-stream aggregates are exact, on any sequence of inserts and deletes, as DuckDB has them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline as el
from tests.oracles.duckdb_sql import exact, net_rows

QUERIES = {
    "rows": "SELECT COUNT(*) FROM s",
    "some": "SELECT COUNT(*) FROM s WHERE x > 1 OR x IS NULL",
    "there": "SELECT COUNT(x) FROM s",
    "total": "SELECT SUM(x) FROM s",
    "money": "SELECT SUM(p * x) FROM s WHERE p < 3.5",
    "mean": "SELECT AVG(p) FROM s WHERE x BETWEEN 0 AND 4",
}
ROW = st.fixed_dictionaries(
    {"x": st.none() | st.integers(-5, 5), "p": st.none() | st.decimals(-9, 9, places=2, allow_nan=False)}
)
SCHEMA = pa.schema([("x", pa.int32()), ("p", pa.decimal128(8, 2))])


@pytest.fixture(scope="module")
def plan():
    workload = el.Workload(budget="4 KB", samples=False).stream("s", "x INT, p DECIMAL(8,2)")
    for name, text in QUERIES.items():
        workload.query(name, text)
    return workload.plan()


@given(st.lists(st.tuples(ROW, st.integers(0, 3)), max_size=12), st.lists(ROW, max_size=6))
def test_one_stream_is_exact(plan, rows, churn):
    table = pa.Table.from_pylist([row for row, _ in rows] + 2 * churn, schema=SCHEMA)
    weights = np.array([weight for _, weight in rows] + [1] * len(churn) + [-1] * len(churn), dtype=np.int64)
    state = plan.empty().update("s", table, weights)
    net = {"s": net_rows(table, weights)}
    for name, text in QUERIES.items():
        estimate = state.answer(name)
        truth = exact(text, net)
        assert estimate.exact
        assert estimate.value == (truth if truth is None else pytest.approx(truth, rel=1e-12, abs=1e-12)), (
            name
        )
