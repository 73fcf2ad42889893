"""Int64 counters whose arithmetic raises instead of wrapping, and the exact total, which is such a counter."""

import msgspec
import numpy as np

from eddyline.errors import SMALLER_TOTALS, SketchError
from eddyline.kernels.doubles import carried
from eddyline.kernels.linear import absolute_total, checked_product

Int64Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_LIMIT = float(2**63 - 2**11)  # the largest float64 that stays below 2^63 after a rounded addition


def _overflow(what: str) -> SketchError:
    return SketchError(f"{what} would overflow a 64-bit counter, so nothing was changed: {SMALLER_TOTALS}")


def check_headroom(counters: Int64Array, weights: Int64Array) -> None:
    """Raise unless counters stay within int64 in whatever order the weights are added."""
    if counters.size == 0 or weights.size == 0:
        return
    highest = max(abs(float(counters.max())), abs(float(counters.min())))
    if highest + float(absolute_total(weights)) >= _LIMIT:
        raise _overflow("adding these weights")


def checked_words(counters: Int64Array, weights: Int64Array) -> list[tuple[Int64Array, Int64Array]]:
    """Return (counters, weights) of each word of the weights that is not all 0, or raise if one might overflow.

    weights: (n,), or (words, n) if each takes several words; the counters of a word are one block.
    """
    if weights.ndim == 1:
        check_headroom(counters, weights)
        return [(counters, weights)]
    blocks = counters.reshape(len(weights), -1)
    found = [(block, row) for block, row in zip(blocks, weights, strict=True) if row.any()]
    for block, row in found:
        check_headroom(block, row)
    return found


def _fits(left: Int64Array, right: Int64Array) -> bool:
    """Return whether no sum or difference can overflow, from the largest counters, without temporary arrays."""
    return _highest(left) + _highest(right) < 1 << 63


def _highest(counters: Int64Array) -> int:
    """Return the largest absolute value of some counters."""
    return max(int(counters.max()), -int(counters.min())) if counters.size else 0


def add(left: Int64Array, right: Int64Array) -> Int64Array:
    """Return left + right, or raise if a counter would overflow."""
    total = left + right
    if not _fits(left, right) and np.any((left ^ total) & (right ^ total) < 0):
        raise _overflow("adding these counters")
    return total


def subtract(left: Int64Array, right: Int64Array) -> Int64Array:
    """Return left - right, or raise if a counter would overflow."""
    difference = left - right
    if not _fits(left, right) and np.any((left ^ right) & (left ^ difference) < 0):
        raise _overflow("subtracting these counters")
    return difference


def multiply(left: Int64Array, right: Int64Array) -> Int64Array:
    """Return left * right elementwise, or raise if a product would overflow; right may have rows of words."""
    if right.ndim > 1 and np.all(left == 1):
        return right
    out = np.zeros(right.shape, dtype=np.int64)
    for row, product in zip(np.atleast_2d(right), np.atleast_2d(out), strict=True):
        if (right.ndim == 1 or row.any()) and not checked_product(left, row, product):
            raise _overflow("the product of a row's weight and measure")
    return out


# Key arrays as the kernels take them: uint64, one row per join edge.


KeyArray = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


def key_array(*columns: np.ndarray) -> KeyArray:
    """Return one key array of the int64 or uint64 columns, one per edge."""
    views = [np.ascontiguousarray(column).view(np.uint64) for column in columns]
    return views[0].reshape(1, -1) if len(views) == 1 else np.stack(views)


# The exact total: one counter that holds the net sum of the weights. It needs no key.
#
# For numbers that take several words it has a counter for each word, and carries from word to word, so that
# only the highest can overflow.


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
        """Add the weights (for wide numbers a row per word) in place; raise, with nothing changed, on overflow."""
        for word, row in checked_words(counters, weights):
            word[0] += row.sum()
        counters[:] = carried(counters)

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return carried(add(left, right))

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return carried(subtract(left, right))
