"""Events: every client hears of each new epoch, of a run that stops, and of nothing it did not ask for."""

import json
import threading
from contextlib import suppress

import httpx
import pytest

import eddyline as el
from tests.serve.waiting import until


class Listener(threading.Thread):
    """A client of the events, which remembers the views that it was sent and whether the stream ended well."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self._address = client.base_url
        self.views, self.ended_well = [], False
        self.start()

    def run(self):
        with httpx.Client(base_url=self._address, timeout=60) as client, suppress(httpx.TransportError):
            with client.stream("GET", "api/v1/events") as response:
                for line in response.iter_lines():
                    if line.startswith("data: {") and len(line) > 20:
                        self.views.append(json.loads(line[6:]))
            self.ended_well = True

    @property
    def epochs(self):
        return [view["freshness"]["epoch"] for view in self.views]


def test_every_client_is_sent_each_new_epoch(store, client):
    listeners = [Listener(client) for _ in range(5)]
    until(lambda: all(each.views for each in listeners))
    store.move()
    until(lambda: all(each.epochs[-1] == 4 for each in listeners))
    for each in listeners:
        assert each.epochs == sorted(each.epochs)
        last = {answer["query"]: answer for answer in each.views[-1]["answers"]}
        expected = el.open(store.where).answer("money")
        assert (last["money"]["value"], last["money"]["low"]) == (expected.value, expected.low)


def test_a_run_that_stops_is_told_and_one_that_goes_on_too(store, client):
    listener = Listener(client)
    until(lambda: listener.views and listener.views[-1]["running"])
    store.close()
    until(lambda: not listener.views[-1]["running"])
    from eddyline.api.durable import stamp
    from eddyline.store import Store

    again = Store.open(store.where, stamp(store.plan.layout), "tests")
    until(lambda: listener.views[-1]["running"])
    again.close()


def test_a_server_that_ends_lets_its_clients_go(store):
    from tests.serve.conftest import serving

    with serving(store.where) as client:
        until(lambda: client.get("readyz").status_code == 200)
        listener = Listener(client)
        until(lambda: listener.views)
    listener.join(10)
    assert listener.ended_well


def test_no_more_clients_than_there_is_room_for(store, client, monkeypatch):
    monkeypatch.setattr("eddyline.serve.watcher.MOST_CLIENTS", 2)
    listeners = [Listener(client) for _ in range(2)]
    until(lambda: all(each.views for each in listeners))
    response = client.get("api/v1/events")
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert "2 clients follow this server" in response.json()["error"]["message"]


@pytest.mark.parametrize("times", [3])
def test_clients_that_leave_are_forgotten(store, client, times):
    for _ in range(times):
        with client.stream("GET", "api/v1/events") as response:
            next(response.iter_lines())
    store.move()
    until(lambda: "eddyline_event_clients 0.0" in client.get("metrics").text)
