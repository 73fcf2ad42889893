"""What a relation sends through a join by group: sums for each value of a link and group, as lists or tables."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from eddyline.kernels.groups import add_products, add_to_table, count_products
from eddyline.sample.packing import FEW, MOST_CELLS, BoolArray, IntArray, chunks, numbered, ordered

# For a place of a link and a group, the sums of all quantities are held side by side.


_DENSE = 8
"""Sums are added into a cell for every place and group if there are at most this many cells per entry."""

Entries = tuple[IntArray, IntArray, np.ndarray]
"""Where the entries of each place begin, their groups, and their sums."""


@dataclass(frozen=True)
class Carried:
    """Sums by place and group: entries ordered by place, or, without groups, one entry for every place.

    At a place every group has at most one entry. sums: a row for each entry, a column for each quantity.
    """

    sums: np.ndarray
    places: IntArray | None = None
    groups: IntArray | None = None

    @cached_property
    def starts(self) -> IntArray:
        """Where the entries of each place begin, and as the last number where all end."""
        assert self.places is not None
        return np.append(0, np.cumsum(np.bincount(self.places)))

    def counts(self, places: IntArray) -> IntArray:
        """Return how many entries there are at each of some places."""
        if self.places is None:
            return np.ones(len(places), dtype=np.int64)
        counts = np.append(np.diff(self.starts), 0)
        return counts[np.minimum(places, len(counts) - 1)]

    @cached_property
    def numbered(self) -> tuple[IntArray, IntArray]:
        """The existing groups, ascending, and for each entry the index of its group."""
        assert self.groups is not None
        return numbered(self.groups)

    def entries(self) -> Entries:
        """Return (where the entries of each place begin, their groups, their sums), without entries of all 0."""
        used = any_nonzero(self.sums)
        if self.places is None:
            starts = np.append(0, np.cumsum(used))
            return starts, np.zeros(int(starts[-1]), dtype=np.int64), self.sums.compress(used, axis=0)
        assert self.groups is not None
        if used.all():
            return self.starts, self.groups, self.sums
        return Carried(self.sums.compress(used, axis=0), self.places[used], self.groups[used]).entries()

    def totals(self, size: int) -> np.ndarray:
        """Return the sums of entries at each of `size` places, all groups together."""
        assert self.places is not None
        totals = np.zeros((size, self.sums.shape[1]), dtype=self.sums.dtype)
        np.add.at(totals, self.places, self.sums)
        return totals

    def between(self, start: int, stop: int) -> "Carried":
        """Return the entries at some places, which are counted from the first of them."""
        if self.places is None:
            return Carried(self.sums[start:stop])
        assert self.groups is not None
        first, last = np.searchsorted(self.places, (start, stop))
        return Carried(self.sums[first:last], self.places[first:last] - start, self.groups[first:last])

    def times(self, other: "Carried") -> "Carried":
        """Return the product at each place: every group of one with every group of the other."""
        if self.places is None and other.places is None:
            return Carried(self.sums * other.sums)
        if self.places is None:
            return other.times(self)
        assert self.groups is not None
        mine, theirs = matches(self.places, other)
        sums = _taken(self.sums, mine) * _taken(other.sums, theirs)
        groups = self.groups[mine] + (other.groups[theirs] if other.groups is not None else 0)
        return Carried(sums, self.places[mine], groups)


def matches(places: IntArray, other: Carried) -> tuple[IntArray | slice, IntArray]:
    """Return (entries, entries of another) for every pair at the same place."""
    if other.places is None:
        return slice(None), places
    last = len(other.starts) - 1
    inside = np.minimum(places, max(last - 1, 0))
    starts = other.starts[inside]
    counts = np.where(places < last, other.starts[np.minimum(inside + 1, last)] - starts, 0)
    mine = np.repeat(np.arange(len(places)), counts)
    first = np.repeat(np.cumsum(counts) - counts - starts, counts)
    return mine, np.arange(len(mine)) - first


def multiplied(
    rows: IntArray, groups: IntArray, sums: np.ndarray, places: IntArray, reached: Carried
) -> tuple[IntArray, IntArray, np.ndarray]:
    """Return elements, groups and sums, once for every entry that reaches the element, times that entry.

    The given sums may be changed.
    """
    if reached.places is None:
        for at in chunks(len(rows)):
            sums[at] *= reached.sums.take(places[rows[at]], axis=0)
    else:
        own, theirs = matches(places[rows].astype(np.int64, copy=False), reached)
        rows, sums = rows[own], _taken(sums, own) * _taken(reached.sums, theirs)
        groups = groups[own] + (reached.groups[theirs] if reached.groups is not None else 0)
    used = any_nonzero(sums)
    if used.all():
        return rows, groups, sums
    return rows[used], groups[used], sums.compress(used, axis=0)


def _taken(sums: np.ndarray, entries: IntArray | slice) -> np.ndarray:
    """Return the sums of some entries; numpy's `take` is several times faster for rows than indexing."""
    return sums[entries] if isinstance(entries, slice) else sums.take(entries, axis=0)


