"""Quantiles, MIN and MAX of groups: from the values of each group and how many rows have them.

Values are in Spark's order: NaN behind all numbers, FALSE before TRUE, texts by their bytes.

Sampled, the share of rows up to the estimate is itself an estimate: its interval, turned back into values, is that of
the quantile (Woodruff's). It is open where rows of which the sample shows none may lie beyond all that it shows.
"""

from fractions import Fraction
from math import ceil, floor, inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer.estimate import Number, Scalar
from eddyline.answer.groups.columns import not_known
from eddyline.answer.groups.entries import hidden_in_groups
from eddyline.answer.groups.table_moments import Asked
from eddyline.answer.groups.tuples import Tuples
from eddyline.answer.interval import (
    FloatArray,
    ends_of_groups,
    two_sided_z,
    wilson_ends,
)
from eddyline.plan.decide.facets import ROWS
from eddyline.sample.sorting import IntArray

_FEWEST = 2
"""With fewer sampled values in a group nothing tells how sure its quantiles are."""
Ends = tuple[Scalar | None, Scalar | None, Scalar | None]


class SortedValues:
    """The values of every group in order: for a group those from `starts` to the next.

    values: numbers in the order of the column's values; of a DECIMAL its own times the unit. is_number: values are told
    as numbers, whose open ends are infinities, and not in the column's own type.
    """

    def __init__(self, tuples: Tuples, *, is_number: bool) -> None:
        column, self.is_number = tuples.columns[0], is_number
        self.values, self.unit = _numbers(column)
        self.order = np.lexsort((self.values, tuples.owners))
        self.values = self.values[self.order]
        self.column = column.take(pa.array(self.order))
        self.rows = tuples.rows[self.order]
        self.starts = np.searchsorted(tuples.owners[self.order], np.arange(tuples.groups + 1))

    def slice(self, group: int) -> slice:
        """Return where the values of a group stand."""
        return slice(int(self.starts[group]), int(self.starts[group + 1]))

    def told(self, place: int) -> Scalar:
        """Return the value at a place: as the column has it, or as a number where that loses no digit.

        Dates and times are told in days and microseconds since 1970.
        """
        if pa.types.is_temporal(self.column.type):
            return int(self.values[place])
        if self.is_number and pa.types.is_decimal(self.column.type):
            return int(self.values[place]) if self.unit == 1 else int(self.values[place]) / self.unit
        told: Scalar = self.column[place].as_py()
        return told


def _numbers(column: pa.Array) -> tuple[np.ndarray, int]:
    """Return (numbers, unit): in the order of the values; decimals times the unit, so that they keep their digits."""
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


def extremes(tuples: Tuples, *, largest: bool, is_number: bool) -> list[Ends]:
    """Return MIN or MAX of each group, of which everything is held; None where it has no value."""
    values = SortedValues(tuples, is_number=is_number)
    found: list[Ends] = []
    for group in range(tuples.groups):
        mine = values.slice(group)
        value = values.told(mine.stop - 1 if largest else mine.start) if mine.start < mine.stop else None
        found.append((value, value, value))
    return found


def quantiles(
    tuples: Tuples, share: float, *, between: bool, is_number: bool, missing: float = 0.0, confidence: float
) -> list[Ends]:
    """Return a quantile of each group; between: interpolated where the share lies between two rows.

    missing: the share of its rows that may be missing, all below the quantile or all above it.
    """
    values = SortedValues(tuples, is_number=is_number)
    if tuples.sampled is None or not tuples.sampled.sampled_links:  # every group that is shown is whole
        told = [_exact(values, group, share, between=between) for group in range(tuples.groups)]
        return [(value, value, value) for value in told]
    return _sampled(tuples, values, share, missing, confidence)


def _exact(values: SortedValues, group: int, share: float, *, between: bool) -> Scalar | None:
    mine = values.slice(group)
    if mine.start == mine.stop:
        return None
    up_to = np.cumsum(values.rows[mine])
    rows, part = (
        int(up_to[-1]),
        Fraction(repr(share)),
    )  # as it was written: a float of it times rows has other digits
    if not between:
        rank = max(ceil(part * rows), 1)
        return values.told(mine.start + int(np.searchsorted(up_to, rank)))
    place = part * (rows - 1)
    below, above = (
        values.values[mine][int(np.searchsorted(up_to, rank + 1))] for rank in (floor(place), ceil(place))
    )
    return _between(below, above, float(place - floor(place))) / values.unit


def _between(below: Number, above: Number, part: float) -> float:
    """Return what lies a part of the way between two values; infinities and NaN as in Spark."""
    if part == 0 or below == above:
        return float(below)
    if isinstance(below, float):
        return (1 - part) * below + part * above
    return float(below + (above - below) * part)


def _sampled(
    tuples: Tuples, values: SortedValues, share: float, missing: float, confidence: float
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
        low = values.told(start + _place(rows, lows[group])) if is_closed_below[group] else open_low
        high = values.told(start + _place(rows, highs[group])) if is_closed_above[group] else open_high
        found.append((values.told(place), low, high))
    return found


def _places(tuples: Tuples, values: SortedValues, share: float) -> IntArray:
    """Return where the quantile of each group stands among the sorted values, -1 where a group has none."""
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
    tuples: Tuples, values: SortedValues, places: IntArray, share: float, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how far the share of rows up to each group's estimate may lie (below, above), and its unseen ends.

    An unseen end is the share of rows that may lie beyond all values that are seen: of a sample that knows shares as
    well as n equal values would, z^2 / n. How many those are is told by the share up to the median, on both sides of
    which there are values, and by the number of rows where the median is the last of them. Where too few values are
    sampled to tell, an end may be all of the rows.
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
    tells = (moments.sampled >= _FEWEST) & ~moments.lonely
    return (
        np.maximum(below, wilson_below),
        np.maximum(above, wilson_above),
        np.where(tells, hidden, 1.0),
    )


def _shares(tuples: Tuples, values: SortedValues, places: IntArray) -> FloatArray:
    """Return the share of each group's rows up to a place, 0.5 where it has none."""
    found = np.full(tuples.groups, 0.5)
    for group in np.flatnonzero(places >= 0).tolist():
        rows = values.rows[values.slice(group)].astype(np.float64)
        found[group] = rows[: int(places[group] - values.starts[group]) + 1].sum() / rows.sum()
    return found


def _asked(tuples: Tuples, values: SortedValues, places: IntArray, shares: FloatArray) -> Asked:
    """Return the sum that says how sure the share of each group's rows up to a place is."""
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
