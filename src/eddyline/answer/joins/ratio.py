"""Functions of several readings of one join, by the delta method: AVG = SUM / COUNT, and the variance."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import atanh, inf, isclose, nan, sqrt, tanh

import numpy as np

from eddyline.answer.interval import Interval
from eddyline.answer.joins.row_estimates import RowEstimates

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


def mean_square_deviation(
    squares: RowEstimates, sums: RowEstimates, counts: RowEstimates, confidence: float
) -> Interval:
    """Return the interval of the population variance from readings of sum x^2, sum x and the count.

    With m the mean, the sum of (x - m)^2 is squares - 2 m sums + m^2 counts, and does not change to first order
    with m: so its error is that of the combination of readings at the estimated m.
    """
    if abs(counts.value) <= counts.half_width(confidence):
        return ratio(squares, counts, confidence)
    mean = sums.value / counts.value
    parts, factors = [squares, sums, counts], [1.0, -2 * mean, mean * mean]
    deviations = combination(parts, factors)
    cancelled = _EPSILON * sum(abs(f * part.value) for part, f in zip(parts, factors, strict=True))
    deviations = replace(deviations, rounding=deviations.rounding + cancelled)
    value, low, high = ratio(deviations, counts, confidence)
    return Interval(max(value, 0.0), max(low, 0.0), high)


def combination(readings: Sequence[RowEstimates], factors: Sequence[float]) -> RowEstimates:
    """Return the sum of readings that share their hash functions, each times its factor.

    The expected row variance takes the correlations that are measured over the rows, each one standard error
    off (on Fisher's scale) to the side that makes the variance larger, so that few rows which happen to agree do
    not claim an exact difference.
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
    """Return the correlation of two readings' rows, moved up where it adds to a variance, down where it takes."""
    depth = len(one.rows)
    if depth < 4 or isclose(one.rows.std(), 0.0) or isclose(other.rows.std(), 0.0):
        return 1.0 if rising else 0.0
    measured = float(np.clip(np.corrcoef(one.rows, other.rows)[0, 1], -0.9999, 0.9999))
    shift = 1 / sqrt(depth - 3)
    return tanh(atanh(measured) + shift) if rising else tanh(atanh(measured) - shift)
