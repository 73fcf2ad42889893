"""COUNT or SUM over all groups of a sampled join together, seen and not: what bounds the groups that are not shown."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from eddyline.answer.groups.entries import Asked
from eddyline.answer.groups.sampled import SampledGroups
from eddyline.answer.interval import Interval, ends_of_groups, most_unsampled
from eddyline.answer.joins.held import held_join
from eddyline.answer.joins.sampled import read_sample_join
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import PlannedQuery
from eddyline.sql.query import GroupQuery


@dataclass(frozen=True)
class WholeJoin:
    """The join of a grouped query over a sample; sampled: the groups that it shows."""

    snapshot: Snapshot
    planned: PlannedQuery
    sampled: SampledGroups
    confidence: float

    def read(self, function: str, quantity: str) -> Interval:
        """Return COUNT or SUM over all joined rows that meet the query's conditions."""
        before = self._before_conditions(function, quantity)
        assert isinstance(self.planned.query, GroupQuery)
        return self._under_conditions(quantity, before) if self.planned.query.conditions else before

    def _before_conditions(self, function: str, quantity: str) -> Interval:
        """Return it over all joined rows, whether or not they meet conditions between relations."""
        assert self.planned.shape is not None
        shape = replace(self.planned.shape, quantities={function: self.planned.shape.quantities[quantity]})
        totals = [float(self.snapshot.counters[each][0]) for each in self.planned.totals.get(quantity, ())]
        join = held_join(self.snapshot, self.planned, shape)
        found = read_sample_join(join, function, {function: totals}, self.confidence)
        return Interval(found.value, found.low, found.high)

    @cached_property
    def _scaled(self) -> SampledGroups:
        """The groups with every sampled value counted 1/pi times, those that are groups themselves among them."""
        sampled = self.sampled
        if not sampled.has_own_links:
            return sampled
        return SampledGroups(sampled.grouped, sampled.names, [False] * len(sampled.own))

    def _under_conditions(self, quantity: str, before: Interval) -> Interval:
        """Return it over the rows that meet the conditions, by the spread of what sampled values add to them.

        Of rows that are counted once it is no more than all joined rows have.
        """
        groups = self._scaled
        number = len(groups.groups)
        asked = Asked({groups.column(quantity): np.ones(number)}, owners=np.zeros(number, np.int64), number=1)
        (moments,) = groups.entries.moments(asked)
        (below,), (above,) = ends_of_groups(moments.spread, self.confidence)
        value = float(groups.sums[quantity].sum())
        hidden = self._hidden(quantity, before) if moments.sampled[0] == 0 else 0.0
        if groups.least is None:
            return Interval(value, value - max(below, hidden), value + max(above, hidden))
        least = float(groups.least[:, groups.names.index(quantity)].sum())
        high = max(min(value + max(above, hidden), before.high), least)
        return Interval(min(max(value, least), high), max(value - below, least), high)

    def _hidden(self, quantity: str, before: Interval) -> float:
        """Return what values that are not followed may add where no sampled one meets the conditions.

        Each is taken to add what one adds to the join before its conditions.
        """
        groups = self._scaled
        left = before.high - before.low
        if groups.least is not None:
            left = before.high - float(groups.least[:, groups.names.index(quantity)].sum())
        own = groups.entries.sampled_values_before(groups.column(quantity))
        if len(own) == 0:
            return max(left, 0.0)
        return max(min(float(own.mean()) * most_unsampled(groups.base, self.confidence), left), 0.0)
