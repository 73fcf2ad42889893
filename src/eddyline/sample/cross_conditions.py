"""Conditions between relations: which combinations of groups meet them, and which columns are then needed no more.

What is sent through a join tells apart the columns that conditions read, as it does groups. A condition is applied
where the relations that it reads meet first. After that, groups of a relation that differ only in columns which no
other condition waits for are one: the first of them stands for all.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.sample.grouped_messages import GroupedJoin
from eddyline.sample.sorting import BoolArray, IntArray

Relations = frozenset[int]
Holds = Callable[[Sequence[IntArray]], BoolArray]
_MOST_KEYS = 1 << 62


@dataclass(frozen=True, eq=False)
class GroupCondition:
    """A condition on the groups of two relations or more.

    columns: for each relation that it reads, which of its group columns. holds: tells which combinations meet it, given
    the group of each of these relations; None: its two columns are equal by their codes, and not NULL.
    """

    columns: Mapping[int, tuple[int, ...]]
    holds: Holds | None = None

    @cached_property
    def relations(self) -> Relations:
        """The relations that it reads."""
        return frozenset(self.columns)


@dataclass(frozen=True, eq=False)
class Equated:
    """An equality between two sides that meet: for each group of either the number of its value, -1 for NULL."""

    mine: int
    theirs: int
    my_values: IntArray
    their_values: IntArray
    size: int


@dataclass(frozen=True, eq=False)
class Meeting:
    """What is applied where two sides meet: equalities, other conditions, and what is then told apart no more.

    first: for a relation, the group that stands for each of its groups.
    """

    equated: tuple[Equated, ...]
    tested: tuple[GroupCondition, ...]
    first: Mapping[int, IntArray]


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
        self._meetings: dict[tuple[Relations, Relations], Meeting] = {}

    def meeting(self, mine: Relations, others: Relations) -> Meeting:
        """Return what is applied where two sides meet for the first time; each side: the relations behind it."""
        if (mine, others) not in self._meetings:
            both = mine | others
            fresh = [
                each
                for each in self.conditions
                if each.relations <= both and not each.relations <= mine and not each.relations <= others
            ]
            self._meetings[mine, others] = Meeting(
                tuple(self._equated(each, mine) for each in fresh if each.holds is None),
                tuple(each for each in fresh if each.holds is not None),
                {k: self._first(k, both) for k in sorted(both) if any(k in each.columns for each in fresh)},
            )
        return self._meetings[mine, others]

    def _equated(self, condition: GroupCondition, mine: Relations) -> Equated:
        """Return an equality with equal numbers for equal values of both sides."""
        one, other = sorted(condition.columns, key=lambda relation: relation not in mine)
        sides = [
            (self.join.codes[k].codes[column], self.join.codes[k].nulls[column])
            for k in (one, other)
            for column in condition.columns[k]
        ]
        values, numbers = np.unique(np.concatenate([codes for codes, _ in sides]), return_inverse=True)
        numbers = np.where(np.concatenate([null for _, null in sides]), -1, numbers)
        ours = len(sides[0][0])
        return Equated(one, other, numbers[:ours], numbers[ours:], max(len(values), 1))

    def _first(self, relation: int, both: Relations) -> IntArray:
        """Return for each group of a relation the first that is the same in all columns that are needed beyond here."""
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

    def keys(self, meeting: Meeting, places: IntArray, groups: IntArray, *, mine: bool) -> IntArray:
        """Return a number for each entry of a side, equal for those that meet by place and equalities; -1: none do."""
        keys, missing = places.astype(np.int64), np.zeros(len(places), dtype=np.bool_)
        for each in meeting.equated:
            relation, values = (each.mine, each.my_values) if mine else (each.theirs, each.their_values)
            found = values[self.join.part(relation, groups)]
            keys, missing = keys * each.size + found, missing | (found < 0)
        return np.where(missing, -1, keys)

    def can_key(self, meeting: Meeting, places: int) -> bool:
        """Return whether places and equalities can be numbered together."""
        number = places
        for each in meeting.equated:
            number *= each.size
        return number < _MOST_KEYS

    def hold(self, meeting: Meeting, groups: IntArray) -> BoolArray:
        """Return which combinations meet the conditions other than equalities."""
        kept = np.ones(len(groups), dtype=np.bool_)
        for condition in meeting.tested:
            assert condition.holds is not None
            left = np.flatnonzero(kept)
            parts = [self.join.part(relation, groups[left]) for relation in condition.columns]
            kept[left] = condition.holds(parts)
        return kept

    def settled(self, meeting: Meeting, groups: IntArray) -> IntArray:
        """Return combinations in which columns that are needed no more are told apart no more."""
        for relation, first in meeting.first.items():
            own = self.join.part(relation, groups)
            groups = groups + (first[own] - own) * self.join.strides[relation]
        return groups
