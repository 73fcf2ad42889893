"""Sources of a continuous run: rows a second, compared with a bare count(), and how long a change takes.

    .venv/bin/python benchmarks/sources.py [--rows 200000] [--repeat 3] [--sources parquet,json,postgres]
        [--rates 1000,20000] [--seconds 25] [--jars FOLDER]

A source is a class with a `fill`, which adds rows, and a `frame` for each of several sinks that read it. Rows a second:
each round adds rows, and each sink takes them in with the trigger "available now"; medians, after a round to warm up.
Lag: a writer commits transactions to a table every 50 ms, and the answer of a running query is asked over and over;
what counts is the time from a transaction's commit to the first answer that includes it. PostgreSQL is a server of the
tests' own, in a temporary folder, and so is Kafka's broker. `--sources kafka` and `--sources delta` need the jars of
their connectors (tests/spark/kafka_connector.py, tests/spark/lake_job.py say where they come from), Delta a Spark that
it fits.
docs/reference/speed.md holds a run.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import eddyline as el
from eddyline.spark.session import local_session
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.spark.kafka_broker import Broker
from tests.spark.postgres_server import server

SCHEMA = "id BIGINT, k BIGINT, x INT"
TICK = 0.05


class Fed(Protocol):
    """Something that rows can be added to and that streams read."""

    changes: str | None

    def fill(self, first: int, rows: int) -> None:
        """Add a number of rows, with numbers from `first` on."""

    def frame(self, spark: SparkSession, sink: str) -> DataFrame:
        """Return the streaming frame of a sink; each sink reads all rows."""


class Files:
    """A folder of files, one for each `fill`."""

    changes = None

    def __init__(self, folder: Path, form: str) -> None:
        self._folder, self._form = folder / form, form
        self._folder.mkdir()

    def fill(self, first: int, rows: int) -> None:
        """Write a file."""
        table, path = _rows(first, rows), self._folder / f"{first:012d}.{self._form}"
        if self._form == "parquet":
            pq.write_table(table, path)
        else:
            path.write_text("\n".join(map(json.dumps, table.to_pylist())))

    def frame(self, spark: SparkSession, sink: str) -> DataFrame:  # noqa: ARG002 - files can be read by any number
        """Return all files."""
        return read_frame(spark, SparkSource("t", self._form, str(self._folder), SCHEMA, streaming=True))


class Postgres:
    """A table; each sink has a slot of its own."""

    changes = "change_type"

    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self._dsn, self._connection = dsn, connection
        connection.execute("CREATE TABLE t (id bigint, k bigint, x int)")
        connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")

    def fill(self, first: int, rows: int) -> None:
        """Insert rows in one transaction."""
        self._connection.execute(
            "INSERT INTO t SELECT i, i * i %% 9973, i %% 1000 FROM generate_series(%s, %s::bigint) i",
            (first, first + rows - 1),
        )

    def frame(self, spark: SparkSession, sink: str) -> DataFrame:
        """Return the table and its changes, through the slot of a sink."""
        options = {
            "dsn": self._dsn,
            "table": "t",
            "slot": f"t_{sink}",
            "max_changes": "50000",
        }
        return read_frame(
            spark, SparkSource("t", "eddyline-postgres", None, SCHEMA, self.changes, options, streaming=True)
        )


class Topic:
    """A topic of four partitions, with rows as JSON."""

    changes = None

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.create("t", partitions=4)

    def fill(self, first: int, rows: int) -> None:
        """Send records."""
        values = _rows(first, rows).to_pylist()
        self._broker.send("t", ((str(each["id"]).encode(), json.dumps(each).encode()) for each in values))

    def frame(self, spark: SparkSession, sink: str) -> DataFrame:  # noqa: ARG002 - a checkpoint keeps a sink's place
        """Return the topic from its first record on."""
        options = {"kafka.bootstrap.servers": self._broker.servers, "subscribe": "t"}
        return read_frame(spark, SparkSource("t", "kafka", None, SCHEMA, options=options, streaming=True))


class Delta:
    """A Delta table with its change data feed."""

    changes = "change_type"

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "delta")
        self._spark = SparkSession.active()
        feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        self._spark.sql(f"CREATE TABLE delta.`{self._path}` ({SCHEMA}) USING delta {feed}")

    def fill(self, first: int, rows: int) -> None:
        """Append rows."""
        numbers = self._spark.range(first, first + rows)
        made = numbers.selectExpr("id", "id * id % 9973 AS k", "CAST(id % 1000 AS INT) AS x")
        made.write.format("delta").mode("append").save(self._path)

    def frame(self, spark: SparkSession, sink: str) -> DataFrame:  # noqa: ARG002 - a checkpoint keeps a sink's place
        """Return the table's rows and changes."""
        return read_frame(spark, SparkSource("t", "delta", self._path, SCHEMA, self.changes, streaming=True))


@contextlib.contextmanager
def opened(name: str, folder: Path) -> Iterator[Fed]:
    """Yield a source by its name."""
    if name == "postgres":
        (folder / "server").mkdir()
        with server(folder / "server") as dsn, psycopg.connect(dsn, autocommit=True) as connection:
            yield Postgres(dsn, connection)
    elif name == "kafka":
        with Broker(folder) as broker:
            yield Topic(broker)
    elif name == "delta":
        yield Delta(folder)
    else:
        yield Files(folder, name)


