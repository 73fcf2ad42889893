"""The interval of an estimate from a sample of values, from what each followed value adds to it.

Few values carry most of a skewed join, and the sample tells nothing of heavy values that it does not follow. So the
quantile is Student's with as many degrees of freedom as values carry the variance, the heaviest value counts twice,
skewness moves the ends, and totals that the sample misses widen the side that they point to.
"""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from scipy.special import stdtrit

from eddyline.answer.joins.calibration import Calibrated
from eddyline.sample.roster import FloatArray

_SAFETY_ABOVE = 1.15
_SAFETY_BELOW = 0.9
_HEAVIEST = 4.0


def student(confidence: float, degrees: float) -> float:
    """Return the quantile of Student's distribution that leaves (1 - confidence)/2 on either side."""
    return float(stdtrit(degrees, 0.5 + confidence / 2))


@dataclass(frozen=True)
class Spread:
    """The variance of an estimate, by value: its sum, its largest part, how many values carry it, the skewness.

    skewness: the third moment over the variance, in the units of the estimate.
    """

    variance: float
    largest: float
    carriers: float
    skewness: float

    @classmethod
    def of(cls, added: FloatArray, probabilities: FloatArray) -> "Spread":
        """Return the spread of an estimate to which each value adds so much."""
        chance = 1.0 - probabilities
        parts = added**2 * chance
        variance = float(parts.sum())
        if variance <= 0.0:
            return cls(0.0, 0.0, 1.0, 0.0)
        carriers = max(1.0, variance**2 / float((parts**2).sum()))
        return cls(variance, float(parts.max()), carriers, float((parts * added * chance).sum()) / variance)

    def quantile(self, confidence: float) -> float:
        """Return Student's quantile for as many values as carry the variance."""
        return student(confidence, self.carriers + 1.0)


def interval(
    calibrated: Calibrated, probabilities: FloatArray, confidence: float, unseen: "Unseen | None" = None
) -> tuple[float, float]:
    """Return how far the ends of the interval lie from the estimate: (below it, above it)."""
    spread = Spread.of(calibrated.residuals, probabilities)
    if unseen is not None:
        carriers = min(spread.carriers, unseen.carriers)
        spread = Spread(spread.variance + unseen.variance, spread.largest, carriers, spread.skewness)
    if spread.variance == 0.0:
        return 0.0, 0.0
    t = spread.quantile(confidence)
    shift = t * t * spread.skewness / 2.0
    ends = []
    for surprise, safety in ((calibrated.below, _SAFETY_BELOW), (calibrated.above, _SAFETY_ABOVE)):
        factor = max(1.0, surprise / 2.0)
        wide = factor * spread.variance + min(factor, _HEAVIEST) * spread.largest
        ends.append(sqrt(safety * t * t * wide + shift * shift))
    return max(0.0, ends[0] - shift), max(0.0, ends[1] + shift)


@dataclass(frozen=True)
class Unseen:
    """What few witnesses cannot tell: variance that they hide, and how many values carry what is estimated."""

    variance: float
    carriers: float


def heavier_unseen(parts: FloatArray, rates: FloatArray, base: float) -> float:
    """Return the variance that values larger than all seen would add, if sizes have a power tail.

    parts: what each value adds, before scaling up, and its rate. Hill's estimator over the largest fifth of the
    values at the base rate; infinite where the tail is too heavy to have a variance.
    """
    light = np.sort(np.abs(parts[(rates <= 1.5 * base) & (rates < 1.0) & (parts != 0)]))[::-1]
    if len(light) < 5:
        return inf
    top = light[: max(5, len(light) // 5)]
    mean_log = float(np.log(top[:-1] / top[-1]).mean())
    if mean_log <= 0.0:
        return 0.0
    tail = 1.0 / mean_log
    if tail <= 2.0:
        return inf
    unseen = (1.0 - base) / base  # values above the largest one seen, as expected
    return float(unseen**2 * top[0] ** 2 * tail / (tail - 2.0))
