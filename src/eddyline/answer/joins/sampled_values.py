"""What each sampled value adds to a join, and to the totals of its relations.

The inclusion of a value of a link class is one random event, whichever links of a query the value stands in. So
everything here is by class and value: `SampledValues` numbers them, and says how much of the estimated join, and of
each relation's estimated total, would be gone if a value were not followed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.sample.coinciding import coinciding_pairs
from eddyline.sample.join import Join
from eddyline.sample.messages import Messages, exact_total, sampled_messages
from eddyline.sample.roster import FloatArray
from eddyline.sample.sorting import distinct_places
from eddyline.sample.spec import COUNT, Node, Quantity
from eddyline.sample.sums import dot

_FEW = 30
"""Fewer elements do not tell that a measure has one sign."""


class SampledValues:
    """The values of all link classes of a query that are followed, numbered; places: the number of each link's.

    Behind them stand elements with a NULL link where those are sampled, each an event of its own; at last one number
    for NULLs that are all followed, if rows with them count.
    """

    def __init__(self, join: Join) -> None:
        self.join = join
        rates = list[FloatArray]()
        self.places: list[np.ndarray] = [np.empty(0, dtype=np.int64) for _ in join.values]
        start = 0
        for link in sorted(set(join.shape.classes)):
            mine = [v for v, each in enumerate(join.shape.classes) if each == link]
            values, places = distinct_places([join.values[v] for v in mine])
            for v, at in zip(mine, places, strict=True):
                self.places[v] = start + at
            alone = join.probabilities[mine[0]][: len(values)] if len(mine) == 1 else None
            rates.append(join.state.rosters[link].rates_of_held(values) if alone is None else alone)
            start += len(values)
        if any(join.null_places):
            rates += self._number_nulls(start)
        self.probabilities: FloatArray = np.concatenate(rates)

    def _number_nulls(self, start: int) -> list[FloatArray]:
        """Give the places of NULL their numbers, from one on, and return the rates of these."""
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
        """Return the quantity over the sample that the values are of."""
        return cls(values, sampled_messages(values.join, quantity), quantity)

    @property
    def unseen_share(self) -> float:
        """Which share of the rows of a value that is not followed may count: all of them."""
        return 1.0

    @cached_property
    def followed(self) -> float:
        """The sum over the join of followed values alone: exact, and rounded once."""
        return exact_total(self.values.join, self.quantity) / (1 << -self.quantity.lowest)

    @cached_property
    def total(self) -> float:
        """The unbiased estimate: every joined row counts 1/pi for each of the values that it stands on."""
        return self.messages.total() + sum(float(excess.sum()) for _, excess in self._coinciding)

    @cached_property
    def signs(self) -> tuple[int, int]:
        """The signs that joined rows can have: (0, 1) or (-1, 0), and (-1, 1) where both occur or it is not known."""
        ends = [1]
        for node in self.quantity.nodes:
            ends = [end * sign for end in ends for sign in self._signs_of_rows(node)]
        return min(0, *ends), max(0, *ends)

    def _signs_of_rows(self, node: Node) -> tuple[int, int]:
        """Return the signs of what all held rows of a relation weigh, whether they count or not."""
        view, dictionary = self.values.join.view(node), self.values.join.dictionary(node)
        parts = [dictionary.total(each.measure) for each in view.digits]
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
        """What each value adds to the total: the joined rows, scaled up, that stand on it.

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
    def scaled_weights(self) -> list[FloatArray]:
        """The weight of each element of each relation, 1/pi times for each value that it holds."""
        made = []
        for mine in self.messages.relations:
            scaled = mine.weights.astype(np.float64)
            for variable, places in zip(mine.variables, mine.places, strict=True):
                scaled = scaled * self.messages.factors[variable][places]
            made.append(scaled)
        return made

    def relation_weights(self, relation: int) -> tuple[float, FloatArray]:
        """Return (the estimated total of a relation's weight, what each value adds to it)."""
        mine, scaled = self.messages.relations[relation], self.scaled_weights[relation]
        added = np.zeros(len(self.values))
        for i, (variable, places) in enumerate(zip(mine.variables, mine.places, strict=True)):
            again = self.values.join.repeated(mine, i)
            fresh = scaled if again is None else np.where(again, 0.0, scaled)
            np.add.at(added, self.values.places[variable][places], fresh)
        return float(scaled.sum()), added

    def relation_size(self, relation: int) -> float:
        """Return the estimated total of a relation's weight in absolute value: what cancels counts too."""
        return float(np.abs(self.scaled_weights[relation]).sum())

    def held_totals(self, variable: int) -> dict[int, float]:
        """Return for each relation at a link the total of what it holds there, in absolute value, scaled up."""
        factor = self.messages.factors[variable]
        return {
            k: dot(np.abs(self.messages.own(k, variable)), factor) for k in self.messages.members(variable)
        }
