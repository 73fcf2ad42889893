"""Packed and sorted columns: few bits per code, sorts faster than numpy's, freed memory returned to the system."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eddyline.kernels.elements import (
    find_places,
    locate,
    mark_values,
    place_values,
    sort_by_word,
    unite,
)
from eddyline.kernels.groups import order_by_place

# Sorted values. numpy's own `unique` hashes integers, which takes ten times as long as sorting them.


MOST_CELLS = 1 << 22
"""The most cells of tables that are held at once."""
FEW = 1 << 13
"""Fewer entries are not worth a kernel: a process that answers little never loads numba."""
_BITS = 64
"""Integers with at most this many in their span for each are numbered by bits: at most 12 bytes for each entry."""
_SPREAD, _SMALL = 32, 1 << 16
"""A table of integers has at most this many cells per entry, and may always have this many in all."""
_WIDTHS = (np.int8, np.int16, np.int32, np.int64)
IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def distinct(arrays: Sequence[IntArray]) -> IntArray:
    """Return the distinct integers of some arrays, ascending."""
    if not arrays:
        return np.empty(0, dtype=np.int64)
    values = np.sort(np.concatenate(arrays), kind="stable")  # it merges runs that are already sorted
    return values[first_of_each(values)]


def distinct_places(arrays: Sequence[IntArray]) -> tuple[IntArray, list[IntArray]]:
    """Return (the distinct integers of some arrays, ascending; for each array the places of its own among them)."""
    together = np.concatenate([np.empty(0, dtype=np.int64), *arrays])
    order = np.argsort(together, kind="stable")
    values = together[order]
    first = first_of_each(values)
    places = np.empty(len(values), dtype=np.int64)
    places[order] = np.cumsum(first) - 1
    return values[first], np.split(places, np.cumsum([len(each) for each in arrays])[:-1])


def united(arrays: Sequence[IntArray]) -> tuple[IntArray, list[np.ndarray]]:
    """Return what `distinct_places` returns for ascending arrays without duplicates, by merging them.

    Places are 32-bit integers if these suffice.
    """
    values: IntArray
    if sum(map(len, arrays)) < FEW:
        values, found = distinct_places(arrays)
        return values, [each.astype(place_kind(len(values))) for each in found]
    values = np.empty(0, dtype=np.int64)
    places = list[np.ndarray]()
    for array in arrays:
        if not places:
            values, places = array, [np.arange(len(array), dtype=place_kind(len(array)))]
            continue
        size = len(values) + len(array)
        kind, made = place_kind(size), np.empty(size, dtype=np.int64)
        mine, theirs = np.empty(len(values), dtype=kind), np.empty(len(array), dtype=kind)
        size = unite(values, array, made, mine, theirs)
        before = [mine] if len(places) == 1 else [mine[each] for each in places]  # one array is where it was
        values, places = made[:size].copy(), [*before, theirs]
    return values, places


def places_among(known: IntArray, values: IntArray) -> np.ndarray:
    """Return the places of values among known ones; both are ascending, and every value is known."""
    if len(known) < FEW:
        return np.searchsorted(known, values).astype(place_kind(len(known)))
    places = np.empty(len(values), dtype=place_kind(len(known)))
    locate(known, values, places)
    return places


def place_kind(size: int) -> type[np.integer]:
    """Return the integer type that holds places below a size."""
    return np.int32 if size < 1 << 31 else np.int64


def narrow(column: np.ndarray) -> np.ndarray:
    """Return a column in the narrowest integers that hold it."""
    if len(column) == 0:
        return column.astype(np.int8)
    low, high = int(column.min()), int(column.max())
    for width in _WIDTHS:
        info = np.iinfo(width)
        if info.min <= low and high <= info.max:
            return np.ascontiguousarray(column, dtype=width)
    raise AssertionError


def numbered(values: np.ndarray) -> tuple[IntArray, IntArray]:
    """Return (the distinct integers of an array, ascending; for each entry the place of its own among them).

    If they lie close together, a table of all integers between the least and the largest replaces sorting.
    """
    if len(values) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    least, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if not fits_a_table(span, len(values)):
        known, (places,) = distinct_places([values.astype(np.int64)])
        return known, places
    at = values.astype(np.int64) - least
    there = np.zeros(span, dtype=np.bool_)
    there[at] = True
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[at]


def fits_a_table(span: int, entries: int) -> bool:
    """Return whether a table of all integers within a span is worth it for some entries."""
    return span <= min(_SPREAD * entries + _SMALL, MOST_CELLS)


def ordered(places: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return (the stable order of entries by place; where those of each of `size` places begin)."""
    if len(places) < FEW:
        order = np.argsort(places, kind="stable")
        return order, np.searchsorted(places[order], np.arange(size + 1))
    starts, order = np.zeros(size + 1, dtype=np.int64), np.empty(len(places), dtype=np.int64)
    order_by_place(places, starts, order)
    return order, starts


