"""Runs that are started before there is a file, and runs that are refused before Spark starts."""

import json
import re
import time
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eddyline.api.jobs import HowToRun, prepare_run
from eddyline.api.pipeline import load_pipeline
from eddyline.cli import app
from eddyline.errors import ChangeError
from eddyline.spark.checkpoint import AwaitedFrame, Checkpoint, LocalFolder
from eddyline.spark.stream import StreamFeed
from eddyline.store import Store

PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "k BIGINT, x INT"
changes = "weight"
format = "{form}"
path = "s"
[queries]
n = "SELECT COUNT(*) FROM s"
"""
ROWS = {"k": [1, 2, 3], "x": pa.array([1, 2, 3], pa.int32()), "weight": pa.array([1, 1, -1], pa.int32())}


def written(tmp_path, text):
    path = tmp_path / "pipeline.toml"
    path.write_text(text)
    return path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def first_file(folder, form, rows=ROWS):
    folder.mkdir(exist_ok=True)
    table = pa.table(rows)
    if form == "parquet":
        pq.write_table(table, folder / "1.parquet")
    else:
        (folder / "1.json").write_text("\n".join(map(json.dumps, table.to_pylist())))


@pytest.mark.spark
@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize("folder", ["missing", "empty"])
def test_a_run_starts_before_its_first_file_and_says_what_it_waits_for(tmp_path, spark, form, folder):
    if folder == "empty":
        (tmp_path / "s").mkdir()
    pipeline = load_pipeline(written(tmp_path, PIPELINE.format(form=form)))
    with prepare_run(pipeline, HowToRun()).start(spark) as started:
        waits = f"has no file yet at {tmp_path / 's'} and waits for the first"
        assert started.waiting() == {"s": waits}
        assert started.progress()["s"].status == waits
        first_file(tmp_path / "s", form)
        deadline = time.monotonic() + 60
        while started.freshness.rows < 3:
            assert not started.await_termination(0.2)
            assert time.monotonic() < deadline
        assert started.answer("n").value == 1
        assert started.waiting() == {}


@pytest.mark.spark
def test_a_stream_that_fails_while_it_waits_says_so(tmp_path):
    def read():
        raise RuntimeError("the disk is on fire")

    checkpoint = Checkpoint(LocalFolder(tmp_path), str(tmp_path))
    feed = StreamFeed("s", lambda *_: None, checkpoint)
    feed.start(AwaitedFrame(read, "s"), None)
    assert feed.await_end(10)
    assert str(feed.error()) == "stream 's' cannot be started: the disk is on fire."


class Frame:
    """Stands for a frame whose queries end as listed, each with an error, and then one that runs."""

    def __init__(self, *errors):
        self.errors, self.started = list(errors), 0
        self.writeStream = self

    def __getattr__(self, name):
        return lambda *_, **__: self

    def start(self):
        self.started += 1
        error = self.errors.pop(0) if self.errors else None
        return SimpleNamespace(isActive=error is None, status={"message": "Waiting"}, exception=lambda: error)


@pytest.mark.spark
@pytest.mark.parametrize("failures", [1, 5, 6])
def test_a_stream_whose_python_process_takes_too_long_to_start_starts_again(tmp_path, monkeypatch, failures):
    monkeypatch.setattr("eddyline.spark.stream.folder_of", lambda _: "")
    frame = Frame(*[RuntimeError("Python worker failed to connect back.")] * failures)
    feed = StreamFeed("s", lambda *_: None, Checkpoint(LocalFolder(tmp_path), str(tmp_path)))
    feed.start(AwaitedFrame(lambda: frame, "s"), None)
    while feed.error() is None and not (feed.active and frame.started > failures):
        feed.await_end(0.1)
    given_up = failures > 5
    assert frame.started == (6 if given_up else failures + 1)
    assert feed.active != given_up
    assert ("failed to connect back" in str(feed.error())) == given_up


@pytest.mark.spark
def test_a_stream_that_fails_otherwise_is_not_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr("eddyline.spark.stream.folder_of", lambda _: "")
    frame = Frame(RuntimeError("the disk is full"))
    feed = StreamFeed("s", lambda *_: None, Checkpoint(LocalFolder(tmp_path), str(tmp_path)))
    feed.start(AwaitedFrame(lambda: frame, "s"), None)
    assert feed.await_end(10)
    assert str(feed.error()) == "stream 's' stopped: the disk is full."
    assert frame.started == 1


@pytest.mark.spark
def test_the_first_file_is_checked_against_the_declared_columns(tmp_path, spark):
    pipeline = load_pipeline(written(tmp_path, PIPELINE.format(form="parquet")))
    with prepare_run(pipeline, HowToRun()).start(spark) as started:
        first_file(tmp_path / "s", "parquet", {"k": [1], "x": [1], "wieght": [1]})
        with pytest.raises(ChangeError) as shown:
            started.await_termination(60)
    assert "'weight'" in str(shown.value)


@pytest.mark.spark
def test_once_does_not_wait(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    shown = run("run", written(tmp_path, PIPELINE.format(form="parquet")), "--once")
    assert f"stream s has no file yet at {tmp_path / 's'}" in shown
    assert "waits" not in shown


BATCH = (
    PIPELINE.format(form="parquet")
    + "[streams.t]\nschema = 'k BIGINT'\nformat = 'csv'\npath = 't.csv'\nbatch = true"
)
REFUSED = {
    "a table without files": (BATCH, ["run"], r"stream 't': there is no file at .*t.csv; correct path"),
    "a pass over no files": (PIPELINE.format(form="json"), ["ask"], r"stream 's': there is no file at"),
    "statistics of no files": (PIPELINE.format(form="json"), ["analyze", "--out", "x"], "there is no file at"),
    "no store": (PIPELINE.format(form="json").replace("store", "# store"), ["run"], "a continuous run needs a store"),
    "no such query": (PIPELINE.format(form="json"), ["run", "--full-refresh", "m"], "no query 'm'"),
    "too small a budget": (PIPELINE.format(form="json").replace("64 KB", "1 B"), ["run"], "the budget is 1"),
    "dead letters without a place": (PIPELINE.format(form="json") + "[run]\non_bad = 'dead-letter'", ["run"], "go together"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_no_spark_is_refused_before_it_starts(tmp_path, monkeypatch, case):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: pytest.fail("Spark was started"))
    text, (command, *options), sentence = REFUSED[case]
    assert re.search(sentence, run(command, written(tmp_path, text), *options, code=1))


def test_locks_and_other_plans_are_refused_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: pytest.fail("Spark was started"))
    path = written(tmp_path, PIPELINE.format(form="json"))
    from eddyline.api.run import StartOptions, open_store

    with open_store(load_pipeline(path).plan().layout, str(tmp_path / "state"), StartOptions()):
        assert "is held by process" in run("run", path, code=1)
    other = written(tmp_path, PIPELINE.format(form="json").replace("COUNT(*)", "SUM(x)"))
    assert "was made by another plan" in run("run", other, code=1)
    assert Store.exists(tmp_path / "state")
