"""Sorted values. numpy's own `unique` hashes integers, which takes ten times as long as sorting them."""

from collections.abc import Sequence

import numpy as np

from eddyline.kernels.groups import order_by_place

MOST_CELLS = 1 << 22
"""Of tables that are held at once."""
FEW = 1 << 13
"""So few entries are not worth a kernel: a process that answers little never loads numba."""
_SPREAD, _SMALL = 32, 1 << 16
"""A table of integers has at most so many cells for each entry, and so many in any case."""
IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def distinct(arrays: Sequence[IntArray]) -> IntArray:
    """Return the different integers of some arrays, ascending."""
    if not arrays:
        return np.empty(0, dtype=np.int64)
    values = np.sort(np.concatenate(arrays), kind="stable")  # it merges runs that are sorted already
    return values[_first(values)]


def distinct_places(arrays: Sequence[IntArray]) -> tuple[IntArray, list[IntArray]]:
    """Return (the different integers of some arrays, ascending; for each array the places of its own among them)."""
    together = np.concatenate([np.empty(0, dtype=np.int64), *arrays])
    order = np.argsort(together, kind="stable")
    values = together[order]
    first = _first(values)
    places = np.empty(len(values), dtype=np.int64)
    places[order] = np.cumsum(first) - 1
    return values[first], np.split(places, np.cumsum([len(each) for each in arrays])[:-1])


def numbered(values: np.ndarray) -> tuple[IntArray, IntArray]:
    """Return (the different integers of an array, ascending; for each entry the place of its own among them).

    Where they lie close together a table of all integers between the least and the largest takes the place of sorting.
    """
    if len(values) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    least, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if span > min(_SPREAD * len(values) + _SMALL, MOST_CELLS):
        known, (places,) = distinct_places([values.astype(np.int64)])
        return known, places
    at = values.astype(np.int64) - least
    there = np.zeros(span, dtype=np.bool_)
    there[at] = True
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[at]


def ordered(places: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return (the order of entries by place, equal ones as they are; where those of each of so many places begin)."""
    if len(places) < FEW:
        order = np.argsort(places, kind="stable")
        return order, np.searchsorted(places[order], np.arange(size + 1))
    starts, order = np.zeros(size + 1, dtype=np.int64), np.empty(len(places), dtype=np.int64)
    order_by_place(places, starts, order)
    return order, starts


def _first(values: IntArray) -> BoolArray:
    """Return which of sorted values differ from the one before."""
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first