def first_of_each(values: IntArray) -> BoolArray:
    """Return which of sorted values differ from the one before."""
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first


# Elements packed into few words: codes in the order of the elements, with few bits for a narrow column.


CHUNK = 1 << 16
"""Rows that are widened to 64 bits at a time: half a megabyte, which stays in the cache."""
_WORD = 64
Columns = Sequence[np.ndarray]


def chunks(rows: int) -> Iterator[slice]:
    """Yield slices that cover rows, a chunk each."""
    for start in range(0, rows, CHUNK):
        yield slice(start, min(start + CHUNK, rows))


class Packing:
    """How columns are packed: the least value and the number of bits of each, in one or more words.

    tables: the columns of one table, or of several tables whose codes are to be compared; all columns are integers.
    """

    def __init__(self, tables: Sequence[Columns]) -> None:
        self.words: list[list[tuple[int, int, int]]] = [[]]
        used = 0
        for position, columns in enumerate(zip(*tables, strict=True)):
            filled = [column for column in columns if len(column)]
            least = min((int(column.min()) for column in filled), default=0)
            bits = (max((int(column.max()) for column in filled), default=0) - least).bit_length()
            if bits and used + bits > _WORD:
                self.words.append([])
                used = 0
            if bits:
                self.words[-1].append((position, least, bits))
                used += bits

    @property
    def bits(self) -> list[int]:
        """The bits that each word uses."""
        return [sum(bits for _, _, bits in word) for word in self.words]

    def codes(self, columns: Columns, rows: int) -> np.ndarray:
        """Return the codes of a table's elements, uint64 (words, rows)."""
        codes = np.zeros((len(self.words), rows), dtype=np.uint64)
        for word, out in zip(self.words, codes, strict=True):
            for place, (position, least, bits) in enumerate(word):
                for at in chunks(rows):
                    shifted = (columns[position][at].astype(np.int64) - least).view(np.uint64)
                    if place:
                        out[at] <<= np.uint64(bits)
                    out[at] |= shifted
        return codes


def find(left: Columns, right: Columns, rows: int, others: int) -> tuple[IntArray, BoolArray]:
    """Return for each element of one sorted table (how many of another are below it, whether one equals it).

    rows, others: how many elements the left and the right table have.
    """
    packing = Packing([left, right])
    places, same = np.empty(others, dtype=np.int64), np.empty(others, dtype=np.bool_)
    find_places(packing.codes(left, rows), packing.codes(right, others), places, same)
    return places, same


def order_of(columns: Columns, rows: int) -> tuple[np.ndarray, BoolArray]:
    """Return (the stable order of elements; which of them, in this order, differ from the one before)."""
    packing = Packing([columns])
    codes = packing.codes(columns, rows)
    order = np.arange(rows, dtype=place_kind(rows))
    keys, others, other_order = codes[0], np.empty(rows, dtype=np.uint64), np.empty_like(order)
    for word, bits in zip(codes[::-1], packing.bits[::-1], strict=True):
        keys = word if len(codes) == 1 else word[order]
        if sort_by_word(bits, keys, order, others, other_order):
            keys, others, order, other_order = others, keys, other_order, order
    first = np.zeros(rows, dtype=np.bool_)
    first[:1] = True
    for word in codes:
        ranked = keys if len(codes) == 1 else word[order]
        first[1:] |= ranked[1:] != ranked[:-1]
    return order, first


