"""The same counters in separate executor processes and over Spark Connect, each in a process of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest

import eddyline as el
from tests.data.clusters import plan

pytestmark = [pytest.mark.spark, pytest.mark.processes]

JOB = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import numpy as np
from pyspark.sql import SparkSession
from tests.data.clusters import plan
{session}
frame = spark.range(0, 5000, 1, 6).selectExpr("id % 97 AS k", "CAST(id AS STRING) AS s", "1 AS n")
state = plan().sketch(spark, {{"t": frame}})
sys.stdout.buffer.write(state.to_bytes())
sys.stdout.buffer.flush()
os._exit(0)  # the session's own shutdown is Spark's business, not this test's
"""
SESSIONS = {
    "two executors": (
        'spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")'
        '.config("spark.sql.shuffle.partitions", "2").config("spark.driver.host", "127.0.0.1")'
        '.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()'
    ),
    "connect": 'spark = SparkSession.builder.remote("local[2]").getOrCreate()',
}


@pytest.mark.parametrize("session", SESSIONS)
def test_counters_are_those_of_the_arrow_path(session):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JOB.format(session=SESSIONS[session])],
        capture_output=True, check=False, timeout=300, env={**environment, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    ids = np.arange(5000)
    rows = {"k": ids % 97, "s": ids.astype(str), "n": np.ones(5000, dtype=np.int32)}
    assert el.State.from_bytes(done.stdout) == plan().empty().update("t", rows)
