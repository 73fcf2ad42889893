"""Windows on Spark: the same panes as the Arrow path, in batch and in micro-batches, late rows counted."""

import os

import pyarrow.parquet as pq
import pytest

import eddyline as el
from tests.data.windows import TABLES, oracle, plan, rows

pytestmark = pytest.mark.spark
LATE = 1
"""A minute whose rows are all more than three slides behind minute 30."""


def write(folder, minutes):
    for stream in "ab":
        (folder / stream).mkdir(exist_ok=True)
        for number, minute in enumerate(minutes):
            path = folder / stream / f"{number:02d}.parquet"
            pq.write_table(rows(stream, minute), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def test_batch_stream_and_arrow_agree_and_late_rows_are_counted(spark, tmp_path):
    minutes = [*TABLES, LATE]
    write(tmp_path, minutes)
    schema = "k BIGINT, x INT, w BIGINT, ts TIMESTAMP"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", "7")
    frames = {s: reader.parquet(f"{tmp_path}/{s}") for s in "ab"}
    with plan().start(spark, frames, store=tmp_path / "state", trigger="available now") as run:
        run.await_termination()
    batch = plan().sketch(spark, {s: spark.read.parquet(f"{tmp_path}/{s}") for s in "ab"})
    arrow = plan().empty()
    for stream in "ab":
        for minute in minutes:
            arrow.update(stream, rows(stream, minute))
    found = el.open(tmp_path / "state")
    assert found == batch == arrow
    seen = {s: [rows(s, minute) for minute in minutes] for s in "ab"}
    _, _, exact = oracle(seen)
    assert found.answer("n").value == exact["n"]
    assert found.answer("total").value == exact["total"]
    assert found.answer("pairs").low <= exact["pairs"] <= found.answer("pairs").high
    fresh = found.answer("n").freshness
    assert fresh.late == rows("a", LATE).num_rows
    assert run.progress()["b"].late == rows("b", LATE).num_rows
    assert "arrived too late" in found.answer("n").notes[-1]
