"""A memo: what was read off a value that never changes, so that it is not read again.

It hangs on the value itself. Whatever makes another value (a batch, a sum, a difference) begins with an empty memo,
so nothing stale can be found in one. It is no part of the value: not compared, not written, not pickled.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
MOST_RESULTS = 256


class Memo:
    """The results that were asked for last, at most so many."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._turn = Lock()

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result under a key, made where it is not known; what `make` raises is not remembered.

        Two threads that ask for the same at once may both make it. Nobody waits for the other.
        """
        with self._turn:
            if key in self._results:
                self._results.move_to_end(key)
                known: T = self._results[key]
                return known
        made = make()
        with self._turn:
            self._results[key] = made
            while len(self._results) > self._most:
                self._results.popitem(last=False)
        return made

    def __len__(self) -> int:
        return len(self._results)

    def __reduce__(self) -> "tuple[type[Memo], tuple[int]]":
        """Say how to make a copy, here or in another process: it has read nothing yet."""
        return Memo, (self._most,)
