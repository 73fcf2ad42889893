"""A client of Spark Connect: a pass, sources and answers as tables work; a run and a topic are refused in a sentence."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import eddyline as el
from eddyline.api.run import StartOptions, open_store
from eddyline.ingest.sections import to_sections
from tests.data.clusters import plan

pytestmark = [pytest.mark.spark, pytest.mark.processes]

START = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import eddyline as el
from pyspark.sql import SparkSession
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame
from tests.data.clusters import plan

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()

def refusal(act):
    try:
        act()
    except el.PipelineError as error:
        return str(error)

"""
CLIENT = """
import sys
for name in ("py4j", "pyspark.core"):  # what the package pyspark-client does not have
    sys.modules[name] = None
from pyspark.sql import SparkSession
from tests.data.clusters import plan

spark = SparkSession.builder.remote("sc://localhost").getOrCreate()
frame = spark.range(0, 5000, 1, 6).selectExpr("id % 97 AS k", "CAST(id AS STRING) AS s", "1 AS n")
sys.stdout.buffer.write(plan().sketch(spark, {"t": frame}).to_bytes())
"""
END = """
print("result: " + json.dumps(found))
sys.stdout.flush()
os._exit(0)  # the session's own shutdown is Spark's business, not this test's
"""
BATCHES = """
import subprocess
client = subprocess.run([sys.executable, "-W", "ignore", "-c", CLIENT], capture_output=True)
assert client.returncode == 0, client.stderr.decode()
frame = spark.range(0, 5000, 1, 6).selectExpr("id % 97 AS k", "CAST(id AS STRING) AS s", "1 AS n")
passed = plan().sketch(spark, {"t": frame})
with open(folder + "/passed", "wb") as file:
    file.write(passed.to_bytes())
source = SparkSource("t", "csv", folder + "/rows", "k BIGINT, s STRING, n INT", options={"header": "true"})
by_file = plan().sketch(spark, {"t": read_frame(spark, source)})
found = {
    "without a JVM": client.stdout == passed.to_bytes(),
    "by file": by_file == passed,
    "by path": plan().sketch(spark, {"t": folder + "/parquet"}) == passed,
    "answers": [[row.query, row.value] for row in spark.read.format("eddyline").load(folder + "/state").collect()],
    "run": refusal(lambda: plan().start(spark, {"t": spark.readStream.format("rate").load()}, store=folder + "/new")),
    "topic": refusal(lambda: read_frame(spark, SparkSource("t", "kafka", None, "k BIGINT", options={
        "kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}))),
}
"""
STREAMS = """
def started(writer):
    for _ in range(6):  # a busy server gives its Python ten seconds to start
        try:
            return writer.start()
        except Exception as error:
            if "connect back" not in str(error):
                raise
    raise RuntimeError("the server's Python did not start")

checkpoint = folder + "/checkpoint"
rows = spark.readStream.schema("k BIGINT, s STRING, n INT").parquet(folder + "/parquet")
for _ in range(2):  # the second time there is nothing left to read
    writer = plan().batch_writer("t", store=folder + "/streamed", checkpoint=checkpoint)
    stream = rows.writeStream.foreachBatch(writer).option("checkpointLocation", checkpoint)
    started(stream.trigger(availableNow=True)).awaitTermination(200)
store = el.open(folder + "/streamed")
found = {"state": store.to_bytes().hex(), "rows": store.answer("pairs").freshness.rows}
"""


@pytest.fixture
def rows(tmp_path):
    """Rows that are also in files of CSV and Parquet."""
    pytest.importorskip("grpc", reason="a client of Spark Connect needs grpc")
    ids = np.arange(5000)
    made = {"k": ids % 97, "s": ids.astype(str), "n": np.ones(5000, dtype=np.int32)}
    write_rows(tmp_path, made)
    return made


def result_of(job, folder):
    """Return what a client with a server of its own reports."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"CLIENT = {CLIENT!r}\n" + START + job + END, str(folder)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**environment, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    line = next((line for line in done.stdout.splitlines() if line.startswith("result: ")), None)
    assert line is not None, done.stderr[-3000:]
    return json.loads(line.removeprefix("result: "))


@pytest.mark.slow  # servers of its own; tests/spark/test_clusters.py has a pass over Spark Connect
def test_a_client_sketches_reads_sources_and_answers(rows, tmp_path):
    expected = plan().empty().update("t", rows)
    store = open_store(plan().layout, str(tmp_path / "state"), StartOptions())
    store.commit("t", "q", 0, to_sections(expected.snapshot), rows=5000)
    store.close()
    shown = result_of(BATCHES, tmp_path)
    assert el.State.from_bytes((tmp_path / "passed").read_bytes()) == expected
    assert shown["without a JVM"]
    assert shown["by file"]
    assert shown["by path"]
    assert dict(shown["answers"]) == {name: expected.answer(name).value for name in ("pairs", "texts")}
    assert "needs a classic Spark session" in shown["run"]
    assert "plan.batch_writer" in shown["run"]
    assert "over Spark Connect it cannot be checked" in shown["topic"]
    assert not (tmp_path / "new").exists()


@pytest.mark.slow  # a server gives its Python only ten seconds to start, which a busy machine exceeds
def test_a_batch_writer_keeps_a_store_current_from_a_client(rows, tmp_path):
    shown = result_of(STREAMS, tmp_path)
    assert el.State.from_bytes(bytes.fromhex(shown["state"])) == plan().empty().update("t", rows)
    assert shown["rows"] == 5000


def write_rows(folder, rows):
    """Write rows as files of CSV and Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    table = pa.table(rows)
    for name in ("rows", "parquet"):
        (folder / name).mkdir()
    pyarrow.csv.write_csv(table, folder / "rows" / "rows.csv")
    pq.write_table(table, folder / "parquet" / "rows.parquet")
