"""Joins of dictionaries by group under conditions between relations.

This works as `grouped_messages`, but where two sides meet, only combinations of their groups that meet the
conditions between them go on. What joins through a link is computed at a relation of several links, where its sides
meet: an element takes what reaches it through the link with the fewest entries, and the equality that closes a
cycle is looked up in the others. So for a triangle no message of two of its relations is made.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from eddyline.errors import PlanError
from eddyline.sample.carried import Carried, Entries, GroupTable
from eddyline.sample.cross_conditions import (
    CrossConditions,
    GroupCondition,
    MetEntries,
    Relations,
    Step,
    step_of,
)
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.grouped_messages import GroupedMessages, Ordered
from eddyline.sample.join import Join, behind
from eddyline.sample.packing import MOST_CELLS, IntArray
from eddyline.sample.spec import Quantity

_MOST_PAIRS = 1 << 28
"""The most pairs of groups that are made for one answer."""
_MOST_SUMS = 1 << 25
"""The most sums that one message of an answer may hold."""


class ConditionedJoin(GroupedJoin):
    """A grouped query with conditions between relations, over a state.

    kept: for each relation the columns that are groups of the answer. conditions: made for the groups of the join.
    """

    whole_floats = 0.0  # running sums include all places of a link, whatever joins there

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
        """The relation to which the others send."""
        return self.hub(range(len(self.nodes)))

    def hub(self, relations: Collection[int]) -> int:
        """Return the relation with most links; of several the one with most groups, which then travel least."""
        return max(relations, key=lambda k: (len(self.nodes[k].variables), len(self.codes[k])))

    def _messages(
        self, weights: list[np.ndarray], factors: list[np.ndarray], known: Ordered | None = None
    ) -> "ConditionedMessages":
        return ConditionedMessages(self, weights, factors, known)


class _Reached(NamedTuple):
    """What reaches a relation's elements through a link, where each is reached, and the relations behind it."""

    carried: Carried
    places: IntArray
    side: Relations


