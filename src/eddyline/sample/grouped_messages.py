"""Joins of dictionaries by group: sums of products over a tree of links, with the groups carried along.

This works as in `messages`, but what relations send is separated by group: for a value of a link and a group, the
sums of all quantities of the query side by side. The rows of the join are never made: a message has at most one
entry for each value and combination of groups behind it.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from eddyline.sample.carried import (
    Carried,
    Entries,
    GroupTable,
    added_up,
    any_nonzero,
    carried_through,
    group_table,
    multiplied,
    spread_out,
)
from eddyline.sample.join import Turn, turned
from eddyline.sample.packing import MOST_CELLS, BoolArray, IntArray, ordered

if TYPE_CHECKING:
    from eddyline.sample.grouped_join import GroupedJoin

Ordered = dict[tuple[int, int | None], IntArray]
"""For a relation and a link, the elements with nonzero weight, in the order of their places there."""
Leaves = dict[tuple[int, int], Carried]
"""For a relation with one link and that link, what it holds there, which no factor changes."""


class GroupedMessages:
    """What relations send to links and links to relations, by group, for all quantities at once.

    ordered: the order of elements by link, which messages of the same weights share. Weights may be narrower than the
    number type of the messages, `kind`.
    """

    def __init__(
        self,
        join: "GroupedJoin",
        weights: list[np.ndarray],
        factors: list[np.ndarray],
        ordered: Ordered | None = None,
    ) -> None:
        self.join = join
        self.weights = weights
        self.factors = factors
        self.kind = np.result_type(*weights, *factors)
        self.relations = join.join.whole_relations(join.quantities[0])
        self._turns = [
            [relations.turns for relations in quantity]
            for quantity in zip(*(join.join.whole_relations(q) for q in join.quantities), strict=True)
        ]
        self._own: dict[tuple[int, int], Carried] = {}
        self._sent: dict[tuple[int, int], Carried] = {}
        self._passed: dict[tuple[int, int], Carried] = {}
        self._ordered = {} if ordered is None else ordered
        self.leaves: Leaves = {}

    def members(self, variable: int) -> list[int]:
        """Return the relations that meet at a link."""
        return [k for k, each in enumerate(self.relations) if variable in each.variables]

    def passed(self, variable: int, relation: int) -> Carried:
        """Return what a link passes on to a relation: the product of what the others sent, scaled up."""
        if (variable, relation) not in self._passed:
            product = Carried(self.factors[variable])
            for other in self.members(variable):
                if other != relation:
                    product = product.times(self.sent(other, variable))
            self._passed[variable, relation] = product
        return self._passed[variable, relation]

    def sent(self, relation: int, variable: int) -> Carried:
        """Return what a relation sends to the places of a link, transformed by its role there."""
        if (relation, variable) not in self._sent:
            made = self.own(relation, variable)
            turns = self._turns_of(relation, variable)
            if self._is_turned(relation, variable):
                made = self._turned(made, relation, variable, turns)
            if made.groups is not None and not made.groups.any():
                made = spread_out(made, self.join.sizes[variable])
            self._sent[relation, variable] = made
        return self._sent[relation, variable]

    def own(self, relation: int, variable: int) -> Carried:
        """Return what a relation holds at the places of a link."""
        held = self.leaves if len(self.relations[relation].variables) == 1 else self._own
        if (relation, variable) not in held:
            held[relation, variable] = self._gathered(relation, variable)
        return held[relation, variable]

    def _turns_of(self, relation: int, variable: int) -> list[Turn]:
        """Return how a relation's message to a link is transformed, for each quantity."""
        position = self.relations[relation].variables.index(variable)
        return [each[position] if each else Turn.PLAIN for each in self._turns[relation]]

    def _turned(self, own: Carried, relation: int, variable: int, turns: Sequence[Turn]) -> Carried:
        """Return a message transformed by roles.

        A side that only decides has no groups. A side that may be missing keeps its entries, and has one more
        entry, in the group of NULLs, wherever it is missing.
        """
        assert own.places is not None
        assert own.groups is not None
        size, values = self.join.sizes[variable], len(self.join.join.values[variable])
        totals = own.totals(size)
        made = np.zeros_like(totals)
        for column, turn in enumerate(turns):
            others = self._others(relation, variable, column) if turn is Turn.FULL else None
            made[:, column] = turned(totals[:, column], turn, values, others)
        if not set(turns) & {Turn.OUTER, Turn.FULL}:
            return Carried(made)
        more = made - totals
        places = np.flatnonzero(any_nonzero(more))
        group = self.join.missing_group(relation, variable)
        return added_up(
            np.concatenate([own.places, places]),
            np.concatenate([own.groups, np.full(len(places), group)]),
            np.concatenate([own.sums, more[places]]),
        )

    def _others(self, relation: int, variable: int, column: int) -> BoolArray:
        """Return the places of a link where a quantity of another relation is present."""
        there = np.zeros(self.join.sizes[variable], dtype=np.bool_)
        for other in self.members(variable):
            if other != relation:
                entries = self.own(other, variable)
                assert entries.places is not None
                there[entries.places[entries.sums[:, column] != 0]] = True
        return there

    def _gathered(
        self, relation: int, towards: int | None, between: tuple[int, int] | None = None
    ) -> Carried:
        """Return the weights of elements times what reaches them through their other links, by place and group.

        towards: the link at whose places they are added up; None adds up all of them. between: only the places from
        the first number to the second, counted from the first.
        """
        rows, groups, sums, last = self._reached(relation, towards, between)
        first, stop = between or (0, 1 if towards is None else self.join.sizes[towards])
        if last is not None:
            at = self._places(relation, towards, rows) - first
            met = (at, groups, sums, _wide(last[0][rows]), last[1])
            table = group_table(*met, stop - first)
            made = (table and table.entries()) or carried_through(*met)
            if made is not None:
                return made
            rows, groups, sums = multiplied(rows, groups, sums, *last)
        return added_up(self._places(relation, towards, rows) - first, groups, sums)

    def _reached(
        self, relation: int, towards: int | None, between: tuple[int, int] | None = None
    ) -> tuple[IntArray, IntArray, np.ndarray, tuple[IntArray, Carried] | None]:
        """Return elements, their groups and weights times what reaches them through all other links but the last.

        Then, for that link, their places there and what it passes on; None if there is no other link.
        """
        mine = self.relations[relation]
        rows = self._rows(relation, towards)
        if between is not None:
            rows = rows[slice(*np.searchsorted(self._places(relation, towards, rows), between))]
        groups = self.join.codes[relation].of_rows[rows] * self.join.strides[relation]
        sums = self.weights[relation].take(rows, axis=0).astype(self.kind, copy=False)
        others = [
            (places, self.passed(variable, relation))
            for variable, places in zip(mine.variables, mine.places, strict=True)
            if variable != towards
        ]
        others.sort(key=lambda other: other[1].groups is not None)
        for places, reached in others[:-1]:
            rows, groups, sums = multiplied(rows, groups, sums, places, reached)
        return rows, groups, sums, others[-1] if others else None

    def _rows(self, relation: int, towards: int | None) -> IntArray:
        """Return the elements of a relation with nonzero weight, in the order of their places at a link."""
        if (relation, towards) not in self._ordered:
            rows = np.flatnonzero(any_nonzero(self.weights[relation]))
            if towards is not None:
                rows = rows[ordered(self._places(relation, towards, rows), self.join.sizes[towards])[0]]
            self._ordered[relation, towards] = rows
        return self._ordered[relation, towards]

    def _places(self, relation: int, towards: int | None, rows: IntArray) -> IntArray:
        mine = self.relations[relation]
        if towards is None:
            return np.zeros(len(rows), dtype=np.int64)
        return _wide(mine.places[mine.variables.index(towards)][rows])

    def at_root(self) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums) of the whole join, groups ascending."""
        if any(each for turns in self._turns for each in turns):
            total = self._met(self.join.join.root)
        else:
            total = self._gathered(self.join.root, None)
        assert total.groups is not None
        used = np.flatnonzero(any_nonzero(total.sums))
        order = used[np.argsort(total.groups[used])]
        return total.groups[order], total.sums[order][:, self.join.columns]

    def _met(self, variable: int) -> Carried:
        """Return what joins through all values of a link together, by group."""
        product = Carried(self.factors[variable])
        for relation in self.members(variable):
            product = product.times(self.sent(relation, variable))
        _, groups, sums = product.entries()
        return added_up(np.zeros(len(groups), dtype=np.int64), groups, sums)

    def sides(self, variable: int) -> Iterator[tuple[int, Entries, Entries]]:
        """Yield (first place, one side, the other): two sides that meet at the values of a link.

        The products of their entries, times the value's factor, are what joins there. If a side has too many
        entries to hold at once, they come in chunks of places.
        """
        *others, last = self.members(variable)
        size = self.join.sizes[variable]
        step = max(min(self._room(relation, variable) for relation in (*others, last)), 1)
        for start in range(0, size, step):
            met = [self._part(relation, variable, start, start + step) for relation in (*others, last)]
            if len(met) == 1:
                met.insert(0, Carried(np.ones((min(step, size - start), len(self.join.quantities)))))
            yield start, reduce(Carried.times, met[:-1]).entries(), met[-1].entries()

    def tabled(self, variable: int) -> tuple[Carried, GroupTable] | None:
        """Return two sides that meet at the values of a link, one of them as a table; None if it would be empty.

        The table is the side with most products, if it can be one; the other is what all other relations send.
        """
        members = self.members(variable)
        if any(self._is_turned(each, variable) for each in members):
            return None
        for relation in sorted(members, key=lambda each: -self._products(each, variable)):
            others = [each for each in members if each != relation]
            if all(self._room(each, variable) == self.join.sizes[variable] for each in others):
                table = self._table(relation, variable)
                if table is not None:
                    met = Carried(np.ones((self.join.sizes[variable], len(self.join.quantities))))
                    return reduce(Carried.times, (self.sent(each, variable) for each in others), met), table
        return None

    def _table(self, relation: int, variable: int) -> GroupTable | None:
        """Return what a relation sends to a link as a table; None if groups reach it by several other links."""
        mine = self.relations[relation]
        if sum(self.passed(v, relation).groups is not None for v in mine.variables if v != variable) != 1:
            return None
        rows, groups, sums, last = self._reached(relation, variable)
        assert last is not None
        at, size = self._places(relation, variable, rows), self.join.sizes[variable]
        return group_table(at, groups, sums, _wide(last[0][rows]), last[1], size)

    def only(self, groups: IntArray) -> "GroupedMessages":
        """Return the messages of elements that may be in some groups; for outer joins all: they affect others."""
        if any(each for turns in self._turns for each in turns):
            return self
        weights = []
        for codes, stride, mine in zip(self.join.codes, self.join.strides, self.weights, strict=True):
            there = np.zeros(len(codes), dtype=np.bool_)
            there[groups // stride % len(codes)] = True
            weights.append(np.where(there[codes.of_rows][:, None], mine, 0))
        return GroupedMessages(self.join, weights, self.factors)

    def _room(self, relation: int, variable: int) -> int:
        """Return for how many places of a link a relation's message can be held at once."""
        size = self.join.sizes[variable]
        if (relation, variable) in self._sent or self._is_turned(relation, variable):
            return size
        cells = max(self._products(relation, variable) * len(self.join.quantities), 1)
        return size if cells <= MOST_CELLS else max(size * MOST_CELLS // cells, 1)

    def _products(self, relation: int, towards: int) -> int:
        """Return how many products of elements and their inputs a relation sends to a link."""
        mine = self.relations[relation]
        number = np.ones(len(mine.weights), dtype=np.int64)
        for variable, places in zip(mine.variables, mine.places, strict=True):
            reached = self.passed(variable, relation) if variable != towards else None
            if reached is not None:
                number *= reached.counts(places)
        return int(number.sum())

    def _is_turned(self, relation: int, variable: int) -> bool:
        return any(turn is not Turn.PLAIN for turn in self._turns_of(relation, variable))

    def _part(self, relation: int, variable: int, start: int, stop: int) -> Carried:
        """Return what a relation sends to some places of a link."""
        size = self.join.sizes[variable]
        if self._room(relation, variable) == size:
            return self.sent(relation, variable).between(start, stop)
        return self._gathered(relation, variable, (start, stop))


def _wide(places: np.ndarray) -> IntArray:
    """Return places in 64 bits for arithmetic: they are held in narrow integers."""
    return places.astype(np.int64, copy=False)
