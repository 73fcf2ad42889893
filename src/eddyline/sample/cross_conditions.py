"""Conditions between relations: which combinations of groups and entries satisfy them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.errors import PlanError
from eddyline.sample.carried import Carried, added_up
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.packing import BoolArray, IntArray

# Messages through a join distinguish the columns that conditions read, just like groups. A condition is
# applied where the relations that it reads first meet. After that, groups of a relation that differ only in
# columns which no other condition needs are merged: the first of them represents all.


Relations = frozenset[int]
Holds = Callable[[Sequence[IntArray]], BoolArray]
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARE: dict[str, Callable[[IntArray, IntArray], BoolArray]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "<>": np.not_equal,
}


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison of a column of one relation with one of another.

    ranks: for each relation the rank of each group's value among those of both, -1 for NULL. size: above all ranks.
    """

    operator: str
    left: int
    right: int
    ranks: Mapping[int, IntArray]
    size: int

    def operator_from(self, relation: int) -> str:
        """Return the comparison with one of the two relations on the left."""
        return self.operator if relation == self.left else _TURNED.get(self.operator, self.operator)

    def holds(self, groups: Mapping[int, IntArray]) -> BoolArray:
        """Return which combinations of groups of the two relations meet it."""
        left, right = (self.ranks[relation][groups[relation]] for relation in (self.left, self.right))
        return _COMPARE[self.operator](left, right) & (left >= 0) & (right >= 0)

    def may_hold(self, relation: int) -> BoolArray:
        """Return which groups of one of the two relations meet it with some group of the other."""
        mine, other = self.ranks[relation], self.ranks[self.right if relation == self.left else self.left]
        others = np.unique(other[other >= 0])
        operator = self.operator_from(relation)
        if len(others) == 0:
            return np.zeros(len(mine), dtype=np.bool_)
        if operator == "=":
            return np.isin(mine, others)
        if operator == "<>" and len(others) > 1:
            return mine >= 0
        return _COMPARE[operator](mine, others[-1] if operator in ("<", "<=") else others[0]) & (mine >= 0)


@dataclass(frozen=True, eq=False)
class GroupCondition:
    """A condition on the groups of two or more relations.

    columns: for each relation that it reads, which of its group columns. test: a comparison of two relations, or a
    function that returns which combinations meet it, given the group of each of these relations.
    """

    columns: Mapping[int, tuple[int, ...]]
    test: Compared | Holds

    @cached_property
    def relations(self) -> Relations:
        """The relations that it reads."""
        return frozenset(self.columns)


@dataclass(frozen=True, eq=False)
class MeetingRule:
    """What is applied where a side meets another: equalities, other conditions, and columns no longer needed.

    mine: the relations behind the side. first: for a relation, the group that represents each of its groups.
    """

    mine: Relations
    equated: tuple[Compared, ...]
    tested: tuple[GroupCondition, ...]
    first: Mapping[int, IntArray]

    @property
    def ordered(self) -> Compared | None:
        """The only condition besides equalities, if it is a comparison: the matches are then a range."""
        only = self.tested[0].test if len(self.tested) == 1 else None
        return only if isinstance(only, Compared) else None

    def relation_of(self, compared: Compared, *, mine: bool) -> int:
        """Return which of two compared relations is behind the side, or behind the other side."""
        return compared.left if (compared.left in self.mine) == mine else compared.right


