"""Aggregates that need the single values of a group: distinct counts, quantiles, MIN and MAX."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer import notes
from eddyline.answer.aggregates import row_bound
from eddyline.answer.estimate import Estimate, Number, Scalar
from eddyline.answer.groups.columns import Value, not_known
from eddyline.answer.groups.entries import Asked, hidden_in_groups
from eddyline.answer.groups.sampled import GroupIntervals
from eddyline.answer.groups.tuples import GroupTuples, Labels, read_tuples
from eddyline.answer.interval import (
    FloatArray,
    GroupSpread,
    ends_of_groups,
    most_unsampled,
    wilson_ends,
)
from eddyline.expressions.times import TIMES
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.facets import ROWS
from eddyline.plan.layout import PlannedQuery
from eddyline.plan.size.specs import two_sided_z
from eddyline.sample.packing import IntArray
from eddyline.sql.query import Detail, Query
from eddyline.types import SqlType

# Distinct counts of groups: how many tuples each group has, seen and not seen.
#
# A tuple that only one followed value shows represents others whose value is not followed. If a tuple had n such
# values, it would be counted n times as unseen; how often two values show a tuple gives the size of n (Chao's
# estimate of unseen species, with unequal rates). With n = 1 for all, the count is an upper bound, from which the
# upper end of the interval is computed; what is seen is the lower end. Where every tuple has exactly one value,
# because its columns are what is followed, the count is unbiased and its interval is two-sided.


def count_distinct(tuples: GroupTuples, most_rows: FloatArray, confidence: float) -> GroupIntervals:
    """Return the number of distinct tuples of each group; most_rows: the most rows that it can have."""
    seen = np.bincount(tuples.owners, minlength=tuples.groups).astype(np.float64)
    if tuples.exact:
        return GroupIntervals(seen, seen, seen)
    assert tuples.sampled is not None
    assert tuples.places is not None
    rare = tuples.sampled.entries.rare
    of_tuple = tuples.places[rare.groups]
    used = of_tuple >= 0
    of_tuple, rates = of_tuple[used], rare.rates[used]
    alone = rare.witnesses[used] == 1
    chance = np.ones(len(tuples.owners))
    np.multiply.at(chance, of_tuple[alone], rates[alone])
    stands_for = 1.0 / chance
    if tuples.one_value_each:
        found = _unbiased(tuples, seen, stands_for, chance, confidence)
    else:
        pairs = np.bincount(of_tuple[~alone & (rates < 1.0)], minlength=len(tuples.owners)) > 0
        most = np.bincount(tuples.owners, weights=stands_for - 1.0, minlength=tuples.groups)
        unseen = most / _values_each(pairs, chance)
        above = _spread(tuples, of_tuple, rare.values[used], alone, stands_for - 1.0, confidence)
        found = GroupIntervals(seen + unseen, seen, seen + most + above)
    highs = np.where(_is_measured(tuples, chance), found.highs, seen + _hidden(tuples, confidence))
    highs = np.maximum(np.minimum(highs, np.maximum(most_rows, seen)), seen)
    return GroupIntervals(np.minimum(found.values, highs), np.minimum(found.lows, highs), highs)


def _is_measured(tuples: GroupTuples, chance: FloatArray) -> np.ndarray:
    """Return the groups with a seen tuple that might have been missed: other groups do not show what is unseen."""
    assert tuples.sampled is not None
    if not tuples.sampled.sampled_links:
        return np.ones(tuples.groups, dtype=np.bool_)
    return np.bincount(tuples.owners[chance < 1.0], minlength=tuples.groups) > 0


def _hidden(tuples: GroupTuples, confidence: float) -> float:
    """Return how many tuples a group may have if none of them is seen.

    Each of them has at least one value that is not followed. If tuples shared values, one such value could hide any
    number of them.
    """
    assert tuples.sampled is not None
    apart = tuples.one_value_each or tuples.one_tuple_each
    return most_unsampled(tuples.sampled.base, confidence) if apart else inf


def _unbiased(
    tuples: GroupTuples, seen: FloatArray, stands_for: FloatArray, chance: FloatArray, confidence: float
) -> GroupIntervals:
    values = np.bincount(tuples.owners, weights=stands_for, minlength=tuples.groups).astype(np.float64)
    spread = GroupSpread.of(stands_for, chance, tuples.owners, tuples.groups)
    below, above = ends_of_groups(spread, confidence)
    return GroupIntervals(values, np.maximum(values - below, seen), values + above)


def _values_each(pairs: np.ndarray, chance: FloatArray) -> float:
    """Return how many values show a tuple, estimated from how many tuples are seen by two values and by one."""
    single = chance < 1.0
    expected = float((chance[single] / (1.0 - chance[single])).sum())
    return 1.0 + 2.0 * float(pairs.sum()) / expected if expected > 0.0 else 1.0


def _spread(
    tuples: GroupTuples,
    of_tuple: IntArray,
    values: IntArray,
    alone: np.ndarray,
    unseen: FloatArray,
    confidence: float,
) -> FloatArray:
    """Return how far above its estimate the number of unseen tuples may lie: few values show many tuples."""
    width = int(values.max(initial=0)) + 1
    number = tuples.owners[of_tuple[alone]] * width + values[alone]
    keys, places = np.unique(number, return_inverse=True)
    added = np.bincount(places, weights=unseen[of_tuple[alone]], minlength=len(keys)).astype(np.float64)
    spread = GroupSpread.of(added, np.zeros(len(keys)), keys // width, tuples.groups)
    return ends_of_groups(spread, confidence)[1]


# Quantiles, MIN and MAX of groups: from the values of each group and how many rows have them.
#
# Values are in Spark's order: NaN after all numbers, FALSE before TRUE, strings by their bytes.
#
# In a sample, the share of rows up to the estimate is itself an estimate. Its interval, converted back to values,
# is that of the quantile (Woodruff's). It is open where unsampled rows may lie beyond all sampled ones.


_FEWEST = 2
"""With fewer sampled values in a group, the precision of its quantiles is unknown."""
Ends = tuple[Scalar | None, Scalar | None, Scalar | None]


class SortedValues:
    """The values of every group in order: for a group those from `starts` to the next.

    values: numbers in the order of the column's values; a DECIMAL is multiplied by the unit. is_number: values are
    returned as numbers, whose open ends are infinities, and not in the column's own type.
    """

    def __init__(self, tuples: GroupTuples, *, is_number: bool) -> None:
        column, self.is_number = tuples.columns[0], is_number
        self.values, self.unit = _numbers(column)
        self.order = np.lexsort((self.values, tuples.owners))
        self.values = self.values[self.order]
        self.column = column.take(pa.array(self.order))
        self.rows = tuples.rows[self.order]
        self.starts = np.searchsorted(tuples.owners[self.order], np.arange(tuples.groups + 1))

    def slice(self, group: int) -> slice:
        """Return the range of places with the values of a group."""
        return slice(int(self.starts[group]), int(self.starts[group + 1]))

    def at(self, place: int) -> Scalar:
        """Return the value at a place: in the column's type, or as a number where that loses no digit.

        Dates and times are returned in days and microseconds since 1970, intervals in microseconds.
        """
        if pa.types.is_temporal(self.column.type):
            return int(self.values[place])
        if self.is_number and pa.types.is_decimal(self.column.type):
            return int(self.values[place]) if self.unit == 1 else int(self.values[place]) / self.unit
        value: Scalar = self.column[place].as_py()
        return value


def _numbers(column: pa.Array) -> tuple[np.ndarray, int]:
    """Return (numbers in the order of the values, unit); decimals are multiplied by it to keep their digits."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False), 1
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        ranks = pc.rank(column.cast(pa.binary()), sort_keys="ascending", tiebreaker="dense")
        return ranks.to_numpy().astype(np.int64), 1
    if not pa.types.is_decimal(kind):
        narrow = {pa.bool_(): pa.int8(), pa.date32(): pa.int32()}
        return column.cast(narrow.get(kind, pa.int64())).cast(pa.int64()).to_numpy(zero_copy_only=False), 1
    unit = 10**kind.scale
    whole = [int(value * unit) for value in column.to_pylist()]
    fits = all(abs(value) < 1 << 62 for value in whole)
    return np.array(whole, dtype=np.int64 if fits else np.object_), unit


