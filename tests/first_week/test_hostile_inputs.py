"""Every command on invalid inputs: one sentence of ours and exit code 1, or 2 for usage."""

import json
import os

import pytest
from typer.testing import CliRunner

from eddyline.cli import app
from eddyline.ingest.changes import UNREADABLE, bad_rows_error
from eddyline.spark.causes import cause_of
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
HOSTILE = {
    "missing": None,
    "empty": b"",
    "binary": bytes(range(256)),
    "no TOML": b"[workload\nbudget = ",
    "wrong types": PIPELINE.replace('"64 KB"', "[1]").encode(),
    "a table for a name": PIPELINE.replace('schema = "k BIGINT, x INT"', "schema = 3").encode(),
    "a negative budget": PIPELINE.replace('"64 KB"', "-5").encode(),
    "unknown setting": PIPELINE.replace("budget", "budgte").encode(),
    "unknown table": PIPELINE.replace("[queries]", "[querries]").encode(),
    "no streams": b"[queries]\nn = 'SELECT COUNT(*) FROM s'",
    "bad SQL": PIPELINE.replace("COUNT(*)", "COUNT(*").encode(),
    "bad window": PIPELINE.replace('"SELECT COUNT(*) FROM s"', '{ sql = "SELECT COUNT(*) FROM s", window = "soon" }').encode(),
    "bad zone": PIPELINE.replace("[workload]", '[workload]\ntimezone = "Mars"').encode(),
    "missing statistics": PIPELINE.replace("[workload]", '[workload]\nstatistics = "none.json"').encode(),
    "bad statistics": PIPELINE.replace("[workload]", '[workload]\nstatistics = "pipeline.toml"').encode(),
}  # fmt: skip
COMMANDS = [["plan"], ["analyze", "--out", "x.json"], ["ask"], ["run"], ["serve"], ["watch", "--once"]]


def shown(*arguments, codes=(1, 2)):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in codes, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_pipeline_files_that_are_none(tmp_path, monkeypatch, command, case):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: pytest.fail("Spark was started"))
    monkeypatch.chdir(tmp_path)
    if HOSTILE[case] is not None:
        (tmp_path / "pipeline.toml").write_bytes(HOSTILE[case])
    assert "Error" in shown(command[0], "pipeline.toml", *command[1:])


@pytest.mark.parametrize(
    "command", [*COMMANDS, ["doctor"], ["verify"], ["restore"], ["init"]], ids=lambda command: command[0]
)
@pytest.mark.parametrize(
    "case", ["folder", "empty folder", "file", "unreadable", "half-written", "other version"]
)
def test_places_that_are_no_store_and_no_pipeline(tmp_path, monkeypatch, command, case):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: pytest.fail("Spark was started"))
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "place"
    if case == "file":
        place.write_bytes(b"\x00\x01")
    elif case == "unreadable":
        if os.getuid() == 0:
            pytest.skip("root may read everything")
        place.mkdir(mode=0)
    elif case in ("half-written", "other version"):
        moving = MovingStore(place)
        moving.commit("orders", orders(0))
        moving.close()
        epoch = place / "epoch-000000000001.eddy"
        (place / "epoch-000000000000.eddy").unlink()
        if case == "half-written":
            epoch.write_bytes(epoch.read_bytes()[:100])
        else:
            data = bytearray(epoch.read_bytes())
            data[4] += 90
            epoch.write_bytes(bytes(data))
    else:
        place.mkdir()
        if case == "folder":
            (place / "notes.txt").write_text("nothing")
    if command[0] == "serve" and case in ("half-written", "other version"):
        pytest.skip("the page says what is wrong with the store, and waits for a better epoch")
    assert shown(command[0], place, *command[1:]), case


@pytest.mark.parametrize(
    "arguments", [["nosuch"], ["plan"], ["run", "x.toml", "--oncee"], ["ask", "x", "--format", "xml"], ["demo", "--rows", "x"]]
)  # fmt: skip
def test_usage_is_exit_code_2(arguments):
    shown(*arguments, codes=(2,))


def test_a_near_miss_names_what_was_meant(tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE.replace("budget", "budgte"))
    assert "did you mean `budget`?" in shown("plan", path)
    path.write_text(PIPELINE.replace("schema", "shema"))
    assert "did you mean `schema`?" in shown("plan", path)


def test_lines_that_cannot_be_read_are_no_changes():
    row = json.dumps({"reason": UNREADABLE, "file": "file:/a/1.csv", "_corrupt_record": "1;2"})
    sentence = str(bad_rows_error("s", 1, 3, [row]))
    assert "1 of 3 lines cannot be read as the declared columns" in sentence
    assert "/a/1.csv" in sentence
    assert "change" not in sentence
    other = json.dumps({"reason": "its weight is not a known change"})
    assert "carry a change that cannot be read" in str(bad_rows_error("s", 2, 3, [row, other]))


@pytest.mark.parametrize(
    "text",
    [
        "x\nTraceback (most recent call last):\n  File 'w'\nModuleNotFoundError: No module named 'eddyline'\n",
        'java.io.IOException: Cannot run program "/no/python": error=2',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
    ],
)
def test_workers_without_eddyline_name_pyspark_python(text):
    cause = cause_of(RuntimeError(text))
    assert "set PYSPARK_PYTHON to an interpreter with eddyline" in cause
    assert "\n" not in cause
