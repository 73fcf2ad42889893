"""What each sampled value adds to a join, and to the totals of its relations.

The inclusion of a value of a link class is one random event, whichever links of a query the value occurs in. So
everything here is by class and value: `SampledValues` numbers them, and shows how much of the estimated join, and
of each relation's estimated total, would be lost if a value were not followed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.kernels.elements import add_through
from eddyline.sample.join import Join
from eddyline.sample.messages import Messages, coinciding_pairs, exact_total, sampled_messages
from eddyline.sample.packing import FEW, dot, united
from eddyline.sample.spec import COUNT, Node, Quantity
from eddyline.sample.state import FloatArray

_FEW = 30
"""Fewer elements do not show that a measure has one sign."""


class SampledValues:
    """The followed values of all link classes of a query, numbered; places: the numbers of each link's values.

    After them come elements with a NULL link where those are sampled, each a separate event. Last comes one number
    for NULLs that are all followed, if rows with them count.
    """

    def __init__(self, join: Join) -> None:
        self.join = join
        rates = list[FloatArray]()
        self.places: list[np.ndarray] = [np.empty(0, dtype=np.int64) for _ in join.values]
        start = 0
        for link in sorted(set(join.shape.classes)):
            mine = [v for v, each in enumerate(join.shape.classes) if each == link]
            values, places = united([join.values[v] for v in mine])
            for v, at in zip(mine, places, strict=True):
                self.places[v] = at + at.dtype.type(start)
            alone = join.probabilities[mine[0]][: len(values)] if len(mine) == 1 else None
            rates.append(join.state.rosters[link].rates_of_held(values) if alone is None else alone)
            start += len(values)
        if any(join.null_places):
            rates += self._number_nulls(start)
        self.probabilities: FloatArray = np.concatenate(rates)

    def _number_nulls(self, start: int) -> list[FloatArray]:
        """Assign numbers to the places of NULL, starting at `start`, and return their rates."""
        apart = {p.dictionary: p for link in self.join.null_elements for p in link if p.elements is not None}
        begin, rates = dict[int, int](), list[FloatArray]()
        for dictionary, each in apart.items():
            begin[dictionary] = start
            size = len(self.join.state.dictionaries[dictionary])
            rates.append(np.full(size, each.rate))
            start += size
        for variable, nulls in enumerate(self.join.null_elements):
            numbers = [[start] if p.elements is None else begin[p.dictionary] + p.elements for p in nulls]
            self.places[variable] = np.concatenate([self.places[variable], *numbers]).astype(np.int64)
        return [*rates, np.ones(1)]

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def base(self) -> float:
        """The lowest base rate of the query's link classes."""
        return min(self.join.state.rosters[link].base for link in self.join.shape.classes)


def sampled_quantities(join: Join) -> dict[str, "SampledQuantity"]:
    """Return all quantities of a query as the sample sees them."""
    values = SampledValues(join)
    return {name: SampledQuantity.of(values, quantity) for name, quantity in join.shape.quantities.items()}


