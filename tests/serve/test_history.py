"""History: bounded, spanning the whole time, kept over restarts, started over with the store."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline as el
from eddyline.serve import view as history
from eddyline.serve.view import History, HistoryFile, Point, Series
from tests.data.moving_store import MovingStore
from tests.serve.conftest import serving
from tests.serve.waiting import until


def point(epoch):
    return Point(epoch, float(epoch), 1.0, 0.0, 2.0)


@given(st.integers(1, 5_000))
def test_a_series_is_bounded_spans_all_epochs_evenly_and_ends_with_the_newest(epochs):
    series = Series("q")
    for epoch in range(epochs):
        series.add(point(epoch))
    kept = [each.epoch for each in series.points]
    assert len(kept) <= history.MOST_POINTS
    assert len(kept) >= min(epochs, history.MOST_POINTS // 2)
    assert (kept[0], kept[-1]) == (0, epochs - 1)
    assert {b - a for a, b in pairwise(kept[:-1])} <= {series.stride}


def test_a_query_with_another_text_starts_over_and_one_that_is_gone_is_forgotten():
    known = History()
    known.add({"a": "A", "b": "B"}, {"a": point(1), "b": point(1)})
    known.add({"a": "A2"}, {"a": point(2)})
    assert {name: [p.epoch for p in series.points] for name, series in known.series.items()} == {"a": [2]}


def test_a_store_that_started_over_has_no_history():
    known = History()
    known.add({"a": "A"}, {"a": point(9)})
    known.add({"a": "A"}, {"a": point(1)})
    assert [p.epoch for p in known.series["a"].points] == [1]


@pytest.mark.parametrize("content", [b"", b"{", b'{"series": 3}', b"\xff"])
def test_a_damaged_file_is_no_history(tmp_path, content):
    (tmp_path / "history.json").write_bytes(content)
    assert HistoryFile(tmp_path / "history.json").load().series == {}


def test_a_history_survives_a_restart_and_takes_up_what_the_store_still_has(store, tmp_path):
    kept = tmp_path / "kept" / "history.json"
    with serving(store.where, kept) as client:
        until(lambda: client.get("readyz").status_code == 200)
        for epoch in (4, 6, 8):
            store.move()
            until(lambda at=epoch: client.get("api/v1/freshness").json()["freshness"]["epoch"] == at)
        first = client.get("api/v1/history").json()["money"]
    store.move()  # while no server is there
    with serving(store.where, kept) as client:
        until(lambda: client.get("readyz").status_code == 200)
        again = client.get("api/v1/history").json()["money"]
    assert again[: len(first)] == first
    assert [each[0] for each in again[len(first) :]] == [9, 10]
    expected = el.open(store.where).answer("money")
    assert again[-1][2:5] == [expected.value, expected.low, expected.high]


def test_a_history_that_cannot_be_kept_stops_nothing(store, tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    with serving(store.where, tmp_path / "file" / "history.json") as client:
        until(lambda: client.get("readyz").status_code == 200)
        assert client.get("api/v1/history").json()["money"]
    assert "the history of estimates is not kept" in caplog.text


def test_exact_answers_are_told_beside_the_estimates(tmp_path):
    moving = MovingStore(tmp_path / "state")
    moving.move()
    with serving(moving.where, exact=lambda fresh: {"money": float(fresh.rows)}) as client:
        until(lambda: client.get("readyz").status_code == 200)
        assert client.get("api/v1/answers/money").json()["exact_answer"] == 4_000
        assert client.get("api/v1/history").json()["money"][-1][5] == 4_000
    moving.close()
