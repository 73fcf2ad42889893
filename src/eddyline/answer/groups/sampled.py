"""Groups of a sampled join: the interval of each group's aggregates, and the groups that are not shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, hypot, inf

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.aggregates.moments import Moment
from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.entries import Asked, GroupEntries, Moments, hidden_in_groups
from eddyline.answer.interval import (
    FloatArray,
    Interval,
    ends_of_groups,
    ends_of_unseen_groups,
    highest_variance_of_few,
    least_ends_of_few,
    most_unsampled,
)
from eddyline.answer.joins.sampled_ratios import CANCELLED, SampleEstimate
from eddyline.answer.notes import FEW_WITNESSES
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.packing import IntArray
from eddyline.sql.query import Key, Query

# What each value adds to each group, and the interval of each group's aggregates.


_FEWEST = 2
"""Fewer values do not show the spread of a ratio."""
_ROUNDING = 1e-9
"""Values whose ratios differ by less than this share agree; fewer than 30 that agree show no spread."""


@dataclass(frozen=True)
class GroupIntervals:
    """An aggregate of every group with its ends."""

    values: FloatArray
    lows: FloatArray
    highs: FloatArray


@dataclass(frozen=True)
class GroupAggregate:
    """A requested aggregate; quantities: the names of those that it is made of.

    whole: for COUNT or SUM, the ends of its interval over all groups together. differences: for AVG, the variance
    of the measure between rows.
    """

    function: str
    quantities: Mapping[str, str]
    whole: tuple[float, float] = (-inf, inf)
    differences: float = 0.0

    @property
    def moment(self) -> Moment:
        """What it computes."""
        return moment_named(self.function)

    @property
    def is_sum(self) -> bool:
        """Whether it is COUNT or SUM, and not a ratio."""
        return self.moment.is_sum

    @property
    def counted(self) -> str:
        """The quantity that COUNT or SUM is, and that others are divided by."""
        return self.function if self.is_sum else "count"


@dataclass(frozen=True)
class _Ratio:
    """A ratio of each group, its count, and the factors of the quantities, by column, in its linearization.

    size: that of the numerator.
    """

    values: FloatArray
    count: FloatArray
    size: FloatArray
    factors: Mapping[int, FloatArray]


class SampledGroups:
    """The groups that a sample of a join shows: their sums, and what the followed values add to them.

    own: for each link, whether its value is a group, which is then wholly known. surprises: how surprising the
    totals of the join's relations are, as `Calibrated` has them: (below, above).
    """

    def __init__(
        self, grouped: GroupedJoin, names: list[str], own: list[bool], surprises: tuple[float, float]
    ) -> None:
        self.names = names
        self.own = own
        self.surprises = surprises
        self.grouped = grouped
        followed = (
            self._followed()
        )  # before the messages of all, which then do not take memory at the same time
        messages = grouped.sampled(self.own)
        self.groups, sums = messages.at_root()
        self.sums = {name: sums[:, i].astype(np.float64) for i, name in enumerate(names)}
        rosters, classes = grouped.join.state.rosters, grouped.join.shape.classes
        self.base = min((rosters[link].base for link in classes), default=1.0)
        self.sampled_links = [link for link, is_group in enumerate(own) if not is_group]
        self.least: FloatArray | None = None
        """What each group holds over followed values alone; None where weights may be negative."""
        if followed is not None:
            self.least = np.zeros((len(self.groups), len(self.names)))
            self.least[np.searchsorted(self.groups, followed[0])] = followed[1]
        self.entries = GroupEntries(grouped, messages, self.groups, self.sampled_links)

    def column(self, name: str) -> int:
        """Return which column of the join's quantities a quantity is."""
        return self.grouped.columns[self.names.index(name)]

    def _followed(self) -> tuple[IntArray, np.ndarray] | None:
        """Return (groups, their sums over followed values alone); None where weights may be negative."""
        for quantity in self.grouped.quantities:
            if any(np.any(each.weights < 0) for each in self.grouped.join.whole_relations(quantity)):
                return None
        return self.grouped.followed()

    def read(self, aggregates: Sequence[GroupAggregate], confidence: float) -> list[GroupIntervals]:
        """Return aggregates of each group with their intervals.

        A group without a seen sampled value may hold what the whole join leaves (`GroupAggregate.whole`).
        """
        ratios = [None if each.is_sum else self._linearized(each) for each in aggregates]
        sums = sorted({self.column(each.quantities[each.counted]) for each in aggregates})
        asked = [Asked({column: np.ones(len(self.groups))}) for column in sums]
        asked += [
            Asked(ratio.factors, (self.column(each.quantities["count"]), ratio.count))
            for each, ratio in zip(aggregates, ratios, strict=True)
            if ratio is not None
        ]
        moments = self.entries.moments(*asked)
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
        """Return what unfollowed values may add to a group that shows only surely followed values."""
        low, high = whole
        left = high - low if self.least is None else high - float(self.least[:, self.names.index(name)].sum())
        if moments.typical == 0.0:
            return max(left, 0.0)
        return max(min(moments.typical * most_unsampled(self.base, confidence), left), 0.0)

    def _linearized(self, aggregate: "GroupAggregate") -> "_Ratio":
        """Return a ratio of each group, and what its quantities add to its error."""
        names, moment = aggregate.quantities, aggregate.moment
        sums = {name: self.sums[quantity] for name, quantity in names.items()}
        count = sums["count"]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.clip(moment.population(sums), moment.least, moment.most)
            values = moment.corrected(values, count)
            factors, size = moment.factors(sums), np.nan_to_num(moment.size(sums))
        by_column: dict[int, FloatArray] = {}
        for name, factor in factors.items():  # squares of zeros and ones share the column of their sum
            column = self.column(names[name])
            each = np.broadcast_to(np.nan_to_num(factor, posinf=0.0, neginf=0.0), count.shape)
            by_column[column] = by_column.get(column, 0.0) + each
        return _Ratio(values, count, size, by_column)

    def _ratio(
        self,
        aggregate: GroupAggregate,
        ratio: "_Ratio",
        moments: Moments,
        counted: Moments,
        confidence: float,
    ) -> GroupIntervals:
        """Return a ratio of each group; counted: how sure its number of rows is."""
        moment, hidden = aggregate.moment, aggregate.differences * hidden_in_groups(counted)
        moments = replace(moments, spread=moments.spread.with_hidden(hidden))
        few, scarcity = np.False_, np.ones(1)
        if self.sampled_links:
            scarcity = moment.scarcity(moments.values)
            few = (moments.values < _FEWEST) | (moments.sampled == 0) | moments.lonely
            agreeing = np.sqrt(moments.spread.variance) <= _ROUNDING * ratio.size
            few |= agreeing & (moments.values < FEW_WITNESSES) | (scarcity == inf)
        least = least_ends_of_few(moments.spread.variance, moments.sampled, confidence)
        with np.errstate(divide="ignore", invalid="ignore"):
            below, above = (
                np.where(few, np.inf, scarcity * np.maximum(each, least) / ratio.count)
                for each in self._ends(moments, confidence)
            )
        values, lows, highs = ratio.values, ratio.values - below, ratio.values + above
        if moment.is_spread:
            highs = np.maximum(highs, highest_variance_of_few(values, counted.spread.carriers, confidence))
        if moment.degree > 1:
            off = CANCELLED * ratio.size / np.maximum(np.abs(ratio.count), 1.0)
            lows, highs = lows - off, highs + off
        with np.errstate(invalid="ignore"):
            return GroupIntervals(*moment.ends(values, lows, highs))

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
        """Whether the NULL group is not shown, because its rows are sampled and other groups are whole."""
        join = self.grouped.join
        return any(own and join.samples_single_nulls(link) for link, own in enumerate(self.own))

    @property
    def whole_groups(self) -> bool:
        """Whether the shown groups are wholly known: sampling only decides which groups are shown."""
        return self.has_own_links and not np.any(self.entries.moments(Asked({}))[0].sampled > 0)