def any_nonzero(sums: np.ndarray) -> BoolArray:
    """Return which entries have a quantity that is not 0."""
    there = sums[:, 0] != 0
    for column in range(1, sums.shape[1]):
        there |= sums[:, column] != 0
    return np.asarray(there, dtype=np.bool_)


def added_up(places: IntArray, groups: IntArray, sums: np.ndarray) -> Carried:
    """Return entries with those of equal place and group added up."""
    if len(places) == 0:
        return Carried(sums, places, groups)
    known, codes = numbered(groups)
    cells = (int(places.max()) + 1) * len(known)
    if cells >= 1 << 62:
        order = np.lexsort((groups, places))
        first = _changes(places[order]) | _changes(groups[order])
        starts = np.flatnonzero(first)
        return Carried(
            np.add.reduceat(_taken(sums, order), starts, axis=0), places[order][first], groups[order][first]
        )
    cell = places * len(known) + codes
    if bool(np.all(cell[1:] > cell[:-1])):  # elements of a dictionary are mostly in this order already
        return Carried(sums, places, groups)
    if sums.dtype == np.float64 and cells <= min(_DENSE * len(cell), MOST_CELLS):
        used = np.flatnonzero(np.bincount(cell, minlength=cells))
        columns = [np.bincount(cell, weights=sums[:, q], minlength=cells)[used] for q in range(sums.shape[1])]
        return Carried(np.stack(columns, axis=1), used // len(known), known[used % len(known)])
    order = np.argsort(cell, kind="stable")
    ordered = cell[order]
    starts = np.flatnonzero(_changes(ordered))
    used = ordered[starts]
    return Carried(
        np.add.reduceat(_taken(sums, order), starts, axis=0), used // len(known), known[used % len(known)]
    )


def carried_through(
    places: IntArray, groups: IntArray, weights: np.ndarray, reached_at: IntArray, reached: Carried
) -> Carried | None:
    """Return what elements send on: their weights times every entry that reaches them, added up by place and group.

    reached_at: the place of each element among what reaches them. Returns None if `matches` must do it: for a loop
    over integers of any size, over more groups than fit, or over few products.
    """
    products = int(reached.counts(reached_at).sum())
    if reached.groups is None or weights.dtype == np.object_ or products < max(FEW, 1):
        return None
    (own, own_codes), (theirs, codes) = numbered(groups), reached.numbered
    room = len(own) * len(theirs)
    if room > MOST_CELLS:
        return None
    targets = int(places.max()) + 1
    order, row_starts = ordered(places, targets)
    met = (own_codes[order] * len(theirs), reached_at[order], reached.starts, codes)
    counts = np.zeros(targets, dtype=np.int64)
    count_products(row_starts, *met, counts, np.zeros(room, dtype=np.int64))
    number = int(counts.sum())
    made_codes = np.empty(number, dtype=np.int64)
    made = np.zeros((number, weights.shape[1]), dtype=weights.dtype)
    marks, slots = np.zeros(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    add_products(row_starts, _taken(weights, order), *met, reached.sums, marks, slots, made_codes, made)
    numbers = own[made_codes // len(theirs)] + theirs[made_codes % len(theirs)]
    return Carried(made, np.repeat(np.arange(targets), counts), numbers)


def _changes(column: IntArray) -> np.ndarray:
    """Return where a sorted column differs from the value before."""
    first = np.ones(len(column), dtype=np.bool_)
    first[1:] = column[1:] != column[:-1]
    return first


def spread_out(entries: Carried, size: int) -> Carried:
    """Return entries that are all in one group as one entry for every place."""
    sums = np.zeros((size, entries.sums.shape[1]), dtype=entries.sums.dtype)
    assert entries.places is not None
    sums[entries.places] = entries.sums
    return Carried(sums)


# What a relation sends to a link as a table: for every place a row, with a cell for every quantity and
# group.
#
# If groups are nearly independent of keys, nearly every value of a link occurs in nearly every group.
# Entries would then name each group at every place; cells need no names, and are added up row by row.


MOST_GROUPS = 1 << 17
"""The most groups for which a table has columns."""
_DENSE_TABLE = 4
"""A table is made if at least one in this many cells is used."""
_NEARLY_FULL = 3
"""A place that is reached in at least one of this many groups is written with all of them, to be added by index."""

_Array = np.ndarray
Parts = tuple[_Array, _Array, _Array, _Array, _Array, _Array, _Array, _Array]


@dataclass(frozen=True)
class GroupTable:
    """The elements of a relation in the order of their places at a link, and what reaches them, by group.

    groups: the number of each column. row_starts: where the elements of each place begin; bases: the column of each
    element with what reaches it in the first group. The rest is as in the arguments of `add_to_table`.
    """

    groups: IntArray
    row_starts: IntArray
    weights: np.ndarray
    bases: IntArray
    reached_at: IntArray
    starts: IntArray
    codes: IntArray
    full: BoolArray
    sums: np.ndarray

    @property
    def parts(self) -> "Parts":
        """The arguments of `add_to_table`."""
        elements = (self.row_starts, self.weights, self.bases, self.reached_at)
        return *elements, self.starts, self.codes, self.full, self.sums

    @property
    def halves(self) -> tuple[slice, slice]:
        """Two parts of the places, with about equally many elements."""
        middle = int(np.searchsorted(self.row_starts, self.row_starts[-1] // 2))
        return slice(0, middle), slice(middle, len(self.row_starts) - 1)

    def entries(self) -> Carried | None:
        """Return the cells that are not 0 as entries; None if there are too many cells to hold at once."""
        shape = (len(self.row_starts) - 1, self.weights.shape[1], len(self.groups))
        if prod(shape) > MOST_CELLS:
            return None
        cells = np.zeros(shape)
        add_to_table(*self.parts, cells)
        used = np.flatnonzero((cells != 0.0).any(axis=1))
        places, columns = np.divmod(used, shape[2])
        sums = np.stack([cells[:, quantity].reshape(-1)[used] for quantity in range(shape[1])], axis=1)
        return Carried(sums, places, self.groups[columns])


def group_table(
    places: IntArray, groups: IntArray, weights: np.ndarray, reached_at: IntArray, reached: Carried, size: int
) -> GroupTable | None:
    """Return the table of what elements send to a link of `size` places; None if most cells would be empty.

    Arguments are as in `carried_through`, with places ascending.
    """
    counts = reached.counts(reached_at)
    if reached.groups is None or weights.dtype != np.float64 or int(counts.sum()) < max(FEW, 1):
        return None
    own, own_codes = numbered(groups)
    theirs, codes = reached.numbered
    columns = len(own) * len(theirs)
    if columns > MOST_GROUPS or columns * weights.shape[1] > MOST_CELLS:
        return None
    row_starts = np.searchsorted(places, np.arange(size + 1))
    products = np.append(0, np.cumsum(counts))[row_starts]
    if _DENSE_TABLE * int(np.minimum(np.diff(products), columns).sum()) < size * columns:
        return None
    starts, codes, full, sums = _filled(reached, codes, len(theirs))
    numbers = (own[:, None] + theirs).reshape(-1)
    bases = own_codes * len(theirs)
    return GroupTable(numbers, row_starts, weights, bases, reached_at, starts, codes, full, sums)


def _filled(
    reached: Carried, codes: IntArray, groups: int
) -> tuple[IntArray, IntArray, BoolArray, np.ndarray]:
    """Return (starts, codes, which places have all groups, sums by quantity); nearly full places get zeros."""
    counts = np.diff(reached.starts)
    full = _NEARLY_FULL * counts >= groups
    starts = np.append(0, np.cumsum(np.where(full, groups, counts)))
    places = np.repeat(np.arange(len(counts)), counts)
    at = np.where(full[places], codes, np.arange(len(codes)) - reached.starts[places]) + starts[places]
    sums, written = np.zeros((reached.sums.shape[1], starts[-1])), np.zeros(starts[-1], dtype=np.int64)
    written[at] = codes
    for quantity in range(len(sums)):
        sums[quantity][at] = reached.sums[:, quantity]
    return starts, written, full, sums
