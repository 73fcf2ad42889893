"""A grouped query over a state: the groups of each relation, numbered, and the messages that carry them."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import PlanError
from eddyline.sample.grouped_messages import GroupedMessages, Leaves, Ordered
from eddyline.sample.join import Join, behind, different_quantities
from eddyline.sample.messages import bound_of
from eddyline.sample.packing import BoolArray, IntArray, numbered
from eddyline.sample.spec import Node, Quantity

# The groups of one relation, numbered: which groups exist, and which group each element is in.


@dataclass(frozen=True)
class GroupCodes:
    """The groups of one relation: for each its codes, column by column, and which of them are NULL.

    of_rows: the group of each element. missing: the group whose columns are all NULL, for rows without a match in
    an outer join.
    """

    codes: tuple[IntArray, ...]
    nulls: tuple[BoolArray, ...]
    of_rows: IntArray
    missing: int = 0

    def __len__(self) -> int:
        return len(self.codes[0]) if self.codes else 1


def group_codes(join: Join, node: Node, *, missing: bool) -> GroupCodes:
    """Return the numbered groups of a relation's elements; missing: always include a group of NULLs."""
    view, dictionary = join.view(node), join.dictionary(node)
    if not view.groups:
        return GroupCodes((), (), np.zeros(len(dictionary), dtype=np.int64))
    columns = [np.where(dictionary.is_null(key), 0, dictionary.key(key)) for key in view.groups]
    nulls = [dictionary.is_null(key) for key in view.groups]
    number: IntArray = np.zeros(len(dictionary), dtype=np.int64)
    for null, key in zip(nulls, view.groups, strict=True):
        values, places = dictionary.index(key)
        _, number = numbered(number * (len(values) + 1) + np.where(null, len(values), places))
    first = np.empty(int(number.max(initial=-1)) + 1, dtype=np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    codes, null_codes = [column[first] for column in columns], [null[first] for null in nulls]
    of_nulls = np.flatnonzero(np.logical_and.reduce(null_codes))
    if missing and not len(of_nulls):
        codes = [np.append(each, 0) for each in codes]
        null_codes = [np.append(each, values=True) for each in null_codes]
    place = int(of_nulls[0]) if len(of_nulls) else len(first)
    return GroupCodes(tuple(codes), tuple(null_codes), number, place)


# A relation's groups are numbered; the number of a combination is the sum of its parts, each times its own
# stride.


_MOST_COMBINATIONS = 1 << 62
_WHOLE = 2.0**62


class GroupedJoin:
    """A grouped query over a state: the groups of each relation, and messages that carry them.

    whole_floats: if the sum over the join in absolute value is below it, all sums are exact in floats.
    """

    whole_floats = 2.0**53

    def __init__(self, join: Join, quantities: Sequence[Quantity]) -> None:
        self.join = join
        self.ask(quantities)
        self.nodes = quantities[0].nodes
        missing = self._maybe_missing()
        self.codes = [group_codes(join, node, missing=k in missing) for k, node in enumerate(self.nodes)]
        sizes = [max(len(each), 1) for each in self.codes]
        if prod(sizes) >= _MOST_COMBINATIONS:
            raise PlanError(
                "the columns that this query groups by or compares have more combinations than can be numbered: name "
                "fewer of them."
            )
        self.strides = [prod(sizes[:k]) for k in range(len(sizes))]
        self.sizes = join.sizes
        self._ordered: Ordered = {}
        self._leaves: Leaves = {}

    def ask(self, quantities: Sequence[Quantity]) -> None:
        """Read other quantities of the same relations and groups."""
        self.asked = quantities
        self.quantities, self.columns = different_quantities(self.join, quantities)

    def _maybe_missing(self) -> set[int]:
        """Return the relations whose columns are NULL in rows without a match in an outer join."""
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
        """The relation to which the others send: the one with most groups, which are then sent least."""
        return max(range(len(self.nodes)), key=lambda k: len(self.codes[k]))

    def part(self, relation: int, groups: IntArray) -> IntArray:
        """Return which groups of one relation occur in some combinations."""
        return groups // self.strides[relation] % max(len(self.codes[relation]), 1)

    def labels(self, relation: int, column: int, groups: IntArray) -> pa.Array:
        """Return the values of one of a relation's group columns in some of its groups."""
        node, codes = self.nodes[relation], self.codes[relation]
        found, missing = codes.codes[column][groups], codes.nulls[column][groups]
        position, dictionary = self.join.view(node).groups[column], self.join.dictionary(node)
        if position not in dictionary.labels:
            return pa.array(found, mask=missing)
        values = dictionary.labels[position].decoded(found)
        return pc.if_else(pa.array(missing), None, values) if missing.any() else values

    def exact(self, *, of_rows_there: bool = False) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums of each quantity) of everything that is held, as integers of any size.

        Sums are in units of 2^lowest of each quantity. Below 2^53 floats are exact, and fastest; up to 2^62 machine
        integers are exact. of_rows_there: leaves out whatever has more deletes than inserts, by the links and
        groups of its relation. Two such negative counts of two relations would join to rows that neither has.
        """
        if any(len(quantity.digits) > 1 for quantity in self.asked):
            digits = [self.join.digits(quantity) for quantity in self.asked]
            parts = copy(self)
            parts.ask([part for each in digits for part, _ in each])
            return _joined_digits(*parts.exact(of_rows_there=of_rows_there), digits)
        weights = [
            _stacked([self.join.whole_relations(q)[k].weights for q in self.quantities])
            for k in range(len(self.nodes))
        ]
        if of_rows_there:
            weights = [self._without_negative(k, each) for k, each in enumerate(weights)]
        largest = max(bound_of(self.join, self.join.whole_relations(q))[0] for q in self.quantities)
        kind = np.float64 if largest < self.whole_floats else np.int64 if largest < _WHOLE else np.object_
        whole = [np.ones((size, 1), dtype=kind) for size in self.sizes]
        groups, sums = self._messages([each.astype(kind) for each in weights], whole).at_root()
        return groups, sums.astype(np.int64) if kind is np.float64 else sums

    @property
    def is_rounded(self) -> bool:
        """Whether a row that counts has digits below the lowest that a measure of several words holds."""
        return any(map(self.join.is_rounded, self.asked))

    def _without_negative(self, relation: int, weights: np.ndarray) -> np.ndarray:
        """Return a relation's weights, 0 for elements whose links and group together have no rows."""
        if not (weights < 0).any():
            return weights
        links = self.join.whole_relations(self.quantities[0])[relation].places
        alike = np.zeros(len(weights), dtype=np.int64)
        for part in (*links, self.codes[relation].of_rows):
            values, places = np.unique(part, return_inverse=True)
            _, alike = np.unique(alike * len(values) + places, return_inverse=True)
        totals = np.zeros((int(alike.max(initial=-1)) + 1, weights.shape[1]), dtype=weights.dtype)
        np.add.at(totals, alike, weights)
        return np.where((totals > 0)[alike], weights, 0)

    def followed(self) -> tuple[IntArray, np.ndarray]:
        """Return (groups, sums of each quantity) of everything that is held, as floats."""
        return self.sampled([True] * len(self.sizes)).at_root()

    @cached_property
    def _weights(self) -> list[np.ndarray]:
        """The weights of each relation's elements, a column for each quantity; narrow where factors are floats."""
        relations = [self.join.relations(quantity) for quantity in self.quantities]
        made = [np.stack([each[k].weights for each in relations], axis=1) for k in range(len(self.nodes))]
        return made if len(self.sizes) else [each.astype(np.float64) for each in made]

    def sampled(self, own_rate: Sequence[bool]) -> GroupedMessages:
        """Return the messages in which each sampled value counts 1/pi times.

        own_rate: links whose value is itself a group: such a group is either held completely or not at all, and
        counts once. If rows with NULL are sampled, the group of NULL is not held completely, and is left out.
        """
        factors = [
            self._counted_once(link) if own else 1.0 / rates[:, None]
            for link, (rates, own) in enumerate(zip(self.join.probabilities, own_rate, strict=True))
        ]
        made = self._messages(self._weights, factors, self._ordered)
        made.leaves = self._leaves
        return made

    def _counted_once(self, link: int) -> np.ndarray:
        """Return 1 for each place of a link, 0 for sampled NULLs."""
        factors = np.ones((self.sizes[link], 1))
        if self.join.samples_single_nulls(link):
            factors[len(self.join.values[link]) :] = 0.0
        return factors

    def _messages(
        self, weights: list[np.ndarray], factors: list[np.ndarray], known: Ordered | None = None
    ) -> GroupedMessages:
        return GroupedMessages(self, weights, factors, known)


def _joined_digits(
    groups: IntArray, sums: np.ndarray, digits: Sequence[Sequence[tuple[Quantity, int]]]
) -> tuple[IntArray, np.ndarray]:
    """Return groups and the sums of each quantity, given the sums of all its digits side by side."""
    columns, at = [], 0
    for parts in digits:
        own = sums[:, at : at + len(parts)].astype(np.object_)
        columns.append(sum(own[:, place] << exponent for place, (_, exponent) in enumerate(parts)))
        at += len(parts)
    return groups, np.stack(columns, axis=1)


def _stacked(weights: Sequence[np.ndarray]) -> np.ndarray:
    """Return weights as the columns of a matrix, in 64-bit integers or in floats."""
    return np.stack(weights, axis=1, dtype=np.result_type(np.int64, *weights))