def extremes(tuples: GroupTuples, *, largest: bool, is_number: bool) -> list[Ends]:
    """Return MIN or MAX of each group, where everything is held; None where a group has no value."""
    values = SortedValues(tuples, is_number=is_number)
    found: list[Ends] = []
    for group in range(tuples.groups):
        mine = values.slice(group)
        value = values.at(mine.stop - 1 if largest else mine.start) if mine.start < mine.stop else None
        found.append((value, value, value))
    return found


def quantiles(
    tuples: GroupTuples,
    share: float,
    *,
    between: bool,
    is_number: bool,
    missing: float = 0.0,
    confidence: float,
) -> list[Ends]:
    """Return a quantile of each group; between: interpolated where the share lies between two rows.

    missing: the share of rows that may be missing, all below the quantile or all above it.
    """
    values = SortedValues(tuples, is_number=is_number)
    if tuples.sampled is None or not tuples.sampled.sampled_links:  # every group that is shown is whole
        found = [_exact(values, group, share, between=between) for group in range(tuples.groups)]
        return [(value, value, value) for value in found]
    return _sampled(tuples, values, share, missing, confidence)


def _exact(values: SortedValues, group: int, share: float, *, between: bool) -> Scalar | None:
    mine = values.slice(group)
    if mine.start == mine.stop:
        return None
    up_to = np.cumsum(values.rows[mine])
    rows, part = (
        int(up_to[-1]),
        Fraction(repr(share)),
    )  # the share as written: as a float times rows it has other digits
    if not between:
        rank = max(ceil(part * rows), 1)
        return values.at(mine.start + int(np.searchsorted(up_to, rank)))
    place = part * (rows - 1)
    below, above = (
        values.values[mine][int(np.searchsorted(up_to, rank + 1))] for rank in (floor(place), ceil(place))
    )
    found = _between(below, above, float(place - floor(place))) / values.unit
    return int(found) if pa.types.is_duration(values.column.type) else found


