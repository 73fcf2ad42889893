"""The rows and plans of the speed benchmarks: two skewed key columns and a number, hash sketches under predicates."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import eddyline as el
from eddyline.errors import PipelineError
from eddyline.ingest.arrow_path import DIRECTLY

SCHEMA = "k BIGINT, g BIGINT, x INT"
COLUMNS = "k", "g", "x"
RANGE = 1000
"""Numbers x are below this."""
_KEY = "CAST(200000 * pow(pmod(xxhash64(id, {salt}), 1000003) / 1000003.0D, 3) AS BIGINT)"


def generated(spark: SparkSession, rows: int, partitions: int | None = None) -> DataFrame:
    """Return a number of rows, made on the fly."""
    made = spark.range(0, rows, 1, partitions)
    return made.selectExpr(
        f"{_KEY.format(salt=1)} AS k",
        f"{_KEY.format(salt=2)} AS g",
        f"CAST(pmod(xxhash64(id), {RANGE}) AS INT) AS x",
    )


def write_rows(spark: SparkSession, path: str, rows: int) -> str:
    """Write a number of rows as Parquet unless they are there, and return the path."""
    if not Path(path).exists():
        generated(spark, rows).write.parquet(path)
    return path


def through_jvm(frame: DataFrame) -> DataFrame:
    """Return a frame whose rows leave Spark through the JVM: it has a filter that only Spark can evaluate."""
    return frame.where("spark_partition_id() >= 0")


def given(spark: SparkSession, path: str, way: str) -> DataFrame | str:
    """Return Parquet files as a pass takes them by a way: a frame through the JVM, the path directly."""
    return path if way == "direct" else through_jvm(spark.read.parquet(path))


def sketch(spark: SparkSession, plan: el.Plan, sources: dict[str, DataFrame | str]) -> el.State:
    """Return the state after a pass that took the way it was meant to: paths directly, frames through the JVM."""
    state = plan.sketch(spark, sources)
    for name, source in sources.items():
        if (state.ways[name] == DIRECTLY) != isinstance(source, str):
            raise PipelineError(f"{name} was read {state.ways[name]}.")
    return state


def predicate(number: int, of: int) -> str:
    """Return the filter of one of a given number of synopses: pairs of them have one in common."""
    return f"x >= {RANGE // 2 * (number // 2) // max(of // 2, 1)}"


def sketches(count: int) -> el.Plan:
    """Return a plan of n hash sketches of 7 x 4,096 counters, on two key columns under different predicates."""
    workload = el.Workload(budget=8 * (count * 7 * 4096 + 1), samples=False).stream("t", SCHEMA)
    for i in range(count):
        column, bound = ("k", "g")[i % 2], predicate(i, count)
        where = f" WHERE a.{bound} AND b.{bound}" if count > 1 else ""
        workload.query(f"q{i}", f"SELECT COUNT(*) FROM t a JOIN t b USING ({column}){where}", method="hash")
    return workload.plan()


def joins(*, samples: bool) -> el.Plan:
    """Return a plan of two joins at 1 MB: with a stream sample, which overflows, or with sketches only."""
    workload = el.Workload(budget="1 MB", samples=samples).stream("t", SCHEMA)
    workload.query("pairs", "SELECT COUNT(*) FROM t a JOIN t b USING (k)")
    return workload.query("total", "SELECT SUM(a.x) FROM t a JOIN t b ON a.k = b.g WHERE b.x < 500").plan()
