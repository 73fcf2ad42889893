"""Turns: questions of HTTP and SQL clients, answered a few at a time in threads, one client after the other."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from typing import Any, TypeVar

from eddyline.serve.requests import Refused

_T = TypeVar("_T")
LONG_SQL = 2_000
"""Characters from which SQL counts as long. Measured: 900 conditions in 20,000 characters take about a second."""


class _Question:
    """A question that waits or is being answered."""

    def __init__(self, client: str, run: Callable[[], Any], *, is_long: bool) -> None:
        self.client, self.run, self.is_long = client, run, is_long
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class AnswerThreads:
    """A few threads that answer, a bounded queue before them, and a time limit for each question.

    Clients take turns, so that a client with many questions delays only itself. Long SQL leaves one thread, and
    most of the queue, to short SQL: clients behind one proxy share an address. A thread cannot be stopped: a
    question that takes too long is refused in time and keeps its thread until it ends.
    """

    def __init__(
        self,
        observe: Callable[[float], None] | None = None,
        *,
        threads: int = 2,
        waiting: int = 32,
        seconds: float = 10.0,
        name: str = "eddyline-asking",
    ) -> None:
        """observe: gets the seconds of each question; threads: questions at a time; waiting: how many may wait."""
        self._observe = observe
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads, self._waiting, self._seconds = threads, waiting, seconds
        self._most_long = max(1, threads - 1)
        self._lines: OrderedDict[str, deque[_Question]] = OrderedDict()
        self._running: set[_Question] = set()

    async def ask(
        self, question: Callable[[], _T], client: str = "", length: int = 0, seconds: float | None = None
    ) -> _T:
        """Return the answer of a question, or raise Refused if there are too many questions or it takes too long.

        client: who asks; length: of the SQL, in characters; seconds: its own time limit.
        """
        seconds = self._seconds if seconds is None else seconds
        asked = _Question(client, question, is_long=length >= LONG_SQL)
        start = perf_counter()
        self._lines.setdefault(client, deque()).append(asked)
        self._begin()
        self._shorten(asked)
        try:
            answer: _T = await asyncio.wait_for(asked.answer, seconds)
        except TimeoutError:
            sentence = f"there was no answer within {seconds:g} seconds: ask the store with `eddyline ask`."
            raise Refused(504, "TooSlow", sentence) from None
        finally:
            self._leave(asked)
            if self._observe is not None:
                self._observe(perf_counter() - start)
        return answer

    def close(self, *, wait: bool = False) -> None:
        """Start no further question; wait: until those that run have ended, whose clients may have left."""
        self._lines.clear()
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def _begin(self) -> None:
        """Give free threads to waiting questions, one client after the other."""
        while len(self._running) < self._threads:
            asked = self._next()
            if asked is None:
                return
            self._leave(asked)
            if asked.client in self._lines:
                self._lines.move_to_end(asked.client)
            self._running.add(asked)
            loop = asyncio.get_running_loop()

            def done(
                found: "Future[Any]", asked: _Question = asked, loop: asyncio.AbstractEventLoop = loop
            ) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self._done, asked, found)

            self._pool.submit(asked.run).add_done_callback(done)

    def _next(self) -> _Question | None:
        is_long_allowed = sum(each.is_long for each in self._running) < self._most_long
        for line in self._lines.values():
            for asked in line:
                if is_long_allowed or not asked.is_long:
                    return asked
        return None

    def _done(self, asked: _Question, found: "Future[Any]") -> None:
        self._running.discard(asked)
        if not asked.answer.done() and not found.cancelled():
            error = found.exception()
            if error is None:
                asked.answer.set_result(found.result())
            else:
                asked.answer.set_exception(error)
        self._begin()

    def _leave(self, asked: _Question) -> None:
        line = self._lines.get(asked.client, deque())
        if asked in line:
            line.remove(asked)
        if not line:
            self._lines.pop(asked.client, None)

    def _shorten(self, newest: _Question) -> None:
        """Refuse a question if too many wait: the newest one, or the last one of a client that has more waiting."""
        waiting = [asked for line in self._lines.values() for asked in line]
        long = [asked for asked in waiting if asked.is_long]
        if newest.is_long and newest in long and len(long) > self._waiting // 4:
            self._refuse(self._of_busiest(newest, long))
        elif len(waiting) > self._waiting:
            self._refuse(self._of_busiest(newest, waiting))

    def _of_busiest(self, newest: _Question, waiting: list[_Question]) -> _Question:
        by_client: dict[str, list[_Question]] = {}
        for asked in waiting:
            by_client.setdefault(asked.client, []).append(asked)
        busiest = max(by_client.values(), key=len)
        own = len(by_client.get(newest.client, ()))
        return busiest[-1] if len(busiest) > own or newest not in waiting else newest

    def _refuse(self, asked: _Question) -> None:
        number = len(self._running) + sum(map(len, self._lines.values())) - 1
        sentence = f"{number} questions are being answered: ask again in a moment."
        self._leave(asked)
        if not asked.answer.done():
            asked.answer.set_exception(Refused(503, "Busy", sentence, {"retry-after": "1"}))
