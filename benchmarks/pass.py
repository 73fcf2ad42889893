"""The pass compared with Spark's own aggregates and sketches, on the same Parquet in the same run.

    .venv/bin/python benchmarks/pass.py [--rows 20000000] [--repeat 3] [--synopses 1,10,30] [--ways jvm,direct]

    .venv/bin/python benchmarks/pass.py --only eddyline --save 41.json    # by each Spark's Python, in turn
    .venv/bin/python benchmarks/pass.py --compare 41.json 43.json 41b.json 43b.json

Prints medians: seconds, CPU seconds of all processes, rows per second, and the ratio to approx_count_distinct(k).
Jobs of one core, DuckDB's and those in this process, are a floor. docs/reference/speed.md holds a run. --compare prints
the CPU seconds of saved runs by version of Spark, the median of the runs of each.
"""

import argparse
import json
import platform
import statistics
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import datasketches
import duckdb
import numpy as np
import pyarrow as pa
from clock import Spent, median
from pyspark.sql import DataFrame, SparkSession
from rows import COLUMNS, given, joins, predicate, sketch, sketches, write_rows

from eddyline.sketch.counters import key_array
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import empty_counters
from eddyline.spark.batch import unmeasured_batches
from eddyline.spark.session import local_session

PEER = "approx_count_distinct(k)"
TEN = "10 of them with filters"
ONLY = "sketches only"
MOST_IN_PROCESS = 2_000_000
"""Rows of the jobs in this process, which are printed as rates."""


class Job(NamedTuple):
    """A piece of work on a given number of rows and cores."""

    name: str
    work: Callable[[], object]
    rows: int
    cores: int = 2


def distinct_counts(count: int) -> str:
    """Return a query with a number of distinct counts, each with the predicate of one synopsis."""
    counts = (
        f"approx_count_distinct({'kg'[i % 2]}) FILTER (WHERE {predicate(i, count)})" for i in range(count)
    )
    return f"SELECT {', '.join(counts)} FROM t"


SPARK_QUERIES = {
    "Spark: count(k)": "SELECT COUNT(k) FROM t",
    f"Spark: {PEER}": f"SELECT {PEER} FROM t",
    f"Spark: {TEN}": distinct_counts(10),
    "Spark: hll_sketch_agg(k)": "SELECT hll_sketch_estimate(hll_sketch_agg(k)) FROM t",
    "Spark: theta_sketch_agg(k)": "SELECT theta_sketch_estimate(theta_sketch_agg(k)) FROM t",
    "Spark: count_min_sketch(k)": "SELECT LENGTH(count_min_sketch(k, 0.001D, 0.99D, 1)) FROM t",
    "Spark: exact counts by k": "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM t GROUP BY k)",
    "Spark: exact join, k = g, counts joined": (
        "SELECT SUM(a.n * b.n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a "
        "JOIN (SELECT g, COUNT(*) AS n FROM t GROUP BY g) b ON a.k = b.g"
    ),
}


