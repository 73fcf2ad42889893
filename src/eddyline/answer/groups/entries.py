"""What the followed values of a join add to its groups: one entry for each value and group, none of which is kept.

There may be far more of them than elements. So they are made value by value and added up at once (`moments`), and only
those of groups that hardly any value shows are looked at one by one (`rare`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from eddyline.answer.groups.table_moments import LEAST_REST, Asked, fits, shares_of, table_moments
from eddyline.answer.interval import ALIKE_IN_GROUPS, FloatArray, GroupSpread, hidden_by_few
from eddyline.kernels.groups import add_moments, count_values, find_entries
from eddyline.sample.carried import Carried, Entries
from eddyline.sample.conditioned_messages import ConditionedMessages
from eddyline.sample.group_tables import GroupTable
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.grouped_messages import GroupedMessages
from eddyline.sample.messages import sampled_messages
from eddyline.sample.sorting import MOST_CELLS, BoolArray, IntArray

RARE = 2
"""Groups that so many values or fewer show tell of those that none shows."""


@dataclass(frozen=True)
class Moments:
    """How sure sums of groups are: their spread, and how many values tell it, sampled ones and all.

    typical: what a sampled value adds by itself. lonely: where the only value of some link is a sampled one, so that
    nothing tells how another would change a ratio.
    """

    spread: GroupSpread
    sampled: FloatArray
    values: FloatArray
    typical: float
    lonely: BoolArray


def hidden_in_groups(counted: Moments) -> FloatArray:
    """Return what a value or two that carry a group hide of what its rows differ by, over their variance between rows.

    counted: how sure the number of rows is. Where all values carry alike, none of them makes the average.
    """
    carriers = counted.spread.carriers
    led = np.clip(1.0 - carriers / np.maximum(counted.values, 1.0), 0.0, 1.0)
    return np.asarray(led * hidden_by_few(ALIKE_IN_GROUPS, counted.spread.variance, carriers))


class _Moments:
    """What is added up, entry by entry, to know how sure a sum is."""

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
        """Add what a table has of some groups: cells (variance, squares, third, largest, by themselves), values."""
        self.moments[groups, :3] += cells[:3].T
        self.moments[groups, 3] = np.maximum(self.moments[groups, 3], cells[3])
        self.moments[groups, 4] += sampled
        self.moments[groups, 5] += values
        self.typical += cells[4].sum(), sampled.sum()

    def end_link(self) -> FloatArray:
        """Return how many values of the link whose entries were just added each owner has.

        Notes which have one, and that one sampled.
        """
        sampled, values = (self.moments[:, 4:] - self._before).T
        self.lonely |= (sampled == 1) & (values == 1)
        self._before = self.moments[:, 4:].copy()
        return np.asarray(values)

    def read(self, entries: int) -> Moments:
        """Return what was added up, where a value has at most so many entries for a group."""
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
        """The numbers of the groups, and of every number which group it is, -1 for none; nothing if they are many."""
        room = prod(len(each) for each in self.grouped.codes)
        places = np.full(room if room <= MOST_CELLS else 0, -1)
        if len(places):
            places[self.groups] = np.arange(len(self.groups))
        return self.groups, places

    def _sides(self, link: int) -> Iterator[tuple[int, Entries, Entries, FloatArray, FloatArray]]:
        """Yield what meets at a link, some places at a time: the first of them, both sides, their scales and rates."""
        rates, scales = self.grouped.join.probabilities[link], self._messages.factors[link][:, 0]
        parts = [self._met[link]] if link in self._met else self._messages.sides(link)
        made = 0
        for start, left, right in parts:
            yield start, left, right, scales[start:], rates[start:]
            made += 1
        if made == 1:
            self._met[link] = start, left, right

    def moments(self, *asked: Asked) -> list[Moments]:
        """Return how sure some sums are, all of them in one pass over the entries.

        A value that stands in several links has an entry for each, all of which are there or missing together.
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
        for each, *told in zip(made, found.cells, found.values, found.sampled, strict=True):
            each.add_cells(found.groups, *told)

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
        """Yield what meets at a link, at least of the groups that are wanted."""
        if not wanted.any():
            return iter(())
        if link in self._met:
            return iter([self._met[link]])
        return self._messages.only(self.groups[wanted]).sides(link)

    def count_values(self) -> int:
        """Return how many followed values of all links join."""
        return sum(int(np.count_nonzero(self._added(0, link))) for link in range(len(self.grouped.sizes)))

    def _added(self, column: int, link: int) -> FloatArray:
        """Return what each value of a link adds to all groups together, before its own scaling."""
        if isinstance(self._messages, ConditionedMessages):
            return self._messages.met_in_all(link)[:, column]
        return sampled_messages(self.grouped.join, self.grouped.quantities[column]).met(link)

    def sampled_values(self, column: int) -> FloatArray:
        """Return what each sampled value adds to all groups together, by itself, where it adds anything."""
        rates = self.grouped.join.probabilities
        found = [np.abs(self._added(column, link)[rates[link] < 1.0]) for link in self.links]
        every = np.concatenate(found) if found else np.empty(0)
        return np.asarray(every[every > 0.0])