def own_links(query: Query, grouped: GroupedJoin) -> list[bool]:
    """Return whether the value of each link is itself a group column.

    It is false for links that the query does not name, as in one stream whose groups are followed.
    """
    columns = {(column.relation, Key((column.expression,))) for column in query.groups}
    own = [any((member.relation, member.key) in columns for member in link.members) for link in query.links]
    return own + [False] * (len(grouped.sizes) - len(own))


# What the unshown groups of a sampled join hold together.
#
# The whole join has its own interval, and its shown part is known group by group: the rest is at most the whole
# minus what the shown groups certainly hold. Two readings are sharper:
#
# - where groups are values of a link, the shown groups are wholly known, except for what other links sample of
#   them, and the rest is the whole minus their sum; - otherwise a group that only one followed value shows
#   represents the groups without a followed value (Good and Turing's estimate of the unseen), if there are enough
#   values.


_ENOUGH_VALUES = 30


def rest_of_sum(
    groups: SampledGroups,
    name: str,
    read: GroupIntervals,
    shown: np.ndarray,
    whole: SampleEstimate,
    confidence: float,
    *,
    missed: bool,
) -> Interval:
    """Return COUNT or SUM over the unshown groups; whole: the same over all groups.

    missed: much of the join may be in an unfollowed value, about which the shown groups give no information.
    """
    if groups.has_own_links:
        below, above = _ends_of_shown(groups, name, shown, confidence)
        found = _less_shown(whole, float(read.values[shown].sum()), below, above)
        if (
            groups.sampled_links
        ):  # shown groups also represent groups whose value is followed but that no value shows
            unseen, _ = _good_turing(groups, name, confidence)
            found = Interval(found.value + unseen.value, found.low, found.high + max(unseen.high, 0.0))
    else:
        found = _left_over(groups, name, read, shown, whole)
        unseen, values = _good_turing(groups, name, confidence)
        if values >= _ENOUGH_VALUES and not missed:
            found = Interval(unseen.value, max(found.low, unseen.low), min(found.high, unseen.high))
        else:
            found = found._replace(value=unseen.value)
    least = 0.0 if groups.least is not None else -np.inf
    low, high = max(found.low, least), max(found.high, least)
    return Interval(min(max(found.value, low), high), min(low, high), high)