class CrossConditions:
    """The conditions of a grouped join.

    kept: for each relation the columns that are groups of the answer, and not only read by conditions.
    """

    def __init__(
        self, join: GroupedJoin, kept: Sequence[Collection[int]], conditions: Sequence[GroupCondition]
    ) -> None:
        self.join = join
        self.kept = kept
        self.conditions = conditions
        self._meetings: dict[tuple[Relations, Relations], MeetingRule] = {}

    def may_hold(self, relation: int) -> BoolArray:
        """Return which groups of a relation meet each comparison with some group of another, whatever they join."""
        kept = np.ones(len(self.join.codes[relation]), dtype=np.bool_)
        for condition in self.conditions:
            if isinstance(condition.test, Compared) and relation in condition.relations:
                kept &= condition.test.may_hold(relation)
        return kept

    def meeting(self, mine: Relations, others: Relations) -> MeetingRule:
        """Return what is applied where two sides first meet; each side: the relations behind it."""
        if (mine, others) not in self._meetings:
            both = mine | others
            fresh = [
                each
                for each in self.conditions
                if each.relations <= both and not each.relations <= mine and not each.relations <= others
            ]
            equated = [e.test for e in fresh if isinstance(e.test, Compared) and e.test.operator == "="]
            self._meetings[mine, others] = MeetingRule(
                mine,
                tuple(equated),
                tuple(each for each in fresh if each.test not in equated),
                {k: self._first(k, both) for k in sorted(both) if any(k in each.columns for each in fresh)},
            )
        return self._meetings[mine, others]

    def _first(self, relation: int, both: Relations) -> IntArray:
        """Return for each group of a relation the first group that is equal in all columns still needed."""
        waiting = (each for each in self.conditions if not each.relations <= both)
        needed = {column for each in waiting for column in each.columns.get(relation, ())}
        codes = self.join.codes[relation]
        number = np.zeros(len(codes), dtype=np.int64)
        for column in sorted(needed | set(self.kept[relation])):
            for part in (codes.codes[column], codes.nulls[column]):
                values, places = np.unique(part, return_inverse=True)
                _, number = np.unique(number * len(values) + places, return_inverse=True)
        _, first = np.unique(number, return_index=True)
        return np.asarray(first[number], dtype=np.int64)

    def ranks(self, meeting: MeetingRule, compared: Compared, groups: IntArray, *, mine: bool) -> IntArray:
        """Return the rank of the compared value of entries of a side, -1 for NULL."""
        relation = meeting.relation_of(compared, mine=mine)
        return compared.ranks[relation][self.join.part(relation, groups)]

    def keys(self, meeting: MeetingRule, places: IntArray, groups: IntArray, *, mine: bool) -> IntArray:
        """Return a number for each entry of a side, equal if they meet by place and equalities; -1: no match."""
        keys, missing = places.astype(np.int64), np.zeros(len(places), dtype=np.bool_)
        for each in meeting.equated:
            found = self.ranks(meeting, each, groups, mine=mine)
            keys, missing = keys * each.size + found, missing | (found < 0)
        return np.where(missing, -1, keys)

    def hold(self, meeting: MeetingRule, groups: IntArray) -> BoolArray:
        """Return which combinations meet the conditions other than equalities."""
        kept = np.ones(len(groups), dtype=np.bool_)
        for condition in meeting.tested:
            left = np.flatnonzero(kept)
            parts = {relation: self.join.part(relation, groups[left]) for relation in condition.columns}
            test = condition.test
            kept[left] = test.holds(parts) if isinstance(test, Compared) else test(list(parts.values()))
        return kept

    def settled(self, meeting: MeetingRule, groups: IntArray, *, mine: bool | None = None) -> IntArray:
        """Return combinations without columns no longer needed; mine: only in the relations of one of the sides."""
        for relation, first in meeting.first.items():
            if mine is None or (relation in meeting.mine) == mine:
                own = self.join.part(relation, groups)
                groups = groups + (first[own] - own) * self.join.strides[relation]
        return groups


# Entries that meet what another side sent: which pairs exist, in chunks, and their results.
#
# Pairs by place and equality are looked up. If only one comparison is left to test, its matches are a range
# of the other side in the order of its values, and the sums of a range are a difference of running sums: the
# pairs are not made. Other conditions are tested on every pair.


_ROOM = 1 << 20
"""The most products that are made at once."""
_MOST_KEYS = 1 << 62


@dataclass(frozen=True)
class MetEntries:
    """Entries in transit: the element (or place) that each belongs to, its group and its sums."""

    rows: IntArray
    groups: IntArray
    sums: np.ndarray

    @classmethod
    def of(cls, carried: Carried) -> "MetEntries":
        """Return the entries of a message that are not 0, each with its place."""
        starts, groups, sums = carried.entries()
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return cls(rows, groups, sums).only((sums != 0).any(axis=1))

    @classmethod
    def together(cls, parts: Sequence["MetEntries"]) -> "MetEntries":
        """Return the entries of several parts, with those of equal row and group added up."""
        columns = zip(*((part.rows, part.groups, part.sums) for part in parts), strict=True)
        made = added_up(*(np.concatenate(each) for each in columns))
        assert made.places is not None
        assert made.groups is not None
        return cls(made.places, made.groups, made.sums)

    def only(self, which: np.ndarray) -> "MetEntries":
        """Return some of the entries."""
        return MetEntries(self.rows[which], self.groups[which], self.sums[which])


