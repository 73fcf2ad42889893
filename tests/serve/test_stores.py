"""Stores that are replaced, answers that cannot be made, and many who ask: found by an adversary."""

import shutil
import socket

import httpx
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.store_tables import Follower
from tests.data.moving_store import MovingStore, orders, plan
from tests.serve.conftest import serving
from tests.serve.waiting import until


def made(where, batch, commits=1, queries=None):
    moving = MovingStore(where, plan(queries) if queries else None)
    for _ in range(commits):
        moving.commit("orders", orders(batch))
    moving.close()
    return el.open(where).answer("orders_kept").value


def shown(client):
    return client.get("api/v1/answers/orders_kept").json().get("value")  # none while there is no store


@pytest.mark.parametrize("gap", [False, True], ids=["at once", "after a while"])
@pytest.mark.parametrize("commits", [1, 3])
def test_another_store_in_its_place_is_noticed_whatever_its_epoch(tmp_path, gap, commits):
    where = tmp_path / "state"
    first, second = made(where, 1), made(tmp_path / "other", 2, commits)
    with serving(where) as client:
        until(lambda: shown(client) == first)
        shutil.rmtree(where)
        if gap:
            until(lambda: client.get("api/v1/freshness").json()["problem"])
            assert shown(client) == first
        (tmp_path / "other").rename(where)
        until(lambda: shown(client) == second)
        assert client.get("api/v1/freshness").json()["problem"] is None
        if gap or commits == 1:
            points = client.get("api/v1/history").json()["orders_kept"]
            assert [point[2] for point in points] == [second]


def test_a_follower_reads_an_epoch_once(tmp_path):
    made(tmp_path / "state", 1)
    follower = Follower(tmp_path / "state")
    assert follower.look().state is follower.look().state


def test_answers_that_could_not_be_made_are_a_problem_that_is_reported(store, client, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("eddyline.serve.watcher.view_of", fails)
    store.move()
    until(lambda: client.get("api/v1/freshness").json()["problem"])
    assert "could not be made (ZeroDivisionError)" in client.get("api/v1/freshness").json()["problem"]
    assert client.get("readyz").status_code == 503
    monkeypatch.undo()
    store.move()
    until(lambda: client.get("readyz").status_code == 200)


def test_a_problem_names_no_folder_of_the_machine(tmp_path):
    with serving(tmp_path / "state") as client:
        until(lambda: client.get("api/v1/freshness").json()["problem"])
        problem = client.get("api/v1/freshness").json()["problem"]
        assert "there is no store at state" in problem
        assert str(tmp_path) not in problem


def test_connections_that_ask_nothing_are_closed_and_others_are_answered(client, monkeypatch):
    monkeypatch.setattr("eddyline.serve.app.Connection.arrival", 1.0)
    address = httpx.URL(str(client.base_url))
    silent = [socket.create_connection((address.host, address.port)) for _ in range(20)]
    silent[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: local")  # and no more
    for each in silent:
        each.settimeout(20)
        assert each.recv(1) == b""
        each.close()
    assert client.get("healthz").status_code == 200


def test_groups_are_in_one_order_whichever_way_they_are_asked_for(client):
    addresses = (
        "answers/busiest?limit=3",
        "answers/busiest?limit=3&confidence=0.95",
        "answer?sql=busiest&limit=3",
    )
    shown = [client.get(f"api/v1/{address}").json()["groups"] for address in addresses]
    sizes = [row["aggregates"]["n"]["value"] for row in shown[0]]
    assert sizes == sorted(sizes, reverse=True)
    assert shown[0] == shown[1] == shown[2]


def test_large_answers_do_not_keep_others_waiting(tmp_path):
    queries = {
        f"q{i}": f"SELECT customer, COUNT(*) AS n, SUM(total) AS x{i} FROM orders GROUP BY customer"
        for i in range(4)
    }
    moving = MovingStore(tmp_path / "state", plan(queries, budget="4 MB"))
    moving.commit("orders", orders(1, 20_000))
    with serving(moving.where) as client, httpx.Client(base_url=client.base_url, timeout=60) as other:
        until(lambda: client.get("readyz").status_code == 200)
        import threading

        asked = threading.Thread(target=lambda: other.get("api/v1/answers?limit=10000").raise_for_status())
        asked.start()
        answered = 0
        while asked.is_alive():
            client.get("healthz")
            answered += 1
        assert answered > 3  # in one piece it would have kept all but the first waiting until its end
    moving.close()


def test_labels_of_metrics_tell_null_from_its_name_and_ends_without_a_bound(tmp_path):
    moving = MovingStore(
        tmp_path / "state", plan({"by_region": "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"})
    )
    table = pa.table(
        {
            "customer": [1, 2, 3, 4],
            "region": [None, "NULL", "a, b='c", "ok"],
            "total": pa.array(["1", "2", "3", "4"]).cast(pa.decimal128(12, 2)),
            "w": [1, 1, 1, 1],
        }
    )
    moving.commit("orders", table)
    with serving(moving.where) as client:
        until(lambda: client.get("readyz").status_code == 200)
        text = client.get("metrics").text
    groups = {
        line.split('group="')[1].split('",query')[0]
        for line in text.splitlines()
        if line.startswith("eddyline_estimate_value")
    }
    assert groups == {"region=NULL", "region='NULL'", "region='a, b=''c'", "region='ok'"}
    moving.close()


def test_a_store_that_moves_on_while_it_is_read_stays_the_same_store(tmp_path, monkeypatch):
    moving = MovingStore(tmp_path / "state")
    follower = Follower(tmp_path / "state")
    follower.look()
    plain = follower.reader.stamp

    def stamped_before_a_commit():
        found = plain()
        moving.commit("orders", orders(found[0], 50))
        return found

    monkeypatch.setattr(follower.reader, "stamp", stamped_before_a_commit)
    moving.commit("orders", orders(9, 50))
    seen = [follower.look() for _ in range(5)]
    assert {sighting.store for sighting in seen} == {0}
    assert {sighting.problem for sighting in seen} == {None}
    assert [s.epoch for s in seen] == sorted({s.epoch for s in seen})
    moving.close()