def _less_shown(whole: SampleEstimate, shown: float, below: float, above: float) -> Interval:
    """Return the whole minus what is shown, which may lie `below` and `above` its estimate."""
    value = whole.value - shown
    low, high = hypot(whole.value - whole.low, above), hypot(whole.high - whole.value, below)
    return Interval(value, value - low, value + high)


def _ends_of_shown(
    groups: SampledGroups, name: str, shown: np.ndarray, confidence: float
) -> tuple[float, float]:
    """Return how far the total of the shown groups may lie from its estimate: 0 if they are whole."""
    if not groups.sampled_links:
        return 0.0, 0.0
    owners = np.where(shown, 0, -1)
    asked = Asked({groups.column(name): np.ones(len(shown))}, owners=owners, number=1)
    (moments,) = groups.entries.moments(asked)
    below, above = ends_of_groups(moments.spread, confidence)
    return float(below[0]), float(above[0])


def _left_over(
    groups: SampledGroups, name: str, read: GroupIntervals, shown: np.ndarray, whole: SampleEstimate
) -> Interval:
    """Return what the whole leaves: its ends minus the most and the least that the shown groups may hold."""
    certain = read.lows if groups.least is None else groups.least[:, groups.names.index(name)]
    return Interval(
        whole.value, whole.low - float(read.highs[shown].sum()), whole.high - float(certain[shown].sum())
    )


def _good_turing(groups: SampledGroups, name: str, confidence: float) -> tuple[Interval, int]:
    """Return (what groups without a followed value hold, from how many sampled values this is estimated).

    A group with a single value at a link would not be seen without that value; with several such links, it would
    not be seen if any of these values were missing.
    """
    rare = groups.entries.rare
    added = rare.added[:, groups.column(name)]
    sampled = rare.rates < 1.0
    once = sampled & (rare.witnesses == 1)
    # links that each show a group by one value have entries for the same rows: these count once
    _, first = np.unique(rare.groups[once], return_index=True)
    value = float((added[once] * _lost(groups, once)[once])[first].sum())
    by_value = np.bincount(rare.values[sampled], weights=np.abs(added[sampled])).astype(np.float64)
    own = groups.entries.sampled_values(groups.column(name))
    typical = float(own.mean()) if len(own) else 0.0
    below, above = ends_of_unseen_groups(by_value, typical, groups.base, confidence)
    return Interval(value, value - below, value + above), len(own)


def _lost(groups: SampledGroups, once: np.ndarray) -> FloatArray:
    """Return the chance, for each entry, that its group is unseen: that one of its single values is missing."""
    chance = np.ones(len(groups.groups))
    np.multiply.at(chance, groups.entries.rare.groups[once], groups.entries.rare.rates[once])
    return np.asarray(1.0 - chance[groups.entries.rare.groups])


def rest_estimate(name: str, unseen: Interval, function: str, confidence: float, most: float) -> Estimate:
    """Return COUNT or SUM over the unseen groups; most: the largest possible number of rows."""
    value, low, high = unseen
    if moment_named(function).is_count:
        value, low, high = (min(max(each, 0.0), most) for each in unseen)
        value, low, high = round(value), floor(low), ceil(high) if high < inf else inf
    return Estimate(name, value, low, high, confidence, "sample")
