"""Questions that nobody planned, answered beside the event loop: few at a time, and not for ever."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

from prometheus_client import Histogram

from eddyline.serve.problems import Refused

T = TypeVar("T")


class Asking:
    """A few threads that answer, a bounded line before them, and a limit of time for each question.

    A thread cannot be stopped: a question that takes too long is refused in time and keeps its thread until it ends.
    What is kept is small and SQL texts are short, so that it does end.
    """

    def __init__(
        self, took: Histogram, *, threads: int = 2, waiting: int = 32, seconds: float = 10.0
    ) -> None:
        self._took = took
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="eddyline-asking")
        self._most = threads + waiting
        self._seconds = seconds
        self._asked = 0

    async def ask(self, question: Callable[[], T]) -> T:
        """Return the answer of a question, or raise Refused where there are too many or it takes too long."""
        if self._asked >= self._most:
            sentence = f"{self._asked} questions are being answered: ask again in a moment."
            raise Refused(503, "Busy", sentence, {"retry-after": "1"})
        self._asked += 1
        start, loop = perf_counter(), asyncio.get_running_loop()

        def done(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._done)

        answering = self._threads.submit(question)
        answering.add_done_callback(done)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answering), self._seconds)
        except TimeoutError:
            sentence = (
                f"there was no answer within {self._seconds:g} seconds: ask the store with `eddyline ask`."
            )
            raise Refused(504, "TooSlow", sentence) from None
        finally:
            self._took.observe(perf_counter() - start)

    def _done(self) -> None:
        self._asked -= 1

    def close(self) -> None:
        """Begin no further question."""
        self._threads.shutdown(wait=False, cancel_futures=True)
