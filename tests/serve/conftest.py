"""A real server on the loopback address, of a store that moves by real commits."""

import contextlib
import threading

import httpx
import pytest

from eddyline.api.operations.reconcile import Reconciled, record
from eddyline.serve.app import server_of
from eddyline.serve.watcher import Watcher
from tests.data.moving_store import MovingStore
from tests.serve.waiting import until


@pytest.fixture
def store(tmp_path):
    moving = MovingStore(tmp_path / "state")
    moving.move()
    yield moving
    moving.close()


@contextlib.contextmanager
def serving(store, history=None, **settings):
    """A client of a server of a store; `settings` are those of server_of and of Watcher."""
    watcher = Watcher(str(store), history, every=0.05, exact=settings.pop("exact", None))
    server = server_of(watcher, settings.pop("host", "127.0.0.1"), 0, **settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with httpx.Client(base_url=server.address, timeout=30) as client:
            until(lambda: client.get("healthz").status_code == 200)
            yield client
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def client(store):
    with serving(store.where) as client:
        until(lambda: client.get("readyz").status_code == 200)
        yield client


@pytest.fixture
def compared(store, client):
    """The client of a store that was compared with its sources: it lacks two orders."""
    assert record(
        store.where,
        [Reconciled("orders", 10, 8), Reconciled("visits", "its source is a stream of another process", 3)],
    )
    return client
