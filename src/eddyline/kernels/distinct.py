"""The distinct sketch: where an element goes, how its words add up, what a cell shows, how a table peels.

Paper symbols: e an element, v its weight, h its hash, l its level. Two kinds of words:

    level cell   three lanes of 21 bits, each modulo P = 2^21 - 9: sum of v, of v*f and of v*g(f),
                 f the element's fingerprint and g a hash of it: the check.
    table cell   a sum of v*x modulo 2^61 - 1 (one word) and a count of v modulo 2^32 (half a word),
                 x = 46 bits of hash and 15 bits of check.

Nothing overflows: lanes are residues, and residues add, subtract and cancel exactly.
"""

import numpy as np

from eddyline.kernels.hashing import PRIME61, addmod61, mix_word, mulmod61
from eddyline.kernels.jit import inlined, kernel

FUNCTIONS = 4  # rows of hash parameters: identity, cell, level and fingerprint, table and check
EMPTY, PURE, MANY = 0, 1, 2
LANE_PRIME = (1 << 21) - 9

_U = np.uint64
_P = _U(LANE_PRIME)
_P_SIGNED = np.int64(LANE_PRIME)
_LANE = _U((1 << 21) - 1)
_LOW32 = _U((1 << 32) - 1)
_LOW43 = _U((1 << 43) - 1)
_IDENTITY_SHIFT = _U(18)
_CHECK = _U((1 << 15) - 1)


@inlined
def _lane(value: np.uint64) -> np.uint64:
    """Return a 21-bit value as a residue."""
    return value - _P if value >= _P else value


@inlined
def check_lane(f: np.uint64, params: np.ndarray) -> np.uint64:
    """Return g(f), the check of a fingerprint."""
    return _lane(mix_word(f, params[3]) >> _U(43))


@inlined
def _trailing_zeros(word: np.uint64, most: int) -> int:
    level = 0
    while level < most and not word & _U(1):
        word >>= _U(1)
        level += 1
    return level


@inlined
def _lanes(v: np.int64, f: np.uint64, g: np.uint64) -> np.uint64:
    """Return the word of a cell that holds weight v of the element with fingerprint f and check g."""
    if v == 1:
        return _U(1) | f << _U(21) | g << _U(42)
    c = _U(v % _P_SIGNED)
    return c | (c * f % _P) << _U(21) | (c * g % _P) << _U(42)


