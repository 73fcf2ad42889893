"""Aggregates over all joined rows of a grouped query: its only row, or what bounds groups that are not shown.

They are read like aggregates over a join without groups, calibrated by the exact totals of its relations. Under
conditions between relations a value counts with what it adds to the rows that meet them; what may be missing is
estimated from the join without the conditions, which includes those rows.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.answer import notes
from eddyline.answer.joins.late import BOTH, SAMPLE, LateKeys, with_sum
from eddyline.answer.joins.sampled import Missed, Totals, estimate_of_quantities, missed_rows
from eddyline.answer.joins.sampled_ratios import SampleEstimate, row_differences
from eddyline.answer.joins.sampled_values import SampledQuantity, sampled_quantities
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.facets import EVERY_ROW, ROWS
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.conditioned_messages import ConditionedMessages
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.join import Join
from eddyline.sample.state import FloatArray

_DROPPED = 0.2
"""The largest share of rows assumed dropped by reductions on one side of a quantile; chosen on the bank."""


@dataclass(frozen=True)
class WholeJoin:
    """The sampled join of a grouped query; grouped: the join with groups, its quantities in order.

    most: how many rows it can have, by the exact numbers of rows of its streams. late: its late keys, which the
    sample does not show; None for a query without sketches of unfollowed keys.
    """

    snapshot: Snapshot
    planned: PlannedQuery
    grouped: GroupedJoin
    confidence: float
    most: float = inf
    late: LateKeys | None = None
    _known: dict[tuple[object, ...], SampleEstimate] = field(default_factory=dict)

    def read(self, function: str, quantities: Mapping[str, str]) -> SampleEstimate:
        """Return an aggregate; quantities: the query's names of those that it is made of.

        Aggregates with equal weights and totals are read once.
        """
        parts = [
            (name, self._columns[quantity], *self.planned.totals.get(quantity, ()))
            for name, quantity in quantities.items()
        ]
        key = (function, *parts)
        if key not in self._known:
            # without what was read: it takes memory, and no sketch is read next to groups
            self._known[key] = dataclasses.replace(self._made(function, quantities), quantities={})
        return self._known[key]

    @cached_property
    def _columns(self) -> dict[str, int]:
        """Which of the join's different quantities each quantity of the query is."""
        assert self.planned.shape is not None
        return dict(zip(self.planned.shape.quantities, self.grouped.columns, strict=True))

    def _made(self, function: str, quantities: Mapping[str, str]) -> SampleEstimate:
        assert self.planned.shape is not None
        own = {name: self.planned.shape.quantities[quantity] for name, quantity in quantities.items()}
        sampled = self._sampled(self.grouped.join.only(own), quantities) | self._every_row
        totals = {name: self._totals(quantity) for name, quantity in quantities.items()} | {
            EVERY_ROW: self._totals(EVERY_ROW)
        }
        moment, late = moment_named(function), self.late_rows
        found = estimate_of_quantities(sampled, function, totals, self.confidence, late)
        if moment.is_sum:
            return self._with_late(found, sampled[function])
        shown = self._messages is None or _shows_sampled(sampled["count"])
        if shown and not self.misses_much:
            return found
        return dataclasses.replace(found, low=moment.least, high=moment.most)

    def _with_late(self, found: SampleEstimate, quantity: SampledQuantity) -> SampleEstimate:
        """Return COUNT or SUM with its late keys; a group may hold all that these add."""
        if not self.late:
            return found
        added = self.late.added(quantity)
        below, above = added.ends(self.confidence)
        missing = (
            found.missing[0] + max(below - added.total, 0.0),
            found.missing[1] + max(added.total + above, 0.0),
        )
        return dataclasses.replace(with_sum(found, added, self.confidence), missing=missing)

    @property
    def method(self) -> str:
        """What answers: the sample, and sketches of unfollowed keys if they show late keys."""
        return BOTH if self.late else SAMPLE

    @cached_property
    def late_rows(self) -> float:
        """The most joined rows that late keys may have."""
        return self.late.most_rows(self.confidence) if self.late else 0.0

    def differences(self, function: str, quantities: Mapping[str, str]) -> float:
        """Return the variance between rows of what they add to a ratio; quantities: as `read` has them.

        0 for variances, whose error from few values is bounded in another way.
        """
        assert self.planned.shape is not None
        moment = moment_named(function)
        if moment.is_spread:
            return 0.0
        own = {name: self.planned.shape.quantities[quantity] for name, quantity in quantities.items()}
        sampled = sampled_quantities(self.grouped.join.only(own))
        if moment.degree == 1:
            return row_differences(sampled, {"sum": 1.0})
        sums = {name: np.float64(each.total) for name, each in sampled.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = {name: float(each) for name, each in moment.factors(sums).items()}
        return row_differences(sampled, factors) if np.all(np.isfinite([*factors.values()])) else 0.0

    @property
    def misses_much(self) -> bool:
        """Whether a heavy unfollowed value may hold much of the join."""
        return self.missed.share > notes.MOSTLY_MISSED

    @property
    def missing_share(self) -> float:
        """The share of the joined rows that the sample may not show, for quantiles.

        It is from exact totals; reductions drop rows as they come, which moves a quantile by less.
        """
        return max(self.missed.share, min(self.read("count", {"count": ROWS}).missing_share, _DROPPED))

    @cached_property
    def missed(self) -> Missed:
        """What exact totals show about the joined rows that the sample does not show."""
        assert self.planned.shape is not None
        join = self.grouped.join.only({"count": self.planned.shape.quantities[ROWS]})
        totals = {"count": self._totals(ROWS), EVERY_ROW: self._totals(EVERY_ROW)}
        return missed_rows(sampled_quantities(join) | self._every_row, totals, self.late_rows)

    def _totals(self, quantity: str) -> Sequence[float | None]:
        """Return the exact totals of the relations of a quantity without late keys, empty where none is known."""
        return self._left.get(quantity, ())

    @cached_property
    def _left(self) -> Totals:
        totals = {
            name: [self.snapshot.weighed_total(each) for each in ids]
            for name, ids in self.planned.totals.items()
        }
        return totals if self.late is None else self.late.left_of(totals)

    @cached_property
    def _every_row(self) -> dict[str, SampledQuantity]:
        """All rows that could join, whatever the predicates, for ad hoc queries: only their number is known."""
        assert self.planned.shape is not None
        if EVERY_ROW not in self.planned.totals:
            return {}
        every = self.planned.shape.quantities[ROWS].of_every_row()
        return sampled_quantities(self.grouped.join.only({EVERY_ROW: every}))

    def _sampled(self, join: Join, quantities: Mapping[str, str]) -> dict[str, SampledQuantity]:
        """Return the quantities as the sample sees them, over rows that meet the query's conditions."""
        found = sampled_quantities(join)
        messages = self._messages
        if messages is None:
            return found
        places = {name: list(self._columns).index(quantity) for name, quantity in quantities.items()}
        return {
            name: ConditionedQuantity(
                each.values,
                each.messages,
                each.quantity,
                messages,
                self._columns[quantities[name]],
                int(self._followed[places[name]]),
                self.late is not None,
            )
            for name, each in found.items()
        }

    @cached_property
    def _messages(self) -> ConditionedMessages | None:
        """The messages of rows that meet the conditions, sampled values counting 1/pi times; None without any."""
        made = self.grouped.sampled([False] * len(self.grouped.sizes))
        return made if isinstance(made, ConditionedMessages) else None

    @cached_property
    def _followed(self) -> np.ndarray:
        """The sums over the join of followed values alone, by quantity of the query."""
        return np.asarray(self.grouped.exact()[1].sum(axis=0))


def _shows_sampled(count: SampledQuantity) -> bool:
    """Return whether a value that might be unfollowed adds rows: surely followed values do not represent others."""
    return bool(np.any(count.values.probabilities[count.added != 0.0] < 1.0))


@dataclass(frozen=True)
class ConditionedQuantity(SampledQuantity):
    """A quantity that counts only rows that meet conditions between relations.

    conditioned: the messages of such rows; column: the quantity's column in them. certain: what followed values
    hold. sketched: whether sketches show heavy values.
    """

    conditioned: ConditionedMessages
    column: int
    certain: int
    sketched: bool = False

    @property
    def is_conditioned(self) -> bool:
        """Always."""
        return True

    @property
    def multiplied(self) -> int:
        """As above, beyond one where no sketch shows heavy values."""
        return self.messages.most_members - (2 if self.sketched else 1)

    @cached_property
    def followed(self) -> float:
        """The sum over the join of followed values alone: exact, and rounded once."""
        return self.certain / (1 << -self.quantity.lowest)

    @cached_property
    def unseen_share(self) -> float:
        """The share of the rows of a value that may meet the conditions, if any row does.

        It is a product over the relations: the number of rows that may meet the conditions per value with such
        rows, divided by the number of all rows per value. Rows that may meet them are those that meet comparisons
        with some row of the other relation.
        """
        share = 1.0
        for relation in range(len(self.messages.relations)):
            share *= self._share_of(relation)
        return share

    def _share_of(self, relation: int) -> float:
        mine, conditions = self.conditioned.relations[relation], self.conditioned.conditions
        weights = np.abs(self.conditioned.weights[relation][:, self.column].astype(np.float64))
        may = conditions.may_hold(relation)[self.conditioned.join.codes[relation].of_rows] & (weights > 0.0)
        if not np.any(may):
            return 1.0  # nothing is known without values
        shares = []
        for link, places in zip(mine.variables, mine.places, strict=True):
            factors = self.conditioned.factors[link][:, 0]
            each = [
                np.average(
                    np.bincount(places[rows], weights[rows], len(factors))[found := np.unique(places[rows])],
                    weights=factors[found],
                )
                for rows in (may, weights > 0.0)
            ]
            shares.append(float(each[0] / each[1]))
        return min(max(shares, default=1.0), 1.0)

    @cached_property
    def total(self) -> float:
        """The unbiased estimate: every joined row counts 1/pi for each of the values that it depends on."""
        return float(self._added_at(0).sum())

    @cached_property
    def added(self) -> FloatArray:
        """What each value adds to the total: the joined rows, scaled up, that depend on it."""
        added = np.zeros(len(self.values))
        for variable, places in enumerate(self.values.places):
            np.add.at(added, places, self._added_at(variable))
        return added

    def _added_at(self, variable: int) -> FloatArray:
        """Return what the values of one link add."""
        rows = self.conditioned.met_in_all(variable)[:, self.column]
        return np.asarray(rows * self.conditioned.factors[variable][:, 0])
