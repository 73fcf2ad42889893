"""Join-distinct synopses: keys of tuples, and a counting filter of join values, two counters to a word."""

import numpy as np

from eddyline.kernels.hashing import mix_word
from eddyline.kernels.jit import inlined, kernel

FUNCTIONS = 3  # rows of hash parameters: fingerprint of x, fingerprint of b, slot of the filter

_U = np.uint64
_LOW32 = _U((1 << 32) - 1)


@kernel("out")
def tuple_keys(keys: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
    """Fill out (uint64) with the keys of tuples (x, b): 32 bits of a hash of each."""
    for i in range(keys.shape[1]):
        x, b = mix_word(keys[0, i], params[0]), mix_word(keys[1, i], params[1])
        out[i] = x >> _U(32) << _U(32) | b >> _U(32)


@inlined
def _slot(fingerprint: np.uint64, params: np.ndarray, slots: int) -> np.int64:
    return np.int64(mix_word(fingerprint, params[2]) & _U(slots - 1))


@inlined
def _add_halves(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the sum of two words of two counters modulo 2^32 each."""
    low = (a & _LOW32) + (b & _LOW32) & _LOW32
    return low | ((a >> _U(32)) + (b >> _U(32)) & _LOW32) << _U(32)


@kernel("words")
def filter_add(
    words: np.ndarray, tuples: np.ndarray, weights: np.ndarray, params: np.ndarray, slots: int
) -> None:
    """Add the weight of each tuple to the counter of its join value, in place."""
    for i in range(tuples.shape[0]):
        slot = _slot(tuples[i] & _LOW32, params, slots)
        v = (_U(weights[i]) & _LOW32) << _U(32 * (slot & 1))
        words[slot >> 1] = np.int64(_add_halves(_U(words[slot >> 1]), v))


@kernel("out")
def filter_combine(left: np.ndarray, right: np.ndarray, negative: bool, out: np.ndarray) -> None:
    """Fill out with left + right (or left - right), counter by counter."""
    for i in range(left.shape[0]):
        b = _U(right[i])
        if negative:
            low, high = _U(0) - (b & _LOW32), _U(0) - (b >> _U(32))
            b = (low & _LOW32) | (high & _LOW32) << _U(32)
        out[i] = np.int64(_add_halves(_U(left[i]), b))


@kernel("out")
def filter_test(
    words: np.ndarray, fingerprints: np.ndarray, params: np.ndarray, slots: int, out: np.ndarray
) -> None:
    """Fill out (bool) with whether the counter of each fingerprint of a join value is not zero."""
    for i in range(fingerprints.shape[0]):
        slot = _slot(fingerprints[i], params, slots)
        out[i] = (_U(words[slot >> 1]) >> _U(32 * (slot & 1)) & _LOW32) != 0


@kernel("out")
def filter_slots(fingerprints: np.ndarray, params: np.ndarray, slots: int, out: np.ndarray) -> None:
    """Fill out (int64) with the counter of the filter that each fingerprint of a join value adds to."""
    for i in range(fingerprints.shape[0]):
        out[i] = _slot(fingerprints[i], params, slots)


@kernel()
def filter_fill(words: np.ndarray) -> int:
    """Return how many counters are not zero."""
    number = 0
    for i in range(words.shape[0]):
        word = _U(words[i])
        number += (word & _LOW32 != 0) + (word >> _U(32) != 0)
    return number
