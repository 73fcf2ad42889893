"""The ratio of two readings, for AVG = SUM / COUNT over one join, by the delta method."""

from math import atanh, inf, isclose, nan, sqrt, tanh

import numpy as np

from eddyline.answer.reading import Reading


def ratio(sum_reading: Reading, count_reading: Reading, confidence: float) -> tuple[float, float, float]:
    """Return (value, low, high) of the quotient of two readings that share their hash functions.

    With R the quotient, S_p - R C_p is of mean zero in every row, and its standard error over C is that
    of R. The ends are infinite where the interval of the denominator contains zero.
    """
    count = count_reading.value
    value = sum_reading.value / count if count else nan
    if abs(count) <= count_reading.half_width(confidence):
        exact = sum_reading.half_width(confidence) == 0 == count_reading.half_width(confidence)
        return (nan, nan, nan) if exact else (value, -inf, inf)
    difference = Reading(
        rows=sum_reading.rows - value * count_reading.rows,
        row_variance=_difference_variance(sum_reading, count_reading, value),
        center=sum_reading.center,
    )
    half = difference.half_width(confidence) / abs(count)
    return value, value - half, value + half


def _difference_variance(sum_reading: Reading, count_reading: Reading, value: float) -> float:
    """Return the expected row variance of S - R C: both variances less their covariance.

    The correlation is measured over the rows and taken one standard error lower (on Fisher's scale), so
    that few rows which happen to agree do not claim an exact quotient.
    """
    wide = sqrt(sum_reading.row_variance), abs(value) * sqrt(count_reading.row_variance)
    correlation = _cautious_correlation(sum_reading, count_reading) * (1 if value >= 0 else -1)
    return wide[0] ** 2 + wide[1] ** 2 - 2 * correlation * wide[0] * wide[1]


def _cautious_correlation(one: Reading, other: Reading) -> float:
    depth = len(one.rows)
    if depth < 4 or isclose(one.rows.std(), 0.0) or isclose(other.rows.std(), 0.0):
        return 0.0
    measured = float(np.clip(np.corrcoef(one.rows, other.rows)[0, 1], -0.9999, 0.9999))
    shift = 1 / sqrt(depth - 3)
    return tanh(atanh(measured) - shift) if measured > 0 else tanh(atanh(measured) + shift)
