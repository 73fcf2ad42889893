"""Which values of a link are followed: a hash in [0, 1) against the value's inclusion probability."""

import numpy as np

from eddyline.kernels.elements import splitmix
from eddyline.kernels.jit import inlined, kernel

_U = np.uint64


@inlined
def _unit(key: np.int64, seed: np.uint64) -> float:
    word = splitmix(splitmix(_U(key) ^ seed) + seed)
    return np.float64(word >> _U(11)) * 2.0**-53


@kernel("out")
def unit_hashes(keys: np.ndarray, seed: np.uint64, out: np.ndarray) -> None:
    """Write the hash of each key, uniform in [0, 1)."""
    for i in range(len(keys)):
        out[i] = _unit(keys[i], seed)


@kernel("slots")
def lookup_table(values: np.ndarray, slots: np.ndarray) -> None:
    """Fill the slots (a power of two, -1 where empty) of a hash table with the places of distinct values."""
    mask = _U(len(slots) - 1)
    for place in range(len(values)):
        at = splitmix(_U(values[place])) & mask
        while slots[at] >= 0:
            at = (at + _U(1)) & mask
        slots[at] = place


@kernel("kept")
def drop_unfollowed(
    keys: np.ndarray,
    seed: np.uint64,
    base: float,
    values: np.ndarray,
    probabilities: np.ndarray,
    slots: np.ndarray,
    highest: float,
    kept: np.ndarray,
) -> None:
    """Clear `kept` where a key is not followed: its hash is not below its entry's probability, else the base.

    No entry lies below the base, so that a key below the base needs no look-up.
    """
    mask = _U(len(slots) - 1)
    for i in range(len(keys)):
        if not kept[i]:
            continue
        hashed = _unit(keys[i], seed)
        if hashed < base:
            continue
        if hashed >= highest:
            kept[i] = False
            continue
        at = splitmix(_U(keys[i])) & mask
        followed = False
        while slots[at] >= 0:
            place = slots[at]
            if values[place] == keys[i]:
                followed = hashed < probabilities[place]
                break
            at = (at + _U(1)) & mask
        kept[i] = followed