def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of rows that came."""
    yield pa.record_batch({"n": pa.array([sum(batch.num_rows for batch in batches)])})


def out_of_jvm(frame: DataFrame, columns: int) -> Callable[[], object]:
    """Return the work of a bare mapInArrow: rows of a given number of columns that are only counted in Python."""
    narrow = frame.select(*COLUMNS[:columns])
    return lambda: narrow.mapInArrow(counted, "n BIGINT").agg({"n": "sum"}).collect()


def out_of_jvm_unmeasured(frame: DataFrame, columns: int) -> Callable[[], object]:
    """Return the same work with batches that are limited by rows alone, as those of our passes are."""
    work, narrow = out_of_jvm(frame, columns), frame.select(*COLUMNS[:columns])

    def run() -> object:
        with unmeasured_batches(narrow):
            return work()

    return run


def spark_jobs(spark: SparkSession, frame: DataFrame, rows: int) -> Iterator[Job]:
    """Yield what Spark does by itself."""
    for name, text in SPARK_QUERIES.items():
        if "theta" in name and not spark.catalog.functionExists("theta_sketch_agg"):
            print(f"{name}: this Spark does not have the function, which came with 4.1")
            continue
        yield Job(name, lambda text=text: spark.sql(text).collect(), rows)
    for columns in (1, 3):
        yield Job(
            f"Spark: mapInArrow that counts, {columns} column{'s' * (columns > 1)}",
            out_of_jvm(frame, columns),
            rows,
        )
    yield Job(
        "Spark: the same, 3 columns, batches not measured in bytes", out_of_jvm_unmeasured(frame, 3), rows
    )


def our_jobs(
    spark: SparkSession, path: str, rows: int, synopses: Iterable[int], ways: Iterable[str]
) -> Iterator[Job]:
    """Yield the pass with several numbers of synopses by each way, and the two joins of a stream sample."""
    plans = {f"{n} synops{'is' if n == 1 else 'es'}": sketches(n) for n in synopses}
    plans |= {f"2 joins, {kind}": joins(samples=kind != ONLY) for kind in (ONLY, "stream sample")}
    for way in ways:
        source = given(spark, path, way)
        for name, plan in plans.items():
            work = partial(sketch, spark, plan, {"t": source})
            yield Job(f"eddyline, {way}: {name}", work, rows)


def single_core_jobs(path: str, rows: int) -> Iterator[Job]:
    """Yield DuckDB on one thread over the same files, and rates of sketches in this process."""
    database = duckdb.connect()
    database.execute("SET threads = 1")
    database.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{path}/*.parquet')")
    for name, text in ((PEER, SPARK_QUERIES[f"Spark: {PEER}"]), (TEN, distinct_counts(10))):
        yield Job(f"DuckDB: {name}", lambda text=text: database.execute(text).fetchall(), rows, 1)
    some = min(rows, MOST_IN_PROCESS)
    keys = np.random.default_rng(1).integers(0, 200_000, some)
    listed = keys.tolist()
    for name, make in (
        ("HLL", lambda: datasketches.hll_sketch(14)),
        ("theta", lambda: datasketches.update_theta_sketch(14)),
    ):
        yield Job(
            f"DataSketches: {name}, a Python call for each row",
            lambda make=make: deque(map(make().update, listed), maxlen=0),
            some,
            1,
        )
    spec = HashSketchSpec(4096, 7, (1,))
    hashed, weights = key_array(keys), np.ones(some, dtype=np.int64)
    yield Job(
        "eddyline: kernel of a sketch of 7 x 4,096",
        lambda: spec.accumulate(empty_counters(spec), hashed, weights),
        some,
        1,
    )


def measured(jobs: Iterable[Job], repeat: int) -> Iterator[tuple[Job, Spent]]:
    """Yield what each job took; one that this version of Spark or of ours refuses is named and left out."""
    for job in jobs:
        try:
            job.work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is printed
            print(f"left out: {job.name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:150]}")
            continue
        yield job, median(job.work, repeat, warm=False)


def print_table(found: list[tuple[Job, Spent]]) -> None:
    """Print the table, and how the pass compares with as many approximate distinct counts."""
    per_row = {job.name: spent.seconds / job.rows for job, spent in found}
    peer = per_row[f"Spark: {PEER}"]
    print(f"\n| {'job':58} | cores | seconds | CPU seconds | {'rows/s':>11} | x {PEER} |")
    print("| --- | --- | --- | --- | --- | --- |")
    for job, spent in found:
        rate, ratio = job.rows / spent.seconds, per_row[job.name] / peer
        times = f"{spent.seconds:7.2f} | {spent.cpu:11.2f}"
        print(f"| {job.name:58} | {job.cores:5} | {times} | {rate:11,.0f} | {ratio:.2f} |")
    print()
    for name, other in (("1 synopsis", PEER), ("10 synopses", TEN)):
        for way in ("direct", "jvm"):
            if (ours := f"eddyline, {way}: {name}") in per_row and f"Spark: {other}" in per_row:
                print(f"{ours} takes {per_row[ours] / per_row[f'Spark: {other}']:.2f} x Spark: {other}")


def saved(spark: SparkSession, found: list[tuple[Job, Spent]]) -> str:
    """Return what `compare` needs of a run, as JSON."""
    names = f"Spark {spark.version}, Python {platform.python_version()}"
    return json.dumps({"versions": names, "cpu": {job.name: spent.cpu for job, spent in found}})


def compare(runs: list[dict]) -> str:
    """Return a table of CPU seconds by version: medians of the runs of each, and the ratio to the last version."""
    versions = sorted({each["versions"] for each in runs})
    by_version = {name: [each["cpu"] for each in runs if each["versions"] == name] for name in versions}
    lines = [f"| job | {' | '.join(versions)} | first to last |", "| --- |" + " --- |" * (len(versions) + 1)]
    for job in runs[0]["cpu"]:
        if all(job in cpu for each in by_version.values() for cpu in each):
            middle = [statistics.median(cpu[job] for cpu in each) for each in by_version.values()]
            shown = " | ".join(f"{seconds:.2f}" for seconds in middle)
            ratio = f"{middle[0] / middle[-1]:.2f}" if middle[-1] else ""
            lines.append(f"| {job} | {shown} | {ratio} |")
    return "\n".join(lines)


def run(
    spark: SparkSession,
    rows: int,
    repeat: int,
    synopses: list[int],
    ways: list[str],
    save: Path | None = None,
    only: str = "",
) -> None:
    """Run jobs with a text in their names, print the table, and save what it took where that is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_rows(spark, f"{folder}/t.parquet", rows)
        frame = spark.read.parquet(path)
        frame.createOrReplaceTempView("t")
        jobs = [
            *spark_jobs(spark, frame, rows),
            *our_jobs(spark, path, rows, synopses, ways),
            *single_core_jobs(path, rows),
        ]
        print(f"{rows:,} rows of Parquet, medians of {repeat} after one to warm up")
        wanted = [job for job in jobs if only in job.name or PEER in job.name]
        found = list(measured(wanted, repeat))
        print_table(found)
        if save is not None:
            save.write_text(saved(spark, found))


def main() -> None:
    """Read the options and run in a session of two cores."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--synopses", default="1,10,30")
    parser.add_argument("--ways", default="jvm,direct")
    parser.add_argument("--only", default="", help="a text in the names of the jobs to run")
    parser.add_argument("--save", type=Path, help="a file for --compare")
    parser.add_argument("--compare", type=Path, nargs="+", help="only compare saved runs")
    options = parser.parse_args()
    if options.compare:
        print(compare([json.loads(path.read_text()) for path in options.compare]))
        return
    spark = local_session()
    synopses = [int(number) for number in options.synopses.split(",")]
    ways = options.ways.split(",")
    run(spark, options.rows, options.repeat, synopses, ways, options.save, options.only)
    spark.stop()


if __name__ == "__main__":
    main()
