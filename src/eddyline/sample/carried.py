"""What is sent through a join by group: for a place of a link and a group, the sums of all quantities side by side."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.kernels.groups import add_products, count_products
from eddyline.sample.sorting import FEW, MOST_CELLS, BoolArray, IntArray, numbered, ordered

_DENSE = 8
"""Sums are added into a cell for every place and group where there are at most so many cells for each entry."""

Entries = tuple[IntArray, IntArray, np.ndarray]
"""Where the entries of each place begin, their groups, and their sums."""


@dataclass(frozen=True)
class Carried:
    """Sums by place and group: entries ordered by place, or, without groups, one entry for every place.

    At a place every group has one entry at most. sums: a row for each entry, a column for each quantity.
    """

    sums: np.ndarray
    places: IntArray | None = None
    groups: IntArray | None = None

    @cached_property
    def starts(self) -> IntArray:
        """Where the entries of each place begin, and at last where all end."""
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
        """The groups that there are, ascending, and for each entry which of them it is."""
        assert self.groups is not None
        return numbered(self.groups)

    def entries(self) -> Entries:
        """Return (where the entries of each place begin, their groups, their sums), those that are all 0 left out."""
        used = any_of(self.sums)
        if self.places is None:
            starts = np.append(0, np.cumsum(used))
            return starts, np.zeros(int(starts[-1]), dtype=np.int64), self.sums.compress(used, axis=0)
        assert self.groups is not None
        if used.all():
            return self.starts, self.groups, self.sums
        return Carried(self.sums.compress(used, axis=0), self.places[used], self.groups[used]).entries()

    def totals(self, size: int) -> np.ndarray:
        """Return what entries hold at each of so many places, all groups together."""
        assert self.places is not None
        totals = np.zeros((size, self.sums.shape[1]), dtype=self.sums.dtype)
        np.add.at(totals, self.places, self.sums)
        return totals

    def between(self, start: int, stop: int) -> "Carried":
        """Return what stands at some places, which are counted from the first of them."""
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
    """Return (entries, entries of another) for every pair that stands at one place."""
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
    """Return elements, groups and sums, each once for every entry that reaches it at its place, times that entry."""
    own, theirs = matches(places[rows], reached)
    sums = _taken(sums, own) * _taken(reached.sums, theirs)
    groups = groups[own] + (reached.groups[theirs] if reached.groups is not None else 0)
    used = any_of(sums)
    if used.all():
        return rows[own], groups, sums
    return rows[own][used], groups[used], sums.compress(used, axis=0)


def _taken(sums: np.ndarray, entries: IntArray | slice) -> np.ndarray:
    """Return the sums of some entries; numpy's `take` has rows several times sooner than brackets."""
    return sums[entries] if isinstance(entries, slice) else sums.take(entries, axis=0)


def any_of(sums: np.ndarray) -> BoolArray:
    """Return which entries have a quantity that is not 0."""
    there = sums[:, 0] != 0
    for column in range(1, sums.shape[1]):
        there |= sums[:, column] != 0
    return np.asarray(there, dtype=np.bool_)


def added_up(places: IntArray, groups: IntArray, sums: np.ndarray) -> Carried:
    """Return entries of equal place and group as one."""
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

    reached_at: the place of each element among what reaches them. None where it is left to `matches`: a loop over
    integers of any size, over more groups than there is room for, or over few products.
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
    """Return where a sorted column has another value than before."""
    first = np.ones(len(column), dtype=np.bool_)
    first[1:] = column[1:] != column[:-1]
    return first


def spread_out(entries: Carried, size: int) -> Carried:
    """Return entries that all are of one group as one entry for every place."""
    sums = np.zeros((size, entries.sums.shape[1]), dtype=entries.sums.dtype)
    assert entries.places is not None
    sums[entries.places] = entries.sums
    return Carried(sums)
