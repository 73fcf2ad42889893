"""The exact total: one counter that holds the net sum of the weights. It needs no key.

Of numbers that take several words it has a counter for each, and carries from word to word, so that only the highest
can run full.
"""

import msgspec

from eddyline.kernels.doubles import carried
from eddyline.sketch.counters import Int64Array, add, checked_words, subtract
from eddyline.sketch.hashed_keys import KeyArray


class TotalSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="total"):
    """One exact int64 counter, or one for each word of a number."""

    number_words: int = 1

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self.number_words

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: all of them."""
        return self.number_words

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 0

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:  # noqa: ARG002
        """Add the weights (for wide numbers a row for each word) in place; raise, with nothing changed, on overflow."""
        for word, row in checked_words(counters, weights):
            word[0] += row.sum()
        counters[:] = carried(counters)

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return carried(add(left, right))

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return carried(subtract(left, right))
