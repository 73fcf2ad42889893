"""Joins of dictionaries: sums of products over a tree of links, without making the joined rows.

A relation sends to each of its links, for every value there, the sum of its elements' weights times what reaches
them through their other links; a link passes on the product of what the other relations sent, times 1/pi of the
value where values are sampled. What meets at a value of a link is what joins through it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.sample.dictionary import Dictionary
from eddyline.sample.roster import FloatArray
from eddyline.sample.sorting import BoolArray, IntArray, distinct_places
from eddyline.sample.spec import COUNT, Node, Quantity, Shape, View
from eddyline.sample.state import SampleState
from eddyline.sample.sums import dot

_WHOLE = 2.0**62
_WHOLE_FLOAT = 2.0**53


@dataclass(frozen=True)
class Relation:
    """A relation of a join: the weight of each element, and where its values stand among those of its links."""

    weights: np.ndarray
    variables: tuple[int, ...]
    places: tuple[IntArray, ...]


class Join:
    """A query over a state: the values of each link, their probabilities, and the relations of each quantity."""

    def __init__(self, state: SampleState, shape: Shape) -> None:
        self.state = state
        self.shape = shape
        self._first = next(iter(shape.quantities.values()))
        self._rows: dict[View, BoolArray] = {}
        self._whole: dict[Quantity, list[Relation]] = {}

    @property
    def follows_all(self) -> bool:
        """Whether every value of every link of the query is followed: then nothing is missing."""
        rosters = self.state.rosters
        return not self.state.grouped or all(rosters[link].follows_all for link in self.shape.classes)

    def view(self, node: Node) -> View:
        """Return how a relation reads the dictionaries of this stage."""
        if not self.state.grouped:
            return node.exact
        assert node.kept is not None, "the second stage holds no dictionary for this relation"
        return node.kept

    def dictionary(self, node: Node) -> Dictionary:
        """Return the dictionary of a relation."""
        return self.state.dictionaries[self.view(node).dictionary]

    @cached_property
    def values(self) -> tuple[IntArray, ...]:
        """The values of each link that any of its relations holds, ascending."""
        return tuple(values for values, _ in self._links)

    @cached_property
    def _links(self) -> list[tuple[IntArray, list[IntArray]]]:
        """For each link its values, and for each relation there the places of its own among them."""
        found: list[list[IntArray]] = [[] for _ in self.shape.classes]
        for node in self._first.nodes:
            for variable, key in zip(node.variables, self.view(node).keys, strict=True):
                found[variable].append(self.dictionary(node).index(key)[0])
        return [distinct_places(each) for each in found]

    @cached_property
    def probabilities(self) -> tuple[FloatArray, ...]:
        """The inclusion probability of each value of each link."""
        return tuple(
            self.state.rosters[link].rates_of_held(values)
            for link, values in zip(self.shape.classes, self.values, strict=True)
        )

    @cached_property
    def _places(self) -> list[tuple[IntArray, ...]]:
        found, left = [], [list(places) for _, places in self._links]
        for node in self._first.nodes:
            keys = zip(node.variables, self.view(node).keys, strict=True)
            found.append(tuple(left[v].pop(0)[self.dictionary(node).index(key)[1]] for v, key in keys))
        return found

    def rows(self, node: Node) -> BoolArray:
        """Return which elements of a relation count: every flag is set, and no key is NULL unless NULL is a group."""
        view, dictionary = self.view(node), self.dictionary(node)
        if view not in self._rows:
            counted = np.ones(len(dictionary), dtype=np.bool_)
            for key in () if view.null_is_value and view.groups else view.keys:
                counted &= ~dictionary.is_null(key)
            for flag in view.flags:
                counted &= dictionary.flag(flag)
            self._rows[view] = counted
        return self._rows[view]

    def whole_relations(self, quantity: Quantity) -> list[Relation]:
        """Return the relations of a quantity with their net integer weights, nothing scaled up."""
        if quantity not in self._whole:
            relations = []
            for node, places in zip(quantity.nodes, self._places, strict=True):
                weights = np.where(self.rows(node), self.dictionary(node).total(self.view(node).measure), 0)
                relations.append(Relation(weights, node.variables, places))
            self._whole[quantity] = relations
        return self._whole[quantity]

    def relations(self, quantity: Quantity) -> list[Relation]:
        """Return the relations of a quantity in floats, corrected where an element holds one value twice.

        Such a value is included once and not once for each of the links that it stands in.
        """
        made = []
        for relation in self.whole_relations(quantity):
            weights = relation.weights.astype(np.float64)
            for i, variable in enumerate(relation.variables):
                again = self.repeated(relation, i)
                if again is not None:
                    weights *= np.where(again, self.probabilities[variable][relation.places[i]], 1.0)
            made.append(Relation(weights, relation.variables, relation.places))
        return made

    def repeated(self, relation: Relation, position: int) -> BoolArray | None:
        """Return which elements hold in one link the value that an earlier link of the same class has already.

        None where no earlier link of the relation is of that class.
        """
        variable = relation.variables[position]
        earlier = [
            j
            for j in range(position)
            if self.shape.classes[relation.variables[j]] == self.shape.classes[variable]
        ]
        if not earlier:
            return None
        mine = self.values[variable][relation.places[position]]
        again = np.zeros(len(mine), dtype=np.bool_)
        for j in earlier:
            again |= mine == self.values[relation.variables[j]][relation.places[j]]
        return again


Raise = Callable[[FloatArray], FloatArray]


class Messages:
    """What the relations of a quantity send to its links, and the links to its relations."""

    def __init__(
        self,
        relations: Sequence[Relation],
        sizes: Sequence[int],
        factors: Sequence[np.ndarray],
        raised: Raise | None = None,
    ) -> None:
        self.relations = relations
        self.sizes = sizes
        self.factors = factors
        self.raised = raised
        self._up: dict[tuple[int, int], np.ndarray] = {}
        self._down: dict[tuple[int, int], np.ndarray] = {}

    def sent(self, relation: int, variable: int) -> np.ndarray:
        """Return what a relation sends to the values of a link."""
        key = (relation, variable)
        if key not in self._up:
            mine = self.relations[relation]
            weights = mine.weights
            for other, places in zip(mine.variables, mine.places, strict=True):
                if other != variable:
                    weights = weights * self.passed(other, relation)[places]
            places = mine.places[mine.variables.index(variable)]
            total = np.bincount(places, weights=weights, minlength=self.sizes[variable]).astype(np.float64)
            self._up[key] = total if self.raised is None else self.raised(total)
        return self._up[key]

    def members(self, variable: int) -> list[int]:
        """Return the relations that meet at a link."""
        return [i for i, each in enumerate(self.relations) if variable in each.variables]

    def passed(self, variable: int, relation: int) -> np.ndarray:
        """Return what a link passes on to a relation: the product of what the others sent, scaled up."""
        key = (variable, relation)
        if key not in self._down:
            product = self.factors[variable]
            for other in self.members(variable):
                if other != relation:
                    product = product * self.sent(other, variable)
            self._down[key] = product
        return self._down[key]

    def met(self, variable: int) -> np.ndarray:
        """Return what joins through each value of a link, before the value's own scaling."""
        members = self.members(variable)
        product = self.sent(members[0], variable)
        for other in members[1:]:
            product = product * self.sent(other, variable)
        return product

    def total(self) -> float:
        """Return the sum over the join."""
        if not self.sizes:
            return float(self.relations[0].weights.sum())
        return dot(self.met(0), self.factors[0])


