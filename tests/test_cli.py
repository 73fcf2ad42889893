"""The command line: pipeline files planned, asked and refused in one sentence."""

import csv
import importlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import eddyline
from eddyline.cli import app
from tests.data.moving_store import MovingStore, orders, plan

PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.orders]
schema = "customer BIGINT, total DECIMAL(8,2)"
changes = "change_type"
format = "parquet"
path = "orders.parquet"
[streams.visits]
schema = "customer BIGINT, weight INT"
changes = "weight"
format = "json"
path = "visits.json"
[queries]
pairs = "SELECT COUNT(*) FROM orders o JOIN visits v USING (customer)"
kept = "SELECT COUNT(*) FROM orders"
by_customer = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
[queries.reference]
sql = "SELECT SUM(o.total) FROM orders o JOIN visits v USING (customer)"
method = "hash"
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def pipeline(tmp_path):
    orders = pa.table(
        {
            "customer": [1, 1, 2, 3, 3],
            "total": pa.array([1, 2, 3, 4, 4])
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(8, 2), safe=False),
            "_change_type": ["insert", "insert", "insert", "insert", "delete"],
        }
    )
    pq.write_table(orders, tmp_path / "orders.parquet")
    (tmp_path / "visits.json").write_text('{"customer": 1, "weight": 2}\n{"customer": 2, "weight": 1}\n')
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    return path


def test_plan_explains_without_spark(pipeline):
    result = run("plan", pipeline)
    assert result.exit_code == 0
    assert "pairs [exact while it fits] reads" in result.output
    assert "reference [exact while it fits, then hash] reads" in result.output


@pytest.mark.spark
def test_ask_reads_the_sources_once_and_the_store_afterwards(spark, pipeline, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    first = run("ask", pipeline)
    assert first.exit_code == 0, first.output
    assert re.search(r"pairs\s+5\b", first.output)
    assert re.search(r"kept\s+3\s+3\s+3\s+exact", first.output)
    assert re.search(r"by_customer\ncustomer +n\n1 +2\n2 +1\n\(2 groups, exact\)", first.output)
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: pytest.fail("the store should answer"))
    again = run("ask", pipeline, "--query", "kept", "--query", "SELECT COUNT(*) FROM visits")
    assert again.exit_code == 0, again.output
    assert re.search(r"query\s+3\s+3\s+3\s+exact", again.output)
    pipeline.write_text(PIPELINE.replace("[workload]", "[workload]\nconfidence = 0.9"))
    changed = run("ask", pipeline)
    assert changed.exit_code == 1
    assert "--refresh" in changed.output
    Path(pipeline.parent / "visits.json").write_text('{"customer": 1, "weight": "many"}\n')
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    refused = run("ask", pipeline, "--refresh")
    assert refused.exit_code == 1
    assert "ChangeError" in refused.output


BAD_FILES = {
    "not TOML": ("streams = [", "is invalid"),
    "unknown setting": (PIPELINE.replace("budget", "budgit"), "budgit"),
    "no schema": (PIPELINE.replace("schema", "schemer", 1), "schemer"),
    "bad query": (PIPELINE.replace('COUNT(*) FROM orders"', 'FIRST(total) FROM orders"'), "query 'kept'"),
    "bad size": (PIPELINE.replace("64 KB", "64 parsecs"), "parsecs"),
    "unknown method": (PIPELINE.replace('"hash"', '"guess"'), "guess"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_one_sentence(pipeline, case):
    text, words = BAD_FILES[case]
    pipeline.write_text(text)
    result = run("plan", pipeline)
    assert result.exit_code == 1
    assert words in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_missing_file_is_one_sentence(tmp_path):
    result = run("plan", tmp_path / "nope.toml")
    assert result.exit_code == 1
    assert "cannot be read" in result.output


def test_serve_takes_the_store_of_a_pipeline_file(pipeline):
    missing = run("serve", pipeline)
    assert missing.exit_code == 1
    assert f"there is no store at {pipeline.parent / 'state'}" in missing.output.replace("\n", "")
    pipeline.write_text(PIPELINE.replace('store = "state"', ""))
    none = run("serve", pipeline)
    assert none.exit_code == 1
    assert "keeps no store to serve" in " ".join(none.output.split())


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"eddyline {eddyline.__version__}\n"


def test_every_command_is_documented():
    documented = "".join(path.read_text() for path in (Path(__file__).parent.parent / "docs").rglob("*.md"))
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"eddyline {name}" in documented, name


@pytest.fixture
def store(tmp_path):
    moving = MovingStore(tmp_path / "state")
    moving.move()
    moving.close()
    return moving


def test_ask_as_json_has_all_digits_and_the_reasons_of_what_is_refused(store):
    asked = [
        "ask",
        store.where,
        "--query",
        "money",
        "--query",
        "by_region",
        "--query",
        "SELECT nonsense FROM",
    ]
    result = run(*asked, "--format", "json")
    assert result.exit_code == 1
    money, by_region, refused = json.loads(result.stdout)
    expected = eddyline.open(store.where).answer("money")
    assert (money["value"], money["low"], money["high"]) == (expected.value, expected.low, expected.high)
    assert {"query", "confidence", "method", "notes", "freshness"} <= set(money)
    assert {row["group"]["region"] for row in by_region["groups"]} == {"north", "south", "east", "west"}
    assert refused["query"] == "SELECT nonsense FROM"
    assert refused["refused"] in result.stderr.replace("\n", "")


def test_ask_as_csv_has_a_line_for_each_estimate_and_each_aggregate_of_each_group(store):
    result = run("ask", store.where, "--format", "csv")
    assert result.exit_code == 0, result.output
    lines = list(csv.DictReader(io.StringIO(result.stdout)))
    state = eddyline.open(store.where)
    (money,) = [line for line in lines if line["query"] == "money"]
    assert float(money["value"]) == float(state.answer("money").value)
    regions = {
        line["group"]: line["value"]
        for line in lines
        if line["aggregate"] == "n" and "region" in line["group"]
    }
    assert regions == {
        json.dumps({"region": row["region"]}): str(row["n"]) for row in state.answer("by_region")
    }


def test_one_bad_question_leaves_the_others_answered(store):
    result = run("ask", store.where, "--query", "orders_kept", "--query", "nosuch")
    assert result.exit_code == 1
    assert re.search(r"orders_kept\s+[\d,]+", result.stdout)
    assert "nosuch: the plan has no query 'nosuch'" in result.stderr.replace("\n", " ")


def test_watch_shows_all_answers_once_and_says_that_no_run_writes(store):
    result = run("watch", store.where, "--once")
    assert result.exit_code == 0, result.output
    assert re.search(r"orders_kept\s+[\d,]+", result.stdout)
    assert "epoch 2" in result.stdout
    assert "no run writes this store now" in result.stdout


def test_watch_follows_commits_until_it_is_interrupted(tmp_path):
    moving = MovingStore(tmp_path / "state")
    process = subprocess.Popen(
        [sys.executable, "-m", "eddyline.cli", "watch", moving.where, "--every", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    shown = ""
    while "epoch 0" not in shown:
        shown += process.stdout.readline()
    moving.move()
    while "epoch 2" not in shown:
        shown += process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    moving.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "nowhere"], "there is no store at"),
        (["watch", "nowhere"], "there is no store at"),
        (["serve", "STORE", "--host", "0.0.0.0"], "can be reached from other machines: give --token-file"),
        (["serve", "STORE", "--token-file", "nowhere"], "the token file 'nowhere' cannot be read"),
        (["serve", "STORE", "--host", "256.1.1.1", "--token-file", "TOKEN"], "cannot listen on 256.1.1.1"),
        (["serve", "STORE", "--port", "BUSY"], "name another --host or --port"),
    ],
)
def test_what_cannot_be_served_is_told_in_a_sentence(store, tmp_path, arguments, sentence):
    (tmp_path / "token").write_text("0123456789abcdef")
    (tmp_path / "token").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        given = {"STORE": store.where, "TOKEN": tmp_path / "token", "BUSY": busy.getsockname()[1]}
        result = run(*(given.get(argument, argument) for argument in arguments))
    assert result.exit_code == 1
    assert sentence in result.stderr.replace("\n", "")


