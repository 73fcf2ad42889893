"""Hubs: join values that many sampled x's of one side hold, and few sampled x's of the other.

Such a value may carry most of a join, 9,000 tuples on one side meeting 100 on the other, of which a thin sample of the
other side holds none. How many tuples the other side has of it is known exactly where its level of the sample on b
decodes. Otherwise the filter tells: the rows that its counter has above the others, divided by the rows of a tuple,
weighed with the sample on x by their variances.
Deviation: the document does not treat such values apart.
"""

from dataclasses import dataclass

import numpy as np

from eddyline.answer.distinct_joins.samples import SideSamples, SketchedSide, count_by
from eddyline.answer.interval import FloatArray

LIGHT = 3  # a join value is light on a side if at most so many sampled x's hold it
MANY = 16  # a join value that at least so many sampled x's of either side hold is no hub
_TOP = 99.0  # percentile above which counters of the filter are no background
_UNLIKE = 0.5  # of the spread of rows per tuple, which may be how far a value's own mean is off
_CONTRADICTS = 4.0  # standard errors by which a sample that holds fewer tuples proves rows to be repeated
FEWEST_VALUES = 5  # sampled on a side, for a mean over them


@dataclass(frozen=True)
class Hubs:
    """Join values that are heavy on one side, and less so on the other: sampled tuples there, and how many here.

    x, at: the sampled tuples of the heavy side, by their x and the index of their join value. degrees: the tuples of
    the other side, with their variances; seen: those of them in its sample on x. rate, other_rate: of the samples on x.
    values: the x's that the heavy side's sample holds, of `distinct` ones, with the relative variance of that number.
    """

    x: np.ndarray
    at: np.ndarray
    degrees: FloatArray
    variances: FloatArray
    seen: FloatArray
    rate: float
    other_rate: float
    values: int
    distinct: float
    distinct_variance: float

    def triples(self, more: float = 0.0) -> tuple[float, float, float]:
        """Return the number of triples through the hubs, its variance by the sampled x's, and by the degrees.

        more: tuples of each hub that no sample on x can hold, because their x is heavy.
        """
        if len(self.at) == 0:
            return 0.0, 0.0, 0.0
        of = np.unique(self.x, return_inverse=True)[1]
        by_x = np.asarray(np.bincount(of, self.degrees[self.at]), dtype=np.float64)
        scale, sampled = self._scaled(by_x)
        each = scale * np.bincount(self.at, minlength=len(self.degrees)) + more
        return float((each * self.degrees).sum()), sampled, float((each**2 * self.variances).sum())

    def _scaled(self, by_x: FloatArray) -> tuple[float, float]:
        """Return how many x's a sampled one stands for, and the variance of the sum of what each has.

        By its chance, or by the number of all x's over that of sampled ones, whichever has the smaller variance.
        """
        squares, total, p = float((by_x**2).sum()), float(by_x.sum()), self.rate
        chance = 1 / p, (1 - p) / p**2 * squares
        if self.values < FEWEST_VALUES:
            return chance
        scale = self.distinct / self.values
        spread = (1 - p) * max(squares - total**2 / self.values, 0.0) + total**2 * self.distinct_variance
        return min(chance, (scale, scale**2 * spread), key=lambda each: each[1])

    def unseen_variance(self) -> float:
        """Return the variance that pairs of sampled x's have by the hubs, beyond what the sampled pairs show."""
        if len(self.at) == 0:
            return 0.0
        q = self.other_rate
        each = np.bincount(self.at, minlength=len(self.degrees)) / self.rate
        expected = np.maximum(self.degrees, 0) * (1 - q) / q
        return float((each**2 * np.maximum(expected - self.seen * (1 - q) / q**2, 0)).sum())


def hubs_of(side: SideSamples, other: SideSamples, other_side: SketchedSide, *, first: bool) -> Hubs:
    """Return the join values that are heavy on one side, and less so on the other; of ties, the first side has them."""
    values = np.unique(side.by_x.b)
    own, met = count_by(side.by_x.b, values), count_by(other.by_x.b, values)
    fewer = met <= own if first else met < own
    values = values[(own > LIGHT + 1) & fewer & (met < MANY)]
    inside = np.isin(side.by_x.b, values)
    at = np.searchsorted(values, side.by_x.b[inside])
    degrees, variances = degrees_of(other, other_side, values)
    seen = count_by(other.by_x.b, values).astype(np.float64)
    return Hubs(
        side.by_x.x[inside],
        at,
        degrees,
        variances,
        seen,
        side.by_x.rate,
        other.by_x.rate,
        len(np.unique(side.by_x.x)),
        side.distinct,
        side.distinct_variance,
    )


def degrees_of(side: SideSamples, counted: SketchedSide, b: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Return how many tuples of a side hold each join value, and the variances of these numbers."""
    spec, counters = counted
    known = np.full(len(b), side.whole) | side.by_b.complete[spec.by_b.level_of(b)]
    degrees, variances = _by_filter(side, counted, b)
    absent = ~spec.filter_holds(counters, b)
    exact = count_by(side.by_b.b, b).astype(np.float64)
    degrees = np.where(known, exact, np.where(absent, 0.0, degrees))
    return degrees, np.where(known | absent, 0.0, variances)


def _by_filter(side: SideSamples, counted: SketchedSide, b: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Return numbers of tuples by the filter's counters and the sample on x together, and their variances."""
    spec, counters = counted
    counts = spec.filter_counts(counters)
    usual = np.minimum(counts, np.percentile(counts, _TOP))
    rows = np.abs(side.by_x.counts).astype(np.float64)
    mean = float(rows.mean()) if len(rows) else 1.0
    spread = float(rows.std()) / mean if len(rows) else 1.0
    found = (counts[spec.filter_slots(b)] - usual.mean()) / mean
    size = np.maximum(found, 1.0)
    variance = (usual.var() + 1.0) / mean**2 + (spread**2 / size + (_UNLIKE * spread) ** 2) * size**2
    rate, seen = side.by_x.rate, count_by(side.by_x.b, b)
    sampled, sampled_variance = seen / rate, size * (1 - rate) / rate
    weight = np.where(
        found - sampled > _CONTRADICTS * np.sqrt(variance + sampled_variance),
        0.0,
        sampled_variance / (variance + sampled_variance),
    )
    own = np.maximum(seen, 1.0) * (1 - rate) / rate**2
    both = weight**2 * variance + (1 - weight) ** 2 * sampled_variance
    return weight * found + (1 - weight) * sampled, np.where(weight > 0, both, own)
