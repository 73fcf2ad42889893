"""Joins of dictionaries by group: sums of products over a tree of links, with the groups carried along.

As in `messages`, but what relations send is told apart by group: for a value of a link and a group, the sums of all
quantities of the query side by side. The rows of the join are never made: a message has at most one entry for each
value and combination of groups behind it. A relation's groups are numbered; the number of a combination is the sum of
its parts, each times its own stride.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from eddyline.errors import SketchError
from eddyline.sample.messages import Join, behind
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


@dataclass(frozen=True)
class Carried:
    """Sums by place and group: entries ordered by place, or, without groups, one entry for every place.

    sums: a row for each entry, a column for each quantity.
    """

    sums: np.ndarray
    places: IntArray | None = None
    groups: IntArray | None = None

    def times(self, other: "Carried") -> "Carried":
        """Return the product at each place: every group of one with every group of the other."""
        if self.places is None and other.places is None:
            return Carried(self.sums * other.sums)
        if self.places is None:
            return other.times(self)
        assert self.groups is not None
        mine, theirs = _matches(self.places, other)
        sums = self.sums[mine] * other.sums[theirs]
        groups = self.groups[mine] + (other.groups[theirs] if other.groups is not None else 0)
        return Carried(sums, self.places[mine], groups)


def _matches(places: IntArray, other: Carried) -> tuple[IntArray, IntArray]:
    """Return (entries, entries of another) for every pair that stands at one place."""
    if other.places is None:
        return np.arange(len(places)), places
    starts = np.searchsorted(other.places, places, side="left")
    counts = np.searchsorted(other.places, places, side="right") - starts
    mine = np.repeat(np.arange(len(places)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    return mine, np.arange(len(mine)) - first + np.repeat(starts, counts)


def _added_up(places: IntArray, groups: IntArray, sums: np.ndarray) -> Carried:
    """Return entries of equal place and group as one."""
    if len(places) == 0:
        return Carried(sums, places, groups)
    order = np.lexsort((groups, places))
    places, groups = places[order], groups[order]
    first = np.ones(len(places), dtype=np.bool_)
    first[1:] = (places[1:] != places[:-1]) | (groups[1:] != groups[:-1])
    return Carried(np.add.reduceat(sums[order], np.flatnonzero(first), axis=0), places[first], groups[first])


class GroupedJoin:
    """A grouped query over a state: the groups of each relation, and messages that carry them."""

    def __init__(self, join: Join, quantities: Sequence[Quantity]) -> None:
        self.join = join
        self.quantities = quantities
        self.nodes = quantities[0].nodes
        missing = self._maybe_missing()
        self.codes = [_codes(join, node, missing=k in missing) for k, node in enumerate(self.nodes)]
        sizes = [len(each) for each in self.codes]
        if prod(sizes) >= _MOST_COMBINATIONS:
            raise SketchError(
                "the group columns have more combinations than can be numbered: group by fewer."
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
        ones = [np.ones((size, 1)) for size in self.sizes]
        bound = GroupedMessages(
            self, [np.abs(each.astype(np.float64)) for each in weights], ones, at_least_once=True
        )
        largest = max(float(bound.at_root()[1].max(initial=0.0)), bound.largest_compared)
        kind = np.int64 if largest < _WHOLE else np.object_
        whole = [np.ones((size, 1), dtype=kind) for size in self.sizes]
        return GroupedMessages(self, [each.astype(kind) for each in weights], whole).at_root()

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
    """What relations send to links and links to relations, by group, for all quantities at once.

    at_least_once: every side that may be missing, or only decides, counts once or more, as a bound needs it.
    """

    def __init__(
        self,
        join: GroupedJoin,
        weights: list[np.ndarray],
        factors: list[np.ndarray],
        *,
        at_least_once: bool = False,
    ) -> None:
        self.join = join
        self.weights = weights
        self.factors = factors
        self.at_least_once = at_least_once
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
            if any(turn is not Turn.PLAIN for turn in turns):
                made = self._turned(made, relation, variable, turns)
            if made.groups is not None and not made.groups.any():
                made = _spread_out(made, self.join.sizes[variable])
            self._sent[relation, variable] = made
        return self._sent[relation, variable]

    def own(self, relation: int, variable: int) -> Carried:
        """Return what a relation holds at the places of a link."""
        if (relation, variable) not in self._own:
            rows, groups, sums = self._gathered(relation, variable)
            mine = self.relations[relation]
            places = mine.places[mine.variables.index(variable)][rows]
            self._own[relation, variable] = _added_up(places, groups, sums)
        return self._own[relation, variable]

    def _turns_of(self, relation: int, variable: int) -> list[Turn]:
        """Return what is made of a relation's message to a link, for each quantity."""
        position = self.relations[relation].variables.index(variable)
        turns = [each[position] if each else Turn.PLAIN for each in self._turns[relation]]
        if self.at_least_once:
            return [turn if turn is Turn.PLAIN else Turn.OUTER for turn in turns]
        return turns

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
        return _added_up(
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

    @property
    def largest_compared(self) -> float:
        """The largest message so far that a role compared with 0."""
        compared = (
            _totals(own, self.join.sizes[variable])
            for (relation, variable), own in self._own.items()
            if any(turn is not Turn.PLAIN for turn in self._turns_of(relation, variable))
        )
        return max((float(each.max(initial=0.0)) for each in compared), default=0.0)

    def _gathered(self, relation: int, towards: int | None) -> tuple[IntArray, IntArray, np.ndarray]:
        """Return (elements, groups, sums): each element's weight times what reaches it through its other links."""
        mine, weights = self.relations[relation], self.weights[relation]
        rows = np.flatnonzero((weights != 0).any(axis=1))
        groups = self.join.codes[relation].of_rows[rows] * self.join.strides[relation]
        sums = weights[rows]
        for variable, places in zip(mine.variables, mine.places, strict=True):
            if variable == towards:
                continue
            reached = self.passed(variable, relation)
            own, theirs = _matches(places[rows], reached)
            sums = sums[own] * reached.sums[theirs]
            groups = groups[own] + (reached.groups[theirs] if reached.groups is not None else 0)
            rows = rows[own]
            used = (sums != 0).any(axis=1)
            rows, groups, sums = rows[used], groups[used], sums[used]
        return rows, groups, sums

    def at_root(self) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums) of the whole join, groups ascending."""
        if any(each for turns in self._turns for each in turns):
            met = self.met(self.join.join.root)
            assert met.groups is not None
            used = (met.sums != 0).any(axis=1)
            groups, sums = met.groups[used], met.sums[used]
        else:
            _, groups, sums = self._gathered(0, None)
        total = _added_up(np.zeros(len(groups), dtype=np.int64), groups, sums)
        assert total.groups is not None
        return total.groups, total.sums

    def met(self, variable: int) -> Carried:
        """Return what joins through each value of a link, by group, scaled up."""
        product = Carried(self.factors[variable])
        for relation in self.members(variable):
            product = product.times(self.sent(relation, variable))
        if product.places is None:
            count = len(product.sums)
            return Carried(product.sums, np.arange(count), np.zeros(count, dtype=np.int64))
        return product


def _totals(entries: Carried, size: int) -> np.ndarray:
    """Return what entries hold at each place, all groups together."""
    assert entries.places is not None
    totals = np.zeros((size, entries.sums.shape[1]), dtype=entries.sums.dtype)
    np.add.at(totals, entries.places, entries.sums)
    return totals


def _spread_out(entries: Carried, size: int) -> Carried:
    """Return entries that all are of one group as one entry for every place."""
    sums = np.zeros((size, entries.sums.shape[1]), dtype=entries.sums.dtype)
    assert entries.places is not None
    sums[entries.places] = entries.sums
    return Carried(sums)


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