def test_serve_without_its_extra_says_what_to_install(store, monkeypatch):
    monkeypatch.setattr(
        eddyline, "serve", importlib.import_module("eddyline.serve")
    )  # it is put back afterwards
    monkeypatch.setitem(sys.modules, "eddyline.serve.app", None)
    monkeypatch.setitem(sys.modules, "starlette", None)
    for name in [name for name in sys.modules if name.startswith(("eddyline.serve", "starlette."))]:
        monkeypatch.delitem(sys.modules, name)
    result = run("serve", store.where)
    assert result.exit_code == 1
    assert 'pip install "eddyline[serve]"' in result.stderr.replace("\n", "")


def test_watch_once_fails_where_a_query_that_was_asked_for_is_not_answered(store):
    assert run("watch", store.where, "--once").exit_code == 0
    result = run("watch", store.where, "--once", "--query", "no_such")
    assert result.exit_code == 1
    assert "no_such" in result.output


def test_markup_and_control_characters_in_data_are_shown_as_they_are(tmp_path):
    nasty = ["[/red]", "[bold red]free money[/]", "\x1b]0;title\x07", "b'x'"]
    queries = {
        "least": "SELECT MIN(region) FROM orders",
        "by_region": "SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > 0",
    }
    moving = MovingStore(tmp_path / "state", plan(queries))
    moving.commit("orders", orders(1, 400, nasty))
    moving.close()
    for command in ("ask", "watch"):
        result = run(command, moving.where, *(["--once"] if command == "watch" else []))
        assert result.exit_code == 0, result.output
        assert "[bold red]free money[/]" in result.output
        assert "\\x1b]0;title\\x07" in result.output
        assert "\x1b" not in result.output
        assert re.search(r"region\s+n\s+selected", result.output)
    lines = list(csv.DictReader(io.StringIO(run("ask", moving.where, "--format", "csv").stdout)))
    assert {line["selected"] for line in lines if line["group"]} == {"in"}
    assert {json.loads(line["group"])["region"] for line in lines if line["group"]} == set(nasty)


def test_a_damaged_store_says_how_to_go_back_and_goes_back(tmp_path):
    moving = MovingStore(tmp_path / "state")
    values = []
    for batch in range(3):
        moving.commit("orders", orders(batch))
        values.append(eddyline.open(moving.where).answer("orders_kept").value)
    moving.close()
    (tmp_path / "state" / "epoch-000000000003.eddy").write_bytes(b"damaged")
    shown = run("ask", moving.where)
    assert shown.exit_code == 1
    assert f"go back to it with `eddyline restore {moving.where} --epoch 2`" in shown.stderr.replace("\n", "")
    assert "epoch 2 is current again, as epoch 4" in run("restore", moving.where).stdout
    assert eddyline.open(moving.where).answer("orders_kept").value == values[1]
    assert run("restore", moving.where, "--epoch", "77").exit_code == 1
