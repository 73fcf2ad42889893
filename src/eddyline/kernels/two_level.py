"""Updates of 2-level hash sketches."""

import numpy as np

from eddyline.kernels.hashing import mix_word
from eddyline.kernels.jit import inlined, kernel

_U = np.uint64


@inlined
def _lsb(word: np.uint64, most: int) -> int:
    """Return the index of the least significant 1 of a word, at most `most`."""
    index = 0
    while index < most and not word & _U(1):
        word >>= _U(1)
        index += 1
    return index


@inlined
def _add_element(bucket: np.ndarray, key: np.uint64, v: np.int64) -> None:
    bucket[0] += v
    for j in range(1, bucket.shape[0]):  # without branches, so that several counters are added at once
        bucket[j] += v & -np.int64((key >> _U(j - 1)) & _U(1))


@kernel("counters")
def two_level_add(
    counters: np.ndarray, keys: np.ndarray, weights: np.ndarray, params: np.ndarray, spread: bool
) -> None:
    """Add weighted keys to chi[copy, lsb(h(e))]: a total and one counter for each bit of the key.

    counters: int64 (copies, levels, 1 + key bits). Without `spread`, params is (copies, PARAMETERS) and every
    copy is updated with its own h; with it, params is (2, PARAMETERS): g picks one copy, h the bucket.
    """
    copies, levels, _ = counters.shape
    for i in range(keys.shape[0]):
        if spread:
            copy = (mix_word(keys[i], params[0]) >> _U(32)) * _U(copies) >> _U(32)
            _add_element(counters[copy, _lsb(mix_word(keys[i], params[1]), levels - 1)], keys[i], weights[i])
            continue
        for r in range(copies):
            _add_element(counters[r, _lsb(mix_word(keys[i], params[r]), levels - 1)], keys[i], weights[i])