class ConditionedMessages(GroupedMessages):
    """What relations send to links and links to relations, restricted to what meets the conditions."""

    def __init__(
        self,
        join: ConditionedJoin,
        weights: list[np.ndarray],
        factors: list[np.ndarray],
        ordered: Ordered | None = None,
    ) -> None:
        super().__init__(join, weights, factors, ordered)
        self.conditions = join.conditions
        self._hub = join.hub
        self._met_at: dict[int, Carried] = {}
        self._made = 0

    def passed(self, variable: int, relation: int) -> Carried:
        """Return what a link passes on to a relation: the product of what the others sent, scaled up."""
        if (variable, relation) not in self._passed:
            found = self._joined(variable, [m for m in self.members(variable) if m != relation])
            assert found.places is not None
            scaled = found.sums * self.factors[variable][found.places]
            self._passed[variable, relation] = Carried(scaled, found.places, found.groups)
        return self._passed[variable, relation]

    def met(self, variable: int) -> Carried:
        """Return what joins through each value of a link, by group, before the value's own scaling."""
        if variable not in self._met_at:
            hub = self._hub(self.members(variable))
            own = self._joined(variable, [m for m in self.members(variable) if m != hub])
            reached = [self._arriving(variable, hub, own), *self._through_links(hub, variable)]
            self._met_at[variable] = self._collected(hub, reached, variable)
        return self._met_at[variable]

    def met_in_all(self, variable: int) -> np.ndarray:
        """Return what joins through each value of a link, all groups together."""
        found = self.met(variable)
        assert found.places is not None
        totals = np.zeros((self.join.sizes[variable], found.sums.shape[1]))
        np.add.at(totals, found.places, found.sums)
        return totals

    def sides(self, variable: int) -> Iterator[tuple[int, Entries, Entries]]:
        """Yield all that joins at the values of a link as one side; the other side is 1 everywhere."""
        ones = Carried(np.ones((self.join.sizes[variable], len(self.join.quantities))))
        yield 0, self.met(variable).entries(), ones.entries()

    def tabled(self, variable: int) -> tuple[Carried, GroupTable] | None:  # noqa: ARG002 - no link has a table
        """Return None: what joins through a value does not consist of two sides."""
        return None

    def only(self, groups: IntArray) -> "ConditionedMessages":  # noqa: ARG002 - nothing is left out
        """Return the messages of all elements: what joins through values is already known."""
        return self

    def _behind(self, variable: int, members: Collection[int]) -> Relations:
        """Return the relations that are reachable from members of a link without crossing it."""
        variables = [node.variables for node in self.join.nodes]
        return frozenset[int]().union(*(behind(variables, member, variable) for member in members))

    def _arriving(self, variable: int, relation: int, carried: Carried) -> _Reached:
        mine = self.relations[relation]
        side = self._behind(variable, set(self.members(variable)) - {relation})
        return _Reached(carried, mine.places[mine.variables.index(variable)].astype(np.int64), side)

    def _through_links(self, relation: int, without: int | None) -> list[_Reached]:
        """Return what reaches a relation through its links except one."""
        return [
            self._arriving(variable, relation, self.passed(variable, relation))
            for variable in self.relations[relation].variables
            if variable != without
        ]

    def _gathered(
        self, relation: int, towards: int | None, between: tuple[int, int] | None = None
    ) -> Carried:
        """Return the weights of elements times what reaches them through their other links, by place and group."""
        assert between is None
        return self._collected(relation, self._through_links(relation, towards), towards)

    def _joined(self, variable: int, members: Sequence[int]) -> Carried:
        """Return what some relations send to a link, multiplied at each of its places: 1 without relations."""
        everywhere = np.arange(self.join.sizes[variable])
        if not members:
            ones = np.ones((len(everywhere), len(self.join.quantities)), dtype=self.kind)
            return Carried(ones, everywhere, np.zeros_like(everywhere))
        first, *others = members
        reached = [
            _Reached(self.sent(other, variable), everywhere, self._behind(variable, [other]))
            for other in others
        ]
        found = MetEntries.of(self.sent(first, variable))
        steps = self._steps(self._behind(variable, [first]), reached)
        return self._added(self._through(found, steps), found, everywhere)

    def _collected(self, relation: int, reached: Sequence[_Reached], towards: int | None) -> Carried:
        """Return the weights of elements times what reaches them, by place of a link and group."""
        weights = self.weights[relation]
        rows = np.flatnonzero((weights != 0).any(axis=1))
        groups = self.join.codes[relation].of_rows[rows] * self.join.strides[relation]
        found = MetEntries(rows, groups, weights[rows].astype(self.kind, copy=False))
        at = self._places(relation, towards, np.arange(len(weights)))
        parts = (
            part
            for some, steps in self._orders(relation, found, reached)
            for part in self._through(some, steps)
        )
        return self._added(parts, found, at)

    def _orders(
        self, relation: int, found: MetEntries, reached: Sequence[_Reached]
    ) -> Iterator[tuple[MetEntries, list[Step]]]:
        """Yield (elements, what they meet): each element first meets its smallest input."""
        mine = frozenset({relation})
        if len(reached) < 2:
            yield found, self._steps(mine, reached)
            return
        ordered = sorted(reached, key=lambda each: len(each.carried.sums))
        counts = [step.counts(found)[1] for each in ordered for step in self._steps(mine, [each])]
        least = np.argmin(counts, axis=0)
        for place, each in enumerate(ordered):
            first = [each, *(other for other in ordered if other is not each)]
            yield found.only(least == place), self._steps(mine, first)

    def _steps(self, covered: Relations, reached: Sequence[_Reached]) -> list[Step]:
        """Return the steps in which entries of some relations meet what reaches them."""
        steps = []
        for each in reached:
            meeting = self.conditions.meeting(covered, each.side)
            steps.append(step_of(self.conditions, meeting, each.places, each.carried))
            covered |= each.side
        return steps

    def _through(self, found: MetEntries, steps: Sequence[Step]) -> Iterator[MetEntries]:
        """Yield entries once they have met all steps, in chunks."""
        if not steps:
            yield found
            return
        step, *others = steps
        for part in step.met(found, self._count):
            yield from self._through(part, others)

    def _added(self, parts: Iterator[MetEntries], like: MetEntries, at: IntArray) -> Carried:
        """Return entries added up by place and group; at: the place of each row."""
        waiting = [like.only(np.zeros(0, dtype=np.int64))]
        for part in parts:
            waiting.append(MetEntries.together([MetEntries(at[part.rows], part.groups, part.sums)]))
            if sum(len(each.rows) for each in waiting[1:]) > MOST_CELLS:
                waiting = [MetEntries.together(waiting)]
                _check_size(waiting[0])
        made = MetEntries.together(waiting)
        return Carried(made.sums, made.rows, made.groups)

    def _count(self, pairs: int) -> None:
        self._made += pairs
        if self._made > _MOST_PAIRS:
            raise PlanError(
                f"this query's conditions between relations would be tried on more than {_MOST_PAIRS:,} pairs of "
                "groups: restrict the relations, or join them on one more column."
            )


def _check_size(made: MetEntries) -> None:
    if made.sums.size > _MOST_SUMS:
        raise PlanError(
            f"this query's conditions between relations leave more than {_MOST_SUMS:,} sums to hold at once: ask for "
            "fewer groups, or restrict the relations."
        )
