"""Elements of a stream: rows folded into a table of distinct elements, and sorted tables merged.

An element is a row of K words; beside it stand V net totals (its count first, then its sums).
"""

import numpy as np

from eddyline.kernels.jit import inlined, kernel

_U = np.uint64
_LEAST = np.iinfo(np.int64).min
"""It has no opposite in 64 bits."""


@inlined
def splitmix(word: np.uint64) -> np.uint64:
    """Return the splitmix64 finalizer of a word."""
    word = (word ^ (word >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> _U(27))) * _U(0x94D049BB133111EB)
    return word ^ (word >> _U(31))


@kernel("slots", "elements", "totals")
def fold_rows(  # noqa: C901 - a hash table in one loop
    words: np.ndarray,
    values: np.ndarray,
    slots: np.ndarray,
    elements: np.ndarray,
    totals: np.ndarray,
    size: int,
) -> tuple[int, int, bool]:
    """Add rows to a hash table of elements; return (rows taken, elements held, no total overflowed).

    words: int64 (n, K); values: int64 (n, V); slots: int64, a power of two of them, -1 where empty; elements
    and totals have room for half as many rows as there are slots. It stops before a row for which there is no room.
    """
    mask = _U(len(slots) - 1)
    room = len(elements)
    for i in range(len(words)):
        code = _U(0)
        for k in range(words.shape[1]):
            code = splitmix(code + _U(words[i, k]) + _U(0x9E3779B97F4A7C15))
        at = code & mask
        while True:
            held = slots[at]
            if held < 0:
                if size >= room:
                    return i, size, True
                held = size
                size += 1
                slots[at] = held
                for k in range(words.shape[1]):
                    elements[held, k] = words[i, k]
                for v in range(values.shape[1]):
                    totals[held, v] = 0
                break
            same = True
            for k in range(words.shape[1]):
                if elements[held, k] != words[i, k]:
                    same = False
                    break
            if same:
                break
            at = (at + _U(1)) & mask
        for v in range(values.shape[1]):
            before = totals[held, v]
            total = before + values[i, v]
            if (before ^ total) & (values[i, v] ^ total) < 0:
                return i, size, False
            totals[held, v] = total
    return len(words), size, True


@inlined
def _order(left: np.ndarray, i: int, right: np.ndarray, j: int) -> int:
    for k in range(left.shape[1]):
        if left[i, k] < right[j, k]:
            return -1
        if left[i, k] > right[j, k]:
            return 1
    return 0


@kernel("out", "out_totals")
def merge_sorted(
    left: np.ndarray,
    left_totals: np.ndarray,
    right: np.ndarray,
    right_totals: np.ndarray,
    sign: int,
    out: np.ndarray,
    out_totals: np.ndarray,
) -> int:
    """Merge two sorted tables, the right one times `sign`; return the elements left, or -1 on overflow.

    An element all of whose totals are 0 is left out.
    """
    i = j = size = 0
    while i < len(left) or j < len(right):
        order = -1 if j == len(right) else (1 if i == len(left) else _order(left, i, right, j))
        used = False
        for v in range(out_totals.shape[1]):
            a = left_totals[i, v] if order <= 0 else np.int64(0)
            b = right_totals[j, v] * sign if order >= 0 else np.int64(0)
            if sign < 0 and b == _LEAST:
                return -1
            total = a + b
            if (a ^ total) & (b ^ total) < 0:
                return -1
            out_totals[size, v] = total
            used = used or total != 0
        if used:
            for k in range(out.shape[1]):
                out[size, k] = left[i, k] if order <= 0 else right[j, k]
            size += 1
        if order <= 0:
            i += 1
        if order >= 0:
            j += 1
    return size