def sampled_messages(join: Join, quantity: Quantity) -> Messages:
    """Return the messages of a quantity in which each sampled value counts 1/pi times."""
    factors = [1.0 / each for each in join.probabilities]
    return Messages(join.relations(quantity), [len(each) for each in join.values], factors)


def exact_total(join: Join, quantity: Quantity) -> int:
    """Return the sum over the join of everything that is held, as an integer of any size.

    Below 2^53 floats are exact, and fastest; up to 2^62 machine integers are.
    """
    relations, sizes = join.whole_relations(quantity), [len(each) for each in join.values]
    ones = [np.ones(size) for size in sizes]
    floats = [Relation(r.weights.astype(np.float64), r.variables, r.places) for r in relations]
    absolute = [Relation(np.abs(r.weights), r.variables, r.places) for r in floats]
    bound = Messages(absolute, sizes, ones).total()
    if bound < _WHOLE_FLOAT:
        positive = all(bool(np.all(r.weights >= 0)) for r in relations)
        return int(bound if positive else Messages(floats, sizes, ones).total())
    kind = np.int64 if bound < _WHOLE else np.object_
    return _contract([Relation(r.weights.astype(kind), r.variables, r.places) for r in relations], sizes)


def _contract(relations: list[Relation], sizes: list[int]) -> int:
    """Return the sum over the join in integers: relations are sent towards the first one."""

    def sent(relation: int, variable: int) -> np.ndarray:
        mine = relations[relation]
        places = mine.places[mine.variables.index(variable)]
        return added(gathered(relation, variable), places, sizes[variable])

    def gathered(relation: int, towards: int) -> np.ndarray:
        mine = relations[relation]
        weights = mine.weights
        for variable, places in zip(mine.variables, mine.places, strict=True):
            if variable == towards:
                continue
            product: np.ndarray | None = None
            for other, each in enumerate(relations):
                if other != relation and variable in each.variables:
                    message = sent(other, variable)
                    product = message if product is None else product * message
            assert product is not None
            weights = weights * product[places]
        return weights

    return int(gathered(0, -1).sum()) if len(relations[0].weights) else 0


def added(weights: np.ndarray, places: IntArray, size: int) -> np.ndarray:
    """Return the integer sums of weights by place."""
    totals = np.zeros(size, dtype=weights.dtype)
    np.add.at(totals, places, weights)
    return totals


def set_members(join: Join) -> list[BoolArray]:
    """Return for each member of a set query which values of its variable it holds: net count above 0."""
    present = []
    for relation in join.whole_relations(join._first):  # noqa: SLF001 - a set has one quantity
        counts = added(relation.weights, relation.places[0], len(join.values[0]))
        present.append(counts > 0)
    return present


def set_values(join: Join) -> BoolArray:
    """Return which values satisfy the expression of a set query."""
    return _evaluated(join, set_members(join))


def null_in_set(join: Join) -> bool:
    """Return whether NULL satisfies the expression of a set query: rows with NULL are all held, always."""
    held = []
    for node in join._first.nodes:  # noqa: SLF001 - a set has one quantity
        view, dictionary = join.view(node), join.dictionary(node)
        counted = dictionary.is_null(view.keys[0]) & view.null_is_value
        for flag in view.flags:
            counted &= dictionary.flag(flag)
        held.append(np.array([dictionary.total(COUNT)[counted].sum() > 0]))
    return bool(_evaluated(join, held)[0])


def _evaluated(join: Join, members: list[BoolArray]) -> BoolArray:
    """Return the expression of a set query, written in postfix order, on what its members hold."""
    stack = list[BoolArray]()
    for part in join.shape.expression:
        if isinstance(part, int):
            stack.append(members[part])
            continue
        right, left = stack.pop(), stack.pop()
        stack.append({"union": left | right, "intersect": left & right, "except": left & ~right}[part])
    return stack[0]
