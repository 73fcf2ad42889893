"""What corresponding cells of several streams show together, element by element.

A stream with a lone element in the cell makes that element known. A stream with two elements of which one is
known is resolved: taking the known one out leaves a lone element, which is known from then on. That goes on
until nothing more is learnt; streams that are left hold many.

A pattern is one integer: the mask of the streams that hold many in the lowest k bits, then, in descending
order, the mask of the streams known to hold it, for each known element, k bits each.
"""

import numpy as np

from eddyline.kernels.distinct import LANE_PRIME, MANY, PURE, check_lane
from eddyline.kernels.jit import helper, kernel

MOST_COUNT = 32  # net counts up to which a known element is looked for beside another one

_U = np.uint64
_P = _U(LANE_PRIME)
_LANE = _U((1 << 21) - 1)


def small_inverses() -> np.ndarray:
    """Return 1/c modulo P for c = 0 .. MOST_COUNT (0 for 0)."""
    return np.array([0, *(pow(c, -1, LANE_PRIME) for c in range(1, MOST_COUNT + 1))], dtype=np.uint64)


@helper
def _beside(word: np.uint64, f: np.uint64, params: np.ndarray, inverses: np.ndarray) -> int:
    """Return the fingerprint of the one element that a cell holds beside that of fingerprint f, or -1."""
    c, s, t = int(word & _LANE), word >> _U(21) & _LANE, word >> _U(42)
    if c > 2 * MOST_COUNT:
        return -1
    g = check_lane(f, params)
    for m in range(max(1, c - MOST_COUNT), min(MOST_COUNT, c - 1) + 1):
        rest = (s + (_P - f) * _U(m)) % _P * inverses[c - m] % _P
        if (_U(c - m) * check_lane(rest, params) + _U(m) * g) % _P == t:
            return int(rest)
    return -1


@helper
def _join(fingerprint: int, j: int, known: np.ndarray, masks: np.ndarray, g: int) -> int:
    """Note that stream j holds an element; return the number of known elements."""
    for i in range(g):
        if known[i] == fingerprint:
            masks[i] |= 1 << j
            return g
    known[g], masks[g] = fingerprint, 1 << j
    return g + 1


@helper
def _resolve(
    words: np.ndarray,
    many: int,
    params: np.ndarray,
    inverses: np.ndarray,
    known: np.ndarray,
    masks: np.ndarray,
    g: int,
) -> tuple[int, int]:
    """Resolve one stream of `many` by a known element; return (its index or -1, number of known elements)."""
    for j in range(words.shape[0]):
        if many >> j & 1:
            for i in range(g):
                rest = _beside(_U(words[j]), _U(known[i]), params, inverses)
                if rest >= 0:
                    masks[i] |= 1 << j
                    return j, _join(rest, j, known, masks, g)
    return -1, g


@kernel("out")
def cell_patterns(
    words: np.ndarray,
    kinds: np.ndarray,
    fingerprints: np.ndarray,
    resolvable: int,
    params: np.ndarray,
    inverses: np.ndarray,
    out: np.ndarray,
) -> None:
    """Fill out (int64 (n,)) with the pattern of each cell.

    words, kinds, fingerprints: (n, streams), as cells are classified; resolvable: mask of the streams in
    which known elements are looked for beside another one.
    """
    n, streams = kinds.shape
    known, masks = np.empty(streams + 1, dtype=np.int64), np.empty(streams + 1, dtype=np.int64)
    for cell in range(n):
        many, g = 0, 0
        for j in range(streams):
            if kinds[cell, j] == MANY:
                many |= 1 << j
            elif kinds[cell, j] == PURE:
                g = _join(int(fingerprints[cell, j]), j, known, masks, g)
        while g and many & resolvable:
            j, g = _resolve(words[cell], many & resolvable, params, inverses, known, masks, g)
            if j < 0:
                break
            many ^= 1 << j
        code = many
        for i in range(g):
            place = 1  # in descending order: one further on for each mask before it
            for j in range(g):
                place += masks[j] > masks[i] or (masks[j] == masks[i] and j < i)
            code |= masks[i] << streams * place
        out[cell] = code
