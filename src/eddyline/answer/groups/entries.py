"""What the followed values of a join add to its groups, entry by entry or by tables."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from eddyline.answer.interval import ALIKE_IN_GROUPS, FloatArray, GroupSpread, hidden_by_few
from eddyline.kernels.groups import add_moments, add_table_moments, count_values, find_entries
from eddyline.sample.carried import Carried, Entries, GroupTable
from eddyline.sample.conditioned_messages import ConditionedMessages
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.grouped_messages import GroupedMessages
from eddyline.sample.messages import sampled_messages
from eddyline.sample.packing import MOST_CELLS, BoolArray, IntArray, numbered

# What values of a link add to groups, where most values occur in most groups: by tables with a cell per group.
#
# One side of the link is a table of places and groups, made row by row; the other side's entries meet its rows. All
# requested sums are added up in the same pass, in two threads with half of the elements each: always two, so that
# the same state gives the same bits on every machine.


LEAST_REST = 0.2
"""The rest of a count without one of its values is assumed to be at least this share."""

_NUMBERS = 10
"""How many numbers are held for each sum and group: moments, factors, shares."""


@dataclass(frozen=True)
class Asked:
    """A sum of quantities (by column) times factors (by group) whose spread is requested.

    count: for a ratio, the quantity that it is divided by and its total in each group. A value's own part is
    subtracted, as in the estimate without that value, and values without such rows are ignored. owners: which of
    `number` owners each group is added to, -1 for none; without owners each group is its own.
    """

    factors: Mapping[int, FloatArray]
    count: tuple[int, FloatArray] | None = None
    owners: IntArray | None = None
    number: int = 0


@dataclass(frozen=True)
class TableMoments:
    """The sums of some groups: for each asked sum (variance, squares, third, largest, by themselves) by group.

    values, sampled: how many values of the link show each group, all and sampled ones, by sum.
    """

    groups: IntArray
    cells: FloatArray
    values: FloatArray
    sampled: FloatArray


def shares_of(totals: FloatArray) -> FloatArray:
    """Return one over each total, 0 where it is 0: nothing is subtracted for a group without counting rows."""
    return np.divide(1.0, totals, out=np.zeros(len(totals)), where=totals != 0.0)


def fits(entries: Carried, table: GroupTable, sums: int) -> bool:
    """Return whether what these sums need for all groups that two sides of a link make is within the limit."""
    others = 1 if entries.groups is None else len(entries.numbered[0])
    return _NUMBERS * sums * others * len(table.groups) <= MOST_CELLS


def table_moments(
    entries: Carried,
    table: GroupTable,
    scales: FloatArray,
    chances: FloatArray,
    asked: Sequence[Asked],
    groups: IntArray,
) -> TableMoments:
    """Return the moments of the groups that two sides of a link make.

    scales, chances: how often a value counts, and how likely it is to be missing. groups: the numbers of the shown
    groups, ascending.
    """
    starts, numbers, sums = entries.entries()
    known, codes = numbered(numbers)
    made = (known[:, None] + table.groups).reshape(-1)
    at = np.minimum(np.searchsorted(groups, made), len(groups) - 1)
    shown = groups[at] == made
    shape = (len(known), len(table.groups))
    packed = _packed(asked, at, shown, shape)

    def added(places: slice) -> tuple[FloatArray, FloatArray]:
        """Return the moments of the values at some places, and how many show each group."""
        moments, seen = np.zeros((len(asked), 5, *shape)), np.zeros((1 + len(asked), 2, *shape))
        ends = slice(places.start, places.stop + 1)
        add_table_moments(
            table.row_starts[ends],
            *table.parts[1:],
            starts[ends],
            codes,
            sums,
            scales[places],
            chances[places],
            *packed,
            LEAST_REST,
            np.empty((sums.shape[1], shape[1])),
            np.empty(shape[1]),
            np.empty(shape[1]),
            moments,
            seen,
        )
        return moments.reshape(len(asked), 5, -1)[:, :, shown], seen.reshape(1 + len(asked), 2, -1)[
            :, :, shown
        ]

    with ThreadPoolExecutor(2) as threads:
        (cells, seen), (others, seen_there) = threads.map(added, table.halves)
    largest = np.maximum(cells[:, 3], others[:, 3])
    cells, seen = cells + others, seen + seen_there
    cells[:, 3] = largest
    values = seen[[0 if each.count is None else 1 + number for number, each in enumerate(asked)]]
    return TableMoments(at[shown], cells, values.sum(axis=1), values[:, 1])


def _packed(
    asked: Sequence[Asked], at: IntArray, shown: np.ndarray, shape: tuple[int, int]
) -> tuple[IntArray, np.ndarray, FloatArray, IntArray, FloatArray]:
    """Return (columns, which are plain, factors, counted quantities, shares), as `add_table_moments` takes them."""
    most = max(len(each.factors) for each in asked)
    columns, counted = np.full((len(asked), most), -1), np.full(len(asked), -1)
    factors, shares = np.zeros((len(asked), most, *shape)), np.zeros((len(asked), *shape))
    for number, each in enumerate(asked):
        for part, (column, factor) in enumerate(each.factors.items()):
            columns[number, part] = column
            factors[number, part] = np.where(shown, factor[at], 0.0).reshape(shape)
        if each.count is not None:
            counted[number], totals = each.count
            shares[number] = np.where(shown, shares_of(totals)[at], 0.0).reshape(shape)
    plain = np.array([bool(np.all(next(iter(each.factors.values()), np.zeros(1)) == 1.0)) for each in asked])
    return columns, plain, factors, counted, shares


# What the followed values of a join add to its groups: one entry per value and group; no entry is stored.
#
# There may be far more entries than elements. So they are made value by value and added up at once (`moments`), and
# only those of groups that hardly any value shows are read one by one (`rare`).


RARE = 2
"""Groups that at most this many values show are used to estimate the groups that no value shows."""


@dataclass(frozen=True)
class Moments:
    """How sure sums of groups are: their spread, and how many values it is from, sampled ones and all.

    typical: what a sampled value adds by itself. lonely: where the only value of some link is a sampled one, so
    that it is unknown how another would change a ratio.
    """

    spread: GroupSpread
    sampled: FloatArray
    values: FloatArray
    typical: float
    lonely: BoolArray


def hidden_in_groups(counted: Moments) -> FloatArray:
    """Return the part of the variance between rows that stays hidden where one or two values carry a group.

    counted: how sure the number of rows is. Where all values carry equal parts, none of them determines the
    average.
    """
    carriers = counted.spread.carriers
    led = np.clip(1.0 - carriers / np.maximum(counted.values, 1.0), 0.0, 1.0)
    return np.asarray(led * hidden_by_few(ALIKE_IN_GROUPS, counted.spread.variance, carriers))


class _Moments:
    """What is added up, entry by entry, to find the spread of a sum."""

    def __init__(self, asked: Asked, groups: int) -> None:
        self.asked = asked
        self.owners = np.arange(groups) if asked.owners is None else asked.owners
        size = groups if asked.owners is None else asked.number
        self.columns = np.array([*asked.factors], dtype=np.int64)
        self.factors = np.array([*asked.factors.values()]).reshape(len(self.columns), groups)
        self.counted, totals = asked.count if asked.count is not None else (0, np.empty(0))
        self.shares = shares_of(totals)
        self.moments, self.typical = np.zeros((size, 6)), np.zeros(2)
        self.lonely, self._before = np.zeros(size, dtype=np.bool_), np.zeros((size, 2))

    def add(
        self,
        left: Entries,
        right: Entries,
        scales: FloatArray,
        chances: FloatArray,
        groups: tuple[IntArray, IntArray],
    ) -> None:
        """Add the entries that two sides make at some places of a link; groups: see `GroupEntries.numbers`."""
        if not len(self.columns):
            count_values(*left[:2], *right[:2], chances, *groups, self.moments[:, 4:])
            return
        size = len(self.moments)
        add_moments(
            *left,
            *right,
            scales,
            chances,
            *groups,
            self.owners,
            self.columns,
            self.factors,
            self.shares,
            self.counted,
            LEAST_REST,
            np.zeros(size),
            np.zeros(size),
            np.zeros(size, dtype=np.int64),
            self.moments,
            self.typical,
        )

    def add_cells(self, groups: IntArray, cells: FloatArray, values: FloatArray, sampled: FloatArray) -> None:
        """Add a table's groups: cells (variance, squares, third, largest, by themselves), values."""
        self.moments[groups, :3] += cells[:3].T
        self.moments[groups, 3] = np.maximum(self.moments[groups, 3], cells[3])
        self.moments[groups, 4] += sampled
        self.moments[groups, 5] += values
        self.typical += cells[4].sum(), sampled.sum()

    def end_link(self) -> FloatArray:
        """Return how many values each owner has at the link whose entries were just added.

        It also records which owners have only one value, and that a sampled one.
        """
        sampled, values = (self.moments[:, 4:] - self._before).T
        self.lonely |= (sampled == 1) & (values == 1)
        self._before = self.moments[:, 4:].copy()
        return np.asarray(values)

    def read(self, entries: int) -> Moments:
        """Return what was added up, where a value has at most `entries` entries for a group."""
        spread = GroupSpread.of_moments(*self.moments[:, :4].T).of_values_with(entries)
        typical = float(self.typical[0] / max(self.typical[1], 1.0))
        return Moments(spread, self.moments[:, 4], self.moments[:, 5], typical, self.lonely)


