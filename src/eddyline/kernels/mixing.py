"""Hash functions of one 64-bit key: the fast mixer and the provable polynomial.

Both turn a key and a row of five parameters into one 64-bit word, of which a sketch takes its bucket
from the low bits and its sign from the top bit. `MIX` is a seeded two-multiply mixer: fast, and in
every experiment as good as full independence. `POLY4` is a polynomial of degree 3 over GF(2^61 - 1):
4-wise independent by proof, and a few times slower.
"""

import numpy as np

from eddyline.kernels.jit import inlined

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

    A 64-bit key enters the field as low + high * r with a random r: two keys meet there with a chance
    of 2^-61, and keys below 2^32 not at all.
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
