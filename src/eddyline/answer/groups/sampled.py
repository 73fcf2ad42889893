"""Groups of a sampled join: what each value adds to each group, and the interval of each group's aggregates."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from eddyline.answer.groups.entries import GroupEntries, Moments, hidden_in_groups
from eddyline.answer.groups.table_moments import Asked
from eddyline.answer.interval import (
    FloatArray,
    ends_of_groups,
    highest_variance_of_few,
    least_ends_of_few,
    most_unsampled,
)
from eddyline.answer.joins.sampled_ratios import CANCELLED
from eddyline.answer.notes import FEW_WITNESSES
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sql.query import GroupQuery, Key

_FEWEST = 2
"""Fewer values tell nothing of a ratio."""
_ROUNDING = 1e-9
"""Values whose ratios differ by less than this share agree, and fewer than 30 that do tell no spread."""


@dataclass(frozen=True)
class GroupIntervals:
    """An aggregate of every group with its ends."""

    values: FloatArray
    lows: FloatArray
    highs: FloatArray


@dataclass(frozen=True)
class GroupAggregate:
    """An aggregate that is asked for; quantities: what those that it is made of are called.

    whole: of COUNT or SUM, the ends of its interval over all groups together. differences: of AVG, the variance of the
    measure between rows.
    """

    function: str
    quantities: Mapping[str, str]
    whole: tuple[float, float] = (-inf, inf)
    differences: float = 0.0

    @property
    def is_sum(self) -> bool:
        """Whether it is COUNT or SUM, and not a ratio."""
        return self.function in ("count", "sum")

    @property
    def counted(self) -> str:
        """The quantity that COUNT or SUM is, and that others are divided by."""
        return self.function if self.is_sum else "count"


@dataclass(frozen=True)
class _Ratio:
    """A ratio of each group, its count, and the factors of the quantities, by column, in its linearization.

    size: of what is divided by the count.
    """

    values: FloatArray
    count: FloatArray
    size: FloatArray
    factors: Mapping[int, FloatArray]


class SampledGroups:
    """The groups that a sample of a join shows: their sums, and what the followed values add to them.

    own: for each link whether its value is a group, which is then known whole. surprises: how surprising the totals of
    the join's relations are, as `Calibrated` has them: (below, above).
    """

    def __init__(
        self, grouped: GroupedJoin, names: list[str], own: list[bool], surprises: tuple[float, float]
    ) -> None:
        self.names = names
        self.own = own
        self.surprises = surprises
        self.grouped = grouped
        messages = grouped.sampled(self.own)
        self.groups, sums = messages.at_root()
        self.sums = {name: sums[:, i].astype(np.float64) for i, name in enumerate(names)}
        rosters, classes = grouped.join.state.rosters, grouped.join.shape.classes
        self.base = min((rosters[link].base for link in classes), default=1.0)
        self.sampled_links = [link for link, is_group in enumerate(own) if not is_group]
        self.entries = GroupEntries(grouped, messages, self.groups, self.sampled_links)

    def column(self, name: str) -> int:
        """Return which column of the join's quantities a quantity is."""
        return self.grouped.columns[self.names.index(name)]

    @cached_property
    def least(self) -> FloatArray | None:
        """What each group holds over followed values alone; None where weights may be negative."""
        for quantity in self.grouped.quantities:
            if any(np.any(each.weights < 0) for each in self.grouped.join.whole_relations(quantity)):
                return None
        groups, sums = self.grouped.followed()
        least = np.zeros((len(self.groups), len(self.names)))
        least[np.searchsorted(self.groups, groups)] = sums
        return least

    def read(self, aggregates: Sequence[GroupAggregate], confidence: float) -> list[GroupIntervals]:
        """Return aggregates of each group with their intervals.

        A group of which no sampled value is seen may hold what the whole join leaves (`GroupAggregate.whole`).
        """
        ratios = [None if each.is_sum else self._linearized(each) for each in aggregates]
        sums = sorted({self.column(each.quantities[each.counted]) for each in aggregates})
        asked = [Asked({column: np.ones(len(self.groups))}) for column in sums]
        asked += [
            Asked(ratio.factors, (self.column(each.quantities["count"]), ratio.count))
            for each, ratio in zip(aggregates, ratios, strict=True)
            if ratio is not None
        ]
        with ThreadPoolExecutor(1) as beside:
            least = beside.submit(lambda: self.least)  # needs nothing of the moments, and takes as long
            moments = self.entries.moments(*asked)
            least.result()
        of_sums, of_ratios = dict(zip(sums, moments, strict=False)), iter(moments[len(sums) :])
        return [
            self._sum(each, of_sums[self.column(each.quantities[each.counted])], confidence)
            if ratio is None
            else self._ratio(
                each, ratio, next(of_ratios), of_sums[self.column(each.quantities["count"])], confidence
            )
            for each, ratio in zip(aggregates, ratios, strict=True)
        ]

    def _sum(self, aggregate: GroupAggregate, moments: Moments, confidence: float) -> GroupIntervals:
        """Return COUNT or SUM of each group."""
        name = aggregate.quantities[aggregate.function]
        values = self.sums[name]
        below, above = self._ends(moments, confidence)
        if self.sampled_links:
            hidden = self._hidden(name, aggregate.whole, moments, confidence)
            above = np.where(moments.sampled == 0, np.maximum(above, hidden), above)
            if self.least is None:
                below = np.where(moments.sampled == 0, np.maximum(below, hidden), below)
        lows, highs = values - below, values + above
        if self.least is not None:
            floor = self.least[:, self.names.index(name)]
            values, lows, highs = (np.maximum(each, floor) for each in (values, lows, highs))
        return GroupIntervals(values, lows, highs)

    def _ends(self, moments: Moments, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return how far the ends of each group lie from its estimate: (below it, above it)."""
        spread = moments.spread.with_typical(moments.sampled)
        return ends_of_groups(spread, confidence, *self.surprises, sampled=moments.sampled)

    def _hidden(self, name: str, whole: tuple[float, float], moments: Moments, confidence: float) -> float:
        """Return what values that are not followed may add to a group of which only certain values are seen."""
        low, high = whole
        left = high - low if self.least is None else high - float(self.least[:, self.names.index(name)].sum())
        if moments.typical == 0.0:
            return max(left, 0.0)
        return max(min(moments.typical * most_unsampled(self.base, confidence), left), 0.0)

    def _linearized(self, aggregate: "GroupAggregate") -> "_Ratio":
        """Return AVG or a variance of each group, and what its quantities add to its error."""
        names, function = aggregate.quantities, aggregate.function
        count = self.sums[names["count"]]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.sums[names["sum"]] / count
            factors, values = {"sum": np.ones(len(count)), "count": -mean}, mean
            if function != "avg":
                variance = self.sums[names["squares"]] / count - mean**2
                factors = {"squares": np.ones(len(count)), "sum": -2 * mean, "count": mean**2 - variance}
                values = np.maximum(variance, 0.0)
                if function.endswith("_samp"):
                    values = np.where(count > 1, values * count / (count - 1), np.nan)
        by_column: dict[int, FloatArray] = {}
        for name, factor in factors.items():  # squares of zeros and ones are in the column of their sum
            column = self.column(names[name])
            by_column[column] = by_column.get(column, 0.0) + np.nan_to_num(factor)
        size = np.abs(self.sums[names["sum" if function == "avg" else "squares"]])
        return _Ratio(values, count, size, by_column)

    def _ratio(
        self,
        aggregate: GroupAggregate,
        ratio: "_Ratio",
        moments: Moments,
        counted: Moments,
        confidence: float,
    ) -> GroupIntervals:
        """Return AVG, a variance or a standard deviation of each group; counted: how sure its number of rows is."""
        function, hidden = aggregate.function, aggregate.differences * hidden_in_groups(counted)
        moments = replace(moments, spread=moments.spread.with_hidden(hidden))
        few = np.False_
        if self.sampled_links:
            few = (moments.values < _FEWEST) | (moments.sampled == 0) | moments.lonely
            agreeing = np.sqrt(moments.spread.variance) <= _ROUNDING * ratio.size
            few |= agreeing & (moments.values < FEW_WITNESSES)
        least = least_ends_of_few(moments.spread.variance, moments.sampled, confidence)
        with np.errstate(divide="ignore", invalid="ignore"):
            below, above = (
                np.where(few, np.inf, np.maximum(each, least) / ratio.count)
                for each in self._ends(moments, confidence)
            )
        values, lows, highs = ratio.values, ratio.values - below, ratio.values + above
        if function != "avg":
            off = CANCELLED * ratio.size / np.maximum(np.abs(ratio.count), 1.0)
            few_values = highest_variance_of_few(values, counted.spread.carriers, confidence)
            lows, highs = np.maximum(lows - off, 0.0), np.maximum(highs, few_values) + off
        if function.startswith("stddev"):
            values, lows, highs = (np.sqrt(np.maximum(each, 0.0)) for each in (values, lows, highs))
        return GroupIntervals(values, lows, highs)

    @property
    def witnesses(self) -> int:
        """How many followed values join."""
        return self.entries.count_values()

    @property
    def has_own_links(self) -> bool:
        """Whether a link's value is itself a group column."""
        return any(self.own)

    @property
    def leaves_null_out(self) -> bool:
        """Whether the group of NULL is not shown, because its rows are sampled and those of other groups are whole."""
        join = self.grouped.join
        return any(own and join.samples_single_nulls(link) for link, own in enumerate(self.own))

    @property
    def whole_groups(self) -> bool:
        """Whether the groups that are shown are known whole: nothing is sampled but which of them are shown."""
        return self.has_own_links and not np.any(self.entries.moments(Asked({}))[0].sampled > 0)


def own_links(query: GroupQuery, grouped: GroupedJoin) -> list[bool]:
    """Return for each link whether its value is itself a group column.

    Links that the query does not name, as of one stream whose groups are followed, are none of them.
    """
    columns = {(column.relation, Key((column.expression,))) for column in query.groups}
    own = [any((member.relation, member.key) in columns for member in link.members) for link in query.links]
    return own + [False] * (len(grouped.sizes) - len(own))
