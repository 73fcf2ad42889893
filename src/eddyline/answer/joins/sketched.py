"""Aggregates over a join from the readings of its sketches."""

from collections.abc import Mapping
from math import inf, isfinite, sqrt

from eddyline.answer.interval import Interval
from eddyline.answer.joins.ratio import mean_square_deviation, ratio
from eddyline.answer.joins.row_estimates import RowEstimates


def aggregate_of(function: str, readings: Mapping[str, RowEstimates], confidence: float) -> Interval:
    """Return the aggregate of a function of SQL from the readings of its quantities, in the units of the answer."""
    if function in ("count", "sum"):
        return Interval.around(readings[function].value, readings[function].half_width(confidence))
    if function == "avg":
        return ratio(readings["sum"], readings["count"], confidence)
    spread = mean_square_deviation(readings["squares"], readings["sum"], readings["count"], confidence)
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
