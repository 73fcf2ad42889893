"""Aggregates of two columns and SKEWNESS as their definitions have them: two passes over all rows, in fractions."""

from fractions import Fraction
from math import sqrt


def covariance(pairs, sample):
    rows = [(Fraction(x), Fraction(y)) for x, y in pairs if x is not None and y is not None]
    if len(rows) < 1 + sample:
        return None
    mean_x, mean_y = (sum(row[k] for row in rows) / len(rows) for k in (0, 1))
    return float(sum((x - mean_x) * (y - mean_y) for x, y in rows) / (len(rows) - sample))


def slope(pairs):
    """REGR_SLOPE(y, x): of the first by the second."""
    there = [(x, y) for x, y in pairs if x is not None and y is not None]
    under = covariance([(y, y) for _, y in there], 0)
    return covariance(there, 0) / under if under else None


def correlation(pairs):
    there = [(x, y) for x, y in pairs if x is not None and y is not None]
    under = [covariance([(row[k], row[k]) for row in there], 0) for k in (0, 1)]
    return covariance(there, 0) / sqrt(under[0] * under[1]) if all(under) else None


def skewness(values):
    rows = [Fraction(x) for x in values if x is not None]
    mean = sum(rows) / len(rows) if rows else 0
    second, third = (float(sum((x - mean) ** k for x in rows) / (len(rows) or 1)) for k in (2, 3))
    return third / second**1.5 if second else None


ORACLES = {
    "COVAR_SAMP": lambda pairs: covariance(pairs, 1),
    "COVAR_POP": lambda pairs: covariance(pairs, 0),
    "CORR": correlation,
    "REGR_SLOPE": slope,
    "SKEWNESS": lambda pairs: skewness([x for x, _ in pairs]),
}
