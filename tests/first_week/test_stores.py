"""Stores: one pass and then a run, a store before its first batch, streams that are behind."""

import json
import re

import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.answer.freshness import Freshness, StreamFreshness
from eddyline.cli import app
from tests.data.moving_store import MovingStore, orders

PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "k BIGINT, x INT"
format = "json"
path = "s"
[queries]
n = "SELECT COUNT(*) FROM s"
"""


@pytest.fixture
def pipeline(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "1.json").write_text("\n".join(json.dumps({"k": k, "x": k}) for k in range(5)))
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    return path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.spark
@pytest.mark.parametrize("options", [(), ("--adopt",)])
def test_asked_first_and_run_afterwards_every_file_counts_once(pipeline, options):
    """The pass of `ask` leaves a store; a run that goes on in it reads the same files again."""
    assert re.search(r"n\s+5\s+5\s+5\s+exact", run("ask", pipeline))
    run("run", pipeline, "--once", *options)
    assert re.search(r"n\s+5\s+5\s+5\s+exact", run("ask", pipeline))
    (pipeline.parent / "s" / "2.json").write_text('{"k": 9, "x": 9}')
    run("run", pipeline, "--once")
    assert re.search(r"n\s+6\s+6\s+6\s+exact", run("ask", pipeline))
    assert "is kept current by a continuous run" in run("ask", pipeline, "--refresh", code=1).replace(
        "\n", " "
    )


def test_a_store_before_its_first_batch_says_that_nothing_was_counted(tmp_path):
    moving = MovingStore(tmp_path / "state")
    moving.commit("orders", orders(0))
    moving.close()
    state = el.open(tmp_path / "state")
    for note in state.answer("orders_kept").notes:
        assert "has no committed batch yet" not in note
    shown = "stream visits has no committed batch yet."
    assert shown in state.answer("visits_by_buyers").notes
    assert shown in " ".join(run("ask", tmp_path / "state").split())


def test_the_time_is_the_newest_streams_and_the_lag_is_said_to_be_anothers():
    newest, behind = (
        StreamFreshness("a", 5, batch=3, last_batch_time=90.0),
        StreamFreshness("b", 2, batch=0, last_batch_time=40.0),
    )
    table = StreamFreshness("t", 9, batch=0, last_batch_time=1.0, once=True)
    shown = Freshness(7, (newest, behind, table), 100.0)
    assert shown.lag == 60.0
    assert str(shown).endswith("last batch 1970-01-01 00:01:30+00:00; furthest behind: b, 60.0 s ago")
    assert str(shown.of(["a", "t"])).endswith("00:01:30+00:00, 10.0 s ago")
    assert str(shown.of(["t"])).endswith("last batch 1970-01-01 00:00:01+00:00")
    assert str(Freshness(7, (newest, StreamFreshness("c")), 100.0)).endswith("; c has none yet")


@pytest.mark.spark
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_run_tells_its_progress(pipeline, form, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console._EVERY", 0.0)
    shown = run("run", pipeline, "--once", "--log-format", form)
    assert re.search(r"stopped at epoch 1, 5 rows .* 0 late, [\d,]+ bytes of state", shown.replace("\n", " "))
    if form == "json":
        lines = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
        for line in lines:
            assert line["bad"] == 0
            assert line["rows"] in (0, 5)
