"""Quantiles, MIN and MAX of groups: from the values of each group and how many rows have them.

Sampled, the share of rows up to the estimate is itself an estimate: its interval, turned back into values, is that of
the quantile (Woodruff's).
"""

from math import ceil, floor

import numpy as np
import pyarrow as pa

from eddyline.answer.estimate import Number
from eddyline.answer.groups.table_moments import Asked
from eddyline.answer.groups.tuples import Tuples
from eddyline.answer.interval import FloatArray, ends_of_groups
from eddyline.plan.decide.facets import ROWS
from eddyline.sample.sorting import IntArray

_FEWEST = 2
"""With fewer sampled values in a group nothing tells how sure its quantiles are."""
Ends = tuple[Number | None, Number | None, Number | None]


class SortedValues:
    """The values of every group in order: for a group those from `starts` to the next."""

    def __init__(self, tuples: Tuples) -> None:
        self.values, self.unit = _numbers(tuples.columns[0])
        self.order = np.lexsort((self.values, tuples.owners))
        self.values = self.values[self.order]
        self.rows = tuples.rows[self.order]
        self.starts = np.searchsorted(tuples.owners[self.order], np.arange(tuples.groups + 1))

    def slice(self, group: int) -> slice:
        """Return where the values of a group stand."""
        return slice(int(self.starts[group]), int(self.starts[group + 1]))

    def told(self, value: float) -> Number:
        """Return a value as the column has it."""
        if self.unit == 1:
            return int(value) if float(value).is_integer() else float(value)
        return float(value) / self.unit


def _numbers(column: pa.Array) -> tuple[np.ndarray, int]:
    """Return (integers, unit): the values times the unit, so that decimals keep their digits."""
    if not pa.types.is_decimal(column.type):
        return column.cast(pa.int64()).to_numpy(zero_copy_only=False), 1
    unit = 10**column.type.scale
    whole = [int(value * unit) for value in column.to_pylist()]
    fits = all(abs(value) < 1 << 62 for value in whole)
    return np.array(whole, dtype=np.int64 if fits else np.object_), unit


def extremes(tuples: Tuples, *, largest: bool) -> list[Ends]:
    """Return MIN or MAX of each group, of which everything is held; None where it has no value."""
    values = SortedValues(tuples)
    found: list[Ends] = []
    for group in range(tuples.groups):
        mine = values.values[values.slice(group)]
        value = values.told(mine[-1 if largest else 0]) if len(mine) else None
        found.append((value, value, value))
    return found


def quantiles(tuples: Tuples, share: float, *, between: bool, confidence: float) -> list[Ends]:
    """Return a quantile of each group; between: interpolated where the share lies between two rows."""
    values = SortedValues(tuples)
    if tuples.exact:
        told = [_exact(values, group, share, between=between) for group in range(tuples.groups)]
        return [(value, value, value) for value in told]
    return _sampled(tuples, values, share, confidence)


def _exact(values: SortedValues, group: int, share: float, *, between: bool) -> Number | None:
    mine = values.slice(group)
    if mine.start == mine.stop:
        return None
    up_to = np.cumsum(values.rows[mine])
    rows = int(up_to[-1])
    if not between:
        rank = max(ceil(_whole(share * rows)), 1)
        return values.told(values.values[mine][int(np.searchsorted(up_to, rank))])
    place = _whole(share * (rows - 1))
    below, above = (
        values.values[mine][int(np.searchsorted(up_to, rank + 1))] for rank in (floor(place), ceil(place))
    )
    return float((below + (above - below) * (place - floor(place))) / values.unit)


def _whole(place: float) -> float:
    """Return a place among rows without the dust of floating point: 0.07 * 100 is 7."""
    near = round(place)
    return float(near) if abs(place - near) < 1e-9 * max(near, 1) else place


def _sampled(tuples: Tuples, values: SortedValues, share: float, confidence: float) -> list[Ends]:
    """Return a quantile of each group of a sample, with its interval."""
    places = np.full(tuples.groups, -1)
    for group in range(tuples.groups):
        mine = values.slice(group)
        if mine.start < mine.stop:
            places[group] = mine.start + _place(values.rows[mine], share)
    below, above, certain = _uncertainty(tuples, values, places, share, confidence)
    found: list[Ends] = []
    for group in range(tuples.groups):
        if places[group] < 0:
            found.append((None, None, None))
            continue
        mine = values.slice(group)
        estimate = values.told(values.values[places[group]])
        low, high = share - below[group], share + above[group]
        found.append(
            (
                estimate,
                values.told(values.values[mine][_place(values.rows[mine], low)]) if low > 0 else -np.inf,
                values.told(values.values[mine][_place(values.rows[mine], high)]) if high < 1 else np.inf,
            )
            if certain[group]
            else (estimate, -np.inf, np.inf)
        )
    return found


def _place(rows: np.ndarray, share: float) -> int:
    """Return the first value up to which a share of the rows lies."""
    up_to = np.cumsum(rows)
    return min(int(np.searchsorted(up_to, share * up_to[-1] * (1 - 1e-12))), len(rows) - 1)


def _uncertainty(
    tuples: Tuples, values: SortedValues, places: IntArray, share: float, confidence: float
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Return how far the share of rows up to each group's estimate may lie (below, above), and where that is known."""
    sampled, places_of = tuples.sampled, tuples.places
    assert sampled is not None
    assert places_of is not None
    rank = np.empty(len(values.order), dtype=np.int64)
    rank[values.order] = np.arange(len(values.order))
    total = np.bincount(tuples.owners, weights=tuples.rows.astype(np.float64), minlength=tuples.groups)
    beyond = np.where(rank <= places[tuples.owners], 1.0 - share, -share) / total[tuples.owners]
    shown = places_of >= 0
    owners, factors = np.full(len(places_of), -1), np.zeros(len(places_of))
    owners[shown], factors[shown] = tuples.owners[places_of[shown]], beyond[places_of[shown]]
    asked = Asked({sampled.column(ROWS): factors}, owners=owners, number=tuples.groups)
    (moments,) = sampled.entries.moments(asked)
    below, above = ends_of_groups(moments.spread, confidence)
    told = (moments.sampled >= _FEWEST) & ~moments.lonely
    return below, above, told | (not sampled.sampled_links)
