"""What the groups of a sampled join that are not shown hold together.

The whole join has an interval of its own, and what is shown of it is known group by group: the rest is at most what the
whole leaves beyond what is certain of the shown groups. Two readings are sharper:

- where groups are values of a link, those shown are known whole, but for what other links sample of them, and the rest
  is the whole less their sum;
- otherwise a group that one followed value alone shows stands for those groups of which no value is followed
  (Good and Turing's estimate of the unseen), if there are enough values to tell.
"""

from math import hypot

import numpy as np

from eddyline.answer.groups.sampled import GroupIntervals, SampledGroups
from eddyline.answer.groups.table_moments import Asked
from eddyline.answer.interval import FloatArray, Interval, ends_of_groups, ends_of_unseen_groups
from eddyline.answer.joins.sample_estimate import SampleEstimate

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
    """Return COUNT or SUM over the groups that are not shown; whole: the same over all groups.

    missed: much of the join may be in a value that is not followed, of which the groups that are shown tell nothing.
    """
    if groups.has_own_links:
        below, above = _ends_of_shown(groups, name, shown, confidence)
        found = _less_shown(whole, float(read.values[shown].sum()), below, above)
        if (
            groups.sampled_links
        ):  # what is shown stands for groups as well whose value is followed, and that none shows
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
    """Return the whole less what is shown, which may lie so far below and above its estimate."""
    value = whole.value - shown
    low, high = hypot(whole.value - whole.low, above), hypot(whole.high - whole.value, below)
    return Interval(value, value - low, value + high)


def _ends_of_shown(
    groups: SampledGroups, name: str, shown: np.ndarray, confidence: float
) -> tuple[float, float]:
    """Return how far what the shown groups hold together may lie from its estimate: nowhere, if they are whole."""
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
    """Return what the whole leaves: its ends less the most and the least that the shown groups may hold."""
    certain = read.lows if groups.least is None else groups.least[:, groups.names.index(name)]
    return Interval(
        whole.value, whole.low - float(read.highs[shown].sum()), whole.high - float(certain[shown].sum())
    )


def _good_turing(groups: SampledGroups, name: str, confidence: float) -> tuple[Interval, int]:
    """Return (what groups hold that no followed value shows, how many sampled values tell it).

    A group of which a link shows a single value would not be seen without that value; of several such links, without
    any of theirs.
    """
    rare = groups.entries.rare
    added = rare.added[:, groups.column(name)]
    sampled = rare.rates < 1.0
    once = sampled & (rare.witnesses == 1)
    # every link that alone shows a group has an entry for the same rows: they count once
    _, first = np.unique(rare.groups[once], return_index=True)
    value = float((added[once] * _lost(groups, once)[once])[first].sum())
    by_value = np.bincount(rare.values[sampled], weights=np.abs(added[sampled])).astype(np.float64)
    own = groups.entries.sampled_values(groups.column(name))
    typical = float(own.mean()) if len(own) else 0.0
    below, above = ends_of_unseen_groups(by_value, typical, groups.base, confidence)
    return Interval(value, value - below, value + above), len(own)


def _lost(groups: SampledGroups, once: np.ndarray) -> FloatArray:
    """Return for each entry the chance that its group is not seen: one of the values that alone show it is missing."""
    chance = np.ones(len(groups.groups))
    np.multiply.at(chance, groups.entries.rare.groups[once], groups.entries.rare.rates[once])
    return np.asarray(1.0 - chance[groups.entries.rare.groups])
