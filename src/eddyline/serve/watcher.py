"""The watcher: a thread that looks at the store, answers its queries at each new epoch, and keeps their history."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from eddyline.api.follow import Follower, Sighting
from eddyline.serve.history import HistoryFile
from eddyline.serve.view import ExactAnswers, View, query_texts, view_of

_LOG = logging.getLogger("eddyline.serve")
_SAVED_EVERY = 5.0
_MOST_OLDER = 20


class Watcher:
    """The newest view of a store, the message of it that all clients share, and the history of its estimates.

    every: seconds between two looks. It rests at least as long as answering took, so that it never takes more than
    half of a core. exact: what knows the exact answers, as the demo does.
    """

    def __init__(
        self,
        store: str,
        history: Path | None = None,
        *,
        every: float = 0.5,
        exact: ExactAnswers | None = None,
    ) -> None:
        self.store = store
        self._follower = Follower(store)
        self._file = HistoryFile(history)
        self._history = self._file.load()
        self._exact = exact
        self._every = every
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="eddyline-watcher", daemon=True)
        self._tell: Callable[[], None] = lambda: None
        self._saved = time.monotonic()
        self.view = View(Sighting())
        self.message = self.view.to_json()
        self.version = 0

    def start(self, tell: Callable[[], None]) -> None:
        """Begin to look; `tell` is called from the thread whenever there is something new."""
        self._tell = tell
        self._thread.start()

    def stop(self) -> None:
        """End the thread and save the history."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._save()

    def history_json(self) -> bytes:
        """Return the points of all queries as the API tells them."""
        with self._turn:
            return msgspec.json.encode({name: series.points for name, series in self._history.series.items()})

    def _watch(self) -> None:
        while not self._ended.is_set():
            start = time.monotonic()
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - a server outlives what it did not foresee, and says so
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
                self._history.begin_anew()
        if before.state is None:
            for older in self._follower.older(self._history.epoch, _MOST_OLDER):
                self._remember(view_of(Sighting(older), self._exact))
        self._remember(fresh)
        self._publish(fresh)
        if time.monotonic() - self._saved > _SAVED_EVERY:
            self._save()

    def _without_path(self, seen: Sighting) -> Sighting:
        """Return a sighting whose problem names the store without its folders: clients may be far away."""
        where = self._follower.reader.where
        name = where.rstrip("/").rsplit("/", 1)[-1]
        return replace(seen, problem=seen.problem.replace(where, name)) if seen.problem else seen

    def _remember(self, view: View) -> None:
        state = view.state
        if state is not None and view.sighting.epoch != self._history.epoch:
            with self._turn:
                self._history.add(query_texts(state.snapshot.layout), view.points())

    def _publish(self, view: View) -> None:
        self.message = view.to_json()
        self.view = view
        self.version += 1
        with contextlib.suppress(RuntimeError):  # the server's loop has just ended
            self._tell()

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
