"""`eddyline` and Spark SQL over tables of Delta and Iceberg, on a Spark that their connectors were built for.

python -m tests.spark.lake_job JARS WAREHOUSE reads commands from standard input, as JSON: [query] or a command line, runs them on one
session, and writes what each gave: rows, or [exit code, output]. With PIPELINE STEP NTH it is `eddyline run` of a pipeline,
killed with -9 when its NTH commit reaches STEP.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pyspark
import pytest

from tests.spark.maven_jars import CACHE, jars_of
from tests.spark.stream_job import end_group, kill_at

TOLD = "told: "
SPARK = "4.1.4"
"""The newest Spark that both formats had a release for."""
CONNECTORS = {
    "delta": "io.delta:delta-spark_4.1_2.13:4.3.1",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
CONF = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.stats.collect": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}


def spark_path():
    """Return the folder of a PySpark that the connectors fit, or skip the test where it cannot be had."""
    if pyspark.__version__.startswith("4.1."):
        return pathlib.Path(pyspark.__file__).parents[1]
    folder = CACHE / f"pyspark-{SPARK}"
    if folder.is_dir():
        return folder
    making = CACHE / f"{folder.name}.{os.getpid()}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(making),
        f"pyspark=={SPARK}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        shutil.rmtree(making, ignore_errors=True)
        pytest.skip(
            f"no Delta or Iceberg was built for Spark {pyspark.__version__}, and pip does not give {SPARK}"
        )
    making.rename(folder)
    return folder


def lake_jars():
    """Return the folder with the connectors' own jars: what else they need comes with Spark."""
    folder = CACHE / "lakes"
    for coordinates in CONNECTORS.values():
        _, artifact, version = coordinates.split(":")
        if not (folder / f"{artifact}-{version}.jar").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            for jar in jars_of(coordinates).glob("*.jar"):
                if jar.name.startswith(("delta-", "iceberg-", "unitycatalog-")):
                    shutil.copy(jar, folder)
    return folder


def environment():
    """Return the variables that let a process take the other Spark."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(spark_path()), *filter(None, sys.path)])}


class Shell:
    """The job as a child process."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.spark.lake_job", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=environment(),
        )  # fmt: skip

    def _say(self, words):
        self.process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(TOLD):  # VACUUM writes to standard output, too
                return json.loads(line.removeprefix(TOLD))
        raise AssertionError(self.process.stderr.read()[-3000:])

    def sql(self, query):
        """Return the rows of a query, as lists."""
        told = self._say([query])
        assert isinstance(told, list), told
        return told

    def command(self, *words):
        """Return (exit code, output) of a command line."""
        code, output = self._say(words)
        return code, " ".join(output.split())

    def wait(self):
        """Return (exit code, what it said on standard error)."""
        try:
            _, told = self.process.communicate(timeout=120)
        finally:
            end_group(self.process.pid)
        return self.process.returncode, told


def _serve_commands(jars, warehouse):
    from typer.testing import CliRunner

    from eddyline.cli import app, console
    from eddyline.spark.session import local_session

    conf = {**CONF, "spark.sql.catalog.lake.warehouse": warehouse}
    spark = local_session(jars=[jars], conf=conf, formats=list(CONNECTORS))
    spark.stop, console.session = (lambda: None), (lambda *_: spark)
    for line in sys.stdin:
        words = json.loads(line)
        if len(words) > 1:
            result = CliRunner().invoke(app, words)
            told = [result.exit_code, result.output]
        else:
            try:
                told = [list(row) for row in spark.sql(words[0]).collect()]
            except Exception as error:  # noqa: BLE001 - the test shows it
                told = f"{type(error).__name__}: {error}"
        sys.stdout.write(TOLD + json.dumps(told, default=str) + "\n")
        sys.stdout.flush()


def _main(first, second, nth=None):
    from eddyline.cli import app

    if nth is None:
        _serve_commands(first, second)
        return
    kill_at(second, nth)
    app(["run", first, "--once"])


if __name__ == "__main__":
    _main(*sys.argv[1:])