@dataclass(frozen=True)
class RareEntries:
    """What values add to groups that at most two values of their link show.

    added: by quantity; groups: which; values: the value, numbered over all links; rates: its inclusion probability;
    witnesses: how many values of its link show the group.
    """

    added: FloatArray
    groups: IntArray
    values: IntArray
    rates: FloatArray
    witnesses: FloatArray


class GroupEntries:
    """The entries of a grouped join.

    links: those whose values are sampled. groups: the numbers of the groups that are shown, ascending.
    """

    def __init__(
        self, grouped: GroupedJoin, messages: GroupedMessages, groups: IntArray, links: Sequence[int]
    ) -> None:
        self.grouped = grouped
        self.groups = groups
        self.links = links
        self._messages = messages
        self._met: dict[int, tuple[int, Entries, Entries]] = {}
        self._seen: dict[int, FloatArray] = {}

    @cached_property
    def numbers(self) -> tuple[IntArray, IntArray]:
        """The numbers of the groups, and the group of every number, -1 for none; empty if there are too many."""
        room = prod(len(each) for each in self.grouped.codes)
        places = np.full(room if room <= MOST_CELLS else 0, -1)
        if len(places):
            places[self.groups] = np.arange(len(self.groups))
        return self.groups, places

    def _sides(self, link: int) -> Iterator[tuple[int, Entries, Entries, FloatArray, FloatArray]]:
        """Yield what meets at a link, a range of places at a time: start, both sides, their scales and rates."""
        rates, scales = self.grouped.join.probabilities[link], self._messages.factors[link][:, 0]
        parts = [self._met[link]] if link in self._met else self._messages.sides(link)
        made = 0
        for start, left, right in parts:
            yield start, left, right, scales[start:], rates[start:]
            made += 1
        if made == 1:
            self._met[link] = start, left, right

    def moments(self, *asked: Asked) -> list[Moments]:
        """Return the moments of some sums, all in one pass over the entries.

        A value that occurs in several links has an entry for each; they are all present or all missing.
        """
        made = [_Moments(each, len(self.groups)) for each in asked]
        for link in self.links:
            self._add(link, made)
        classes = [self.grouped.join.shape.classes[link] for link in self.links]
        entries = max(map(classes.count, classes), default=1)
        return [each.read(entries) for each in made]

    def _add(self, link: int, made: Sequence["_Moments"]) -> None:
        """Add the entries of a link, and remember how many values show each group."""
        one_each = len(self.groups) > 0 and all(each.asked.owners is None for each in made)
        tabled = self._messages.tabled(link) if one_each else None
        if tabled is not None and fits(*tabled, len(made)):
            self._add_table(link, made, *tabled)
        else:
            for _, left, right, scales, rates in self._sides(link):
                for each in made:
                    each.add(left, right, scales, 1.0 - rates, self.numbers)
        for each in made:
            values = each.end_link()
            if each.asked.owners is None and each.asked.count is None:
                self._seen[link] = values

    def _add_table(self, link: int, made: Sequence["_Moments"], entries: Carried, table: GroupTable) -> None:
        scales, rates = self._messages.factors[link][:, 0], self.grouped.join.probabilities[link]
        found = table_moments(entries, table, scales, 1.0 - rates, [each.asked for each in made], self.groups)
        for each, *values in zip(made, found.cells, found.values, found.sampled, strict=True):
            each.add_cells(found.groups, *values)

    @cached_property
    def rare(self) -> RareEntries:
        """The entries of groups that at most two values of a link show."""
        nothing, none = np.empty(0, dtype=np.int64), np.empty(0)
        width = len(self.grouped.quantities)
        found: list[tuple[np.ndarray, ...]] = [(np.empty((0, width)), nothing, nothing, none, none)]
        found += [self._rare(link) for link in self.links]
        return RareEntries(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _rare(self, link: int) -> tuple[np.ndarray, ...]:
        if link not in self._seen:
            self._add(link, [_Moments(Asked({}), len(self.groups))])
        seen, width = self._seen[link], len(self.grouped.quantities)
        wanted = (seen > 0) & (seen <= RARE)
        room = int(seen[wanted].sum())
        added, groups, places = np.empty((room, width)), *np.empty((2, room), dtype=np.int64)
        done = 0
        for start, left, right in self._sides_of(link, wanted):
            at, scales = slice(done, None), self._messages.factors[link][start:, 0]
            found = find_entries(
                *left, *right, scales, *self.numbers, wanted, added[at], groups[at], places[at]
            )
            places[done : done + found] += start
            done += found
        rates = self.grouped.join.probabilities[link][places]
        return added, groups, places + sum(self.grouped.sizes[:link]), rates, seen[groups]

    def _sides_of(self, link: int, wanted: BoolArray) -> Iterator[tuple[int, Entries, Entries]]:
        """Yield what meets at a link, at least for the wanted groups."""
        if not wanted.any():
            return iter(())
        if link in self._met:
            return iter([self._met[link]])
        return self._messages.only(self.groups[wanted]).sides(link)

    def count_values(self) -> int:
        """Return how many followed values of all links join."""
        return sum(int(np.count_nonzero(self._added(0, link))) for link in range(len(self.grouped.sizes)))

    def _added(self, column: int, link: int) -> FloatArray:
        """Return what each value of a link adds to all groups together, before the value's own scaling."""
        if isinstance(self._messages, ConditionedMessages):
            return self._messages.met_in_all(link)[:, column]
        return sampled_messages(self.grouped.join, self.grouped.quantities[column]).met(link)

    def sampled_values(self, column: int) -> FloatArray:
        """Return what each sampled value adds to all groups together, by itself, where it adds anything."""
        rates = self.grouped.join.probabilities
        found = [np.abs(self._added(column, link)[rates[link] < 1.0]) for link in self.links]
        every = np.concatenate(found) if found else np.empty(0)
        return np.asarray(every[every > 0.0])
