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
from eddyline.sample.spec import Quantity
from eddyline.sample.sums import dot


class SampledValues:
    """The values of all link classes of a query that are followed, numbered; places: the number of each link's.

    The last number is that of NULL, if rows with it count: it is always followed.
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
            rates.append(np.ones(1))
            self.places = [
                np.append(places, np.full(nulls, start))
                for places, nulls in zip(self.places, join.null_places, strict=True)
            ]
        self.probabilities: FloatArray = np.concatenate(rates)

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
