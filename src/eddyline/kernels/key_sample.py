"""Coordinated key samples: peeling cells that give back tuples of hashed join keys with net multiplicities.

    narrow   word 0: low 32 bits: sum of v modulo 2^32; high 32 bits: sum of v*y modulo 2^31 - 1
    wide     word 0: sum of v modulo 2^64
    others   sum of v*x modulo 2^61 - 1; x = two slots of 30 bits, or one of 60

The slots are the fingerprints, one per edge, and in wide cells a check of as many bits. A slot that is left over
is zero, which checks too. y is a check of 31 bits.

A value u of an edge is kept if its hash H (62 bits) is below the limit T of the edge. A row is stored in the
highest level s such that H < T / 2^s on each of its edges, with the fingerprints H >> shift: the bits that are
known to be zero there are left out, so that its bits tell apart what is sampled and not all there is.

An element goes to one cell in each third of a large level, in each quarter of a small one. Thirds peel at a higher
load (0.82 against 0.77). But two elements that share all their cells never peel, and in small levels three cells
are shared too often.
"""

import numpy as np
from numba import njit

from eddyline.kernels.mixing import PRIME61, addmod61, mix_word, mulmod61
from eddyline.kernels.peeling import PRIME31, add31, power31, power61

Layout = tuple[int, int, bool]  # words of a cell, bits of a slot, whether wide

FUNCTIONS = 3  # rows of hash parameters: tuple, cells, check
LARGE = 3000  # cells from which on thirds serve better than quarters
FIELD_BITS = 60  # the slots of a word
SPARE_BITS = 2  # of a hash word: limits up to 2^62 then fit a signed word

_U = np.uint64
_P31 = _U(PRIME31)
_P31_SIGNED = np.int64(PRIME31)
_P61_SIGNED = np.int64(PRIME61)
_LOW32 = _U((1 << 32) - 1)


@njit(cache=True, inline="always")
def _tuple_word(prints: np.ndarray, params: np.ndarray) -> np.uint64:
    """Return one hash word of a tuple of fingerprints."""
    word = _U(0)
    for e in range(prints.shape[0]):
        word = mix_word(word + prints[e], params[0])
    return word


@njit(cache=True, inline="always")
def _ways(cells: int) -> int:
    """Return the number of cells that an element of a level goes to."""
    return 3 if cells >= LARGE else 4


@njit(cache=True, inline="always")
def _cell(draws: np.uint64, j: int, ways: int, part: int) -> np.int64:
    """Return the cell of a tuple in part j of a level: 21 or 16 bits of a hash, scaled to the cells of a part."""
    bits = 21 if ways == 3 else 16
    draw = draws >> _U(bits * j) & _U((1 << bits) - 1)
    return np.int64(j * part) + np.int64(draw * _U(part) >> _U(bits))


@njit(cache=True, inline="always")
def _field(prints: np.ndarray, check: np.uint64, f: int, bits: int) -> np.uint64:
    """Return x of word 1 + f of a cell; the check (0 for none) follows the last fingerprint."""
    x, edges, slots = _U(0), prints.shape[0], FIELD_BITS // bits
    for i in range(slots):
        slot = f * slots + i
        if slot <= edges:
            x |= (prints[slot] if slot < edges else check) << _U(bits * i)
    return x


