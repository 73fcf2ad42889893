"""Groups of a sampled join: what each value adds to each group, and the interval of each group's aggregates."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eddyline.answer.interval import FloatArray, GroupSpread, ends_of_groups, most_unsampled
from eddyline.sample.grouped_messages import GroupedJoin
from eddyline.sql.query import GroupQuery, Key

_LEAST_REST = 0.2


@dataclass(frozen=True)
class GroupIntervals:
    """An aggregate of every group with its ends."""

    values: FloatArray
    lows: FloatArray
    highs: FloatArray


class SampledGroups:
    """The groups that a sample of a join shows: their sums, and what each followed value adds to them.

    own: for each link whether its value is a group, which is then known whole.
    """

    def __init__(self, grouped: GroupedJoin, names: list[str], own: list[bool]) -> None:
        self.names = names
        self.own = own
        messages = grouped.sampled(self.own)
        self.groups, sums = messages.at_root()
        self.sums = {name: sums[:, i].astype(np.float64) for i, name in enumerate(names)}
        self.least = self._followed(grouped, sums.shape[1])
        parts, rates, places = [], [], []
        links, values = [], []
        self.own_values = 0
        self.base = 1.0
        for variable, is_group in enumerate(own):
            self.base = min(self.base, grouped.join.state.rosters[grouped.join.shape.classes[variable]].base)
            met = messages.met(variable)
            assert met.groups is not None
            assert met.places is not None
            if is_group:
                self.own_values += len(met.places)
                continue
            parts.append(met.sums.astype(np.float64))
            rates.append(grouped.join.probabilities[variable][met.places])
            places.append(np.searchsorted(self.groups, met.groups))
            links.append(np.full(len(met.places), variable))
            values.append(met.places + sum(grouped.sizes[:variable]))
        width = len(names)
        self.added = np.concatenate(parts) if parts else np.empty((0, width))
        self.rates: FloatArray = np.concatenate(rates) if rates else np.empty(0)
        self.places = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
        inside = (self.places < len(self.groups)) & (self.added != 0).any(axis=1)
        self.links = np.concatenate(links)[inside] if links else np.empty(0, dtype=np.int64)
        self.values = np.concatenate(values)[inside] if values else np.empty(0, dtype=np.int64)
        self.added, self.rates, self.places = self.added[inside], self.rates[inside], self.places[inside]

    def _followed(self, grouped: GroupedJoin, width: int) -> FloatArray | None:
        """Return what each group holds over followed values alone; None where weights may be negative."""
        for quantity in grouped.quantities:
            if any(np.any(each.weights < 0) for each in grouped.join.whole_relations(quantity)):
                return None
        groups, sums = grouped.exact()
        least = np.zeros((len(self.groups), width))
        least[np.searchsorted(self.groups, groups)] = sums.astype(np.float64)
        return least

    def column(self, name: str) -> FloatArray:
        """Return what each value adds to a quantity, entry by entry."""
        return np.asarray(self.added[:, self.names.index(name)])

    def read_sum(self, name: str, confidence: float) -> GroupIntervals:
        """Return COUNT or SUM of each group."""
        values, added = self.sums[name], self.column(name)
        below, above = self._ends(added, confidence)
        above = np.maximum(above, self._hidden(added, confidence))
        lows, highs = values - below, values + above
        if self.least is not None:
            floor = self.least[:, self.names.index(name)]
            values, lows, highs = (np.maximum(each, floor) for each in (values, lows, highs))
        return GroupIntervals(values, lows, highs)

    def read_ratio(self, function: str, names: Mapping[str, str], confidence: float) -> GroupIntervals:
        """Return AVG, a variance or a standard deviation of each group, linearized; names: of its quantities."""
        count = self.sums[names["count"]]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.sums[names["sum"]] / count
            factors = {"sum": np.ones(len(count)), "count": -mean}
            values = mean
            if function != "avg":
                variance = self.sums[names["squares"]] / count - mean**2
                factors = {"squares": np.ones(len(count)), "sum": -2 * mean, "count": mean**2 - variance}
                values = np.maximum(variance, 0.0)
                if function.endswith("_samp"):
                    values = np.where(count > 1, values * count / (count - 1), np.nan)
            added = np.zeros(len(self.places))
            for name, factor in factors.items():
                added += factor[self.places] * self.column(names[name])
            share = np.abs(self.column(names["count"])) * (1.0 - self.rates) / count[self.places]
            below, above = self._ends(added / np.maximum(1.0 - share, _LEAST_REST), confidence)
            few = np.bincount(self.places, minlength=len(count)) < 2
            below, above = (np.where(few, np.inf, each / count) for each in (below, above))
        lows, highs = values - below, values + above
        if function != "avg":
            lows = np.maximum(lows, 0.0)
        if function.startswith("stddev"):
            values, lows, highs = (np.sqrt(np.maximum(each, 0.0)) for each in (values, lows, highs))
        return GroupIntervals(values, lows, highs)

    def _ends(self, added: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
        return ends_of_groups(GroupSpread.of(added, self.rates, self.places, len(self.groups)), confidence)

    def _light(self) -> np.ndarray:
        return self.rates < 1.0

    def _hidden(self, added: FloatArray, confidence: float) -> FloatArray:
        """Return what values that are not followed may add to groups of which only certain values are seen."""
        light = self._light()
        seen = np.bincount(self.places[light], minlength=len(self.groups))
        typical = float(np.abs(added[light] * self.rates[light]).mean()) if light.any() else 0.0
        return np.where(seen == 0, typical * most_unsampled(self.base, confidence), 0.0)

    @property
    def witnesses(self) -> int:
        """How many followed values join."""
        return len(self.rates) + self.own_values

    @property
    def has_own_links(self) -> bool:
        """Whether a link's value is itself a group column."""
        return any(self.own)

    @property
    def whole_groups(self) -> bool:
        """Whether the groups that are shown are known whole: nothing is sampled but which of them are shown."""
        return self.has_own_links and not np.any(self.rates < 1.0)


def own_links(query: GroupQuery) -> list[bool]:
    """Return for each link whether its value is itself a group column."""
    columns = {(column.relation, Key((column.expression,))) for column in query.groups}
    return [any((member.relation, member.key) in columns for member in link.members) for link in query.links]
