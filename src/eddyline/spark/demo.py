"""The exact answers of the demo, computed by Spark on the net rows of both streams."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession

from eddyline.spark.demo_queries import QUERIES


def net_views(frames: dict[str, DataFrame]) -> None:
    """Register the net rows of both streams as temporary views under the streams' names, for exact SQL."""
    weight = "IF(_change_type IN ('insert', 'update_postimage'), 1, -1)"
    orders = frames["orders"].selectExpr("*", f"{weight} AS weight").drop("_change_type")
    for name, frame in (("orders", orders), ("visits", frames["visits"])):
        columns = [column for column in frame.columns if column != "weight"]
        net = frame.groupBy(*columns).sum("weight").where("`sum(weight)` > 0").select(*columns)
        net.cache().createOrReplaceTempView(name)


@dataclass(frozen=True)
class Exact:
    """An exact answer and the seconds it took."""

    query: str
    value: float
    seconds: float


def exact_answers(spark: SparkSession) -> Iterator[Exact]:
    """Yield the exact answer of every demo query, computed by Spark on the net rows."""
    for name, text in QUERIES.items():
        start = perf_counter()
        value = spark.sql(text).collect()[0][0]
        yield Exact(name, float(value), perf_counter() - start)