@inlined
def _add_lanes(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the sum of two level words, lane by lane."""
    c0 = (a & _LANE) + (b & _LANE)
    c1 = (a >> _U(21) & _LANE) + (b >> _U(21) & _LANE)
    c2 = (a >> _U(42)) + (b >> _U(42))
    return _lane(c0) | _lane(c1) << _U(21) | _lane(c2) << _U(42)


@inlined
def _negate_lanes(a: np.uint64) -> np.uint64:
    c0, c1, c2 = a & _LANE, a >> _U(21) & _LANE, a >> _U(42)
    return _lane(_P - c0) | _lane(_P - c1) << _U(21) | _lane(_P - c2) << _U(42)


@inlined
def _add_halves(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the sum of two words of two 32-bit counts each, every count wrapping on its own."""
    return ((a & _LOW32) + (b & _LOW32) & _LOW32) | ((a >> _U(32)) + (b >> _U(32)) << _U(32))


@inlined
def _residue61(v: np.int64) -> np.uint64:
    """Return a weight modulo 2^61 - 1."""
    return _U(v % np.int64(PRIME61))


@inlined
def _add_identity(
    words: np.ndarray, h: np.uint64, v: np.int64, params: np.ndarray, levels: int, cells: int, third: int
) -> None:
    """Add weight v of the element with identity h to its level cell and to its slots in the table.

    There is one slot in each third of the table; third = 0 leaves the table unchanged.
    """
    place = mix_word(h, params[1])
    word = mix_word(place, params[2])
    f = _lane(word >> _U(43))
    level = _trailing_zeros(word & _LOW43, levels - 1)
    at = level * cells + np.int64(place & _U(cells - 1))
    words[at] = np.int64(_add_lanes(_U(words[at]), _lanes(v, f, check_lane(f, params))))
    if third == 0:
        return
    slots = mix_word(word, params[3])
    x = h << _U(15) | place >> _U(49)
    vx = x if v == 1 else mulmod61(_residue61(v), x)
    for j in range(3):
        slot = j * third + np.int64(slots >> _U(21 * j) & _U(third - 1))
        at = levels * cells + slot
        words[at] = np.int64(addmod61(_U(words[at]), vx))
        at = levels * cells + 3 * third + (slot >> 1)
        count = (_U(v) & _LOW32) << _U((slot & 1) << 5)
        words[at] = np.int64(_add_halves(_U(words[at]), count))


@kernel("words")
def distinct_add(
    words: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
    params: np.ndarray,
    levels: int,
    cells: int,
    third: int,
) -> None:
    """Add weighted keys (uint64 (n,), int64 (n,)) to the words of a distinct sketch in place."""
    for i in range(keys.shape[0]):
        if weights[i] != 0:
            h = mix_word(keys[i], params[0]) >> _IDENTITY_SHIFT
            _add_identity(words, h, weights[i], params, levels, cells, third)


@kernel("words")
def distinct_remove(
    words: np.ndarray, identities: np.ndarray, counts: np.ndarray, params: np.ndarray, levels: int, cells: int
) -> None:
    """Remove decoded elements from the level cells in place."""
    for i in range(identities.shape[0]):
        _add_identity(words, identities[i], -counts[i], params, levels, cells, 0)


@kernel("out")
def distinct_codes(
    identities: np.ndarray, params: np.ndarray, levels: int, cells: int, out: np.ndarray
) -> None:
    """Fill out (int64) with (cell position << 21 | fingerprint) of each identity: what a pure cell shows."""
    for i in range(identities.shape[0]):
        place = mix_word(identities[i], params[1])
        word = mix_word(place, params[2])
        level = _trailing_zeros(word & _LOW43, levels - 1)
        at = level * cells + np.int64(place & _U(cells - 1))
        out[i] = at << 21 | np.int64(_lane(word >> _U(43)))


@kernel("out")
def distinct_combine(
    left: np.ndarray,
    right: np.ndarray,
    start: int,
    sums_at: int,
    counts_at: int,
    negative: bool,
    out: np.ndarray,
) -> None:
    """Fill out with left + right (or left - right) for the words from `start` on."""
    for i in range(left.shape[0]):
        a, b = _U(left[i]), _U(right[i])
        at = start + i
        if at < sums_at:
            out[i] = np.int64(_add_lanes(a, _negate_lanes(b) if negative else b))
        elif at < counts_at:
            if negative and b != 0:
                b = PRIME61 - b
            out[i] = np.int64(addmod61(a, b))
        else:
            if negative:
                b = (_LOW32 + _U(1) - (b & _LOW32) & _LOW32) | (_U(0) - (b >> _U(32))) << _U(32)
            out[i] = np.int64(_add_halves(a, b))


@inlined
def _lane_inverse(c: np.uint64) -> np.uint64:
    """Return 1/c modulo P, as c^(P - 2)."""
    result, base, power = _U(1), c, LANE_PRIME - 2
    while power:
        if power & 1:
            result = result * base % _P
        base = base * base % _P
        power >>= 1
    return result


@kernel("kinds", "fingerprints", "counts")
def distinct_classify(
    words: np.ndarray, params: np.ndarray, kinds: np.ndarray, fingerprints: np.ndarray, counts: np.ndarray
) -> None:
    """Fill kinds (int8), fingerprints and signed counts (int32) of level cells: EMPTY, PURE or MANY.

    A cell is pure if the mean fingerprint satisfies its check; a cell of two or more elements does so
    with a probability of about 2^-20.
    """
    half = _P >> _U(1)
    for i in range(words.shape[0]):
        word = _U(words[i])
        kinds[i] = EMPTY if word == 0 else MANY
        fingerprints[i] = -1
        counts[i] = 0
        c, s, t = word & _LANE, word >> _U(21) & _LANE, word >> _U(42)
        if c == 0:
            continue
        f = s if c == 1 else s * _lane_inverse(c) % _P
        if c * check_lane(f, params) % _P == t:
            kinds[i] = PURE
            fingerprints[i] = np.int32(f)
            counts[i] = np.int32(c) if c <= half else np.int32(c) - np.int32(_P_SIGNED)


@inlined
def _inverse61(c: np.uint64) -> np.uint64:
    """Return 1/c modulo 2^61 - 1, as c^(2^61 - 3)."""
    result, base, power = _U(1), c, (1 << 61) - 3
    while power:
        if power & 1:
            result = mulmod61(result, base)
        base = mulmod61(base, base)
        power >>= 1
    return result


@kernel("sums", "counts", "identities", "found")
def distinct_peel(
    sums: np.ndarray, counts: np.ndarray, params: np.ndarray, identities: np.ndarray, found: np.ndarray
) -> int:
    """Peel a table in place: fill identities (uint64) and found (int64 counts), return the number of steps.

    sums: uint64 (3 * third,), modulo 2^61 - 1; counts: int64 (3 * third,), signed. The table is decoded
    if both end as zeros. One identity may be found more than once; its counts then add up.
    """
    third = sums.shape[0] // 3
    stack = np.empty(4 * sums.shape[0] + 3 * identities.shape[0], dtype=np.int64)
    top = sums.shape[0]
    for i in range(top):
        stack[i] = i
    steps = 0
    while top > 0 and steps < identities.shape[0]:
        top -= 1
        at = np.int64(stack[top])
        c = np.int64(counts[at])
        if c == 0:
            continue
        s = _U(sums[at])
        x = s if c == 1 else mulmod61(s, _inverse61(_residue61(c)))
        h = x >> _U(15)
        place = mix_word(h, params[1])
        if place >> _U(49) != x & _CHECK:
            continue
        slots = mix_word(mix_word(place, params[2]), params[3])
        j = at // third
        if np.int64(slots >> _U(21 * j) & _U(third - 1)) != at - j * third:
            continue
        identities[steps], found[steps] = h, c
        steps += 1
        taken = PRIME61 - s if s != 0 else s
        for i in range(3):
            slot = i * third + np.int64(slots >> _U(21 * i) & _U(third - 1))
            sums[slot] = addmod61(_U(sums[slot]), taken)
            counts[slot] = np.int64(np.int32(counts[slot] - c))  # wrap as the state does
            stack[top] = slot
            top += 1
    return steps
