"""`eddyline run` over topics of Kafka in processes of its own, one of which may be killed at a step of a commit.

python -m tests.spark.kafka_job PIPELINE [STEP NTH]: runs until it gets a signal, or is killed with -9 when its NTH commit
reaches STEP. Without a pipeline it reads commands from standard input, as JSON, runs them on one session, and writes what
each gave: [exit code, output].
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import eddyline as el
from eddyline.store import Store
from tests.spark.stream_job import end_group, kill_at


class Child:
    """The job as a child process; `jars` are those of Spark's connector."""

    def __init__(self, *arguments, jars=""):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.spark.kafka_job", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "CONNECTOR_JARS": str(jars)},
        )  # fmt: skip

    def command(self, *words):
        """Return (exit code, output) of a command."""
        self.process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()[-3000:]
        code, output = json.loads(line)
        return code, " ".join(output.split())

    def end(self, number):
        """Send a signal and return (exit code, what it said on standard error)."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self):
        try:
            _, shown = self.process.communicate(timeout=120)
        finally:
            end_group(self.process.pid)
        return self.process.returncode, shown


def settled(child, store, expected, seconds=90):
    """Wait until a store holds what is expected of it."""
    deadline = time.monotonic() + seconds
    while not (Store.exists(store) and el.open(store) == expected):
        assert child.process.poll() is None, child.wait()
        assert time.monotonic() < deadline, el.open(store).answers()
        time.sleep(0.2)


def _serve_commands():
    from typer.testing import CliRunner

    from eddyline.cli import app, console
    from eddyline.spark.session import local_session

    spark = local_session(jars=[os.environ["CONNECTOR_JARS"]])
    spark.stop, console.session = (lambda: None), (lambda *_: spark)
    for line in sys.stdin:
        result = CliRunner().invoke(app, json.loads(line))
        sys.stdout.write(json.dumps([result.exit_code, result.output]) + "\n")
        sys.stdout.flush()


def _main(pipeline=None, step="", nth="0"):
    from eddyline.cli import app

    if pipeline is None:
        _serve_commands()
        return
    kill_at(step, nth)
    app(["run", str(pathlib.Path(pipeline))])


if __name__ == "__main__":
    _main(*sys.argv[1:])
