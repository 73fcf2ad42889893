"""A reading: what an estimator saw in each row of a sketch, and how far that may be off."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np

from eddyline.answer.interval import FloatArray, half_width_of_rows


@dataclass(frozen=True)
class RowEstimates:
    """Nearly unbiased row estimates of one quantity, and the variance that theory expects of one row.

    dense: how many dense values stand out. dense_squares: for each link of the join, the sum over its dense values
    of the square of what joins through them.
    """

    rows: FloatArray
    row_variance: float
    dense: int = 0
    center: Literal["mean", "median"] = "mean"
    rounding: float = 0.0
    dense_squares: tuple[float, ...] = ()

    @property
    def value(self) -> float:
        """The estimate: the mean over rows, or their median where rows are heavy-tailed."""
        return float(self.rows.mean() if self.center == "mean" else np.median(self.rows))

    def scaled(self, factor: float) -> "RowEstimates":
        """Return the reading of so many times the quantity."""
        return RowEstimates(
            self.rows * factor,
            self.row_variance * factor**2,
            self.dense,
            self.center,
            self.rounding * abs(factor),
            tuple(square * factor**2 for square in self.dense_squares),
        )

    def in_units(
        self, units: Sequence[float], cut_off: Sequence[float], norms: Sequence[float]
    ) -> "RowEstimates":
        """Return the reading of a join in the units of its relations' counters, allowing for what is cut off them.

        cut_off: of all rows of each relation together; norms: of their counters. What is cut off one relation moves the
        join by at most that times the norms of the others (Cauchy-Schwarz).
        """
        found = self.scaled(prod(units))
        moved = 0.0
        for place, lost in enumerate(cut_off):
            if lost:
                moved += lost * prod(
                    n * u for k, (n, u) in enumerate(zip(norms, units, strict=True)) if k != place
                )
        return replace(found, rounding=found.rounding + moved)

    def half_width(self, confidence: float) -> float:
        """Return half the width of the interval."""
        return half_width_of_rows(self.rows, self.row_variance, confidence) + self.rounding


def sum_of(parts: Sequence[RowEstimates]) -> RowEstimates:
    """Return the reading of a sum whose parts hold different keys: their noise is uncorrelated."""
    if len(parts) == 1:
        return parts[0]
    return RowEstimates(
        rows=np.sum([part.rows for part in parts], axis=0),
        row_variance=sum(part.row_variance for part in parts),
        dense=max(part.dense for part in parts),
        center=parts[0].center,
        rounding=sum(part.rounding for part in parts),
        dense_squares=tuple(map(sum, zip(*(part.dense_squares for part in parts), strict=True))),
    )
