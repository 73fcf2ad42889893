"""`eddyline` and Spark SQL over tables of Delta and Iceberg.

python -m tests.spark.lake_job JARS WAREHOUSE reads commands from standard input, as JSON: [query] or a command line, runs them on one
session, and writes what each gave: rows, or [exit code, output]. With PIPELINE STEP NTH it is `eddyline run` of a pipeline,
killed with -9 when its NTH commit reaches STEP.
"""

import json
import shutil
import subprocess
import sys

import pyspark

from eddyline.spark.sources.connectors import connector_of
from tests.spark.maven_jars import CACHE, connector_jars
from tests.spark.stream_job import end_group, kill_at

RESULT = "result: "
LAKES = [form for form in ("delta", "iceberg") if connector_of(form).release]
"""The formats that have a connector for the installed Spark."""
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


def lake_jars():
    """Return the folder with the connectors' own jars: what else they need comes with Spark; or skip the test."""
    if not LAKES:
        connector_jars("delta")
    folder = CACHE / f"lakes-{pyspark.__version__}"
    for form in LAKES:
        _, artifact, version = connector_of(form).coordinates.split(":")
        if not (folder / f"{artifact}-{version}.jar").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            for jar in connector_jars(form).glob("*.jar"):
                if jar.name.startswith(("delta-", "iceberg-", "unitycatalog-")):
                    shutil.copy(jar, folder)
    return folder


class Shell:
    """The job as a child process."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.spark.lake_job", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def _say(self, words):
        self.process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(RESULT):  # VACUUM writes to standard output, too
                return json.loads(line.removeprefix(RESULT))
        raise AssertionError(self.process.stderr.read()[-3000:])

    def sql(self, query):
        """Return the rows of a query, as lists."""
        shown = self._say([query])
        assert isinstance(shown, list), shown
        return shown

    def command(self, *words):
        """Return (exit code, output) of a command line."""
        code, output = self._say(words)
        return code, " ".join(output.split())

    def wait(self):
        """Return (exit code, what it said on standard error)."""
        try:
            _, shown = self.process.communicate(timeout=120)
        finally:
            end_group(self.process.pid)
        return self.process.returncode, shown


def _serve_commands(jars, warehouse):
    from typer.testing import CliRunner

    from eddyline.cli import app, console
    from eddyline.spark.session import local_session

    conf = {**CONF, "spark.sql.catalog.lake.warehouse": warehouse}
    spark = local_session(jars=[jars], conf=conf, formats=LAKES)
    spark.stop, console.session = (lambda: None), (lambda *_: spark)
    for line in sys.stdin:
        words = json.loads(line)
        if len(words) > 1:
            result = CliRunner().invoke(app, words)
            shown = [result.exit_code, result.output]
        else:
            try:
                shown = [list(row) for row in spark.sql(words[0]).collect()]
            except Exception as error:  # noqa: BLE001 - the test shows it
                shown = f"{type(error).__name__}: {error}"
        sys.stdout.write(RESULT + json.dumps(shown, default=str) + "\n")
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
