"""What the followed values of a join add to its groups: one entry for each value and group, none of which is kept.

There may be far more of them than elements. So they are made value by value and added up at once (`moments`), and only
those of groups that hardly any value shows are looked at one by one (`rare`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.answer.interval import FloatArray, GroupSpread
from eddyline.kernels.groups import add_moments, find_entries
from eddyline.sample.carried import Entries
from eddyline.sample.conditioned_messages import ConditionedMessages
from eddyline.sample.grouped_messages import GroupedJoin, GroupedMessages
from eddyline.sample.messages import sampled_messages
from eddyline.sample.sorting import BoolArray, IntArray

RARE = 2
"""Groups that so many values or fewer show tell of those that none shows."""
_LEAST_REST = 0.2
"""What is left of a count without one of its values is taken to be at least this share."""


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


@dataclass(frozen=True)
class Asked:
    """A sum of quantities, by column, times factors, by group, of which is asked how sure it is.

    count: a quantity and its total in each group, of which a value's own part is taken off, as the estimate without
    that value would have it. owners: of so many (`number`), to which groups are added up, -1 for none; each is its own
    if there are none.
    """

    factors: Mapping[int, FloatArray]
    count: tuple[int, FloatArray] | None = None
    owners: IntArray | None = None
    number: int = 0


class _Moments:
    """What is added up, entry by entry, to know how sure a sum is."""

    def __init__(self, asked: Asked, groups: int) -> None:
        self.owners = np.arange(groups) if asked.owners is None else asked.owners
        size = groups if asked.owners is None else asked.number
        self.columns = np.array([*asked.factors], dtype=np.int64)
        self.factors = np.array([*asked.factors.values()]).reshape(len(self.columns), groups)
        self.counted, self.totals = asked.count if asked.count is not None else (0, np.empty(0))
        self.moments, self.typical = np.zeros((size, 6)), np.zeros(2)
        self.lonely, self._before = np.zeros(size, dtype=np.bool_), np.zeros((size, 2))

    def add(
        self, left: Entries, right: Entries, scales: FloatArray, chances: FloatArray, groups: IntArray
    ) -> None:
        """Add the entries that two sides make at some places of a link."""
        size = len(self.moments)
        add_moments(
            *left,
            *right,
            scales,
            chances,
            groups,
            self.owners,
            self.columns,
            self.factors,
            self.totals,
            self.counted,
            _LEAST_REST,
            np.zeros(size),
            np.zeros(size),
            np.zeros(size, dtype=np.int64),
            self.moments,
            self.typical,
        )

    def end_link(self) -> None:
        """Note which owners have one value of the link whose entries were just added, and that one sampled."""
        sampled, values = (self.moments[:, 4:] - self._before).T
        self.lonely |= (sampled == 1) & (values == 1)
        self._before = self.moments[:, 4:].copy()

    def read(self) -> Moments:
        """Return what was added up."""
        spread = GroupSpread.of_moments(*self.moments[:, :4].T)
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

    def _sides(self, link: int) -> Iterator[tuple[int, Entries, Entries, FloatArray, FloatArray]]:
        """Yield what meets at a link, some places at a time: the first of them, both sides, their scales and rates."""
        rates, scales = self.grouped.join.probabilities[link], self._messages.factors[link][:, 0]
        parts = [self._met[link]] if link in self._met else self._messages.sides(link)
        for start, left, right in parts:
            if len(left[0]) > len(rates):
                self._met[link] = start, left, right
            yield start, left, right, scales[start:], rates[start:]

    def moments(self, *asked: Asked) -> list[Moments]:
        """Return how sure some sums are, all of them in one pass over the entries."""
        made = [_Moments(each, len(self.groups)) for each in asked]
        for link in self.links:
            self._add_to(link, made)
        return [each.read() for each in made]

    def _add_to(self, link: int, made: Sequence["_Moments"]) -> None:
        for _, left, right, scales, rates in self._sides(link):
            for each in made:
                each.add(left, right, scales, 1.0 - rates, self.groups)
        for each in made:
            each.end_link()

    @cached_property
    def rare(self) -> RareEntries:
        """The entries of groups that at most two values of a link show."""
        nothing, none = np.empty(0, dtype=np.int64), np.empty(0)
        width = len(self.grouped.quantities)
        found: list[tuple[np.ndarray, ...]] = [(np.empty((0, width)), nothing, nothing, none, none)]
        found += [self._rare(link) for link in self.links]
        return RareEntries(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _rare(self, link: int) -> tuple[np.ndarray, ...]:
        nothing, width = _Moments(Asked({}), len(self.groups)), len(self.grouped.quantities)
        self._add_to(link, [nothing])
        seen = nothing.read().values
        wanted = (seen > 0) & (seen <= RARE)
        room = int(seen[wanted].sum())
        added, groups, places = np.empty((room, width)), *np.empty((2, room), dtype=np.int64)
        done = 0
        for start, left, right, scales, _ in self._sides(link):
            at = slice(done, None)
            found = find_entries(
                *left, *right, scales, self.groups, wanted, added[at], groups[at], places[at]
            )
            places[done : done + found] += start
            done += found
        rates = self.grouped.join.probabilities[link][places]
        return added, groups, places + sum(self.grouped.sizes[:link]), rates, seen[groups]

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
