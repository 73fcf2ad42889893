"""Derived columns through Spark: the same state as on Arrow, and the answers of Spark over their expressions."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el

pytestmark = pytest.mark.spark
DERIVE = {
    "month": "date_trunc('MONTH', at)",
    "code": "upper(substring(region, 1, 2))",
    "net": "amount * 2",
    "size": "CASE WHEN net > 100 THEN 'large' ELSE 'small' END",
}
QUERIES = {
    "by_month": "SELECT month, COUNT(*) AS n, SUM(net) AS s FROM orders GROUP BY month",
    "by_code": "SELECT code, size, COUNT(*) AS n, SUM(amount) AS s FROM orders WHERE net > 10 GROUP BY code, size",
}


def rows(number=400):
    rng = np.random.default_rng(3)
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "region": pa.array(rng.choice(["north", "south", None], number)),
            "amount": pa.array(rng.integers(0, 100, number), pa.int32()),
            "at": [begin + dt.timedelta(hours=int(hour)) for hour in rng.integers(0, 2_000, number)],
        }
    )


def test_spark_derives_what_arrow_derives(spark):
    w = el.Workload(budget="1 MB", seed=1, timezone="UTC")
    w.stream("orders", "region STRING, amount INT, at TIMESTAMP", derive=DERIVE)
    for name, text in QUERIES.items():
        w.query(name, text)
    w.explore("orders")
    plan, orders = w.plan(), rows()
    frame = spark.createDataFrame(orders.to_pandas()).selectExpr(
        "region", "CAST(amount AS INT) AS amount", "at"
    )
    state, without = plan.sketch(spark, {"orders": frame}), plan.empty().update("orders", orders)
    assert state.snapshot == without.snapshot
    for name, expression in DERIVE.items():
        frame = frame.selectExpr("*", f"{expression} AS {name}")
    frame.createOrReplaceTempView("orders")
    asked = {
        **QUERIES,
        "ad hoc": "SELECT code, AVG(net) AS a, COUNT(DISTINCT month) AS m FROM orders GROUP BY code",
    }
    for name, text in asked.items():
        found = state.sql(text, intervals=False)
        assert found.schema.metadata[b"eddyline.exact"] == b"true", name
        got = sorted(map(str, (_plain(row.values()) for row in found.to_pylist())))
        assert got == sorted(map(str, (_plain(row) for row in spark.sql(text).collect()))), name


def _plain(row):
    """A row with times without their zone and whole numbers as integers."""
    values = [each.replace(tzinfo=None) if isinstance(each, dt.datetime) else each for each in row]
    return [int(each) if isinstance(each, float) and each == int(each) else each for each in values]
