"""Through Spark: conditional aggregates, formulas and groups by truncated times are Spark's own, and Arrow's bit for bit."""

import numpy as np
import pytest

import eddyline as el
from tests.data import explored

pytestmark = pytest.mark.spark
QUERIES = [
    "SELECT COUNT_IF(status > 2) FROM orders",
    "SELECT SUM(amount) FILTER (WHERE flag AND status % 2 = 1) FROM orders",
    "SELECT COUNT(DISTINCT status) FILTER (WHERE amount > 0) FROM orders",
    "SELECT SUM(status) / COUNT(*) FROM orders",
    "SELECT 100.0 * COUNT_IF(flag) / COUNT(*) FROM orders",
    "SELECT SUM(o.amount) FILTER (WHERE i.qty > 1) - SUM(i.qty) FROM orders o JOIN items i ON o.k = i.k",
    "SELECT SUM(CASE WHEN i.qty > 1 THEN o.status END) FROM orders o LEFT JOIN items i ON o.k = i.k",
    "SELECT try_divide(SUM(status), COUNT_IF(status > 99)) FROM orders",
]
GROUPED = "SELECT date_trunc('WEEK', ts) AS week, COUNT_IF(flag) AS n, SUM(status) / COUNT(*) AS m FROM orders GROUP BY 1"


def test_answers_are_sparks_own_on_either_path(spark):
    rng = np.random.default_rng(2)
    tables = {"orders": explored.orders(rng, 200, 20), "items": explored.items(rng, 200, 20)}
    w = el.Workload(budget="8 MB", seed=3)
    for name in tables:
        w.stream(name, explored.STREAMS[name])
    for i, text in enumerate([*QUERIES, GROUPED]):
        w.query(f"q{i}", text)
    plan = w.plan()
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    state, without = plan.sketch(spark, frames), plan.empty()
    for name, table in tables.items():
        without.update(name, table)
        frames[name].createOrReplaceTempView(name)
    assert state.snapshot == without.snapshot
    for text in QUERIES:
        ((value,),) = spark.sql(text).collect()
        found = state.answer(text)
        assert found.exact
        assert found.value == (None if value is None else pytest.approx(float(value), rel=1e-9)), text
    groups = {
        row[0]: tuple(row[1:])
        for row in spark.sql(GROUPED).toArrow().to_pylist()
        for row in [tuple(row.values())]
    }
    shown = {row["week"]: (row["n"], row["m"]) for row in state.answer(GROUPED)}
    assert shown == {group: pytest.approx(values, nan_ok=True) for group, values in groups.items()}
