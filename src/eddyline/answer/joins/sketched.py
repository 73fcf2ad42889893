"""Aggregates over a join from the readings of its sketches."""

from collections.abc import Mapping
from math import inf, isfinite, sqrt
from typing import NamedTuple

from eddyline.answer.joins.ratio import mean_square_deviation, ratio
from eddyline.answer.joins.row_estimates import Reading


class Interval(NamedTuple):
    """An estimate and its ends; not a number where the join has no rows."""

    value: float
    low: float
    high: float


def aggregate_of(function: str, readings: Mapping[str, Reading], confidence: float) -> Interval:
    """Return the aggregate of a function of SQL from the readings of its terms, in the units of the answer."""
    if function in ("count", "sum"):
        half = readings[function].half_width(confidence)
        value = readings[function].value
        return Interval(value, value - half, value + half)
    if function == "avg":
        return Interval(*ratio(readings["sum"], readings["count"], confidence))
    spread = Interval(
        *mean_square_deviation(readings["squares"], readings["sum"], readings["count"], confidence)
    )
    return _from_population(function, spread, readings["count"].value)


def _from_population(function: str, spread: Interval, count: float) -> Interval:
    """Return a variance or a standard deviation, of the sample or of the population, from the population's
    variance.
    """  # noqa: D205
    scale = count / (count - 1) if function.endswith("_samp") and count > 1 else 1.0
    ends = [max(end, 0.0) * scale if isfinite(end) else end for end in spread]
    if function.startswith("stddev"):
        ends = [sqrt(end) if isfinite(end) and end > 0 else end for end in ends]
    return Interval(ends[0], max(ends[1], 0.0) if ends[1] == -inf else ends[1], ends[2])
