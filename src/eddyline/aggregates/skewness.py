"""SKEWNESS: the third central moment over the variance to the power 3/2, of the population, as in Spark.

NULL where the column does not vary. DuckDB's skewness is that of a sample: times sqrt(n (n - 1)) / (n - 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eddyline.aggregates.moments import LEAST_VARIANCE, Moment, Number, Units, not_negative


@dataclass(frozen=True)
class Skewness(Moment):
    """SKEWNESS."""

    def is_null(self, totals: Mapping[str, Number]) -> Number:
        """Return whether the column does not vary, or there are no rows."""
        return (totals["count"] < 1) | (self._deviations(totals) == 0)

    def _deviations(self, totals: Mapping[str, Number]) -> Number:
        """Return the square of the count times the variance."""
        count, total = totals["count"], totals["sum"]
        return not_negative(totals["squares"] * count - total * total, count, always=True)

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the square of the skewness, with its sign: units and powers of the count cancel."""
        del units
        count, total = totals["count"], totals["sum"]
        third = count * (count * totals["cubes"] - 3 * total * totals["squares"]) + 2 * total * total * total
        variance = self._deviations(totals)
        return third * abs(third), variance * variance * variance

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the skewness; nan where the column does not vary."""
        _, variance, third = self._central(sums)
        return np.where(variance > LEAST_VARIANCE, third / np.sqrt(variance * variance * variance), np.nan)

    def _central(self, sums: Mapping[str, Number]) -> tuple[Number, Number, Number]:
        """Return the mean, the variance and the third central moment."""
        mean, square, cube = (sums[name] / sums["count"] for name in ("sum", "squares", "cubes"))
        return mean, square - mean * mean, cube - 3.0 * mean * square + 2.0 * mean * mean * mean

    def factors(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the derivative: z^3 - 3 z less 3/2 of the skewness times z^2 - 1, and less itself.

        z: the deviation of a row from the mean in standard deviations. The mean moves the third moment, hence 3 z.
        """
        mean, variance, _ = self._central(sums)
        skew, unit = self.population(sums), 1.0 / np.sqrt(variance)
        cube, square, line = unit * unit * unit, -1.5 * skew * unit * unit, -3.0 * unit
        return {
            "cubes": cube,
            "squares": square - 3.0 * cube * mean,
            "sum": line - 2.0 * square * mean + 3.0 * cube * mean * mean,
            "count": 0.5 * skew - line * mean + square * mean * mean - cube * mean * mean * mean,
        }

    def tail(self, sums: Mapping[str, float]) -> tuple[dict[str, float], float]:
        """Return the cubes of deviations, which the largest values dominate."""
        mean, variance, _ = self._central(sums)
        cube = float(variance) ** -1.5
        factors = {"cubes": cube, "squares": -3.0 * cube * mean, "sum": 3.0 * cube * mean * mean}
        return factors, -cube * mean * mean * mean


SKEWNESS = Skewness(
    "skewness",
    ("SKEWNESS",),
    {"cubes": (3,), "squares": (2,), "sum": (1,), "count": (0,)},
    (0,),
    fewest=2,
    is_root=True,
    is_sketched=False,
)