def _rows(first: int, rows: int) -> pa.Table:
    numbers = np.arange(first, first + rows, dtype=np.int64)
    return pa.table({"id": numbers, "k": numbers * numbers % 9973, "x": (numbers % 1000).astype(np.int32)})


def plan(changes: str | None) -> el.Plan:
    """Return a plan of a count, a sum, a distinct count and a join."""
    workload = el.Workload(budget="1 MB", seed=3).stream("t", SCHEMA, changes=changes)
    workload.query("n", "SELECT COUNT(*) FROM t").query("total", "SELECT SUM(x) FROM t")
    workload.query("keys", "SELECT COUNT(DISTINCT k) FROM t")
    return workload.query("pairs", "SELECT COUNT(*) FROM t a JOIN t b ON a.k = b.k").plan()


def count(frame: DataFrame, folder: Path) -> None:
    """Count the rows that are there now, batch by batch."""
    query = frame.writeStream.foreachBatch(lambda batch, _id: batch.count())
    query.option("checkpointLocation", str(folder / "bare")).trigger(
        availableNow=True
    ).start().awaitTermination()


def throughput(spark: SparkSession, source: Fed, folder: Path, rows: int, repeat: int) -> dict[str, float]:
    """Return the rows a second of the bare count and of a run, medians."""
    seconds: dict[str, list[float]] = {"bare": [], "ours": []}
    for turn in range(repeat + 1):
        source.fill(1 + turn * rows, rows)
        for sink, times in seconds.items():
            frame = source.frame(spark, sink)
            begun = time.perf_counter()
            if sink == "bare":
                count(frame, folder)
            else:
                run = plan(source.changes).start(
                    spark, {"t": frame}, store=str(folder / "state"), trigger="available now"
                )
                run.await_termination()
            times.append(time.perf_counter() - begun)
    found = el.open(str(folder / "state")).answer("n").value
    assert found == rows * (repeat + 1), found
    return {sink: rows / statistics.median(times[1:]) for sink, times in seconds.items()}


class Writer:
    """Commits transactions at a rate, and remembers when each was committed and how many rows there were then."""

    def __init__(self, source: Fed, rate: int) -> None:
        self._source, self._each = source, max(1, round(rate * TICK))
        self.commits: list[tuple[int, float]] = []

    def write(self, seconds: float) -> None:
        """Write for a given number of seconds."""
        begun, rows = time.perf_counter(), 0
        for tick in range(round(seconds / TICK)):
            time.sleep(max(0.0, begun + tick * TICK - time.perf_counter()))
            self._source.fill(1 + rows, self._each)
            rows += self._each
            self.commits.append((rows, time.perf_counter()))


def lags(
    spark: SparkSession, source: Fed, folder: Path, rate: int, seconds: float
) -> tuple[float, list[float]]:
    """Return the changes a second that were committed, and the seconds from each commit to an answer that has it.

    The first fifth of the time warms up and is left out.
    """
    writer = Writer(source, rate)
    with plan(source.changes).start(
        spark, {"t": source.frame(spark, "lag")}, store=str(folder / "lag")
    ) as run:
        while run.progress()["t"].batch is None:
            time.sleep(0.1)
        thread = threading.Thread(target=writer.write, args=(seconds,))
        thread.start()
        found: list[float] = []
        while thread.is_alive() or len(found) < len(writer.commits):
            error, rows, now = run.error(), run.answer("n").value, time.perf_counter()
            if error is not None:
                raise error
            while len(found) < len(writer.commits) and writer.commits[len(found)][0] <= rows:
                found.append(now - writer.commits[len(found)][1])
            time.sleep(0.01)
    rows, last = writer.commits[-1]
    return rows / (last - writer.commits[0][1]), found[len(found) // 5 :]


def options() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sources", default="parquet,json,postgres")
    parser.add_argument("--rates", default="1000,20000")
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--jars", action="append", default=[])
    return parser


def run(spark: SparkSession, given: argparse.Namespace) -> None:
    """Print both tables."""
    print(f"{given.rows:,} rows a round, medians of {given.repeat}\n")
    print("| source | count() rows/s | eddyline rows/s | ratio |")
    print("| --- | --- | --- | --- |")
    for name in filter(None, given.sources.split(",")):
        with tempfile.TemporaryDirectory() as folder, opened(name, Path(folder)) as source:
            rates = throughput(spark, source, Path(folder), given.rows, given.repeat)
        print(
            f"| {name} | {rates['bare']:,.0f} | {rates['ours']:,.0f} | {rates['ours'] / rates['bare']:.2f} |"
        )
    print("\n| changes/s asked for | committed | median lag s | p95 lag s | transactions |")
    print("| --- | --- | --- | --- | --- |")
    for rate in map(int, filter(None, given.rates.split(","))):
        with tempfile.TemporaryDirectory() as folder, opened("postgres", Path(folder)) as source:
            committed, found = lags(spark, source, Path(folder), rate, given.seconds)
        middle, high = np.percentile(found, [50, 95])
        print(f"| {rate:,} | {committed:,.0f} | {middle:.2f} | {high:.2f} | {len(found):,} |")


if __name__ == "__main__":
    asked = options().parse_args()
    session = local_session(
        jars=asked.jars, formats=[name for name in asked.sources.split(",") if name == "delta"]
    )
    run(session, asked)
    session.stop()
