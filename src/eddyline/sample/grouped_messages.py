"""Joins of dictionaries by group: sums of products over a tree of links, with the groups carried along.

As in `messages`, but what relations send is told apart by group: for a value of a link and a group, the sums of all
quantities of the query side by side. The rows of the join are never made: a message has at most one entry for each
value and combination of groups behind it. A relation's groups are numbered; the number of a combination is the sum of
its parts, each times its own stride.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
import pyarrow as pa

from eddyline.errors import PlanError
from eddyline.sample.carried import (
    MOST_CELLS,
    Carried,
    Entries,
    added_up,
    carried_through,
    matches,
    spread_out,
)
from eddyline.sample.join import Join, Relation, behind
from eddyline.sample.messages import bound_of
from eddyline.sample.roles import Turn, turned
from eddyline.sample.sorting import BoolArray, IntArray
from eddyline.sample.spec import Node, Quantity

_MOST_COMBINATIONS = 1 << 62
_WHOLE = 2.0**62


@dataclass(frozen=True)
class GroupCodes:
    """The groups of one relation: for each its codes, column by column, and which of them are NULL.

    of_rows: the group of each element. missing: the group whose columns are all NULL, where rows are that an
    outer join finds no match for.
    """

    codes: tuple[IntArray, ...]
    nulls: tuple[BoolArray, ...]
    of_rows: IntArray
    missing: int = 0

    def __len__(self) -> int:
        return len(self.codes[0]) if self.codes else 1


class GroupedJoin:
    """A grouped query over a state: the groups of each relation, and messages that carry them."""

    def __init__(self, join: Join, quantities: Sequence[Quantity]) -> None:
        self.join = join
        self.quantities, self.columns = _different(join, quantities)
        self.nodes = quantities[0].nodes
        missing = self._maybe_missing()
        self.codes = [_codes(join, node, missing=k in missing) for k, node in enumerate(self.nodes)]
        sizes = [max(len(each), 1) for each in self.codes]
        if prod(sizes) >= _MOST_COMBINATIONS:
            raise PlanError(
                "the columns that this query groups by or compares have more combinations than can be numbered: name "
                "fewer of them."
            )
        self.strides = [prod(sizes[:k]) for k in range(len(sizes))]
        self.sizes = join.sizes

    def _maybe_missing(self) -> set[int]:
        """Return the relations whose columns are NULL in rows that an outer join finds no match for."""
        variables, found = [node.variables for node in self.nodes], set[int]()
        for quantity in self.quantities:
            for k, node in enumerate(quantity.nodes):
                for variable in node.variables if node.roles else ():
                    if node.role(variable) in ("outer", "full"):
                        found |= behind(variables, k, variable)
        return found

    def missing_group(self, relation: int, variable: int) -> int:
        """Return the number of the group in which all columns of the side behind a relation's link are NULL."""
        side = behind([node.variables for node in self.nodes], relation, variable)
        return sum(self.codes[k].missing * self.strides[k] for k in side)

    @property
    def root(self) -> int:
        """The relation to which the others send: the one with most groups, which then travel the least."""
        return max(range(len(self.nodes)), key=lambda k: len(self.codes[k]))

    def part(self, relation: int, groups: IntArray) -> IntArray:
        """Return which groups of one relation some combinations have."""
        return groups // self.strides[relation] % max(len(self.codes[relation]), 1)

    def labels(self, relation: int, column: int, groups: IntArray) -> pa.Array:
        """Return the values of one of a relation's group columns in some of its groups."""
        node, codes = self.nodes[relation], self.codes[relation]
        found, missing = codes.codes[column][groups], codes.nulls[column][groups]
        position, dictionary = self.join.view(node).groups[column], self.join.dictionary(node)
        if position not in dictionary.labels:
            return pa.array(found, mask=missing)
        values = dictionary.labels[position].decoded(found)
        return values.take(pa.array(np.arange(len(found)), mask=missing))

    def exact(self) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums of each quantity) of everything that is held, as integers of any size."""
        weights = [
            np.stack([self.join.whole_relations(q)[k].weights for q in self.quantities], axis=1)
            for k in range(len(self.nodes))
        ]
        largest = max(bound_of(self.join, self.join.whole_relations(q))[0] for q in self.quantities)
        kind = np.int64 if largest < _WHOLE else np.object_
        whole = [np.ones((size, 1), dtype=kind) for size in self.sizes]
        return self._messages([each.astype(kind) for each in weights], whole).at_root()

    def followed(self) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums of each quantity) of everything that is held, as floats."""
        return self.sampled([True] * len(self.sizes)).at_root()

    def sampled(self, own_rate: Sequence[bool]) -> "GroupedMessages":
        """Return the messages in which each sampled value counts 1/pi times.

        own_rate: links whose value is itself a group: a group that is seen is seen whole, and counts once.
        """
        weights = [
            np.stack([self.join.relations(q)[k].weights for q in self.quantities], axis=1)
            for k in range(len(self.nodes))
        ]
        factors = [
            np.ones((len(rates), 1)) if own else 1.0 / rates[:, None]
            for rates, own in zip(self.join.probabilities, own_rate, strict=True)
        ]
        return self._messages(weights, factors)

    def _messages(self, weights: list[np.ndarray], factors: list[np.ndarray]) -> "GroupedMessages":
        return GroupedMessages(self, weights, factors)


