"""Sorted values. numpy's own `unique` hashes integers, which takes ten times as long as sorting them."""

from collections.abc import Sequence

import numpy as np

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


def _first(values: IntArray) -> BoolArray:
    """Return which of sorted values differ from the one before."""
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first
