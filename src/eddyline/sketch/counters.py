"""Arithmetic on int64 counters that raises where it would wrap."""

import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.linear import absolute_total, checked_product

Int64Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_LIMIT = float(2**63 - 2**11)  # the largest float64 that stays below 2^63 after a rounded addition


def _overflow(what: str) -> SketchError:
    return SketchError(
        f"{what} would overflow a 64-bit counter, so nothing was changed: use smaller weights, a coarser "
        "scale for the measure, or shorter windows."
    )


def check_headroom(counters: Int64Array, weights: Int64Array) -> None:
    """Raise unless counters stay within int64 whatever order the weights are added in."""
    if counters.size == 0 or weights.size == 0:
        return
    highest = max(abs(float(counters.max())), abs(float(counters.min())))
    if highest + float(absolute_total(weights)) >= _LIMIT:
        raise _overflow("adding these weights")


def checked_words(counters: Int64Array, weights: Int64Array) -> list[tuple[Int64Array, Int64Array]]:
    """Return (counters, weights) of each word of the weights that is not 0 in all, or raise where one might overflow.

    weights: (n,), or (words, n) where each takes several; the counters of a word are one block.
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
    """Return whether no sum or difference can overflow, by the largest counters: no arrays as large are made for it."""
    return _highest(left) + _highest(right) < 1 << 63


def _highest(counters: Int64Array) -> int:
    """Return the largest absolute value of some counters."""
    return max(int(counters.max()), -int(counters.min())) if counters.size else 0


def add(left: Int64Array, right: Int64Array) -> Int64Array:
    """Return left + right, or raise where a counter would overflow."""
    total = left + right
    if not _fits(left, right) and np.any((left ^ total) & (right ^ total) < 0):
        raise _overflow("adding these counters")
    return total


def subtract(left: Int64Array, right: Int64Array) -> Int64Array:
    """Return left - right, or raise where a counter would overflow."""
    difference = left - right
    if not _fits(left, right) and np.any((left ^ right) & (left ^ difference) < 0):
        raise _overflow("subtracting these counters")
    return difference


def multiply(left: Int64Array, right: Int64Array) -> Int64Array:
    """Return left * right elementwise, or raise where a product would overflow; right may have rows of words."""
    if right.ndim > 1 and np.all(left == 1):
        return right
    out = np.zeros(right.shape, dtype=np.int64)
    for row, product in zip(np.atleast_2d(right), np.atleast_2d(out), strict=True):
        if (right.ndim == 1 or row.any()) and not checked_product(left, row, product):
            raise _overflow("the product of a row's weight and measure")
    return out
