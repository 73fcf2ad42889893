"""Calibration: what the exact totals of a join's relations tell about what its sample is missing.

The exact total of every relation is known, and the sample estimates it too. Where the estimate is too low, heavy
values are not followed, and the join is too low as well: by how much is a regression over the followed values, of
what they add to the join on what they add to the relations' totals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.sample.roster import FloatArray

_CERTAIN = 99.0
_LEAST_REST = 0.25


@dataclass(frozen=True)
class RelationGap:
    """How far the sample's estimate of a relation's total falls short of the exact one.

    short: 1 - estimate/exact. added: what each value adds to the estimate, over the exact total.
    """

    short: float
    added: FloatArray

    def surprise(self, probabilities: FloatArray) -> float:
        """Return the square of the gap in standard errors; 99 for a gap that no followed value explains."""
        variance = float(((1.0 - probabilities) * self.added**2).sum())
        if variance > 0.0:
            return self.short**2 / variance
        return _CERTAIN if abs(self.short) > 1e-9 else 0.0


@dataclass(frozen=True)
class Calibrated:
    """What is to be added to an estimate, and what each value adds to it beyond what the totals explain.

    above, below: the largest surprise among relations that fall short, and among those that are overestimated.
    """

    shift: float
    residuals: FloatArray
    above: float = 0.0
    below: float = 0.0


def calibrate(added: FloatArray, probabilities: FloatArray, gaps: Sequence[RelationGap]) -> Calibrated:
    """Return the correction of a join: the generalized regression estimator with a ridge for few values.

    added: what each value adds to the estimated join. The residual of a value is enlarged by its leverage.
    """
    surprises = [(gap.short, gap.surprise(probabilities)) for gap in gaps]
    above = max((s for short, s in surprises if short > 0), default=0.0)
    below = max((s for short, s in surprises if short < 0), default=0.0)
    chance = 1.0 - probabilities
    used = [gap for gap in gaps if float((chance * gap.added**2).sum()) > 0.0]
    if not used:
        return Calibrated(0.0, added, above, below)
    z = np.stack([gap.added for gap in used])
    weighted = z * chance
    gram = weighted @ z.T
    effective = np.diag(gram) ** 2 / ((z * weighted) ** 2).sum(axis=1)
    gram[np.diag_indices_from(gram)] *= 1.0 + 1.0 / effective
    inverse = np.linalg.pinv(gram, hermitian=True)
    slopes = inverse @ (weighted @ added)
    leverage = chance * np.einsum("kn,kl,ln->n", z, inverse, z)
    residuals = (added - slopes @ z) / np.maximum(1.0 - leverage, _LEAST_REST)
    shift = float(slopes @ np.array([gap.short for gap in used]))
    return Calibrated(shift, residuals, above, below)
