"""Calibration: what the exact totals of a join's relations tell about what its sample is missing.

The exact total of every relation is known, and the sample estimates it too. Where the estimate is too low, heavy
values are not followed, and the join is too low as well. So every followed value gets a weight near 1, such that the
weighted values would about reach the exact totals, and counts so many times in the join. This is the generalized
regression estimator of survey sampling, with a ridge for few values and with weights that are kept in bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.sample.roster import FloatArray
from eddyline.sample.sums import dot, mixed, times

_CERTAIN = 99.0
_LEAST_REST = 0.25
_LARGEST_WEIGHT = 2.0


@dataclass(frozen=True)
class RelationGap:
    """How far the sample's estimate of a relation's total falls short of the exact one.

    short: 1 - estimate/exact. added: what each value adds to the estimate, over the exact total.
    """

    short: float
    added: FloatArray
    exact: float = 1.0

    def variance(self, probabilities: FloatArray) -> float:
        """Return the variance of the gap."""
        return float(((1.0 - probabilities) * self.added**2).sum())

    def surprise(self, probabilities: FloatArray) -> float:
        """Return the square of the gap in standard errors; 99 for a gap that no followed value explains."""
        variance = self.variance(probabilities)
        if variance > 0.0:
            return self.short**2 / variance
        return _CERTAIN if abs(self.short) > 1e-9 else 0.0


def relation_gaps(quantity: SampledQuantity, totals: Sequence[float | None]) -> list[RelationGap | None]:
    """Return for each relation how far its estimated total falls short; None where the exact one is 0 or unknown.

    None also for a relation that only decides whether rows of the others count: the join does not grow with it.
    """
    gaps: list[RelationGap | None] = []
    for relation, mine in enumerate(quantity.messages.relations):
        exact = totals[relation] if relation < len(totals) else None
        if not exact or mine.only_decides:
            gaps.append(None)
            continue
        estimate, added = quantity.relation_weights(relation)
        gaps.append(RelationGap(1.0 - estimate / exact, added / exact, exact))
    return gaps


@dataclass(frozen=True)
class Calibrated:
    """What is to be added to an estimate, and what each value adds to it beyond what the totals explain.

    above, below: the largest surprise among relations that fall short, and among those that are overestimated.
    """

    shift: float
    residuals: FloatArray
    above: float = 0.0
    below: float = 0.0


def calibrate(added: FloatArray, probabilities: FloatArray, gaps: Sequence[RelationGap | None]) -> Calibrated:
    """Return the correction of an estimate to which each value adds so much.

    The residual of a value is enlarged by its leverage, and counts as often as its weight says, even where the
    weight itself is cut at its bound.
    """
    known = [gap for gap in gaps if gap is not None]
    surprises = [(gap.short, gap.surprise(probabilities)) for gap in known]
    above = max((s for short, s in surprises if short > 0), default=0.0)
    below = max((s for short, s in surprises if short < 0), default=0.0)
    chance = 1.0 - probabilities
    used = [gap for gap in known if float((chance * gap.added**2).sum()) > 0.0]
    if not used:
        return Calibrated(0.0, added, above, below)
    z = np.stack([gap.added for gap in used])
    weighted = z * chance
    gram = times(weighted, z)
    effective = np.diag(gram) ** 2 / ((z * weighted) ** 2).sum(axis=1)
    gram[np.diag_indices_from(gram)] *= 1.0 + 1.0 / effective
    inverse = np.linalg.pinv(gram, hermitian=True)
    slopes = inverse @ times(weighted, added)
    leverage = chance * (mixed(inverse, z) * z).sum(axis=0)
    weights = 1.0 + chance * mixed(inverse @ np.array([gap.short for gap in used]), z)
    residuals = weights * (added - mixed(slopes, z)) / np.maximum(1.0 - leverage, _LEAST_REST)
    shift = dot(np.clip(weights, 0.0, _LARGEST_WEIGHT) - 1.0, added)
    return Calibrated(shift, residuals, above, below)
