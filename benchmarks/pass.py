"""The pass beside Spark's own count, approx_count_distinct and exact join, on the same Parquet in the same run.

Two joins are planned with a stream sample and, as before there were any, with sketches only.

    .venv/bin/python benchmarks/pass.py [--rows 20000000] [--repeat 3]

Prints medians and their ratios; docs/reference/measurements.md holds a run.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
from pyspark.sql import DataFrame

import eddyline as el
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.hashed_keys import key_array
from eddyline.sketch.synopsis import empty_counters
from eddyline.spark.session import local_session

SCHEMA = "k BIGINT, g BIGINT, x INT"
KEY = "CAST(200000 * pow(pmod(xxhash64(id, {salt}), 1000003) / 1000003.0D, 3) AS BIGINT)"


def one_sketch() -> el.Plan:
    """Return a plan of one hash sketch of 7 x 4,096 counters on one column."""
    workload = el.Workload(budget=8 * (7 * 4096 + 1), samples=False).stream("t", SCHEMA)
    return workload.query("q", "SELECT COUNT(*) FROM t a JOIN t b USING (k)", method="hash").plan()


def ten_sketches() -> el.Plan:
    """Return a plan of ten hash sketches of 7 x 4,096 counters over two key columns."""
    workload = el.Workload(budget=8 * (10 * 7 * 4096 + 1), samples=False).stream("t", SCHEMA)
    for i in range(10):
        column, bound = ("k", "g")[i % 2], 100 * (i // 2)
        workload.query(
            f"q{i}",
            f"SELECT COUNT(*) FROM t a JOIN t b USING ({column}) WHERE a.x >= {bound} AND b.x >= {bound}",
            method="hash",
        )
    return workload.plan()


def sampled(*, samples: bool) -> el.Plan:
    """Return a plan of two joins at 1 MB: with a stream sample, which overflows, or with sketches only."""
    workload = el.Workload(budget="1 MB", samples=samples).stream("t", SCHEMA)
    workload.query("pairs", "SELECT COUNT(*) FROM t a JOIN t b USING (k)")
    return workload.query("total", "SELECT SUM(a.x) FROM t a JOIN t b ON a.k = b.g WHERE b.x < 500").plan()


def median_seconds(work: Callable[[], object], repeat: int) -> float:
    """Return the median time of some runs, after one to warm up."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def kernel_nanoseconds() -> float:
    """Return the time of the hash-sketch kernel per element and row, in cache."""
    spec, keys = (
        HashSketchSpec(4096, 7, (1,)),
        key_array(np.random.default_rng(0).integers(0, 1 << 40, 1_000_000)),
    )
    counters, weights = empty_counters(spec), np.ones(1_000_000, dtype=np.int64)
    return 1e9 * median_seconds(lambda: spec.accumulate(counters, keys, weights), 7) / 7e6


def exact_join(frame: DataFrame) -> int:
    """Return the exact size of the skewed self-join, as Spark computes it best: by joining counts per key."""
    counts = frame.groupBy("k").count()
    return int(counts.selectExpr("SUM(count * count)").collect()[0][0])


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    spark = local_session()
    print(f"kernel: {kernel_nanoseconds():.2f} ns per element and row")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t.parquet"
        columns = [
            KEY.format(salt=1) + " AS k",
            KEY.format(salt=2) + " AS g",
            "CAST(pmod(xxhash64(id), 1000) AS INT) AS x",
        ]
        spark.range(arguments.rows).selectExpr(*columns).write.parquet(path)
        frame = spark.read.parquet(path)
        frame.createOrReplaceTempView("t")
        one, ten = one_sketch(), ten_sketches()
        sketches_only, with_sample = sampled(samples=False), sampled(samples=True)
        works: dict[str, Callable[[], object]] = {
            "count(k)": lambda: spark.sql("SELECT COUNT(k) FROM t").collect(),
            "approx_count_distinct(k)": lambda: spark.sql("SELECT approx_count_distinct(k) FROM t").collect(),
            "pass with 1 sketch": lambda: one.sketch(spark, {"t": frame}),
            "pass with 10 sketches": lambda: ten.sketch(spark, {"t": frame}),
            "pass with two joins, sketches only": lambda: sketches_only.sketch(spark, {"t": frame}),
            "pass with two joins, stream sample": lambda: with_sample.sketch(spark, {"t": frame}),
            "exact join, per-key counts": lambda: exact_join(frame),
        }
        seconds = {name: median_seconds(work, arguments.repeat) for name, work in works.items()}
        start = time.perf_counter()
        sample = frame.limit(arguments.rows // 20)
        sample.createOrReplaceTempView("s")
        spark.sql("SELECT COUNT(*) FROM s a JOIN s b ON a.k = b.k").collect()
        seconds["exact join of a twentieth, as written"] = time.perf_counter() - start
    peer = seconds["approx_count_distinct(k)"]
    print(f"{arguments.rows:,} rows, medians of {arguments.repeat}")
    for name, value in seconds.items():
        print(f"{name:40s} {value:8.2f} s   {value / peer:6.2f} x approx_count_distinct")
    spark.stop()


if __name__ == "__main__":
    main()
