"""A cache of results computed from SQL strings, bounded by the total length of the strings.

Strings come from plans, which repeat a few short ones for every batch, and from ad hoc SQL, where a client can send
a new query of 100,000 characters with each request. A limit on the number of entries does not bound memory: a
parsed tree takes up to 172 bytes per character (measured: a chain of OR; an IN list takes 105).
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import update_wrapper
from threading import Lock
from typing import Generic, TypeVar

Result = TypeVar("Result")
MOST_CHARACTERS = 1_000_000
"""For strings that are longer than their results: about 2 MB. Chosen; plans seldom have 50,000."""
MOST_PARSED = 200_000
"""For strings whose parsed trees are kept: at most 35 MB, see above."""


class TextCache(Generic[Result]):
    """A function of one string with a cache of the results used last, limited by the characters of their strings.

    A string longer than an eighth of the limit is not cached: one request would displace what all batches use.
    """

    def __init__(self, function: Callable[[str], Result], most: int) -> None:
        self._function = function
        self._most = most
        self._results: OrderedDict[str, Result] = OrderedDict()
        self._turn = Lock()
        self.characters = 0
        """The total length of the cached strings."""
        update_wrapper(self, function)

    def __call__(self, text: str) -> Result:
        """Return what the function returns for a string; errors are not cached."""
        with self._turn:
            if text in self._results:
                self._results.move_to_end(text)
                return self._results[text]
        made = self._function(text)
        if len(text) <= self._most // 8:
            self._keep(text, made)
        return made

    def _keep(self, text: str, made: Result) -> None:
        with self._turn:
            if text not in self._results:
                self.characters += len(text) + 1  # an empty string is an entry, too
            self._results[text] = made
            while self.characters > self._most:
                oldest, _ = self._results.popitem(last=False)
                self.characters -= len(oldest) + 1


def remembers_texts(most: int = MOST_CHARACTERS) -> Callable[[Callable[[str], Result]], TextCache[Result]]:
    """Return a decorator that caches a function's results for strings of up to `most` characters in total."""
    return lambda function: TextCache(function, most)
