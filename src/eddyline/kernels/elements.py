"""Elements of a stream: folding rows, sorted columns and their union, and which values are followed."""

import numpy as np

from eddyline.kernels.jit import inlined, kernel

# Rows are folded into a table of distinct elements. An element is a row of K words; next to it are V net
# totals (its count first, then its sums).


_U = np.uint64


@inlined
def splitmix(word: np.uint64) -> np.uint64:
    """Return the splitmix64 finalizer of a word."""
    word = (word ^ (word >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> _U(27))) * _U(0x94D049BB133111EB)
    return word ^ (word >> _U(31))


@kernel("slots", "elements", "totals")
def fold_rows(  # noqa: C901 - a hash table in one loop
    words: np.ndarray,
    values: np.ndarray,
    slots: np.ndarray,
    elements: np.ndarray,
    totals: np.ndarray,
    size: int,
) -> tuple[int, int, bool]:
    """Add rows to a hash table of elements; return (rows taken, elements held, no total overflowed).

    words: int64 (n, K); values: int64 (n, V); slots: int64, a power of two of them, -1 if empty; elements and
    totals have space for half as many rows as there are slots. It stops before a row for which there is no space.
    """
    mask = _U(len(slots) - 1)
    room = len(elements)
    for i in range(len(words)):
        code = _U(0)
        for k in range(words.shape[1]):
            code = splitmix(code + _U(words[i, k]) + _U(0x9E3779B97F4A7C15))
        at = code & mask
        while True:
            held = slots[at]
            if held < 0:
                if size >= room:
                    return i, size, True
                held = size
                size += 1
                slots[at] = held
                for k in range(words.shape[1]):
                    elements[held, k] = words[i, k]
                for v in range(values.shape[1]):
                    totals[held, v] = 0
                break
            same = True
            for k in range(words.shape[1]):
                if elements[held, k] != words[i, k]:
                    same = False
                    break
            if same:
                break
            at = (at + _U(1)) & mask
        for v in range(values.shape[1]):
            before = totals[held, v]
            total = before + values[i, v]
            if (before ^ total) & (values[i, v] ^ total) < 0:
                return i, size, False
            totals[held, v] = total
    return len(words), size, True


# Sorted columns: the places of elements, their order, and the union of two columns.
#
# Elements are given as codes, uint64 (words, n), whose order is that of the elements: see `sample.packing`.


_DIGIT = 11
"""Bits that a pass of the sort reads: its 2,048 counters stay in the first-level cache."""


@inlined
def _below(left: np.ndarray, i: int, right: np.ndarray, j: int) -> bool:
    for word in range(left.shape[0]):
        if left[word, i] != right[word, j]:
            return bool(left[word, i] < right[word, j])
    return False


@kernel("places", "same")
def find_places(left: np.ndarray, right: np.ndarray, places: np.ndarray, same: np.ndarray) -> None:
    """Write for each right element how many left ones are below it, and whether the next one equals it.

    Both are ascending. Steps double from the last position, so that few elements are placed among many without
    reading all of them.
    """
    size, at = left.shape[1], 0
    for j in range(right.shape[1]):
        step, high = 1, at
        while high < size and _below(left, high, right, j):
            at = high + 1
            high += step
            step *= 2
        high = min(high, size)
        while at < high:
            middle = (at + high) // 2
            if _below(left, middle, right, j):
                at = middle + 1
            else:
                high = middle
        places[j] = at
        same[j] = at < size and not _below(right, j, left, at)


@kernel("codes", "order", "other_codes", "other_order")
def sort_by_word(
    bits: int, codes: np.ndarray, order: np.ndarray, other_codes: np.ndarray, other_order: np.ndarray
) -> bool:
    """Sort codes by their lowest bits, stably, with an order alongside; return where the result is.

    It is a radix sort from the lowest digit on, between two pairs of arrays: False for the first pair, True for the
    other.
    """
    counts = np.zeros(1 << _DIGIT, dtype=np.int64)
    mask, size, other = _U((1 << _DIGIT) - 1), len(codes), False
    for shift in range(0, bits, _DIGIT):
        source, target = (other_codes, codes) if other else (codes, other_codes)
        source_order, target_order = (other_order, order) if other else (order, other_order)
        by = _U(shift)
        for digit in range(len(counts)):
            counts[digit] = 0
        for i in range(size):
            counts[(source[i] >> by) & mask] += 1
        at = 0
        for digit in range(len(counts)):
            number = counts[digit]
            counts[digit] = at
            at += number
        for i in range(size):
            digit = (source[i] >> by) & mask
            target[counts[digit]] = source[i]
            target_order[counts[digit]] = source_order[i]
            counts[digit] += 1
        other = not other
    return other


