"""FLOAT and DOUBLE as whole numbers: digits of 30 bits in fixed places, so that sums of them lose nothing.

A number is cut into five digits, which count 2^-120, 2^-90, 2^-60, 2^-30 and 1, all of its own sign; the highest
holds all of the whole part. Its square has ten, from 2^-240 on. Digits add up as integers do, word by word, in any
order. What is smaller than the lowest digit is cut off, and the first word says so: it counts such rows.
"""

from collections.abc import Sequence

import numpy as np

BITS = 30
"""Of a digit: 2^33 rows of one value have room in a 64-bit word."""
LOWEST = -120
"""The lowest digit of a number counts 2^LOWEST; that of a square twice that exponent."""
DIGITS = 1 - LOWEST // BITS
SQUARE_DIGITS = 2 * DIGITS
LARGEST, LARGEST_SQUARED = 2.0**62, 2.0**31
"""Numbers have to be smaller, and those to be squared as well."""
_BASE = 2.0**BITS
_MASK = np.uint64((1 << BITS) - 1)


def split(values: np.ndarray) -> np.ndarray:
    """Return numbers (float64, each smaller than LARGEST) as words, int64 (1 + DIGITS, n): rounded or not, then digits.

    Every step is exact in floating point: a digit is cut off, and the rest goes up by a power of two.
    """
    words, rest = np.zeros((1 + DIGITS, len(values)), dtype=np.int64), values
    for place in range(DIGITS, 0, -1):
        digits = np.trunc(rest)
        words[place] = digits
        rest = (rest - digits) * _BASE
        if not rest.any():
            return words
    words[0] = rest != 0.0
    return words


def squared(words: np.ndarray) -> np.ndarray:
    """Return the squares of numbers as words, int64 (1 + SQUARE_DIGITS, n).

    words: as `split` makes them of numbers smaller than LARGEST_SQUARED. Sums of products fit 64 bits without a sign.
    """
    out = np.zeros((1 + SQUARE_DIGITS, words.shape[1]), dtype=np.int64)
    out[0] = words[0]
    digits = np.abs(words[1:]).view(np.uint64)
    used = [place for place in range(DIGITS) if digits[place].any()]
    carry = np.zeros(words.shape[1], dtype=np.uint64)
    for place in range(SQUARE_DIGITS):
        for low in used:
            if low <= place - low and place - low in used:
                product = digits[low] * digits[place - low]
                carry += product if low == place - low else product << np.uint64(1)
        out[1 + place] = carry & _MASK if place < SQUARE_DIGITS - 1 else carry
        carry >>= np.uint64(BITS)
    return out


def carried(words: np.ndarray) -> np.ndarray:
    """Return words of a sum with every digit below the highest within half a digit: one form for each sum."""
    out = words.copy()
    for place in range(1, len(out) - 1):
        over = (out[place] + (1 << (BITS - 1))) >> BITS
        out[place] -= over << BITS
        out[place + 1] += over
    return out


def whole(words: Sequence[int]) -> int:
    """Return the sum that words hold, in units of their lowest digit."""
    return sum(int(word) << BITS * place for place, word in enumerate(words[1:]))


def as_floats(digits: Sequence[np.ndarray] | np.ndarray, lowest: int) -> np.ndarray:
    """Return numbers from their digits alone, the first of which counts 2^lowest: as floats, nearly rounded."""
    total = np.zeros(len(digits[0]))
    for place, each in enumerate(digits):
        total += each * 2.0 ** (lowest + BITS * place)
    return total