@njit(cache=True, inline="always")
def _add_narrow(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the sum of two first words: counts modulo 2^32, checks modulo 2^31 - 1."""
    low = (a & _LOW32) + (b & _LOW32) & _LOW32
    return low | add31(a >> _U(32), b >> _U(32)) << _U(32)


@njit(cache=True, inline="always")
def _add_element(
    words: np.ndarray,
    base: int,
    cells: int,
    prints: np.ndarray,
    v: np.int64,
    params: np.ndarray,
    layout: Layout,
) -> None:
    """Add weight v of a tuple of fingerprints to its cells of the level that begins at word `base`."""
    size, bits, wide = layout
    word = _tuple_word(prints, params)
    check = mix_word(word, params[2])
    y = check % _P31
    first = _U(v) if wide else (_U(v) & _LOW32) | (_U(v % _P31_SIGNED) * y % _P31) << _U(32)
    slot = check & _U((1 << bits) - 1) if wide else _U(0)
    ways = _ways(cells)
    draws, part = mix_word(word, params[1]), cells // ways
    for j in range(ways):
        at = base + size * _cell(draws, j, ways, part)
        old = _U(words[at])
        words[at] = np.int64(old + first if wide else _add_narrow(old, first))
    residue = _U(1) if v == 1 else _U(v % _P61_SIGNED)
    for f in range(1, size):
        vx = mulmod61(residue, _field(prints, slot, f - 1, bits))
        for j in range(ways):
            at = base + size * _cell(draws, j, ways, part) + f
            words[at] = np.int64(addmod61(_U(words[at]), vx))


@njit(cache=True, nogil=True)
def key_sample_add(
    words: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
    link_params: np.ndarray,
    limits: np.ndarray,
    shifts: np.ndarray,
    cells: np.ndarray,
    params: np.ndarray,
    layout: Layout,
) -> None:
    """Add weighted rows in place: keys uint64 (edges, n); limits (edges), shifts (levels, edges), cells (levels)."""
    edges, n = keys.shape
    hashes, prints = np.empty(edges, dtype=np.uint64), np.empty(edges, dtype=np.uint64)
    bases = np.zeros(cells.shape[0], dtype=np.int64)
    for s in range(1, cells.shape[0]):
        bases[s] = bases[s - 1] + cells[s - 1] * layout[0]
    for i in range(n):
        kept = weights[i] != 0
        level = cells.shape[0] - 1
        for e in range(edges):
            if not kept:
                break
            h = mix_word(keys[e, i], link_params[e]) >> _U(SPARE_BITS)
            hashes[e] = h
            kept = h < limits[e]
            own = 0
            while kept and own < level and h < limits[e] >> _U(own + 1):
                own += 1
            level = own
        if not kept:
            continue
        for e in range(edges):
            prints[e] = hashes[e] >> shifts[level, e]
        _add_element(words, bases[level], cells[level], prints, weights[i], params, layout)


@njit(cache=True, nogil=True)
def key_sample_combine(
    left: np.ndarray, right: np.ndarray, start: int, layout: Layout, negative: bool, out: np.ndarray
) -> None:
    """Fill out with left + right (or left - right) for the words from `start` on."""
    size, _, wide = layout
    place = start % size
    for i in range(left.shape[0]):
        a, b = _U(left[i]), _U(right[i])
        if place != 0:
            if negative and b != 0:
                b = PRIME61 - b
            out[i] = np.int64(addmod61(a, b))
        elif wide:
            out[i] = np.int64(a - b if negative else a + b)
        else:
            if negative:
                high = b >> _U(32)
                high = _P31 - high if high != 0 else high
                b = (_U(0) - (b & _LOW32)) & _LOW32 | high << _U(32)
            out[i] = np.int64(_add_narrow(a, b))
        place = 0 if place == size - 1 else place + 1


@njit(cache=True)
def _lone_element(
    words: np.ndarray, at: int, cells: int, params: np.ndarray, layout: Layout, prints: np.ndarray
) -> np.int64:
    """Return the multiplicity of cell `at` if it holds one tuple, else 0; fill prints with its fingerprints."""
    size, bits, wide = layout
    first, edges, slots = _U(words[at * size]), prints.shape[0], FIELD_BITS // bits
    v = np.int64(first) if wide else np.int64(np.int32(first & _LOW32))
    residue = _U(v % _P61_SIGNED)
    if residue == 0 or (not wide and v % _P31_SIGNED == 0):
        return np.int64(0)
    inverse = _U(1) if v == 1 else power61(residue, (1 << 61) - 3)
    check = _U(0)
    for f in range(size - 1):
        x = mulmod61(_U(words[at * size + 1 + f]), inverse)
        if x >> _U(FIELD_BITS) != 0:
            return np.int64(0)
        for i in range(slots):
            slot, content = f * slots + i, x >> _U(bits * i) & _U((1 << bits) - 1)
            if slot < edges:
                prints[slot] = content
            elif slot == edges and wide:
                check = content
            elif content != 0:
                return np.int64(0)
    word = _tuple_word(prints, params)
    expected = mix_word(word, params[2])
    if wide:
        agrees = expected & _U((1 << bits) - 1) == check
    else:
        y = (first >> _U(32)) * power31(_U(v % _P31_SIGNED), PRIME31 - 2) % _P31
        agrees = expected % _P31 == y
    ways, part = _ways(cells), cells // _ways(cells)
    here = _cell(mix_word(word, params[1]), at // part, ways, part) == at
    return v if agrees and here else np.int64(0)


@njit(cache=True, nogil=True)
def key_sample_decode(
    words: np.ndarray, cells: int, params: np.ndarray, layout: Layout, prints: np.ndarray, values: np.ndarray
) -> int:
    """Peel one level in place: fill prints (uint64, n x edges) and values (int64), and return how many steps.

    The level is complete when its words end as zeros. One tuple may come up more than once; its values then
    add up.
    """
    ways = _ways(cells)
    top = cells // ways * ways
    stack = np.empty(top + ways * values.shape[0], dtype=np.int64)
    for i in range(top):
        stack[i] = i
    steps = 0
    while top > 0 and steps < values.shape[0]:
        top -= 1
        v = _lone_element(words, stack[top], cells, params, layout, prints[steps])
        if v == 0:
            continue
        values[steps] = v
        _add_element(words, 0, cells, prints[steps], -v, params, layout)
        draws = mix_word(_tuple_word(prints[steps], params), params[1])
        for j in range(ways):
            stack[top] = _cell(draws, j, ways, cells // ways)
            top += 1
        steps += 1
    return steps
