"""Keys of 128-bit decimals: equal values of different scale get equal keys."""

import numpy as np

from eddyline.kernels.jit import helper, kernel
from eddyline.kernels.xxhash import SPARK_SEED, hash_long

_U = np.uint64
_MASK32 = _U(0xFFFFFFFF)
_TOP = _U(63)


@helper
def _divide_by_ten(high: np.uint64, low: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return (quotient high, quotient low, remainder) of an unsigned 128-bit number and ten."""
    ten = _U(10)
    rest = high % ten
    upper = rest << _U(32) | low >> _U(32)
    lower = (upper % ten) << _U(32) | low & _MASK32
    return high // ten, (upper // ten) << _U(32) | lower // ten, lower % ten


@kernel("out")
def decimal_keys(words: np.ndarray, scale: int, out: np.ndarray) -> None:
    """Fill out (uint64) with the keys of decimals given as uint64 pairs (low, high), two's complement.

    A whole number that fits in 64 bits is its own key, as if it were a BIGINT; any other value is hashed
    from its digits without trailing zeros, and its remaining scale.
    """
    for i in range(out.shape[0]):
        low, high = words[i, 0], words[i, 1]
        negative = high >> _TOP
        if negative:
            low, high = ~low + _U(1), ~high + (_U(1) if low == _U(0) else _U(0))
        left = scale
        while left > 0:
            next_high, next_low, rest = _divide_by_ten(high, low)
            if rest != _U(0):
                break
            high, low = next_high, next_low
            left -= 1
        fits = high == _U(0) and (low >> _TOP == _U(0) or (negative and low == _U(1) << _TOP))
        if left == 0 and fits:
            out[i] = ~low + _U(1) if negative else low
        else:
            tail = hash_long(_U(left) << _U(1) | negative, SPARK_SEED)
            out[i] = hash_long(low, hash_long(high, tail))


@kernel("out")
def narrow_decimals(words: np.ndarray, out: np.ndarray) -> bool:
    """Fill out (int64) with the unscaled values and return False if one does not fit in 64 bits."""
    for i in range(out.shape[0]):
        low, high = words[i, 0], words[i, 1]
        expected = ~_U(0) if low >> _TOP else _U(0)
        if high != expected:
            return False
        out[i] = np.int64(low)
    return True
