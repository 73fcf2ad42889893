"""FLOAT and DOUBLE as whole numbers: digits of 30 bits in fixed places, so that sums of them lose nothing.

A number is cut into five digits, in units of 2^-120, 2^-90, 2^-60, 2^-30 and 1, all with the sign of the number;
the highest holds the whole integer part. A product of two has ten, from 2^-240 on. Digits add up as integers do,
word by word, in any order. What is smaller than the lowest digit is cut off, and the first word counts the rows
where it was.
"""

from collections.abc import Sequence

import numpy as np

BITS = 30
"""Bits of a digit: the sum of 2^33 rows of one value fits a 64-bit word."""
LOWEST = -120
"""The lowest digit of a number has the unit 2^LOWEST; that of a product of two has twice that exponent."""
DIGITS = 1 - LOWEST // BITS
WHOLE_DIGITS = 3
"""Digits of a 64-bit integer that is multiplied with a FLOAT or DOUBLE, or with two integers."""
MOST_IN_A_WORD = 2
"""This many integers are multiplied within a word, if their product fits 64 bits; more take several words."""
LARGEST, LARGEST_SQUARED = 2.0**62, 2.0**31
"""Numbers have to be smaller than the first, and those to be multiplied smaller than the second."""
_BASE = 2.0**BITS
_MASK = np.uint64((1 << BITS) - 1)


def split(values: np.ndarray) -> np.ndarray:
    """Return numbers (float64, smaller than LARGEST) as words, int64 (1 + DIGITS, n): rounded or not, then digits.

    Every step is exact in floating point: a digit is cut off, and the rest is multiplied by a power of two.
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


def split_integers(values: np.ndarray) -> np.ndarray:
    """Return integers as words to multiply, int64 (1 + WHOLE_DIGITS, n), whose lowest digit has the unit 1."""
    words = np.zeros((1 + WHOLE_DIGITS, len(values)), dtype=np.int64)
    sizes, signs = np.abs(values).view(np.uint64), np.where(values < 0, -1, 1)
    for place in range(WHOLE_DIGITS):
        words[1 + place] = (sizes >> np.uint64(BITS * place) & _MASK).astype(np.int64) * signs
    return words


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the products of numbers as words: the digits of both, from the sum of their lowest exponents on.

    left, right: the result of `split` on numbers smaller than LARGEST_SQUARED, of `split_integers`, or products of
    such. All digits of a number have its sign. Sums of products of digits fit 64 bits without a sign: at most
    DIGITS of them meet in a place, and all except those of the highest digits are below 2^60.
    """
    digits = [np.abs(each[1:]).view(np.uint64) for each in (left, right)]
    negative = (left[1:].min(axis=0, initial=0) < 0) != (right[1:].min(axis=0, initial=0) < 0)
    places = len(digits[0]) + len(digits[1])
    out = np.zeros((1 + places, left.shape[1]), dtype=np.int64)
    out[0] = (left[0] != 0) | (right[0] != 0)
    used = [[place for place in range(len(each)) if each[place].any()] for each in digits]
    carry = np.zeros(left.shape[1], dtype=np.uint64)
    for place in range(places):
        for low in used[0]:
            if place - low in used[1]:
                carry += digits[0][low] * digits[1][place - low]
        out[1 + place] = carry & _MASK if place < places - 1 else carry
        carry >>= np.uint64(BITS)
    np.negative(out[1:], out=out[1:], where=negative)
    return out


def carried(words: np.ndarray) -> np.ndarray:
    """Return words of a sum with every digit below the highest within half a digit: a canonical form."""
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
    """Return numbers from their digits alone, the first in units of 2^lowest: as floats, nearly rounded."""
    total = np.zeros(len(digits[0]))
    for place, each in enumerate(digits):
        total += each * 2.0 ** (lowest + BITS * place)
    return total
