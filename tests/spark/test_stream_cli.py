"""`eddyline run`, `ask` and `verify`: a store kept current, asked meanwhile, changed, refreshed and refused."""

import json
import re

import pytest
from typer.testing import CliRunner

from eddyline.cli import app

pytestmark = pytest.mark.spark
PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "k BIGINT, x INT, at TIMESTAMP"
changes = "change_type"
event_time = "at"
format = "json"
path = "s"
[run]
on_bad = "skip"
[queries]
n = "SELECT COUNT(*) FROM s"
recent = { sql = "SELECT SUM(x) FROM s", window = "1 minute" }
"""
ADDED = 'total = "SELECT SUM(x) FROM s"\n'


@pytest.fixture
def pipeline(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    (tmp_path / "s").mkdir()
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    return path


def add_file(pipeline, name, minute):
    changes = ["insert", "insert", "delete"]
    rows = [
        {"k": i, "x": i, "at": f"2024-01-01T00:{minute:02d}:{i:02d}Z", "_change_type": change}
        for i, change in enumerate(changes, 1)
    ]
    lines = [*map(json.dumps, rows), "{broken"]
    (pipeline.parent / "s" / name).write_text("\n".join(lines))


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_a_store_is_kept_current_changed_and_refreshed(pipeline):
    store = pipeline.parent / "state"
    add_file(pipeline, "1.json", 0)
    run("run", pipeline, "--once")
    add_file(pipeline, "2.json", 1)
    run("run", pipeline, "--once")
    asked = run("ask", pipeline)
    assert re.search(r"n\s+2\s+2\s+2\s+exact", asked)
    assert re.search(r"recent\s+0\s+0\s+0\s+exact", asked)
    assert "6 rows (2 deletes, 2 bad)" in asked
    assert re.search(r"n\s+2\s+2\s+2\s+exact", run("ask", store, "--query", "n"))
    assert "sound" in run("verify", store)
    pipeline.write_text(PIPELINE + ADDED)
    assert "+ total" in run("run", pipeline, "--once", code=1)
    assert "+ total" in run("ask", pipeline, code=1)
    run("run", pipeline, "--once", "--change-plan")
    asked = run("ask", pipeline)
    assert re.search(r"total\s+not known\s+exact since epoch 2", asked)
    assert "6 earlier rows are not in it" in " ".join(asked.split())
    run("run", pipeline, "--once", "--full-refresh", "total")
    assert re.search(r"total\s+0\s+0\s+0\s+exact", run("ask", pipeline))
    assert "continuous run" in " ".join(run("ask", pipeline, "--refresh", code=1).split())
    newest = max(store.glob("epoch-*.eddy"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert "corrupt" in run("verify", store, code=1)


def test_what_cannot_be_run_is_said(pipeline):
    pipeline.write_text(PIPELINE.replace('store = "state"', ""))
    assert "needs a store" in run("run", pipeline, code=1)
    text = PIPELINE.replace('"json"', '"rate"').replace('path = "s"', "")
    pipeline.write_text(text)
    assert "cannot be rebuilt" in run("run", pipeline, "--full-refresh", "n", code=1)
    assert "no query" in run("run", pipeline, "--full-refresh", "nothing", code=1)
