"""Explored columns through Spark: the same state as without it, for every type and from files, and Spark's own answers."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.data import explored

pytestmark = pytest.mark.spark
TEXTS = [
    "SELECT SUM(amount * status) FROM orders WHERE x > 0.25 AND region LIKE 'E%'",
    "SELECT COUNT(*) FROM orders o JOIN items i ON o.k = i.k WHERE o.f < 1 AND year(i.day) = 1969 AND hour(o.ts) < 30",
    "SELECT AVG(o.x) FROM orders o JOIN items i ON o.k = i.k JOIN skus s ON i.sku = s.sku WHERE s.tiny < 1",
]


def test_explored_columns_are_held_as_by_the_arrow_path(spark, tmp_path):
    rng = np.random.default_rng(11)
    tables = {
        "orders": explored.orders(rng, 900, 60),
        "items": explored.items(rng, 900, 60),
        "skus": explored.skus(rng),
    }
    frames, files = {}, {}
    for name, table in tables.items():
        files[name] = str(tmp_path / f"{name}.parquet")
        pq.write_table(table, files[name])
        frames[name] = spark.read.parquet(files[name]).repartition(3)
        frames[name].createOrReplaceTempView(name)
    plan = explored.plan(timezone=None)
    state, scanned, without = plan.sketch(spark, frames), plan.sketch(spark, files), plan.empty()
    for name, table in tables.items():
        without.update(name, table)
    assert state.snapshot == without.snapshot
    assert scanned.snapshot == without.snapshot
    for text in TEXTS:
        answer = state.answer(text)
        assert answer.exact
        assert answer.value == pytest.approx(float(spark.sql(text).collect()[0][0])), text
