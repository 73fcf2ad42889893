"""Aggregates of floats as real numbers have them, in fractions, and rounded to a float once, at the end."""

from decimal import Decimal, localcontext
from fractions import Fraction


def exact_sum(rows):
    """The sum of (weight, value) as a fraction."""
    return sum((weight * Fraction(value) for weight, value in rows), Fraction(0))


def aggregates(rows):
    """COUNT, SUM, AVG, variances and standard deviations of (weight, value), by name; None for SQL's NULL."""
    count, total = sum(weight for weight, _ in rows), exact_sum(rows)
    squares = sum((weight * Fraction(value) ** 2 for weight, value in rows), Fraction(0))
    found = {"COUNT": count, "SUM": None, "AVG": None}
    found |= dict.fromkeys(("VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP"))
    if count == 0:
        return found
    found |= {"SUM": float(total), "AVG": float(total / count)}
    for name, divisor in (("POP", count), ("SAMP", count - 1)):
        if divisor:
            spread = (squares - total**2 / count) / divisor
            found[f"VAR_{name}"], found[f"STDDEV_{name}"] = float(spread), nearest_root(spread)
    return found


def nearest_root(value):
    """The float nearest to the square root of a fraction that is not negative."""
    with localcontext(prec=400):
        return float((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())
