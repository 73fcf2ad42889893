"""Sorted values. numpy's own `unique` hashes integers, which takes ten times as long as sorting them."""

from collections.abc import Sequence

import numpy as np

from eddyline.sample.dictionary import IntArray


def distinct(arrays: Sequence[IntArray]) -> IntArray:
    """Return the different integers of some arrays, ascending."""
    if not arrays:
        return np.empty(0, dtype=np.int64)
    values = np.sort(np.concatenate(arrays))
    if len(values) == 0:
        return values
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]
