"""The history of answers: every kept epoch, groups among them, the same in Python, on the command line and over HTTP."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.cli import app
from eddyline.store import Reader
from tests.data.moving_store import MovingStore, orders
from tests.serve.conftest import serving
from tests.serve.waiting import until


@pytest.fixture
def moved(tmp_path):
    store = MovingStore(tmp_path / "store")
    store.commit("orders", orders(0))
    for _ in range(2):
        store.move()
    return store.where


def test_every_kept_epoch_has_the_answers_of_its_state(moved):
    table, kept = el.history(moved), sorted(Reader(moved).epochs())
    assert sorted(set(table["epoch"].to_pylist())) == kept
    for number in kept:
        answers = el.open(moved, as_of=number).answers().drop_columns(["freshness"])
        mine = table.filter([each == number for each in table["epoch"].to_pylist()])
        assert mine.drop_columns(["epoch", "time"]).to_pylist() == answers.to_pylist()
    assert any(table["group"].to_pylist())
    newest = el.history(moved, "by_region", since=kept[-1])
    assert set(newest["query"].to_pylist()) == {"by_region"}
    assert set(newest["epoch"].to_pylist()) == {kept[-1]}
    assert set(el.history(moved, "money", until=kept[0])["epoch"].to_pylist()) == {kept[0]}
    assert el.history(moved, "SELECT COUNT(*) FROM orders WHERE region = 'north'").num_rows == len(kept)
    with pytest.raises(el.StoreError, match="keeps no epoch"):
        el.history(moved, since="2999-01-01")


def test_the_command_writes_csv_and_parquet(moved, tmp_path):
    table = el.history(moved)
    shown = CliRunner().invoke(app, ["history", moved])
    assert shown.exit_code == 0, shown.output
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert len(rows) == len(table)
    for row, wanted in zip(rows, table.to_pylist(), strict=True):
        assert (row["query"], int(row["epoch"])) == (wanted["query"], wanted["epoch"])
        assert (float(row["value"]) if row["value"] else None) == wanted["value"]
        assert (json.loads(row["group"]) if row["group"] else None) == (
            dict(wanted["group"]) if wanted["group"] else None
        )
    written = CliRunner().invoke(
        app, ["history", moved, "--query", "by_region", "--out", str(tmp_path / "h.parquet")]
    )
    assert written.exit_code == 0, written.output
    assert pq.read_table(tmp_path / "h.parquet").to_pylist() == el.history(moved, "by_region").to_pylist()
    refused = CliRunner().invoke(app, ["history", moved, "--out", str(tmp_path / "none" / "h.csv")])
    assert refused.exit_code == 1


def test_http_gives_it_as_a_file(moved):
    wanted = el.history(moved, "by_region")
    with serving(moved) as client:
        until(lambda: client.get("readyz").status_code == 200)
        file = client.get("api/v1/history?form=parquet&sql=by_region")
        assert file.headers["content-disposition"] == 'attachment; filename="history.parquet"'
        assert pq.read_table(io.BytesIO(file.content)).to_pylist() == wanted.to_pylist()
        rows = list(csv.DictReader(io.StringIO(client.get("api/v1/history?form=csv&sql=by_region").text)))
        assert len(rows) == len(wanted)
        assert client.get("api/v1/history?form=csv&since=999999").status_code == 422
        assert client.get("api/v1/history?since=3").status_code == 400
        assert client.get("api/v1/history?form=xml").status_code == 400