@kernel("values", "left_places", "right_places")
def unite(
    left: np.ndarray,
    right: np.ndarray,
    values: np.ndarray,
    left_places: np.ndarray,
    right_places: np.ndarray,
) -> int:
    """Write the distinct values of two ascending columns, and the places of each column's; return their number."""
    i = j = size = 0
    while i < len(left) or j < len(right):
        if j == len(right) or (i < len(left) and left[i] <= right[j]):
            values[size] = left[i]
            if j < len(right) and left[i] == right[j]:
                right_places[j] = size
                j += 1
            left_places[i] = size
            i += 1
        else:
            values[size] = right[j]
            right_places[j] = size
            j += 1
        size += 1
    return size


@kernel("totals")
def add_at(weights: np.ndarray, places: np.ndarray, totals: np.ndarray) -> None:
    """Add weights to the totals at their places, one after the other."""
    for i in range(len(places)):
        totals[places[i]] += weights[i]


@kernel("totals")
def add_through(weights: np.ndarray, places: np.ndarray, numbers: np.ndarray, totals: np.ndarray) -> None:
    """Add weights to the totals at the numbers of their places, one after the other."""
    for i in range(len(places)):
        totals[numbers[places[i]]] += weights[i]


@kernel("places")
def locate(known: np.ndarray, values: np.ndarray, places: np.ndarray) -> None:
    """Write the places of values among known ones; both are ascending, and every value is known."""
    at = 0
    for i in range(len(values)):
        while known[at] < values[i]:
            at += 1
        places[i] = at


# Integers that lie close together are numbered by a bit for each integer of their span, without sorting them.


@inlined
def _ones(word: np.uint64) -> np.int64:
    """Return how many bits of a word are set."""
    word -= (word >> _U(1)) & _U(0x5555555555555555)
    word = (word & _U(0x3333333333333333)) + ((word >> _U(2)) & _U(0x3333333333333333))
    word = (word + (word >> _U(4))) & _U(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * _U(0x0101010101010101)) >> _U(56))


@kernel("bits", "before")
def mark_values(values: np.ndarray, least: int, bits: np.ndarray, before: np.ndarray) -> int:
    """Set the bit of each value less the least one, and write how many bits the words before each have; return all.

    bits: uint64, zero; before: as many numbers.
    """
    for i in range(len(values)):
        at = _U(values[i] - least)
        bits[at >> _U(6)] |= _U(1) << (at & _U(63))
    number = 0
    for word in range(len(bits)):
        before[word] = number
        number += int(_ones(bits[word]))
    return number


@kernel("places", "known")
def place_values(
    values: np.ndarray,
    least: int,
    bits: np.ndarray,
    before: np.ndarray,
    places: np.ndarray,
    known: np.ndarray,
) -> None:
    """Write the place of each value among the distinct ones, whose bits are set, and these, ascending."""
    for i in range(len(values)):
        at = _U(values[i] - least)
        word = at >> _U(6)
        place = before[word] + _ones(bits[word] & ((_U(1) << (at & _U(63))) - _U(1)))
        places[i] = place
        known[place] = values[i]


# Which values of a link are followed: a hash in [0, 1) against the value's inclusion probability.


@inlined
def unit_hash(key: np.int64, seed: np.uint64) -> float:
    """Return the hash of a key, uniform in [0, 1)."""
    word = splitmix(splitmix(_U(key) ^ seed) + seed)
    return np.float64(word >> _U(11)) * 2.0**-53


@kernel("out")
def unit_hashes(keys: np.ndarray, seed: np.uint64, out: np.ndarray) -> None:
    """Write the hash of each key, uniform in [0, 1)."""
    for i in range(len(keys)):
        out[i] = unit_hash(keys[i], seed)


@kernel("slots")
def lookup_table(values: np.ndarray, slots: np.ndarray) -> None:
    """Fill the slots (a power of two, -1 if empty) of a hash table with the places of distinct values."""
    mask = _U(len(slots) - 1)
    for place in range(len(values)):
        at = splitmix(_U(values[place])) & mask
        while slots[at] >= 0:
            at = (at + _U(1)) & mask
        slots[at] = place


@kernel("kept")
def drop_unfollowed(
    keys: np.ndarray,
    seed: np.uint64,
    base: float,
    values: np.ndarray,
    probabilities: np.ndarray,
    slots: np.ndarray,
    highest: float,
    kept: np.ndarray,
) -> None:
    """Clear `kept` for keys that are not followed: the hash is not below the probability of the entry, or the base.

    No entry is below the base, so a key below the base needs no lookup.
    """
    mask = _U(len(slots) - 1)
    for i in range(len(keys)):
        if not kept[i]:
            continue
        hashed = unit_hash(keys[i], seed)
        if hashed < base:
            continue
        if hashed >= highest:
            kept[i] = False
            continue
        at = splitmix(_U(keys[i])) & mask
        followed = False
        while slots[at] >= 0:
            place = slots[at]
            if values[place] == keys[i]:
                followed = hashed < probabilities[place]
                break
            at = (at + _U(1)) & mask
        kept[i] = followed