class Step:
    """What entries meet next: a side's entries, and what is applied there; places: where each row meets them."""

    def __init__(
        self, conditions: CrossConditions, meeting: MeetingRule, places: IntArray, theirs: MetEntries
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

    def _sort(self, theirs: MetEntries, keys: IntArray) -> None:
        """Take the other side's entries, in the order of their keys."""
        order = np.argsort(keys, kind="stable")
        self.keys, self.theirs = keys[order], theirs.only(order)

    def counts(self, found: MetEntries) -> tuple[IntArray, IntArray]:
        """Return for each entry (where its matches begin, how many there are)."""
        keys = self.conditions.keys(self.meeting, self.places[found.rows], found.groups, mine=True)
        starts = np.searchsorted(self.keys, keys, side="left")
        return starts, np.where(keys < 0, 0, np.searchsorted(self.keys, keys, side="right") - starts)

    def met(self, found: MetEntries, count: Callable[[int], None]) -> Iterator[MetEntries]:
        """Yield the results of entries, in chunks; count: is called with the number of pairs made."""
        starts, counts = self.counts(found)
        count(int(counts.sum()))
        for first, last in _slices(counts, _ROOM // found.sums.shape[1]):
            some = counts[first:last]
            mine = np.repeat(np.arange(first, last), some)
            theirs = np.arange(len(mine)) + np.repeat(starts[first:last] - np.cumsum(some) + some, some)
            made = self._pairs(found, mine, theirs)
            yield made.only((made.sums != 0).any(axis=1))

    def _pairs(self, found: MetEntries, mine: IntArray, theirs: IntArray) -> MetEntries:
        """Return the pairs that meet the conditions."""
        groups = found.groups[mine] + self.theirs.groups[theirs]
        if self.meeting.tested:
            kept = np.flatnonzero(self.conditions.hold(self.meeting, groups))
            mine, theirs, groups = mine[kept], theirs[kept], groups[kept]
        sums = found.sums[mine] * self.theirs.sums[theirs]
        return MetEntries(found.rows[mine], self.conditions.settled(self.meeting, groups), sums)


class OrderedStep(Step):
    """A step whose only test is a comparison: blocks of the other side, each in the order of compared values."""

    def _sort(self, theirs: MetEntries, keys: IntArray) -> None:
        """Take the other side's entries as blocks of equal key and group, without the compared column."""
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
        self.theirs = MetEntries(self.keys, groups[first], theirs.sums[:0])
        self.ranked = (np.cumsum(first) - 1) * compared.size + ranks[order]
        none = np.zeros((1, theirs.sums.shape[1]), dtype=theirs.sums.dtype)
        self.running = np.concatenate([none, np.cumsum(theirs.sums[order], axis=0)])

    def _pairs(self, found: MetEntries, mine: IntArray, theirs: IntArray) -> MetEntries:
        """Return entries with the sums of everything in range, block by block."""
        ranks = self.conditions.ranks(self.meeting, self.compared, found.groups, mine=True)[mine]
        known = np.flatnonzero(ranks >= 0)
        mine, theirs, ranks = mine[known], theirs[known], ranks[known]
        sums = found.sums[mine] * self._in_range(theirs, ranks)
        groups = self.conditions.settled(self.meeting, found.groups, mine=True)[mine]
        return MetEntries(found.rows[mine], groups + self.theirs.groups[theirs], sums)

    def _in_range(self, blocks: IntArray, ranks: IntArray) -> np.ndarray:
        """Return the sums of what is beyond a rank in each block, or up to it, depending on the comparison."""
        wanted = blocks * self.compared.size + ranks
        low, high = (np.searchsorted(self.ranked, wanted, side=side) for side in ("left", "right"))
        start, stop, total = self.starts[blocks], self.starts[blocks + 1], self.running
        operator = self.compared.operator_from(self.meeting.relation_of(self.compared, mine=True))
        if operator == "<>":
            return np.asarray((total[low] - total[start]) + (total[stop] - total[high]))
        if operator in ("<", "<="):
            return np.asarray(total[stop] - total[high if operator == "<" else low])
        return np.asarray(total[low if operator == ">" else high] - total[start])


def step_of(conditions: CrossConditions, meeting: MeetingRule, places: IntArray, theirs: Carried) -> Step:
    """Return how entries meet what a side sent."""
    kind = Step if meeting.ordered is None else OrderedStep
    return kind(conditions, meeting, places, MetEntries.of(theirs))


def _slices(counts: IntArray, room: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of entries that make at most `room` pairs together, or of one entry."""
    ends = np.cumsum(counts)
    first, done = 0, 0
    while first < len(counts) and done < ends[-1]:
        last = max(int(np.searchsorted(ends, done + room, side="right")), first + 1)
        yield first, last
        first, done = last, int(ends[last - 1])