@dataclass(frozen=True)
class SampledQuantity:
    """A quantity of a query as the sample sees it: its total and what each value adds to it."""

    values: SampledValues
    messages: Messages
    quantity: Quantity

    @classmethod
    def of(cls, values: SampledValues, quantity: Quantity) -> "SampledQuantity":
        """Return the quantity over the sample to which the values belong."""
        return cls(values, sampled_messages(values.join, quantity), quantity)

    @property
    def unseen_share(self) -> float:
        """The share of the rows of an unfollowed value that may count: all of them."""
        return 1.0

    @property
    def is_conditioned(self) -> bool:
        """Whether it counts only rows that meet conditions between relations."""
        return False

    @property
    def multiplied(self) -> int:
        """How many relations of a link beyond two multiply their rows of a value; for two, sketches show these."""
        return self.messages.most_members - 2

    @cached_property
    def followed(self) -> float:
        """The sum over the join of followed values alone: exact, and rounded once."""
        return exact_total(self.values.join, self.quantity) / (1 << -self.quantity.lowest)

    @cached_property
    def total(self) -> float:
        """The unbiased estimate: every joined row counts 1/pi for each of the values that it depends on."""
        return self.messages.total() + sum(float(excess.sum()) for _, excess in self._coinciding)

    @cached_property
    def signs(self) -> tuple[int, int]:
        """The signs that joined rows can have: (0, 1) or (-1, 0), and (-1, 1) if both occur or it is unknown."""
        ends = [1]
        for node in self.quantity.nodes:
            ends = [end * sign for end in ends for sign in self._signs_of_rows(node)]
        return min(0, *ends), max(0, *ends)

    def _signs_of_rows(self, node: Node) -> tuple[int, int]:
        """Return the signs of what all held rows of a relation weigh, whether they count or not."""
        view, dictionary = self.values.join.view(node), self.values.join.dictionary(node)
        parts = [dictionary.totals[1 + each.measure] for each in view.digits]
        low, high = (
            min(int(part.min(initial=0)) for part in parts),
            max(int(part.max(initial=0)) for part in parts),
        )
        if low == high == 0 or (view.measure != COUNT and len(dictionary) < _FEW):
            return (1, 1) if view.measure == COUNT else (-1, 1)
        return (-1 if low < 0 else 1), (1 if high > 0 else -1)

    @cached_property
    def _coinciding(self) -> list[tuple[int, FloatArray]]:
        return coinciding_pairs(self.values.join, self.messages)

    @cached_property
    def added(self) -> FloatArray:
        """What each value adds to the total: the joined rows, scaled up, that depend on it.

        Rows that hold a value in two links count once for it.
        """
        added = np.zeros(len(self.values))
        for variable, factor in enumerate(self.messages.factors):
            np.add.at(added, self.values.places[variable], self.messages.met(variable) * factor)
        for relation in range(len(self.messages.relations)):
            self._take_off_repeated(relation, added)
        for variable, excess in self._coinciding:
            rates = self.values.join.probabilities[variable]
            with np.errstate(divide="ignore", invalid="ignore"):
                rows = np.where(rates < 1.0, excess / (rates - 1.0), 0.0)
            np.add.at(added, self.values.places[variable], excess - rows)
        return added

    def _take_off_repeated(self, relation: int, added: FloatArray) -> None:
        mine = self.messages.relations[relation]
        repeated = [self.values.join.repeated(mine, i) for i in range(len(mine.variables))]
        if all(again is None for again in repeated):
            return
        rows = mine.weights
        for variable, places in zip(mine.variables, mine.places, strict=True):
            rows = rows * self.messages.passed(variable, relation)[places]
        for again, variable, places in zip(repeated, mine.variables, mine.places, strict=True):
            if again is not None:
                np.subtract.at(added, self.values.places[variable][places[again]], rows[again])

    @cached_property
    def _relations(self) -> dict[int, "_RelationWeights"]:
        return {}

    def _relation(self, relation: int) -> "_RelationWeights":
        if relation not in self._relations:
            mine, scaled = self.messages.relations[relation], self.messages.scaled_weights(relation)
            added = np.zeros(len(self.values))
            for i, (variable, places) in enumerate(zip(mine.variables, mine.places, strict=True)):
                again = self.values.join.repeated(mine, i)
                fresh = scaled if again is None else np.where(again, 0.0, scaled)
                add_by_value(fresh, places, self.values.places[variable], added)
            signs = (-1.0 if np.any(scaled < 0.0) else 0.0), (1.0 if np.any(scaled > 0.0) else 0.0)
            total, size = float(scaled.sum()), float(np.abs(scaled, out=scaled).sum())
            self._relations[relation] = _RelationWeights(total, size, signs, added)
        return self._relations[relation]

    def relation_weights(self, relation: int) -> tuple[float, FloatArray]:
        """Return (the estimated total of a relation's weight, what each value adds to it)."""
        found = self._relation(relation)
        return found.total, found.added

    def relation_size(self, relation: int) -> float:
        """Return the estimated total of the absolute weights of a relation: nothing cancels."""
        return self._relation(relation).size

    def relation_signs(self, relation: int) -> tuple[float, float]:
        """Return (-1 where some row of a relation weighs less than 0, 1 where some weighs more), else 0 each.

        Where no row is followed, those are the signs that rows may have.
        """
        if self._relation(relation).size == 0.0:
            return (0.0 if self.quantity.nodes[relation].exact.measure == COUNT else -1.0), 1.0
        return self._relation(relation).signs

    def held_totals(self, variable: int) -> dict[int, float]:
        """Return the total of what each relation at a link holds there, in absolute value, scaled up."""
        factor = self.messages.factors[variable]
        return {
            k: dot(np.abs(self.messages.own(k, variable)), factor) for k in self.messages.members(variable)
        }


@dataclass(frozen=True)
class _RelationWeights:
    """What a relation's elements weigh, scaled up: in total, in absolute value, their signs, and by value."""

    total: float
    size: float
    signs: tuple[float, float]
    added: FloatArray


def add_by_value(weights: FloatArray, places: np.ndarray, numbers: np.ndarray, totals: FloatArray) -> None:
    """Add weights to the totals at the numbers of their places."""
    if len(weights) < FEW:
        np.add.at(totals, numbers[places], weights)
    else:
        add_through(weights, places, numbers, totals)
