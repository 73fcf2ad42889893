"""Micro-batches of a continuous run compared with the same micro-batches with a bare count(), in the same session.

    .venv/bin/python benchmarks/stream.py [--rows 1000000] [--batches 8]

Each file is one micro-batch. Prints Spark's own time of each batch (addBatch: the work of the sink, commit to the
store included), the overhead over count(), and rows per second; docs/reference/speed.md holds a run.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQueryListener

import eddyline as el
from eddyline.spark.session import local_session

SCHEMA = "k BIGINT, g BIGINT, x INT"


def plan(sketches: int) -> el.Plan:
    """Return a plan of a given number of hash sketches of 7 x 4,096 counters over two key columns."""
    workload = el.Workload(budget=8 * (sketches * 7 * 4096 + 1), samples=False).stream("t", SCHEMA)
    for i in range(sketches):
        column, bound = ("k", "g")[i % 2], 100 * (i // 2)
        where = f" WHERE a.x >= {bound} AND b.x >= {bound}" if bound else ""
        workload.query(f"q{i}", f"SELECT COUNT(*) FROM t a JOIN t b USING ({column}){where}", method="hash")
    return workload.plan()


class Times(StreamingQueryListener):
    """Collects the seconds of each micro-batch, in the order they end."""

    def __init__(self) -> None:
        self.seconds: list[tuple[float, float]] = []

    def onQueryStarted(self, event) -> None:  # noqa: ANN001, N802
        """Nothing to do."""

    def onQueryTerminated(self, event) -> None:  # noqa: ANN001, N802
        """Nothing to do."""

    def onQueryProgress(self, event) -> None:  # noqa: ANN001, N802
        """Keep the time of the sink and of the whole trigger."""
        spent = event.progress.durationMs
        if "addBatch" in spent:
            self.seconds.append((spent["addBatch"] / 1e3, spent["triggerExecution"] / 1e3))


def write_files(folder: Path, sizes: list[int]) -> None:
    """Write one Parquet file per micro-batch, their times in order."""
    rng = np.random.default_rng(1)
    for number, rows in enumerate(sizes):
        path = folder / f"{number:03d}.parquet"
        keys = (200_000 * rng.random(rows) ** 3).astype(np.int64)
        columns = {
            "k": keys,
            "g": rng.integers(0, 50_000, rows),
            "x": rng.integers(0, 1000, rows).astype(np.int32),
        }
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def measured(spark: SparkSession, run) -> list[tuple[float, float]]:  # noqa: ANN001
    """Return the times of all micro-batches of a query that a function runs to its end."""
    times = Times()
    spark.streams.addListener(times)
    run()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - no public way
    spark.streams.removeListener(times)
    return times.seconds


def counting(frame: DataFrame, checkpoint: str) -> None:
    """Run the micro-batches with a bare count()."""
    query = frame.writeStream.foreachBatch(lambda batch, _id: batch.count())
    query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=8)
    given = parser.parse_args()
    spark = local_session()
    sizes = [given.rows] * (given.batches + 1) + [0] * 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        write_files(folder / "in", sizes)
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(folder / "in"))
        found = {"count()": measured(spark, lambda: counting(frame, str(folder / "count")))}
        for sketches in (1, 10):
            store = str(folder / f"state{sketches}")

            def run(sketches: int = sketches, store: str = store) -> None:
                plan(sketches).start(
                    spark, {"t": frame}, store=store, trigger="available now"
                ).await_termination()

            found[f"{sketches} sketches"] = measured(spark, run)
    full, empty = slice(1, given.batches + 1), slice(given.batches + 2, given.batches + 6)
    print(
        f"{given.batches} micro-batches of {given.rows:,} rows, then 4 empty ones; medians, the first left out\n"
    )
    print(f"{'':12} {'batch s':>8} {'over count':>11} {'rows/s':>12} {'empty s':>8} {'over count':>11}")
    base = [statistics.median(sink for sink, _ in found["count()"][part]) for part in (full, empty)]
    for what, times in found.items():
        one, none = (statistics.median(sink for sink, _ in times[part]) for part in (full, empty))
        rate = given.rows * given.batches / sum(trigger for _, trigger in times[full])
        print(f"{what:12} {one:8.3f} {one - base[0]:11.3f} {rate:12,.0f} {none:8.3f} {none - base[1]:11.3f}")
    spark.stop()


if __name__ == "__main__":
    main()
