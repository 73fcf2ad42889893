"""Conditions between relations: which combinations of groups meet them, and which columns are then needed no more.

What is sent through a join tells apart the columns that conditions read, as it does groups. A condition is applied
where the relations that it reads meet first. After that, groups of a relation that differ only in columns which no
other condition waits for are one: the first of them stands for all.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.sorting import BoolArray, IntArray

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

    ranks: for either relation the rank of each group's value among those of both, -1 for NULL. size: above all ranks.
    """

    operator: str
    left: int
    right: int
    ranks: Mapping[int, IntArray]
    size: int

    def operator_from(self, relation: int) -> str:
        """Return the comparison as one of the two relations sees it, itself on the left."""
        return self.operator if relation == self.left else _TURNED.get(self.operator, self.operator)

    def holds(self, groups: Mapping[int, IntArray]) -> BoolArray:
        """Return which combinations of groups of the two meet it."""
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
    """A condition on the groups of two relations or more.

    columns: for each relation that it reads, which of its group columns. test: a comparison of two relations, or
    whatever tells which combinations meet it, given the group of each of these relations.
    """

    columns: Mapping[int, tuple[int, ...]]
    test: Compared | Holds

    @cached_property
    def relations(self) -> Relations:
        """The relations that it reads."""
        return frozenset(self.columns)


@dataclass(frozen=True, eq=False)
class Meeting:
    """What is applied where a side meets another: equalities, other conditions, and what is then told apart no more.

    mine: the relations behind the side. first: for a relation, the group that stands for each of its groups.
    """

    mine: Relations
    equated: tuple[Compared, ...]
    tested: tuple[GroupCondition, ...]
    first: Mapping[int, IntArray]

    @property
    def ordered(self) -> Compared | None:
        """The only condition beside equalities, if it is a comparison: what meets it is then a range."""
        only = self.tested[0].test if len(self.tested) == 1 else None
        return only if isinstance(only, Compared) else None

    def relation_of(self, compared: Compared, *, mine: bool) -> int:
        """Return which of two compared relations is behind the side, or behind the other."""
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
        self._meetings: dict[tuple[Relations, Relations], Meeting] = {}

    def may_hold(self, relation: int) -> BoolArray:
        """Return which groups of a relation meet each comparison with some group of another, whatever they join."""
        kept = np.ones(len(self.join.codes[relation]), dtype=np.bool_)
        for condition in self.conditions:
            if isinstance(condition.test, Compared) and relation in condition.relations:
                kept &= condition.test.may_hold(relation)
        return kept

    def meeting(self, mine: Relations, others: Relations) -> Meeting:
        """Return what is applied where two sides meet for the first time; each side: the relations behind it."""
        if (mine, others) not in self._meetings:
            both = mine | others
            fresh = [
                each
                for each in self.conditions
                if each.relations <= both and not each.relations <= mine and not each.relations <= others
            ]
            equated = [e.test for e in fresh if isinstance(e.test, Compared) and e.test.operator == "="]
            self._meetings[mine, others] = Meeting(
                mine,
                tuple(equated),
                tuple(each for each in fresh if each.test not in equated),
                {k: self._first(k, both) for k in sorted(both) if any(k in each.columns for each in fresh)},
            )
        return self._meetings[mine, others]

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

    def ranks(self, meeting: Meeting, compared: Compared, groups: IntArray, *, mine: bool) -> IntArray:
        """Return the rank of what entries of a side compare, -1 for NULL."""
        relation = meeting.relation_of(compared, mine=mine)
        return compared.ranks[relation][self.join.part(relation, groups)]

    def keys(self, meeting: Meeting, places: IntArray, groups: IntArray, *, mine: bool) -> IntArray:
        """Return a number for each entry of a side, equal for those that meet by place and equalities; -1: none do."""
        keys, missing = places.astype(np.int64), np.zeros(len(places), dtype=np.bool_)
        for each in meeting.equated:
            found = self.ranks(meeting, each, groups, mine=mine)
            keys, missing = keys * each.size + found, missing | (found < 0)
        return np.where(missing, -1, keys)

    def hold(self, meeting: Meeting, groups: IntArray) -> BoolArray:
        """Return which combinations meet the conditions other than equalities."""
        kept = np.ones(len(groups), dtype=np.bool_)
        for condition in meeting.tested:
            left = np.flatnonzero(kept)
            parts = {relation: self.join.part(relation, groups[left]) for relation in condition.columns}
            test = condition.test
            kept[left] = test.holds(parts) if isinstance(test, Compared) else test(list(parts.values()))
        return kept

    def settled(self, meeting: Meeting, groups: IntArray, *, mine: bool | None = None) -> IntArray:
        """Return combinations without what is needed no more; mine: only in the relations of one of the sides."""
        for relation, first in meeting.first.items():
            if mine is None or (relation in meeting.mine) == mine:
                own = self.join.part(relation, groups)
                groups = groups + (first[own] - own) * self.join.strides[relation]
        return groups