class GroupedMessages:
    """What relations send to links and links to relations, by group, for all quantities at once."""

    def __init__(self, join: GroupedJoin, weights: list[np.ndarray], factors: list[np.ndarray]) -> None:
        self.join = join
        self.weights = weights
        self.factors = factors
        self.relations = join.join.whole_relations(join.quantities[0])
        self._turns = [
            [relations.turns for relations in quantity]
            for quantity in zip(*(join.join.whole_relations(q) for q in join.quantities), strict=True)
        ]
        self._own: dict[tuple[int, int], Carried] = {}
        self._sent: dict[tuple[int, int], Carried] = {}
        self._passed: dict[tuple[int, int], Carried] = {}

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
        """Return what a relation sends to the places of a link, as its role there makes it."""
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
        if (relation, variable) not in self._own:
            self._own[relation, variable] = self._gathered(relation, variable)
        return self._own[relation, variable]

    def _turns_of(self, relation: int, variable: int) -> list[Turn]:
        """Return what is made of a relation's message to a link, for each quantity."""
        position = self.relations[relation].variables.index(variable)
        return [each[position] if each else Turn.PLAIN for each in self._turns[relation]]

    def _turned(self, own: Carried, relation: int, variable: int, turns: Sequence[Turn]) -> Carried:
        """Return a message as roles make it.

        A side that only decides has no groups. One that may be missing keeps its entries, and has one more where it is
        missing, in the group of NULLs.
        """
        assert own.places is not None
        assert own.groups is not None
        size, values = self.join.sizes[variable], len(self.join.join.values[variable])
        totals = _totals(own, size)
        made = np.zeros_like(totals)
        for column, turn in enumerate(turns):
            others = self._others(relation, variable, column) if turn is Turn.FULL else None
            made[:, column] = turned(totals[:, column], turn, values, others)
        if not set(turns) & {Turn.OUTER, Turn.FULL}:
            return Carried(made)
        more = made - totals
        places = np.flatnonzero((more != 0).any(axis=1))
        group = self.join.missing_group(relation, variable)
        return added_up(
            np.concatenate([own.places, places]),
            np.concatenate([own.groups, np.full(len(places), group)]),
            np.concatenate([own.sums, more[places]]),
        )

    def _others(self, relation: int, variable: int, column: int) -> BoolArray:
        """Return the places of a link where a quantity of another relation is there."""
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

        towards: the link at whose places they are added up; None adds up all of them. between: only at places from the
        one to the other, counted from the first.
        """
        mine, weights = self.relations[relation], self.weights[relation]
        rows = np.flatnonzero((weights != 0).any(axis=1))
        if between is not None:
            places = self._places(relation, towards, rows)
            rows = rows[(places >= between[0]) & (places < between[1])]
        groups = self.join.codes[relation].of_rows[rows] * self.join.strides[relation]
        sums = weights[rows]
        others = [
            (places, self.passed(variable, relation))
            for variable, places in zip(mine.variables, mine.places, strict=True)
            if variable != towards
        ]
        others.sort(key=lambda other: other[1].groups is not None)
        for position, (places, reached) in enumerate(others):
            if position == len(others) - 1:
                at = self._places(relation, towards, rows) - (between[0] if between else 0)
                made = carried_through(at, groups, sums, places[rows], reached)
                if made is not None:
                    return made
            own, theirs = matches(places[rows], reached)
            sums = sums[own] * reached.sums[theirs]
            groups = groups[own] + (reached.groups[theirs] if reached.groups is not None else 0)
            rows = rows[own]
            used = (sums != 0).any(axis=1)
            rows, groups, sums = rows[used], groups[used], sums[used]
        at = self._places(relation, towards, rows) - (between[0] if between else 0)
        return added_up(at, groups, sums)

    def _places(self, relation: int, towards: int | None, rows: IntArray) -> IntArray:
        mine = self.relations[relation]
        if towards is None:
            return np.zeros(len(rows), dtype=np.int64)
        return mine.places[mine.variables.index(towards)][rows]

    def at_root(self) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums) of the whole join, groups ascending."""
        if any(each for turns in self._turns for each in turns):
            total = self._met(self.join.join.root)
        else:
            total = self._gathered(self.join.root, None)
        assert total.groups is not None
        used = np.flatnonzero((total.sums != 0).any(axis=1))
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

        The products of their entries, times the value's factor, are what joins there. Where a side has too many of them
        to be held at once, they come place after place, some places at a time.
        """
        *others, last = self.members(variable)
        size = self.join.sizes[variable]
        step = max(min(self._room(relation, variable) for relation in (*others, last)), 1)
        for start in range(0, size, step):
            met = [self._part(relation, variable, start, start + step) for relation in (*others, last)]
            if len(met) == 1:
                met.insert(0, Carried(np.ones((min(step, size - start), len(self.join.quantities)))))
            yield start, reduce(Carried.times, met[:-1]).entries(), met[-1].entries()

    def _room(self, relation: int, variable: int) -> int:
        """Return for how many places of a link what a relation sends there can be held at once."""
        size = self.join.sizes[variable]
        if (relation, variable) in self._sent or self._is_turned(relation, variable):
            return size
        cells = max(self._products(relation, variable) * len(self.join.quantities), 1)
        return size if cells <= MOST_CELLS else max(size * MOST_CELLS // cells, 1)

    def _products(self, relation: int, towards: int) -> int:
        """Return how many products of elements and of what reaches them a relation sends to a link."""
        mine = self.relations[relation]
        number = np.ones(len(mine.weights), dtype=np.int64)
        for variable, places in zip(mine.variables, mine.places, strict=True):
            reached = self.passed(variable, relation) if variable != towards else None
            if reached is not None and reached.groups is not None:
                counts = np.append(np.diff(reached.starts), 0)
                number *= counts[np.minimum(places, len(counts) - 1)]
        return int(number.sum())

    def _is_turned(self, relation: int, variable: int) -> bool:
        return any(turn is not Turn.PLAIN for turn in self._turns_of(relation, variable))

    def _part(self, relation: int, variable: int, start: int, stop: int) -> Carried:
        """Return what a relation sends to some places of a link."""
        size = self.join.sizes[variable]
        if self._room(relation, variable) == size:
            return self.sent(relation, variable).between(start, stop)
        return self._gathered(relation, variable, (start, stop))


def _different(join: Join, quantities: Sequence[Quantity]) -> tuple[list[Quantity], list[int]]:
    """Return (quantities whose weights differ, for each of the given ones which of those it is)."""
    kept: list[Quantity] = []
    places = []
    for quantity in quantities:
        mine = join.whole_relations(quantity)
        for place, other in enumerate(kept):
            theirs = join.whole_relations(other)
            if all(_same(a, b) for a, b in zip(mine, theirs, strict=True)):
                places.append(place)
                break
        else:
            places.append(len(kept))
            kept.append(quantity)
    return kept, places


def _same(mine: Relation, other: Relation) -> bool:
    return mine.turns == other.turns and np.array_equal(mine.weights, other.weights)


def _totals(entries: Carried, size: int) -> np.ndarray:
    """Return what entries hold at each place, all groups together."""
    assert entries.places is not None
    totals = np.zeros((size, entries.sums.shape[1]), dtype=entries.sums.dtype)
    np.add.at(totals, entries.places, entries.sums)
    return totals


def _codes(join: Join, node: Node, *, missing: bool) -> GroupCodes:
    """Return the groups that a relation's elements are in, numbered; missing: there is a group of NULLs in any case."""
    view, dictionary = join.view(node), join.dictionary(node)
    if not view.groups:
        return GroupCodes((), (), np.zeros(len(dictionary), dtype=np.int64))
    columns = [np.where(dictionary.is_null(key), 0, dictionary.key(key)) for key in view.groups]
    nulls = [dictionary.is_null(key) for key in view.groups]
    number = np.zeros(len(dictionary), dtype=np.int64)
    for part in (*nulls, *columns):
        values, places = np.unique(part, return_inverse=True)
        _, number = np.unique(number * len(values) + places, return_inverse=True)
    _, first = np.unique(number, return_index=True)
    codes, null_codes = [column[first] for column in columns], [null[first] for null in nulls]
    of_nulls = np.flatnonzero(np.logical_and.reduce(null_codes))
    if missing and not len(of_nulls):
        codes = [np.append(each, 0) for each in codes]
        null_codes = [np.append(each, values=True) for each in null_codes]
    place = int(of_nulls[0]) if len(of_nulls) else len(first)
    return GroupCodes(tuple(codes), tuple(null_codes), number, place)