def _between(below: Number, above: Number, part: float) -> float:
    """Return the interpolation between two values; infinities and NaN as in Spark."""
    if part == 0 or below == above:
        return float(below)
    if isinstance(below, float):
        return (1 - part) * below + part * above
    return float(below + (above - below) * part)


def _sampled(
    tuples: GroupTuples, values: SortedValues, share: float, missing: float, confidence: float
) -> list[Ends]:
    """Return a quantile of each group of a sample, with its interval."""
    places = _places(tuples, values, share)
    below, above, hidden = _uncertainty(tuples, values, places, share, confidence)
    seen = max(1.0 - missing, 1e-9)
    lows, highs = (share - missing) / seen - below, share / seen + above
    is_closed_below, is_closed_above = (lows > 0) & (share > hidden), (highs < 1) & (share < 1 - hidden)
    open_low, open_high = (-inf, inf) if values.is_number else (None, None)
    found: list[Ends] = []
    for group, place in enumerate(places.tolist()):
        if place < 0:
            found.append(not_known(is_number=values.is_number))
            continue
        start, rows = int(values.starts[group]), values.rows[values.slice(group)]
        low = values.at(start + _place(rows, lows[group])) if is_closed_below[group] else open_low
        high = values.at(start + _place(rows, highs[group])) if is_closed_above[group] else open_high
        found.append((values.at(place), low, high))
    return found


def _places(tuples: GroupTuples, values: SortedValues, share: float) -> IntArray:
    """Return the place of each group's quantile among the sorted values, -1 for a group without values."""
    places = np.full(tuples.groups, -1)
    for group in range(tuples.groups):
        mine = values.slice(group)
        if mine.start < mine.stop:
            places[group] = mine.start + _place(values.rows[mine], share)
    return places


def _place(rows: np.ndarray, share: float) -> int:
    """Return the first value up to which a share of the rows lies."""
    up_to = np.cumsum(rows)
    return min(int(np.searchsorted(up_to, share * up_to[-1] * (1 - 1e-12))), len(rows) - 1)


