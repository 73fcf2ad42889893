"""Joins of dictionaries by group under conditions between relations.

As `grouped_messages`, but where two sides meet only those combinations of their groups go on that meet the conditions
between them. Equalities are looked up, so that of a cycle of joins only what closes it is made; other conditions are
tried on all pairs that meet at a value. Pairs are made some at a time, and added up.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.errors import PlanError
from eddyline.sample.carried import MOST_CELLS, Carried, Entries, added_up
from eddyline.sample.cross_conditions import CrossConditions, GroupCondition, Meeting, Relations
from eddyline.sample.grouped_messages import GroupedJoin, GroupedMessages
from eddyline.sample.join import Join, behind
from eddyline.sample.sorting import IntArray
from eddyline.sample.spec import Quantity

_MOST_PAIRS = 1 << 28
"""Of groups on which the conditions of an answer are tried."""
_MOST_SUMS = 1 << 25
"""That one message of an answer may hold."""


class ConditionedJoin(GroupedJoin):
    """A grouped query with conditions between relations, over a state.

    kept: for each relation the columns that are groups of the answer. conditions: made for the groups of the join.
    """

    def __init__(
        self,
        join: Join,
        quantities: Sequence[Quantity],
        kept: Sequence[Collection[int]],
        conditions: Callable[[GroupedJoin], Sequence[GroupCondition]],
    ) -> None:
        super().__init__(join, quantities)
        self.conditions = CrossConditions(self, kept, conditions(self))

    @property
    def root(self) -> int:
        """The relation to which the others send: of those with one link the one with most groups."""
        ends = [k for k, node in enumerate(self.nodes) if len(node.variables) == 1]
        return max(ends, key=lambda k: len(self.codes[k]))

    def _messages(self, weights: list[np.ndarray], factors: list[np.ndarray]) -> "ConditionedMessages":
        return ConditionedMessages(self, weights, factors)


@dataclass(frozen=True)
class _Step:
    """What entries meet next: entries of a side by place, in order of their keys, and what is applied there."""

    meeting: Meeting
    places: IntArray
    keys: IntArray
    groups: IntArray
    sums: np.ndarray


@dataclass(frozen=True)
class _Found:
    """Entries on their way: which element (or place) each belongs to, its group and its sums."""

    rows: IntArray
    groups: IntArray
    sums: np.ndarray

    @classmethod
    def of(cls, carried: Carried) -> "_Found":
        """Return the entries of a message that are not 0, each with its place."""
        starts, groups, sums = carried.entries()
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        used = np.flatnonzero((sums != 0).any(axis=1))
        return cls(rows[used], groups[used], sums[used])

    def added_up(self) -> "_Found":
        """Return entries of equal row and group as one."""
        made = added_up(self.rows, self.groups, self.sums)
        assert made.places is not None
        assert made.groups is not None
        return _Found(made.places, made.groups, made.sums)


class ConditionedMessages(GroupedMessages):
    """What relations send to links and links to relations, where it meets the conditions."""

    def __init__(self, join: ConditionedJoin, weights: list[np.ndarray], factors: list[np.ndarray]) -> None:
        super().__init__(join, weights, factors)
        self.conditions = join.conditions
        self._at: dict[int, Carried] = {}
        self._pairs = 0

    def passed(self, variable: int, relation: int) -> Carried:
        """Return what a link passes on to a relation: the product of what the others sent, scaled up."""
        if (variable, relation) not in self._passed:
            others = [other for other in self.members(variable) if other != relation]
            found = self._joined(variable, others)
            assert found.places is not None
            scaled = found.sums * self.factors[variable][found.places]
            self._passed[variable, relation] = Carried(scaled, found.places, found.groups)
        return self._passed[variable, relation]

    def met(self, variable: int) -> Carried:
        """Return what joins through each value of a link, by group, before the value's own scaling."""
        if variable not in self._at:
            self._at[variable] = self._joined(variable, self.members(variable))
        return self._at[variable]

    def met_in_all(self, variable: int) -> np.ndarray:
        """Return what joins through each value of a link, all groups together."""
        found = self.met(variable)
        assert found.places is not None
        totals = np.zeros((self.join.sizes[variable], found.sums.shape[1]))
        np.add.at(totals, found.places, found.sums)
        return totals

    def sides(self, variable: int) -> Iterator[tuple[int, Entries, Entries]]:
        """Yield all that joins at the values of a link as one side; the other is 1 everywhere."""
        ones = Carried(np.ones((self.join.sizes[variable], len(self.join.quantities))))
        yield 0, self.met(variable).entries(), ones.entries()

    def _behind(self, variable: int, members: Collection[int]) -> Relations:
        """Return the relations that are reached from members of a link without crossing it."""
        variables = [node.variables for node in self.join.nodes]
        return frozenset[int]().union(*(behind(variables, member, variable) for member in members))

    def _joined(self, variable: int, members: Sequence[int]) -> Carried:
        """Return what some relations send to a link, multiplied at each of its places."""
        first, *others = members
        everywhere = np.arange(self.join.sizes[variable])
        covered, steps = self._behind(variable, [first]), []
        for other in others:
            side = self._behind(variable, [other])
            steps.append(self._step(self.sent(other, variable), everywhere, covered, side))
            covered |= side
        return self._added(_Found.of(self.sent(first, variable)), steps, everywhere)

    def _gathered(
        self, relation: int, towards: int | None, between: tuple[int, int] | None = None
    ) -> Carried:
        """Return the weights of elements times what reaches them through their other links, by place and group."""
        assert between is None
        mine, weights = self.relations[relation], self.weights[relation]
        others = [
            (self.passed(variable, relation), variable, places)
            for variable, places in zip(mine.variables, mine.places, strict=True)
            if variable != towards
        ]
        covered, steps = frozenset({relation}), []
        for reached, variable, places in sorted(others, key=lambda other: len(other[0].sums)):
            side = self._behind(variable, set(self.members(variable)) - {relation})
            steps.append(self._step(reached, places, covered, side))
            covered |= side
        rows = np.flatnonzero((weights != 0).any(axis=1))
        groups = self.join.codes[relation].of_rows[rows] * self.join.strides[relation]
        at = self._places(relation, towards, np.arange(len(weights)))
        return self._added(_Found(rows, groups, weights[rows]), steps, at)

    def _step(self, reached: Carried, places: IntArray, covered: Relations, side: Relations) -> _Step:
        """Return how entries of some relations meet what reaches them from a side; places: where each row does."""
        meeting = self.conditions.meeting(covered, side)
        theirs = _Found.of(reached)
        if not self.conditions.can_key(meeting, len(places) + len(theirs.rows)):
            raise PlanError(
                "the columns that close the cycles of this join have more values than can be numbered together: leave "
                "one of its equalities out."
            )
        keys = self.conditions.keys(meeting, theirs.rows, theirs.groups, mine=False)
        order = np.flatnonzero(keys >= 0)
        order = order[np.argsort(keys[order], kind="stable")]
        return _Step(meeting, places, keys[order], theirs.groups[order], theirs.sums[order])

    def _added(self, found: _Found, steps: Sequence[_Step], at: IntArray) -> Carried:
        """Return entries once they have met all steps, added up by place and group; at: the place of each row."""
        made = _Found(found.rows[:0], found.groups[:0], found.sums[:0])
        waiting = [made]
        for part in self._through(found, steps):
            waiting.append(_Found(at[part.rows], part.groups, part.sums).added_up())
            if sum(len(each.rows) for each in waiting[1:]) > MOST_CELLS:
                waiting = [_together(waiting)]
                self._check_room(waiting[0])
        made = _together(waiting)
        return Carried(made.sums, made.rows, made.groups)

    def _check_room(self, made: _Found) -> None:
        if made.sums.size > _MOST_SUMS:
            raise PlanError(
                f"this query's conditions between relations leave more than {_MOST_SUMS:,} sums to hold at once: ask "
                "for fewer groups, or restrict the relations."
            )

    def _through(self, found: _Found, steps: Sequence[_Step]) -> Iterator[_Found]:
        """Yield entries once they have met all steps, some at a time."""
        if not steps:
            yield found
            return
        step, *others = steps
        keys = self.conditions.keys(step.meeting, step.places[found.rows], found.groups, mine=True)
        starts = np.searchsorted(step.keys, keys, side="left")
        counts = np.where(keys < 0, 0, np.searchsorted(step.keys, keys, side="right") - starts)
        self._count(int(counts.sum()))
        for first, last in _slices(counts, MOST_CELLS // found.sums.shape[1]):
            mine = np.repeat(np.arange(first, last), counts[first:last])
            before = np.cumsum(counts[first:last]) - counts[first:last]
            theirs = np.arange(len(mine)) + np.repeat(starts[first:last] - before, counts[first:last])
            yield from self._through(self._meet(found, step, mine, theirs), others)

    def _meet(self, found: _Found, step: _Step, mine: IntArray, theirs: IntArray) -> _Found:
        """Return pairs of entries that meet the conditions of a step."""
        groups = found.groups[mine] + step.groups[theirs]
        if step.meeting.tested:
            kept = np.flatnonzero(self.conditions.hold(step.meeting, groups))
            mine, theirs, groups = mine[kept], theirs[kept], groups[kept]
        sums = found.sums[mine] * step.sums[theirs]
        groups = self.conditions.settled(step.meeting, groups)
        used = (sums != 0).any(axis=1)
        return _Found(found.rows[mine][used], groups[used], sums[used])

    def _count(self, pairs: int) -> None:
        self._pairs += pairs
        if self._pairs > _MOST_PAIRS:
            raise PlanError(
                f"this query's conditions between relations would be tried on more than {_MOST_PAIRS:,} pairs of "
                "groups: restrict the relations, or join them on one more column."
            )


def _slices(counts: IntArray, room: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of entries that make at most so many pairs together, or of one entry."""
    ends = np.cumsum(counts)
    first, done = 0, 0
    while first < len(counts) and done < ends[-1]:
        last = max(int(np.searchsorted(ends, done + room, side="right")), first + 1)
        yield first, last
        first, done = last, int(ends[last - 1])


def _together(parts: Sequence[_Found]) -> _Found:
    """Return entries of several parts, added up."""
    columns = (
        np.concatenate(each) for each in zip(*((p.rows, p.groups, p.sums) for p in parts), strict=True)
    )
    return _Found(*columns).added_up()
