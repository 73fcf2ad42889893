"""FLOAT and DOUBLE measures through Spark: the same words as without it, and the exact sums."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el
from tests.oracles.exact_sums import aggregates

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def table():
    """Numbers of widely different size, in both types, some of them NULL, and weights."""
    rng = np.random.default_rng(7)
    values = rng.standard_normal(3000) * 10.0 ** rng.integers(-18, 9, 3000)
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 50, 3000)),
            "x": pa.array(values, mask=rng.random(3000) < 0.1),
            "f": pa.array(values.astype(np.float32)),
            "w": pa.array(rng.choice([1, 2, -1], 3000)),
        }
    )


def planned(samples):
    """A plan of sums over one stream, a join and groups."""
    made = el.Workload(seed=2, budget="200 KB", samples=samples)
    made.stream("s", "k BIGINT, x DOUBLE, f FLOAT, w BIGINT", changes="w").stream("t", "k BIGINT")
    made.query("total", "SELECT SUM(x) FROM s").query("spread", "SELECT STDDEV(f) FROM s")
    made.query("joined", "SELECT VARIANCE(s.x * 2) FROM s JOIN t ON s.k = t.k")
    if samples:
        made.query("groups", "SELECT k, SUM(x) AS a, AVG(f) AS b FROM s GROUP BY k")
    return made.plan()


@pytest.mark.parametrize("samples", [True, False])
def test_spark_and_arrow_hold_the_same_words(spark, table, tmp_path, samples):
    plan, keys = planned(samples), pa.table({"k": table["k"]})
    pq.write_table(table, tmp_path / "s.parquet")
    frame = spark.read.parquet(str(tmp_path / "s.parquet"))
    through_jvm = frame.repartition(3)
    others = spark.createDataFrame(keys.to_pandas())
    arrow = plan.empty().update("s", table).update("t", keys)
    assert plan.sketch(spark, {"s": through_jvm, "t": others}) == arrow
    assert plan.sketch(spark, {"s": str(tmp_path / "s.parquet"), "t": others}) == arrow
    rows = [
        row for row in zip(table["w"].to_pylist(), table["x"].to_pylist(), strict=True) if row[1] is not None
    ]
    assert arrow.answer("total").value == aggregates(rows)["SUM"]
