"""Levelled peeling tables: cells of two words from which 64-bit keys with their net counts are decoded.

    first word    low 32 bits: sum of v modulo 2^32; high 32 bits: sum of v*y modulo 2^31 - 1
    second word   sum of v*x modulo 2^61 - 1
    x = the low 61 bits of the key, y = its high 3 bits and a 28-bit hash of the key: the check.

A key goes to three cells of one level, one in each third of it.
"""

import numpy as np

from eddyline.kernels.hashing import PRIME61, addmod61, mix_word, mulmod61
from eddyline.kernels.jit import helper, inlined, kernel

FUNCTIONS = 3  # rows of hash parameters: level, cells, check
PRIME31 = (1 << 31) - 1

_U = np.uint64
_P31 = _U(PRIME31)
_P31_SIGNED = np.int64(PRIME31)
_LOW32 = _U((1 << 32) - 1)
_ONE = _U(1)


@inlined
def _check(key: np.uint64, params: np.ndarray) -> np.uint64:
    """Return y of a key, below 2^31 - 1 because the hash leaves out its largest value."""
    h = mix_word(key, params[2]) % _U((1 << 28) - 1)
    return (key >> _U(61)) << _U(28) | h


@inlined
def add31(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return a + b modulo 2^31 - 1, for a and b below it."""
    total = a + b
    return total - _P31 if total >= _P31 else total


@inlined
def _cell(slots: np.uint64, j: int, third: int) -> np.int64:
    return np.int64(j) * third + np.int64(slots >> _U(21 * j) & _U(third - 1))


@inlined
def _add_words(words: np.ndarray, at: np.int64, first: np.uint64, second: np.uint64) -> None:
    """Add the two words of a cell to those at word `at`."""
    old = _U(words[at])
    low = (old & _LOW32) + (first & _LOW32) & _LOW32
    words[at] = np.int64(low | add31(old >> _U(32), first >> _U(32)) << _U(32))
    words[at + 1] = np.int64(addmod61(_U(words[at + 1]), second))


@inlined
def _add_key(
    words: np.ndarray, base: int, key: np.uint64, v: np.int64, params: np.ndarray, third: int
) -> None:
    """Add weight v of a key to its three cells of the level that begins at word `base`."""
    slots = mix_word(key, params[1])
    y = _check(key, params)
    vy = _U(v % _P31_SIGNED) * y % _P31
    x = key & PRIME61
    x = _U(0) if x == PRIME61 else x
    vx = x if v == 1 else mulmod61(_U(v % np.int64(PRIME61)), x)
    first = (_U(v) & _LOW32) | vy << _U(32)
    for j in range(3):
        _add_words(words, base + 2 * _cell(slots, j, third), first, vx)


@inlined
def _level(sampled: np.uint64, params: np.ndarray, levels: int) -> int:
    word = mix_word(sampled, params[0])
    level = 0
    while level < levels - 1 and not word & _ONE:
        word >>= _ONE
        level += 1
    return level


@kernel("words")
def peeling_add(
    words: np.ndarray, keys: np.ndarray, weights: np.ndarray, params: np.ndarray, levels: int, third: int
) -> None:
    """Add weighted keys in place: keys uint64 (1 or 2, n), the level drawn by the last row."""
    edges, n = keys.shape
    for i in range(n):
        if weights[i] != 0:
            base = 6 * third * _level(keys[edges - 1, i], params, levels)
            _add_key(words, base, keys[0, i], weights[i], params, third)


@kernel("out")
def peeling_levels(sampled: np.ndarray, params: np.ndarray, levels: int, out: np.ndarray) -> None:
    """Fill out (int64) with the level that each sampled value draws."""
    for i in range(sampled.shape[0]):
        out[i] = _level(sampled[i], params, levels)


@kernel("out")
def peeling_combine(left: np.ndarray, right: np.ndarray, start: int, negative: bool, out: np.ndarray) -> None:
    """Fill out with left + right (or left - right) for the words from `start` on."""
    for i in range(left.shape[0]):
        a, b = _U(left[i]), _U(right[i])
        if start + i & 1:
            if negative and b != 0:
                b = PRIME61 - b
            out[i] = np.int64(addmod61(a, b))
            continue
        low, high = b & _LOW32, b >> _U(32)
        if negative:
            low = _U(0) - low
            high = _P31 - high if high != 0 else high
        total = (a & _LOW32) + low & _LOW32
        out[i] = np.int64(total | add31(a >> _U(32), high) << _U(32))


@helper
def power31(base: np.uint64, power: int) -> np.uint64:
    """Return base to a power modulo 2^31 - 1."""
    result = _ONE
    while power:
        if power & 1:
            result = result * base % _P31
        base = base * base % _P31
        power >>= 1
    return result


@helper
def power61(base: np.uint64, power: int) -> np.uint64:
    """Return base to a power modulo 2^61 - 1."""
    result = _ONE
    while power:
        if power & 1:
            result = mulmod61(result, base)
        base = mulmod61(base, base)
        power >>= 1
    return result


@helper
def _lone_key(
    first: np.uint64, second: np.uint64, at: np.int64, params: np.ndarray, third: int
) -> tuple[bool, np.uint64]:
    """Return whether cell `at` of a level holds a single key, and that key."""
    c = np.int64(np.int32(first & _LOW32))
    if c == 0 or c % _P31_SIGNED == 0:
        return False, _U(0)
    y, x = first >> _U(32), second
    if c != 1:
        y = y * power31(_U(c % _P31_SIGNED), PRIME31 - 2) % _P31
        x = mulmod61(x, power61(_U(c % np.int64(PRIME61)), (1 << 61) - 3))
    top = y >> _U(28) << _U(61)
    for attempt in range(2):  # residue 0 represents both all zeros and all ones
        key = top | (x if attempt == 0 else PRIME61)
        if _check(key, params) == y and _cell(mix_word(key, params[1]), int(at // third), third) == at:
            return True, key
        if x != 0:
            break
    return False, _U(0)


@kernel("words", "keys", "counts")
def peeling_decode(
    words: np.ndarray, params: np.ndarray, third: int, keys: np.ndarray, counts: np.ndarray
) -> int:
    """Peel one level in place: fill keys (uint64) and counts (int64), and return the number of steps.

    The level is complete if its words end as zeros. One key may be found more than once; its counts then
    add up.
    """
    stack = np.empty(3 * third + 3 * keys.shape[0], dtype=np.int64)
    top = 3 * third
    for i in range(top):
        stack[i] = i
    steps = 0
    while top > 0 and steps < keys.shape[0]:
        top -= 1
        at = np.int64(stack[top])
        first = _U(words[2 * at])
        lone, key = _lone_key(first, _U(words[2 * at + 1]), at, params, third)
        if not lone:
            continue
        c = np.int64(np.int32(first & _LOW32))
        keys[steps], counts[steps] = key, c
        steps += 1
        _add_key(words, 0, key, -c, params, third)
        slots = mix_word(key, params[1])
        for j in range(3):
            stack[top] = _cell(slots, j, third)
            top += 1
    return steps
