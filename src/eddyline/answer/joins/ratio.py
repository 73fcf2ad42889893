"""Functions of several sketched quantities of one join, by the delta method: AVG and variances."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import atanh, inf, isclose, isfinite, nan, sqrt, tanh

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.aggregates.moments import Moment, Quotient
from eddyline.answer.interval import Interval
from eddyline.answer.joins.two_way import RowEstimates
from eddyline.errors import PlanError

# AVG = SUM / COUNT, and the variance.


_EPSILON = 4 * 2.0**-52


def ratio(sum_reading: RowEstimates, count_reading: RowEstimates, confidence: float) -> Interval:
    """Return the interval of the quotient of two readings that share their hash functions.

    With R the quotient, S_p - R C_p is of mean zero in every row, and its standard error over C is that
    of R. The ends are infinite where the interval of the denominator contains zero.
    """
    count = count_reading.value
    value = sum_reading.value / count if count else nan
    if abs(count) <= count_reading.half_width(confidence):
        exact = sum_reading.half_width(confidence) == 0 == count_reading.half_width(confidence)
        return Interval(nan, nan, nan) if exact else Interval(value, -inf, inf)
    half = combination([sum_reading, count_reading], [1.0, -value]).half_width(confidence) / abs(count)
    return Interval.around(value, half)


def quotient_of(moment: Quotient, readings: Mapping[str, RowEstimates], confidence: float) -> Interval:
    """Return the interval of an aggregate of the population: a combination of sums, divided by the count.

    The combination may include means, but does not change with them to first order: the sum of (x - m)^2 is squares
    - 2 m sums + m^2 counts. So its error is that of the combination of readings at the estimated means.
    """
    first, counts = next(iter(moment.sums)), readings["count"]
    if moment.degree == 1 or abs(counts.value) <= counts.half_width(confidence):
        return ratio(readings[first], counts, confidence)
    numerator = moment.numerator({name: reading.value for name, reading in readings.items()})
    parts, factors = [readings[name] for name in numerator], list(numerator.values())
    combined = combination(parts, factors)
    cancelled = _EPSILON * sum(abs(f * part.value) for part, f in zip(parts, factors, strict=True))
    combined = replace(combined, rounding=combined.rounding + cancelled)
    value, low, high = ratio(combined, counts, confidence)
    return Interval(max(value, moment.least), max(low, moment.least), high)


def combination(readings: Sequence[RowEstimates], factors: Sequence[float]) -> RowEstimates:
    """Return the sum of readings that share their hash functions, each times its factor.

    The expected row variance uses the correlations measured over the rows. Each is moved by one standard error (on
    Fisher's scale) to the side that makes the variance larger, so that a few rows which happen to agree do not
    imply an exact difference.
    """
    wide = [factor * sqrt(reading.row_variance) for reading, factor in zip(readings, factors, strict=True)]
    variance = sum(each * each for each in wide)
    for (i, one), (j, other) in combinations(enumerate(readings), 2):
        product = wide[i] * wide[j]
        variance += 2 * product * _cautious_correlation(one, other, rising=product > 0)
    return RowEstimates(
        rows=np.sum([f * r.rows for r, f in zip(readings, factors, strict=True)], axis=0),
        row_variance=max(variance, 0.0),
        center=readings[0].center,
        rounding=sum(abs(f) * r.rounding for r, f in zip(readings, factors, strict=True)),
    )


def _cautious_correlation(one: RowEstimates, other: RowEstimates, *, rising: bool) -> float:
    """Return the correlation of two readings' rows, moved up where it adds to a variance, else down."""
    depth = len(one.rows)
    if depth < 4 or isclose(one.rows.std(), 0.0) or isclose(other.rows.std(), 0.0):
        return 1.0 if rising else 0.0
    measured = float(np.clip(np.corrcoef(one.rows, other.rows)[0, 1], -0.9999, 0.9999))
    shift = 1 / sqrt(depth - 3)
    return tanh(atanh(measured) + shift) if rising else tanh(atanh(measured) - shift)


# Aggregates over a join from the readings of its sketches.


def aggregate_of(function: str, readings: Mapping[str, RowEstimates], confidence: float) -> Interval:
    """Return an aggregate, by name, from the readings of its quantities, in the units of the answer."""
    moment = moment_named(function)
    if moment.is_sum:
        return Interval.around(readings[function].value, readings[function].half_width(confidence))
    if not isinstance(moment, Quotient):
        raise PlanError(f"{moment.written} over a join is not answered by sketches alone.")
    found = quotient_of(moment, readings, confidence)
    return _from_population(moment, found, readings["count"].value) if moment.is_spread else found


def _from_population(moment: Moment, spread: Interval, count: float) -> Interval:
    """Return a variance or a standard deviation from the population variance of the rows."""
    scale = count / (count - 1) if moment.fewest > 1 and count > 1 else 1.0
    ends = [max(end, 0.0) * scale if isfinite(end) else end for end in spread]
    if moment.is_root:
        ends = [sqrt(end) if isfinite(end) and end > 0 else end for end in ends]
    return Interval(ends[0], max(ends[1], 0.0) if ends[1] == -inf else ends[1], ends[2])
