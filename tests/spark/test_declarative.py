"""The example of a declarative pipeline: its tables have the answers of the store."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import eddyline as el

pytestmark = [
    pytest.mark.spark,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.slow,  # three JVMs, and Python sources that a busy machine starts too slowly
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark.pipelines") is None, reason="needs Spark 4.1 or newer"
    ),
]
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "declarative"


def test_the_tables_of_a_pipeline_are_the_answers_of_a_store(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    given = {**environment, "PYTHON": sys.executable, "WORK": str(tmp_path)}
    done = subprocess.run(
        [EXAMPLE / "run"], env=given, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    state = el.open(tmp_path / "state")
    expected = {name: state.answer(name) for name in ("orders_kept", "revenue", "buyers", "pairs")}
    assert expected["orders_kept"].value == 20_000
    assert expected["pairs"].method != "exact"
    tables = tmp_path / "spark-warehouse"
    for name in ("estimates", "estimates_over_time"):
        rows = pq.read_table(tables / name).to_pylist()
        assert {row["query"]: (row["value"], row["low"], row["high"]) for row in rows} == {
            name: (float(each.value), float(each.low), float(each.high)) for name, each in expected.items()
        }
    uncertain = pq.read_table(tables / "uncertain").to_pylist()
    assert {row["query"] for row in uncertain} == {
        name for name, each in expected.items() if each.method != "exact"
    }
