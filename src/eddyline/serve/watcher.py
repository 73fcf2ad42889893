"""The watcher: a thread that answers a store's queries at each new epoch, and events that send them to clients."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from eddyline.api.operations.reconcile import Reconciliation, last_reconciliation
from eddyline.api.operations.sites import SitesFollower
from eddyline.api.store_tables import Follower, Sighting, history_of
from eddyline.errors import StoreError
from eddyline.serve.requests import Refused
from eddyline.serve.view import AnswersView, ExactAnswers, HistoryFile, query_texts, view_of

_LOG = logging.getLogger("eddyline.serve")
_SAVED_EVERY = 5.0
_MOST_OLDER = 20
_MOST_EPOCHS = 1_000
"""Epochs of a history that is asked for over HTTP: chosen; each is read from disk."""


class Watcher:
    """The newest view of a store, its message that all clients share, and the history of its estimates.

    every: seconds between two checks. The thread rests at least as long as answering took, so it never takes more
    than half of a core. exact: the source of exact answers, as in the demo. follower: what watches the stores, if
    there are several.
    """

    def __init__(
        self,
        store: str,
        history: Path | None = None,
        *,
        every: float = 0.5,
        exact: ExactAnswers | None = None,
        follower: Follower | SitesFollower | None = None,
    ) -> None:
        self.store = store
        self._follower = follower if follower is not None else Follower(store)
        self._file = HistoryFile(history)
        self._history = self._file.load()
        self._exact = exact
        self._every = every
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="eddyline-watcher", daemon=True)
        self._notify: Callable[[], None] = lambda: None
        self._saved = time.monotonic()
        self.view = AnswersView(Sighting())
        self.message = self.view.to_json()
        self.version = 0

    def start(self, notify: Callable[[], None]) -> None:
        """Start the thread; it calls `notify` whenever there is something new."""
        self._notify = notify
        self._thread.start()

    def stop(self) -> None:
        """End the thread and save the history."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._save()

    def history_json(self) -> bytes:
        """Return the points of all queries as the API sends them."""
        with self._turn:
            return msgspec.json.encode({name: series.points for name, series in self._history.series.items()})

    def history(
        self, queries: tuple[str, ...], since: str | None, until: str | None, confidence: float | None
    ) -> pa.Table:
        """Return the answers of all epochs that the store keeps; errors name the store without its folders."""
        if not isinstance(self._follower, Follower):
            raise Refused(
                422, "RequestError", "a history covers one store, and this server shows several sites."
            )
        try:
            return history_of(self._follower.reader, queries, since, until, confidence, most=_MOST_EPOCHS)
        except StoreError as error:
            raise Refused(422, "StoreError", self._follower.without_path(str(error))) from error

    def comparison(self) -> Reconciliation | None:
        """Return the last comparison of the store with its sources, None if there is none."""
        return last_reconciliation(self._follower.reader) if isinstance(self._follower, Follower) else None

    def _watch(self) -> None:
        while not self._ended.is_set():
            start = time.monotonic()
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - a server survives unexpected errors, and reports them
                _LOG.exception("looking at the store failed")
                self._tell_fault(error)
            self._ended.wait(max(self._every, time.monotonic() - start))

    def _tell_fault(self, error: Exception) -> None:
        problem = f"the newest answers could not be made ({type(error).__name__}); the server's log says why."
        seen = replace(self.view.sighting, problem=problem)
        if seen.is_news_after(self.view.sighting):
            self._publish(replace(self.view, sighting=seen))

    def _look(self) -> None:
        seen, before = self._without_path(self._follower.look()), self.view.sighting
        if not seen.is_news_after(before):
            return
        if seen.stamp == before.stamp:
            self._publish(replace(self.view, sighting=seen))
            return
        fresh = view_of(seen, self._exact)
        if seen.store != before.store:
            with self._turn:
                self._history.start_over()
        if before.state is None:
            for older in self._follower.older(self._history.epoch, _MOST_OLDER):
                self._remember(view_of(Sighting(older), self._exact))
        self._remember(fresh)
        self._publish(fresh)
        if time.monotonic() - self._saved > _SAVED_EVERY:
            self._save()

    def _without_path(self, seen: Sighting) -> Sighting:
        """Return a sighting whose problem names the store without its folders: clients may be on other machines."""
        return replace(seen, problem=self._follower.without_path(seen.problem)) if seen.problem else seen

    def _remember(self, view: AnswersView) -> None:
        state = view.state
        if state is not None and view.sighting.epoch != self._history.epoch:
            with self._turn:
                self._history.add(query_texts(state.snapshot.layout), view.points())

    def _publish(self, view: AnswersView) -> None:
        self.message = view.to_json()
        self.view = view
        self.version += 1
        with contextlib.suppress(RuntimeError):  # the server's loop has just ended
            self._notify()

    def _save(self) -> None:
        self._saved = time.monotonic()
        try:
            with self._turn:
                self._file.save(self._history)
        except OSError as error:
            _LOG.warning(
                "the history of estimates is not kept: %s; --history FILE names another place", error
            )
            self._file = HistoryFile(None)


# Server-sent events: each client is sent the newest view when there is one.
#
# Nothing is queued for a client. A slow reader misses views in between, and holds only the
# bytes of the newest view, which all clients share.


MOST_CLIENTS = 500
_BEAT = 10.0
"""Seconds after which a client without news gets a sign that the server still runs."""


class Events:
    """The clients that follow a watcher."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._news = asyncio.Event()
        self._sent: tuple[int, bytes] = (-1, b"")
        self._ended = False
        self.clients = 0

    def notify(self) -> None:
        """Wake all clients: there is something new. Called on the event loop."""
        self._news.set()
        self._news = asyncio.Event()

    def end(self) -> None:
        """Disconnect all clients, so that the server can end."""
        self._ended = True
        self.notify()

    def respond(self) -> Response:
        """Return the stream of views for a new client."""
        if self.clients >= MOST_CLIENTS:
            raise Refused(
                503,
                "Busy",
                f"{self.clients} clients follow this server: ask again later.",
                {"retry-after": "5"},
            )
        return _Stream(self)

    async def views(self) -> AsyncIterator[bytes]:
        """Yield the newest view whenever there is one, until the server ends."""
        last = -1
        yield b"retry: 2000\n\n"
        while not self._ended:
            news = self._news
            if last != self._watcher.version:
                last, message = self._message()
                yield message
                continue
            try:
                await asyncio.wait_for(news.wait(), _BEAT)
            except TimeoutError:
                yield b"event: beat\ndata: {}\n\n"

    def _message(self) -> tuple[int, bytes]:
        """Return the newest view as a message; all clients share its bytes."""
        version = self._watcher.version
        if self._sent[0] != version:
            self._sent = (version, b"id: %d\nevent: view\ndata: %s\n\n" % (version, self._watcher.message))
        return self._sent


class _Stream(StreamingResponse):
    """The stream of one client, which is counted while it is sent."""

    def __init__(self, events: Events) -> None:
        super().__init__(events.views(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send views until the client disconnects or the server ends."""
        self._events.clients += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._events.clients -= 1
