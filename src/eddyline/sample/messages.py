"""Joins of dictionaries: sums of products over a tree of links, without making the joined rows.

A relation sends to each of its links, for every value there, the sum of its elements' weights times what reaches
them through their other links; a link passes on the product of what the other relations sent, times 1/pi of the
value where values are sampled. What meets at a value of a link is what joins through it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from eddyline.sample.join import Join, Relation
from eddyline.sample.roles import Turn, turned
from eddyline.sample.roster import FloatArray
from eddyline.sample.sorting import IntArray
from eddyline.sample.spec import Quantity
from eddyline.sample.sums import dot

_WHOLE = 2.0**62
_WHOLE_FLOAT = 2.0**53

Raise = Callable[[FloatArray], FloatArray]


class Messages:
    """What the relations of a quantity send to its links, and the links to its relations."""

    def __init__(
        self,
        relations: Sequence[Relation],
        join: Join,
        factors: Sequence[np.ndarray],
        raised: Raise | None = None,
    ) -> None:
        self.relations = relations
        self.sizes = join.sizes
        self.values = [len(each) for each in join.values]
        self.root = join.root
        self.factors = factors
        self.raised = raised
        self._own: dict[tuple[int, int], np.ndarray] = {}
        self._up: dict[tuple[int, int], np.ndarray] = {}
        self._down: dict[tuple[int, int], np.ndarray] = {}

    def sent(self, relation: int, variable: int) -> np.ndarray:
        """Return what a relation sends to the places of a link, as its role there makes it."""
        key = (relation, variable)
        if key not in self._up:
            turn = self.relations[relation].turn(variable)
            others = None
            if turn is Turn.FULL:
                others = np.logical_or.reduce(
                    [self.own(other, variable) != 0 for other in self.members(variable) if other != relation]
                )
            total = turned(self.own(relation, variable), turn, self.values[variable], others)
            self._up[key] = total if self.raised is None else self.raised(total)
        return self._up[key]

    def own(self, relation: int, variable: int) -> np.ndarray:
        """Return what a relation holds at the places of a link: the sums of its weights times what reaches them."""
        key = (relation, variable)
        if key not in self._own:
            mine = self.relations[relation]
            weights = mine.weights
            for other, places in zip(mine.variables, mine.places, strict=True):
                if other != variable:
                    weights = weights * self.passed(other, relation)[places]
            places = mine.places[mine.variables.index(variable)]
            self._own[key] = added(weights, places, self.sizes[variable])
        return self._own[key]

    def members(self, variable: int) -> list[int]:
        """Return the relations that meet at a link."""
        return [i for i, each in enumerate(self.relations) if variable in each.variables]

    @property
    def most_members(self) -> int:
        """The number of relations at the link where most meet."""
        return max((len(self.members(variable)) for variable in range(len(self.sizes))), default=0)

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
        return dot(self.met(self.root), self.factors[self.root])

    @property
    def largest(self) -> float:
        """The largest that any relation sent so far."""
        return max((float(np.abs(each).max(initial=0.0)) for each in self._up.values()), default=0.0)


def sampled_messages(join: Join, quantity: Quantity) -> Messages:
    """Return the messages of a quantity in which each sampled value counts 1/pi times."""
    return Messages(join.relations(quantity), join, [1.0 / each for each in join.probabilities])


def exact_total(join: Join, quantity: Quantity) -> int:
    """Return the sum over the join of everything that is held, as an integer of any size.

    In units of 2^lowest of the quantity. Below 2^53 floats are exact, and fastest; up to 2^62 machine integers are.
    """
    if len(quantity.digits) > 1:
        return sum(exact_total(join, part) << exponent for part, exponent in join.digits(quantity))
    relations = join.whole_relations(quantity)
    bound, linear = bound_of(join, relations)
    if bound < _WHOLE_FLOAT:
        if linear and all(bool(np.all(r.weights >= 0)) for r in relations):
            return int(bound)
        return int(_with_ones(join, [r.weighing(r.weights.astype(np.float64)) for r in relations]).total())
    kind = np.int64 if bound < _WHOLE else np.object_
    messages = _with_ones(join, [r.weighing(r.weights.astype(kind)) for r in relations])
    return (
        int(messages.met(messages.root).sum()) if len(join.shape.classes) else int(relations[0].weights.sum())
    )


def _with_ones(join: Join, relations: Sequence[Relation]) -> Messages:
    """Return messages in which every place counts once."""
    kind = relations[0].weights.dtype
    return Messages(relations, join, [np.ones(size, dtype=kind) for size in join.sizes])


def bound_of(join: Join, relations: Sequence[Relation]) -> tuple[float, bool]:
    """Return (a bound of the sum over a join in absolute value, whether the join is one of plain messages).

    Where messages are compared with 0, the bound is also one of each message, none of which may overflow: there every
    side counts at least once.
    """
    linear = not any(r.turns for r in relations)
    absolute = [
        Relation(np.abs(r.weights.astype(np.float64)), r.variables, r.places, _at_least_once(r.turns))
        for r in relations
    ]
    messages = _with_ones(join, absolute)
    bound = messages.total()
    return (bound if linear else max(bound, messages.largest)), linear


def _at_least_once(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(turn if turn is Turn.PLAIN else Turn.OUTER for turn in turns)


def added(weights: np.ndarray, places: IntArray, size: int) -> np.ndarray:
    """Return the sums of weights by place, in the weights' own numbers."""
    if weights.dtype == np.float64:
        return np.bincount(places, weights=weights, minlength=size).astype(np.float64)
    totals = np.zeros(size, dtype=weights.dtype)
    np.add.at(totals, places, weights)
    return totals