def narrow_numbers(values: np.ndarray, *, is_sorted: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return what `numbered` returns, places in 32 bits if these suffice, without widening all values at once."""
    if len(values) < max(FEW, 1):
        known, found = numbered(values)
        return known, found.astype(place_kind(len(values)))
    out = np.empty(len(values), dtype=place_kind(len(values)))
    least, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if is_sorted:
        first = first_of_each(values)
        np.cumsum(first, out=out)
        out -= 1
        return values[first], out
    if span <= _BITS * len(values) and span > MOST_CELLS // _BITS:
        bits = np.zeros(span // 64 + 1, dtype=np.uint64)
        before = np.empty(len(bits), dtype=out.dtype)
        known = np.empty(mark_values(values, least, bits, before), dtype=values.dtype)
        place_values(values, least, bits, before, out, known)
        return known, out
    if not fits_a_table(span, len(values)):
        order, first = order_of([values], len(values))
        places: np.ndarray = np.cumsum(first, dtype=out.dtype)
        places -= 1
        out[order] = places
        return values[order[first]], out
    there = np.zeros(span, dtype=np.bool_)
    for at in chunks(len(values)):
        there[values[at].astype(np.int64) - least] = True
    places = np.cumsum(there, dtype=out.dtype) - 1
    for at in chunks(len(values)):
        out[at] = places[values[at].astype(np.int64) - least]
    return np.flatnonzero(there) + least, out


# Freed memory, returned to the system.
#
# The allocator of glibc keeps freed memory for later, hundreds of megabytes after a reduction or an answer
# over a large state: arrays below 32 MB lie on its heap, and free memory between arrays still in use stays
# resident.


_LEAST = 8 << 20
"""Bytes of a state: the memory freed by work on smaller ones is not worth the call, of about a millisecond."""


@cache
def _trim() -> Any:
    """Return glibc's own function; None if another allocator is used."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def return_freed(nbytes: int) -> None:
    """Return freed memory to the system after work on a state of some bytes."""
    trim = _trim() if nbytes >= _LEAST else None
    if trim is not None:
        trim(0)


def process_memory() -> dict[str, int]:
    """Return the bytes that this process takes, as the system counts them: resident now, and at the peak.

    Empty where the system does not show them in /proc.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    shown = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {"resident": "VmRSS", "peak": "VmHWM"}
    return {name: 1024 * int(shown[key].split()[0]) for name, key in names.items() if key in shown}


# Sums of long vectors of which only a part is made at a time.


AT_ONCE = 1 << 16
"""Rows that are made at a time: numpy adds up 128 and fewer in another way, so it must not be less."""


def summed(rows: int, part: Callable[[slice], np.ndarray]) -> float:
    """Return what numpy's `sum` of a column of floats returns, bit for bit; part: makes some rows of the column.

    numpy adds up halves of a column, and halves of these, so that rounding errors stay small. The same is done here
    until a part is small enough to be made.
    """
    return _summed(slice(0, rows), part)


def _summed(at: slice, part: Callable[[slice], np.ndarray]) -> float:
    rows = at.stop - at.start
    if rows <= AT_ONCE:
        return float(part(at).sum())
    middle = at.start + rows // 2 - rows // 2 % 8
    return _summed(slice(at.start, middle), part) + _summed(slice(middle, at.stop), part)


# Sums of products of long vectors, in one thread.
#
# BLAS wakes all its threads for a vector of ten thousand numbers, and waits for them: on a machine whose
# cores are busy, a dot product of a third of a millisecond then takes thirty.


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """Return the sum of the products of two vectors, in the same order however they are held."""
    return float(np.einsum("n,n->", np.ascontiguousarray(left), np.ascontiguousarray(right)))


def times(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the dot product of each of a few long rows (k, n) with a vector (n,), or with other rows (l, n)."""
    product: np.ndarray = np.einsum("kn,n->k" if vector.ndim == 1 else "kn,ln->kl", rows, vector)
    return product


def mixed(factors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the combination of a few long rows (k, n) by factors (k,), or several such by factors (l, k)."""
    product: np.ndarray = np.einsum("k,kn->n" if factors.ndim == 1 else "lk,kn->ln", factors, rows)
    return product