def _uncertainty(
    tuples: GroupTuples, values: SortedValues, places: IntArray, share: float, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how far off the share of rows up to each group's estimate may be (below, above), and its unseen ends.

    An unseen end is the share of rows that may lie beyond all seen values: z^2 / n for a sample that estimates
    shares as well as n equal values would. n follows from the share up to the median, which has values on both
    sides, and from the number of rows where the median is the last value. Where too few values are sampled for
    that, an end may be all of the rows.
    """
    sampled = tuples.sampled
    assert sampled is not None
    middle = _places(tuples, values, 0.5)
    up_to_middle = _shares(tuples, values, middle)
    is_last = up_to_middle >= 1.0
    moments, of_middle, counted = sampled.entries.moments(
        _asked(tuples, values, places, np.full(tuples.groups, share)),
        _asked(tuples, values, middle, np.where(is_last, 0.0, up_to_middle)),
        _asked(tuples, values, np.full(tuples.groups, len(values.order)), np.zeros(tuples.groups)),
    )
    below, above = ends_of_groups(moments.spread, confidence)
    if not sampled.sampled_links:
        return below, above, np.zeros(tuples.groups)
    unit = np.where(is_last, 1.0, up_to_middle * (1.0 - up_to_middle))
    known = np.maximum(of_middle.spread.variance / unit, hidden_in_groups(counted))
    hidden = two_sided_z(confidence) ** 2 * known
    wilson_below, wilson_above = wilson_ends(share, hidden)
    measured = (moments.sampled >= _FEWEST) & ~moments.lonely
    return (
        np.maximum(below, wilson_below),
        np.maximum(above, wilson_above),
        np.where(measured, hidden, 1.0),
    )


def _shares(tuples: GroupTuples, values: SortedValues, places: IntArray) -> FloatArray:
    """Return the share of each group's rows up to a place, 0.5 for a group without a place."""
    found = np.full(tuples.groups, 0.5)
    for group in np.flatnonzero(places >= 0).tolist():
        rows = values.rows[values.slice(group)].astype(np.float64)
        found[group] = rows[: int(places[group] - values.starts[group]) + 1].sum() / rows.sum()
    return found


def _asked(tuples: GroupTuples, values: SortedValues, places: IntArray, shares: FloatArray) -> Asked:
    """Return the sum whose spread is that of the share of each group's rows up to a place."""
    sampled, places_of = tuples.sampled, tuples.places
    assert sampled is not None
    assert places_of is not None
    rank = np.empty(len(values.order), dtype=np.int64)
    rank[values.order] = np.arange(len(values.order))
    total = np.bincount(tuples.owners, weights=tuples.rows.astype(np.float64), minlength=tuples.groups)
    own = shares[tuples.owners]
    beyond = np.where(rank <= places[tuples.owners], 1.0 - own, -own) / total[tuples.owners]
    shown = places_of >= 0
    owners, factors = np.full(len(places_of), -1), np.zeros(len(places_of))
    owners[shown], factors[shown] = tuples.owners[places_of[shown]], beyond[places_of[shown]]
    return Asked({sampled.column(ROWS): factors}, owners=owners, number=tuples.groups)


# Which reading answers each detail, and its notes.


@dataclass(frozen=True)
class DetailColumn:
    """A detail of every group and of the unseen groups, and whether it is exact.

    negative: how many elements behind it have more deletes than inserts. kind: the type of values that are not
    plain numbers. note: why it is unknown for all groups, None where it is known.
    """

    values: list[Value]
    kind: SqlType | None
    exact: bool
    rest: Estimate
    negative: int
    note: str | None = None


def read_details(
    snapshot: Snapshot,
    planned: PlannedQuery,
    query: Query,
    labels: Labels,
    confidence: float,
    *,
    whole: bool,
    most_rows: FloatArray | None = None,
    missing: float = 0.0,
) -> dict[str, DetailColumn]:
    """Return the details of a grouped query, by name.

    labels: of the answer's groups. whole: no group is missing. most_rows: how many rows each group has at most,
    None where that is not known. missing: the share of the rows that unfollowed values may hold; these rows may
    have any value.
    """
    limit = np.full(len(labels), inf) if most_rows is None else most_rows
    limit = np.minimum(limit, row_bound(snapshot, query))
    found = {}
    for part, detail in zip(planned.details, query.details, strict=True):
        tuples = read_tuples(snapshot, part, query, detail, labels)
        values = _values(tuples, detail, limit, missing, confidence)
        note = None if tuples.exact or not detail.aggregate.needs_all else _not_held(detail)
        if missing > notes.MOSTLY_MISSED and not tuples.exact:
            values = [_open_to_missed(detail, *each) for each in zip(values, limit.tolist(), strict=True)]
        rest = _rest(planned.name, detail, confidence, whole=whole)
        found[detail.name] = DetailColumn(values, detail.kind, tuples.exact, rest, tuples.negative, note)
    return found


def _values(
    tuples: GroupTuples, detail: Detail, most_rows: FloatArray, missing: float, confidence: float
) -> list[Value]:
    aggregate = detail.aggregate
    if aggregate.counts:
        read = count_distinct(tuples, most_rows, confidence)
        return [
            (round(value), int(np.floor(low)), ceil(high) if high < inf else inf)
            for value, low, high in zip(read.values, read.lows, read.highs, strict=True)
        ]
    if not aggregate.needs_all:
        return quantiles(
            tuples,
            detail.share,
            between=aggregate.between,
            is_number=detail.kind is None,
            missing=missing,
            confidence=confidence,
        )
    if not tuples.exact:
        return [not_known(is_number=detail.kind is None)] * tuples.groups
    return extremes(tuples, largest=aggregate.largest, is_number=detail.kind is None)


def _open_to_missed(detail: Detail, value: Value, most: float) -> Value:
    """Return a detail that unfollowed rows may change: up to `most` tuples, or any quantile."""
    middle, low, _ = value
    if middle is None:
        return value
    if detail.aggregate.counts:
        return middle, low, int(most) if most < inf else inf
    return (middle, -inf, inf) if detail.kind is None else (middle, None, None)


def _not_held(detail: Detail) -> str:
    """Return why MIN or MAX is unknown once the rows are sampled, and what to query instead."""
    kind = detail.value_type
    return detail.aggregate.not_known(detail.name, has_quantiles=kind.is_numeric or kind.kind in TIMES)


def _rest(name: str, detail: Detail, confidence: float, *, whole: bool) -> Estimate:
    """Return a detail over the unseen groups: empty if there are no such groups, unknown otherwise."""
    about = f"{name}.{detail.name}"
    if whole:
        return Estimate.exactly(about, detail.aggregate.of_nothing, confidence)
    return Estimate.unknown(about, confidence, "sample", [notes.UNSEEN_DETAIL])
