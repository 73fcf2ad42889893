"""Spark's stream-stream joins as a peer; prints what was measured as JSON, as peer.py does.

A join of two streams has append mode only, so it cannot retract rows and cannot be added up for all time: each change
is a row with a weight of 1 or -1, kept forever, and `foreachBatch` adds the products of weights of each micro-batch.
COUNT(DISTINCT) is refused over streams: the distinct count is the groups with a positive weight.

Settings, as Spark's guide advises for large states: the state store on RocksDB with changelog checkpoints; as many
shuffle partitions as cores; a heap of 2 GB (4 GB from ten million changes on). Each query reads Parquet files and has a
checkpoint, as it must; all five run at the same time.
"""

import json
import shutil
import statistics
import sys
import time
from pathlib import Path

from changes import BATCHES, COLUMNS, signed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LARGE = 10_000_000


def session(folder: Path, changes: int) -> SparkSession:
    """Return a session of two cores."""
    settings = {
        "spark.driver.memory": "4g" if changes >= LARGE else "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def streams(spark: SparkSession, inputs: Path) -> dict[str, DataFrame]:
    """Return the three streams of files that arrive."""
    found = {}
    for name, columns in COLUMNS.items():
        (inputs / name).mkdir(parents=True)
        schema = ", ".join(f"{column} BIGINT" for column in columns) + ", w INT"
        found[name] = (
            spark.readStream.schema(schema).parquet(str(inputs / name)).withColumnRenamed("w", f"w_{name}")
        )
    return found


def start(spark: SparkSession, folder: Path, totals: dict[str, object]) -> list:
    """Start the queries; they write to totals."""
    tables = streams(spark, folder / "in")
    customers, orders, items = tables["customers"].where("seg = 1"), tables["orders"], tables["items"]
    spent = customers.join(orders, "c")
    added = {
        "pairs": (orders.where("region < 20").join(items, "o"), "w_orders * w_items"),
        "spend": (spent, "w_customers * w_orders * amount"),
        "chain": (spent.join(items, "o"), "w_customers * w_orders * w_items * qty"),
    }
    found = []
    for name, (joined, text) in added.items():
        totals[name] = 0

        def add(batch: DataFrame, _: int, name: str = name, text: str = text) -> None:
            totals[name] += batch.agg(f.expr(f"sum({text})")).first()[0] or 0

        query = joined.writeStream.outputMode("append").foreachBatch(add)
        found.append(query.option("checkpointLocation", str(folder / "state" / name)).start())

    def buyers(batch: DataFrame, _: int) -> None:
        totals["buyers"] = batch.where("n > 0").count()

    def regions(batch: DataFrame, _: int) -> None:
        totals["regions"] = [tuple(row) for row in batch.where("n > 0").collect()]

    groups = {
        buyers: orders.groupBy("c").agg(f.expr("sum(w_orders) AS n")),
        regions: orders.groupBy("region").agg(f.expr("sum(w_orders) AS n"), f.expr("sum(w_orders * amount)")),
    }
    for call, grouped in groups.items():
        query = grouped.writeStream.outputMode("complete").foreachBatch(call)
        found.append(query.option("checkpointLocation", str(folder / "state" / call.__name__)).start())
    return found


def main() -> None:
    """Run, as run.py asks."""
    changes, folder = int(sys.argv[2]), Path(sys.argv[3])
    files = signed(changes)
    spark = session(folder, changes)
    totals: dict[str, object] = {}
    queries = start(spark, folder, totals)
    latencies = []
    for number in range(BATCHES):
        began = time.perf_counter()
        for name in COLUMNS:
            own = folder / "in" / name / f"{number}.parquet"
            shutil.copy(files / f"{number}-{name}.parquet", own.with_name(f"_{own.name}"))
            own.with_name(f"_{own.name}").rename(own)  # files whose names start with _ are not read
        for query in queries:
            query.processAllAvailable()
        latencies.append(time.perf_counter() - began)
    disk = sum(path.stat().st_size for path in (folder / "state").rglob("*") if path.is_file())
    answers = {name: value if isinstance(value, list) else [(value,)] for name, value in totals.items()}
    shown = {
        "seconds": sum(latencies),
        "latency": statistics.median(latencies),
        "disk": disk,
        "answers": answers,
    }
    for query in queries:
        query.stop()
    sys.stdout.write("\n" + json.dumps(shown, default=float) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
