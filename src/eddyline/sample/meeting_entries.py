"""Entries that meet what another side sent: which pairs there are, some at a time, and what becomes of them.

Pairs by place and equality are looked up. Where one comparison is all that is left to test, what meets it is a range of
the other side in order of its values, and the sums of a range are a difference of running sums: the pairs are not made.
Other conditions are tried on every pair.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.errors import PlanError
from eddyline.sample.carried import Carried, added_up
from eddyline.sample.cross_conditions import CrossConditions, Meeting
from eddyline.sample.sorting import IntArray

_ROOM = 1 << 20
"""Of products that are made at once."""
_MOST_KEYS = 1 << 62


@dataclass(frozen=True)
class Found:
    """Entries on their way: which element (or place) each belongs to, its group and its sums."""

    rows: IntArray
    groups: IntArray
    sums: np.ndarray

    @classmethod
    def of(cls, carried: Carried) -> "Found":
        """Return the entries of a message that are not 0, each with its place."""
        starts, groups, sums = carried.entries()
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return cls(rows, groups, sums).only((sums != 0).any(axis=1))

    @classmethod
    def together(cls, parts: Sequence["Found"]) -> "Found":
        """Return the entries of several parts, those of equal row and group added up."""
        columns = zip(*((part.rows, part.groups, part.sums) for part in parts), strict=True)
        made = added_up(*(np.concatenate(each) for each in columns))
        assert made.places is not None
        assert made.groups is not None
        return cls(made.places, made.groups, made.sums)

    def only(self, which: np.ndarray) -> "Found":
        """Return some of the entries."""
        return Found(self.rows[which], self.groups[which], self.sums[which])


class Step:
    """What entries meet next: the entries of a side, and what is applied there; places: where each row meets them."""

    def __init__(
        self, conditions: CrossConditions, meeting: Meeting, places: IntArray, theirs: Found
    ) -> None:
        self.conditions = conditions
        self.meeting = meeting
        self.places = places
        most = int(max(places.max(initial=0), theirs.rows.max(initial=0))) + 1
        for each in meeting.equated:
            most *= each.size
        if most >= _MOST_KEYS:
            raise PlanError(
                "the columns that close the cycles of this join have more values than can be numbered together: leave "
                "one of its equalities out."
            )
        keys = conditions.keys(meeting, theirs.rows, theirs.groups, mine=False)
        self._sort(theirs.only(keys >= 0), keys[keys >= 0])

    def _sort(self, theirs: Found, keys: IntArray) -> None:
        """Take the other side's entries, in order of their keys."""
        order = np.argsort(keys, kind="stable")
        self.keys, self.theirs = keys[order], theirs.only(order)

    def counts(self, found: Found) -> tuple[IntArray, IntArray]:
        """Return for each entry (where what it meets begins, how much it is)."""
        keys = self.conditions.keys(self.meeting, self.places[found.rows], found.groups, mine=True)
        starts = np.searchsorted(self.keys, keys, side="left")
        return starts, np.where(keys < 0, 0, np.searchsorted(self.keys, keys, side="right") - starts)

    def met(self, found: Found, count: Callable[[int], None]) -> Iterator[Found]:
        """Yield what comes of entries, some at a time; count: is told how many pairs are made."""
        starts, counts = self.counts(found)
        count(int(counts.sum()))
        for first, last in _slices(counts, _ROOM // found.sums.shape[1]):
            some = counts[first:last]
            mine = np.repeat(np.arange(first, last), some)
            theirs = np.arange(len(mine)) + np.repeat(starts[first:last] - np.cumsum(some) + some, some)
            made = self._pairs(found, mine, theirs)
            yield made.only((made.sums != 0).any(axis=1))

    def _pairs(self, found: Found, mine: IntArray, theirs: IntArray) -> Found:
        """Return the pairs that meet the conditions."""
        groups = found.groups[mine] + self.theirs.groups[theirs]
        if self.meeting.tested:
            kept = np.flatnonzero(self.conditions.hold(self.meeting, groups))
            mine, theirs, groups = mine[kept], theirs[kept], groups[kept]
        sums = found.sums[mine] * self.theirs.sums[theirs]
        return Found(found.rows[mine], self.conditions.settled(self.meeting, groups), sums)


class OrderedStep(Step):
    """A step whose only test is a comparison: blocks of the other side, each in order of what is compared."""

    def _sort(self, theirs: Found, keys: IntArray) -> None:
        """Take the other side's entries as blocks of equal key and group, without what is compared."""
        compared = self.meeting.ordered
        assert compared is not None
        self.compared = compared
        ranks = self.conditions.ranks(self.meeting, compared, theirs.groups, mine=False)
        groups = self.conditions.settled(self.meeting, theirs.groups, mine=False)
        order = np.flatnonzero(ranks >= 0)
        order = order[np.lexsort((ranks[order], groups[order], keys[order]))]
        keys, groups = keys[order], groups[order]
        first = np.ones(len(keys), dtype=np.bool_)
        first[1:] = (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1])
        self.starts = np.append(np.flatnonzero(first), len(keys))
        self.keys = keys[first]
        self.theirs = Found(self.keys, groups[first], theirs.sums[:0])
        self.ranked = (np.cumsum(first) - 1) * compared.size + ranks[order]
        none = np.zeros((1, theirs.sums.shape[1]), dtype=theirs.sums.dtype)
        self.running = np.concatenate([none, np.cumsum(theirs.sums[order], axis=0)])

    def _pairs(self, found: Found, mine: IntArray, theirs: IntArray) -> Found:
        """Return entries with the sums of all that is in range, block by block."""
        ranks = self.conditions.ranks(self.meeting, self.compared, found.groups, mine=True)[mine]
        known = np.flatnonzero(ranks >= 0)
        mine, theirs, ranks = mine[known], theirs[known], ranks[known]
        sums = found.sums[mine] * self._in_range(theirs, ranks)
        groups = self.conditions.settled(self.meeting, found.groups, mine=True)[mine]
        return Found(found.rows[mine], groups + self.theirs.groups[theirs], sums)

    def _in_range(self, blocks: IntArray, ranks: IntArray) -> np.ndarray:
        """Return the sums of what is beyond a rank in each block, or up to it, as the comparison says."""
        wanted = blocks * self.compared.size + ranks
        low, high = (np.searchsorted(self.ranked, wanted, side=side) for side in ("left", "right"))
        start, stop, total = self.starts[blocks], self.starts[blocks + 1], self.running
        operator = self.compared.operator_from(self.meeting.relation_of(self.compared, mine=True))
        if operator == "<>":
            return np.asarray((total[low] - total[start]) + (total[stop] - total[high]))
        if operator in ("<", "<="):
            return np.asarray(total[stop] - total[high if operator == "<" else low])
        return np.asarray(total[low if operator == ">" else high] - total[start])


def step_of(conditions: CrossConditions, meeting: Meeting, places: IntArray, theirs: Carried) -> Step:
    """Return how entries meet what a side sent."""
    kind = Step if meeting.ordered is None else OrderedStep
    return kind(conditions, meeting, places, Found.of(theirs))


def _slices(counts: IntArray, room: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of entries that make at most so many pairs together, or of one entry."""
    ends = np.cumsum(counts)
    first, done = 0, 0
    while first < len(counts) and done < ends[-1]:
        last = max(int(np.searchsorted(ends, done + room, side="right")), first + 1)
        yield first, last
        first, done = last, int(ends[last - 1])
