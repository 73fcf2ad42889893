"""Aggregates of two columns: COVAR_SAMP, COVAR_POP, CORR and REGR_SLOPE, as Spark defines them.

A row counts where neither column is NULL. CORR and REGR_SLOPE are NULL where a column that they divide by does not
vary. The columns may be of different relations of a join: then x * y is a product over the joined rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eddyline.aggregates.moments import LEAST_VARIANCE, Moment, Number, Powers, Units, not_negative

_PRODUCTS: dict[str, Powers] = {"xy": (1, 1), "x": (1, 0), "y": (0, 1), "count": (0, 0)}
_SQUARES: dict[str, Powers] = {"xx": (2, 0), "yy": (0, 2)}
_NEAREST_ONE = 1.0 - 1e-12
"""The largest correlation whose interval is taken on Fisher's scale, where 1 has no value."""


class _Central(NamedTuple):
    """Means and central moments of the population."""

    x: Number
    y: Number
    xy: Number
    xx: Number
    yy: Number


def _central(sums: Mapping[str, Number]) -> _Central:
    """Return the means and central moments from sums."""
    count = sums["count"]
    x, y = sums["x"] / count, sums["y"] / count
    xx, yy = (
        sums[name] / count - mean * mean if name in sums else np.nan for name, mean in (("xx", x), ("yy", y))
    )
    return _Central(x, y, sums["xy"] / count - x * y, xx, yy)


def _deviations(totals: Mapping[str, Number], product: str, one: str, other: str) -> Number:
    """Return the count times the sum of products of deviations from means, exactly."""
    return totals[product] * totals["count"] - totals[one] * totals[other]


def _squared(totals: Mapping[str, Number], name: str) -> Number:
    return not_negative(_deviations(totals, 2 * name, name, name), totals["count"], always=True)


@dataclass(frozen=True)
class Covariance(Moment):
    """COVAR_SAMP and COVAR_POP."""

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the sum of products of deviations, and what it is divided by, both times the count."""
        unit, count = self.unit(units), totals["count"]
        by = count * (count - 1 if self.fewest > 1 else count)
        return _deviations(totals, "xy", "x", "y") * unit.numerator, by * unit.denominator

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the population covariance."""
        return _central(sums).xy

    def corrected(self, value: Number, count: Number) -> Number:
        """Return the sample covariance from the population covariance."""
        return value if self.fewest < 2 else np.where(count > 1, value * count / (count - 1), np.nan)

    def factors(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the products of deviations from the means, which do not change with the means to first order."""
        at = _central(sums)
        return {"xy": 1.0, "x": -at.y, "y": -at.x, "count": at.x * at.y - at.xy}


@dataclass(frozen=True)
class Correlation(Moment):
    """CORR: Pearson's correlation."""

    def is_null(self, totals: Mapping[str, Number]) -> Number:
        """Return whether a column does not vary, or there are no rows."""
        return (totals["count"] < 1) | (_squared(totals, "x") == 0) | (_squared(totals, "y") == 0)

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the square of the correlation, with its sign: units cancel."""
        del units
        product = _deviations(totals, "xy", "x", "y")
        return product * abs(product), _squared(totals, "x") * _squared(totals, "y")

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the correlation; nan where a column does not vary."""
        at = _central(sums)
        varies = (at.xx > LEAST_VARIANCE) & (at.yy > LEAST_VARIANCE)
        return np.clip(np.where(varies, at.xy / np.sqrt(at.xx * at.yy), np.nan), -1.0, 1.0)

    def factors(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the derivative: of the covariance in units of both deviations, minus r/2 for each variance."""
        at, r = _central(sums), self.population(sums)
        product, square, other = 1.0 / np.sqrt(at.xx * at.yy), -0.5 * r / at.xx, -0.5 * r / at.yy
        return {
            "xy": product,
            "xx": square,
            "yy": other,
            "x": -product * at.y - 2.0 * square * at.x,
            "y": -product * at.x - 2.0 * other * at.y,
            "count": product * at.x * at.y + square * at.x * at.x + other * at.y * at.y,
        }

    def ends(self, value: Number, low: Number, high: Number) -> tuple[Number, Number, Number]:
        """Return the ends on Fisher's scale, on which estimates are nearly normal, even close to -1 and 1."""
        value = np.clip(value, -1.0, 1.0)
        inside = np.clip(value, -_NEAREST_ONE, _NEAREST_ONE)
        slope, middle = 1.0 / (1.0 - inside * inside), np.arctanh(inside)
        lower = np.tanh(middle - slope * (value - low))
        upper = np.tanh(middle + slope * (high - value))
        return value, np.minimum(lower, value), np.maximum(upper, value)


@dataclass(frozen=True)
class Slope(Moment):
    """REGR_SLOPE(y, x): the slope of the line of least squares of the first argument by the second.

    The first argument is `x` here, as in the other aggregates of two columns. The second is the divisor.
    """

    def is_null(self, totals: Mapping[str, Number]) -> Number:
        """Return whether the second column does not vary, or there are no rows."""
        return (totals["count"] < 1) | (_squared(totals, "y") == 0)

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the covariance over the variance of the second column, both times the square of the count."""
        unit = self.unit(units)
        return _deviations(totals, "xy", "x", "y") * unit.numerator, _squared(totals, "y") * unit.denominator

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the slope; nan where the second column does not vary."""
        at = _central(sums)
        return np.where(at.yy > LEAST_VARIANCE, at.xy / at.yy, np.nan)

    def factors(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the residuals of the line times deviations of the second column, over its variance."""
        at, slope = _central(sums), self.population(sums)
        product = 1.0 / at.yy
        square = -slope * product
        return {
            "xy": product,
            "yy": square,
            "x": -product * at.y,
            "y": -product * at.x - 2.0 * square * at.y,
            "count": product * at.x * at.y + square * at.y * at.y,
        }


PAIRS: tuple[Moment, ...] = (
    Covariance("covar_samp", ("COVAR_SAMP",), _PRODUCTS, (1, 1), fewest=2, is_sketched=False),
    Covariance("covar_pop", ("COVAR_POP",), _PRODUCTS, (1, 1), is_sketched=False),
    Correlation(
        "corr",
        ("CORR",),
        {"xy": (1, 1), **_SQUARES, "x": (1, 0), "y": (0, 1), "count": (0, 0)},
        (0, 0),
        fewest=2,
        least=-1.0,
        most=1.0,
        is_root=True,
        is_sketched=False,
    ),
    Slope(
        "regr_slope",
        ("REGR_SLOPE",),
        {"xy": (1, 1), "yy": (0, 2), "x": (1, 0), "y": (0, 1), "count": (0, 0)},
        (1, -1),
        fewest=2,
        is_sketched=False,
    ),
)
