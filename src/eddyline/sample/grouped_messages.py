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

from eddyline.errors import SketchError
from eddyline.sample.carried import (
    MOST_CELLS,
    Carried,
    Entries,
    added_up,
    carried_through,
    matches,
    spread_out,
)
from eddyline.sample.messages import Join, Messages, Relation
from eddyline.sample.sorting import BoolArray, IntArray
from eddyline.sample.spec import Node, Quantity

_MOST_COMBINATIONS = 1 << 62
_WHOLE = 2.0**62


@dataclass(frozen=True)
class GroupCodes:
    """The groups of one relation: for each its codes, column by column, and which of them are NULL.

    of_rows: the group of each element.
    """

    codes: tuple[IntArray, ...]
    nulls: tuple[BoolArray, ...]
    of_rows: IntArray

    def __len__(self) -> int:
        return len(self.codes[0]) if self.codes else 1


class GroupedJoin:
    """A grouped query over a state: the groups of each relation, and messages that carry them."""

    def __init__(self, join: Join, quantities: Sequence[Quantity]) -> None:
        self.join = join
        self.quantities, self.columns = _different(join, quantities)
        self.nodes = quantities[0].nodes
        self.codes = [_codes(join, node) for node in self.nodes]
        sizes = [len(each) for each in self.codes]
        if prod(sizes) >= _MOST_COMBINATIONS:
            raise SketchError(
                "the group columns have more combinations than can be numbered: group by fewer."
            )
        self.strides = [prod(sizes[:k]) for k in range(len(sizes))]
        self.sizes = [len(values) for values in join.values]

    def behind(self, relation: int, variable: int) -> set[int]:
        """Return the relations on a relation's side of a link, itself among them."""
        found, open_ = {relation}, [(relation, variable)]
        while open_:
            here, came = open_.pop()
            for other in self.nodes[here].variables:
                for k, node in enumerate(self.nodes):
                    if other != came and k not in found and other in node.variables:
                        found.add(k)
                        open_.append((k, other))
        return found

    @property
    def root(self) -> int:
        """The relation to which the others send: the one with most groups, which then travel the least."""
        return max(range(len(self.nodes)), key=lambda k: len(self.codes[k]))

    def labels(self, groups: IntArray) -> list[pa.Array]:
        """Return the values of combinations of groups: a column for each group column, relation by relation."""
        columns = []
        for node, codes, stride in zip(self.nodes, self.codes, self.strides, strict=True):
            own = groups // stride % len(codes)
            dictionary = self.join.dictionary(node)
            for position, values, null in zip(
                self.join.view(node).groups, codes.codes, codes.nulls, strict=True
            ):
                found, missing = values[own], null[own]
                if position in dictionary.labels:
                    column = dictionary.labels[position].decoded(found)
                    columns.append(pa.array(column.to_pylist(), column.type, mask=missing))
                else:
                    columns.append(pa.array(found, mask=missing))
        return columns

    def exact(self) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums of each quantity) of everything that is held, as integers of any size."""
        weights = [
            np.stack([self.join.whole_relations(q)[k].weights for q in self.quantities], axis=1)
            for k in range(len(self.nodes))
        ]
        largest = max(self._bound(quantity) for quantity in self.quantities)
        kind = np.int64 if largest < _WHOLE else np.object_
        whole = [np.ones((size, 1), dtype=kind) for size in self.sizes]
        return GroupedMessages(self, [each.astype(kind) for each in weights], whole).at_root()

    def _bound(self, quantity: Quantity) -> float:
        """Return a bound on a quantity of every group: of all groups together, nothing cancelling."""
        relations = [
            Relation(np.abs(each.weights.astype(np.float64)), each.variables, each.places)
            for each in self.join.whole_relations(quantity)
        ]
        return Messages(relations, self.sizes, [np.ones(size) for size in self.sizes]).total()

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
        return GroupedMessages(self, weights, factors)


class GroupedMessages:
    """What relations send to links and links to relations, by group, for all quantities at once."""

    def __init__(self, join: GroupedJoin, weights: list[np.ndarray], factors: list[np.ndarray]) -> None:
        self.join = join
        self.weights = weights
        self.factors = factors
        self.relations = join.join.whole_relations(join.quantities[0])
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
        """Return what a relation sends to the values of a link."""
        if (relation, variable) not in self._sent:
            made = self._gathered(relation, variable)
            if made.groups is not None and not made.groups.any():
                made = spread_out(made, self.join.sizes[variable])
            self._sent[relation, variable] = made
        return self._sent[relation, variable]

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
        total = self._gathered(self.join.root, None)
        assert total.groups is not None
        used = np.flatnonzero((total.sums != 0).any(axis=1))
        order = used[np.argsort(total.groups[used])]
        return total.groups[order], total.sums[order][:, self.join.columns]

    def sides(self, variable: int) -> Iterator[tuple[int, Entries, Entries]]:
        """Yield (first place, one side, the other): two sides that meet at the values of a link.

        The products of their entries, times the value's factor, are what joins there. Where a side has too many of them
        to be held at once, they come place after place, some places at a time.
        """
        *others, last = self.members(variable)
        size = self.join.sizes[variable]
        step = min((self._room(relation, variable) for relation in (*others, last)), default=size)
        for start in range(0, size, step):
            met = [self._part(relation, variable, start, start + step) for relation in (*others, last)]
            if len(met) == 1:
                met.insert(0, Carried(np.ones((min(step, size - start), len(self.join.quantities)))))
            yield start, reduce(Carried.times, met[:-1]).entries(), met[-1].entries()

    def _room(self, relation: int, variable: int) -> int:
        """Return for how many places of a link what a relation sends there can be held at once."""
        size = self.join.sizes[variable]
        if (relation, variable) in self._sent:
            return size
        groups = prod(len(self.join.codes[k]) for k in self.join.behind(relation, variable))
        cells = groups * len(self.join.quantities)
        return size if cells * size <= MOST_CELLS else max(MOST_CELLS // cells, 1)

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
            if all(np.array_equal(a.weights, b.weights) for a, b in zip(mine, theirs, strict=True)):
                places.append(place)
                break
        else:
            places.append(len(kept))
            kept.append(quantity)
    return kept, places


def _codes(join: Join, node: Node) -> GroupCodes:
    """Return the groups that a relation's elements are in, numbered."""
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
    return GroupCodes(
        tuple(column[first] for column in columns), tuple(null[first] for null in nulls), number
    )
