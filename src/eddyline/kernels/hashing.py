"""Hash functions of 64-bit keys, Spark's XXH64, and keys of 128-bit decimals."""

import numpy as np

from eddyline.kernels.jit import helper, inlined, kernel

# Hash functions of one 64-bit key: the fast mixer and the provable polynomial.
#
# Both map a key and a row of five parameters to one 64-bit word, from which a sketch takes its bucket (the
# low bits) and its sign (the top bit). `MIX` is a seeded two-multiply mixer: fast, and in every experiment
# as good as full independence. `POLY4` is a polynomial of degree 3 over GF(2^61 - 1): 4-wise independent by
# proof, and a few times slower.


MIX = 0
POLY4 = 1
PARAMETERS = 5

_U = np.uint64
PRIME61 = _U((1 << 61) - 1)
_MASK29 = _U((1 << 29) - 1)
_MASK32 = _U((1 << 32) - 1)


@inlined
def mulmod61(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return a * b modulo 2^61 - 1, for a and b below it, from 32-bit halves."""
    a_lo, a_hi = a & _MASK32, a >> _U(32)
    b_lo, b_hi = b & _MASK32, b >> _U(32)
    cross = a_lo * b_hi + a_hi * b_lo  # below 2^62
    # a * b = hi_hi * 2^64 + cross * 2^32 + lo_lo, and 2^61 = 1: 2^64 = 8, 2^32 * 2^29 = 1
    total = (
        (a_hi * b_hi << _U(3))
        + (cross >> _U(29))
        + ((cross & _MASK29) << _U(32))
        + (a_lo * b_lo >> _U(61))
        + (a_lo * b_lo & PRIME61)
    )
    total = (total >> _U(61)) + (total & PRIME61)
    return total - PRIME61 if total >= PRIME61 else total


@inlined
def addmod61(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return a + b modulo 2^61 - 1, for a and b below it."""
    total = a + b
    return total - PRIME61 if total >= PRIME61 else total


@inlined
def poly4_word(key: np.uint64, params: np.ndarray) -> np.uint64:
    """Return the 4-wise independent word of a key: 61 random bits, the highest one repeated on top.

    A 64-bit key enters the field as low + high * r with a random r: two keys collide there with a probability
    of 2^-61, and keys below 2^32 never.
    """
    x = addmod61(key & _MASK32, mulmod61(key >> _U(32), params[4]))
    value = addmod61(mulmod61(params[3], x), params[2])
    value = addmod61(mulmod61(value, x), params[1])
    value = addmod61(mulmod61(value, x), params[0])
    return value | (value >> _U(60)) << _U(63)


@inlined
def mix_word(key: np.uint64, params: np.ndarray) -> np.uint64:
    """Return the mixed word of a key: two seeded multiply and xor-shift rounds."""
    word = key ^ params[0]
    word ^= word >> _U(32)
    word *= params[1]
    word ^= word >> _U(29)
    word *= params[2]
    word ^= word >> _U(32)
    return word


@inlined
def hash_word(key: np.uint64, params: np.ndarray, family: int) -> np.uint64:
    """Return the hash word of a key under family `MIX` or `POLY4`."""
    if family == MIX:
        return mix_word(key, params)
    return poly4_word(key, params)


# XXH64 as Spark's `xxhash64` computes it, so that the JVM and the Arrow path give equal keys.


_P1 = _U(0x9E3779B185EBCA87)
_P2 = _U(0xC2B2AE3D27D4EB4F)
_P3 = _U(0x165667B19E3779F9)
_P4 = _U(0x85EBCA77C2B2AE63)
_P5 = _U(0x27D4EB2F165667C5)
SPARK_SEED = _U(42)


@inlined
def _rotl(x: np.uint64, r: np.uint64) -> np.uint64:
    return (x << r) | (x >> (_U(64) - r))


@inlined
def _final(h: np.uint64) -> np.uint64:
    h ^= h >> _U(33)
    h *= _P2
    h ^= h >> _U(29)
    h *= _P3
    return h ^ (h >> _U(32))


@inlined
def _read(data: np.ndarray, at: int, size: int) -> np.uint64:
    word = _U(0)
    for i in range(size):
        word |= _U(data[at + i]) << _U(8 * i)
    return word


@inlined
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotl(lane + word * _P2, _U(31)) * _P1


@helper
def hash_long(value: np.uint64, seed: np.uint64) -> np.uint64:
    """Return XXH64 of one 8-byte integer."""
    h = seed + _P5 + _U(8)
    h ^= _round(_U(0), value)
    h = _rotl(h, _U(27)) * _P1 + _P4
    return _final(h)


@helper
def hash_bytes(data: np.ndarray, start: int, stop: int, seed: np.uint64) -> np.uint64:
    """Return XXH64 of data[start:stop] (uint8)."""
    length = stop - start
    at = start
    if length >= 32:
        v1, v2, v3, v4 = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at <= stop - 32:
            v1 = _round(v1, _read(data, at, 8))
            v2 = _round(v2, _read(data, at + 8, 8))
            v3 = _round(v3, _read(data, at + 16, 8))
            v4 = _round(v4, _read(data, at + 24, 8))
            at += 32
        h = _rotl(v1, _U(1)) + _rotl(v2, _U(7)) + _rotl(v3, _U(12)) + _rotl(v4, _U(18))
        for lane in (v1, v2, v3, v4):
            h = (h ^ _round(_U(0), lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += _U(length)
    while at <= stop - 8:
        h = _rotl(h ^ _round(_U(0), _read(data, at, 8)), _U(27)) * _P1 + _P4
        at += 8
    if at <= stop - 4:
        h = _rotl(h ^ (_read(data, at, 4) * _P1), _U(23)) * _P2 + _P3
        at += 4
    while at < stop:
        h = _rotl(h ^ (_U(data[at]) * _P5), _U(11)) * _P1
        at += 1
    return _final(h)


@kernel("out")
def hash_strings(data: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Fill out (uint64) with Spark's xxhash64 of each byte string data[offsets[i]:offsets[i + 1]]."""
    for i in range(out.shape[0]):
        out[i] = hash_bytes(data, offsets[i], offsets[i + 1], SPARK_SEED)


@kernel("out")
def chain_longs(keys: np.ndarray, out: np.ndarray) -> None:
    """Fill out with Spark's xxhash64(k1, k2, ...) of the columns keys (uint64, (columns, n))."""
    for i in range(out.shape[0]):
        h = SPARK_SEED
        for c in range(keys.shape[0]):
            h = hash_long(keys[c, i], h)
        out[i] = h


# Keys of 128-bit decimals: equal values of different scale get equal keys.


_LOW_HALF = _U(0xFFFFFFFF)
_TOP = _U(63)


@helper
def _divide_by_ten(high: np.uint64, low: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return (quotient high, quotient low, remainder) of an unsigned 128-bit number and ten."""
    ten = _U(10)
    rest = high % ten
    upper = rest << _U(32) | low >> _U(32)
    lower = (upper % ten) << _U(32) | low & _LOW_HALF
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
