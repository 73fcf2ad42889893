"""Two-way joins by a sample and a sketch together: the sketch reads what the sample does not follow.

Sketches are linear and the rows of followed values are known exactly. Subtracting them from the counters leaves a
sketch of only the unfollowed rest, whose join is the residual. This is skimming with dense values that are known
and not estimated. The rest of the join then has two estimates: A, which scales the followed values up, and B, the
residual. A does not see what it does not follow, so its own variance cannot be trusted. B's can, and gives A's as
well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.aggregates.moments import Moment, Quotient
from eddyline.answer.interval import Interval, half_width_of_both
from eddyline.answer.joins.quantities import as_whole_numbers, combination, rounded_norm
from eddyline.answer.joins.sampled import Totals, read_sample_join, within_certain
from eddyline.answer.joins.sampled_ratios import (
    CANCELLED,
    SampleEstimate,
    calibrated_combination,
    with_pieces,
)
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.answer.joins.two_way import RowEstimates, SketchedRelation, skimmed_join
from eddyline.sample.join import Join
from eddyline.sample.messages import added
from eddyline.sketch.counters import key_array

Sides = tuple[SketchedRelation, SketchedRelation]
_CAUTION = 2.0
"""Roots of the cautious variance up to an end: it is the square of half of what may be missing."""


@dataclass(frozen=True)
class CombinedEstimate:
    """An estimate by a sample and a residual sketch; weight: the sample's weight in the unfollowed rest."""

    value: float
    low: float
    high: float
    weight: float


def read_residual_join(
    join: Join,
    function: str,
    totals: Totals,
    sides: Mapping[str, Sides],
    confidence: float,
    sample: SampleEstimate | None = None,
) -> CombinedEstimate:
    """Return the answer of an aggregate over a two-way join; sides: the sketches of each quantity, in its units.

    sample: the answer by the sample alone, if it was already read.
    """
    sample = read_sample_join(join, function, totals, confidence) if sample is None else sample
    if sample.exact:
        return CombinedEstimate(sample.value, sample.low, sample.high, 1.0)
    moment = moment_named(function)
    if moment.is_sum:
        residual = skimmed_join(*residual_sides(join, function, sides[function]))
        both = combine(sample, residual, confidence)
        ends = Interval(both.value, both.low, both.high)
        return CombinedEstimate(
            *within_certain(sample.quantities[function], totals.get(function, ()), ends), both.weight
        )
    reader = _Reader(join, totals, sides, sample.quantities, confidence)
    found = reader.mean(sample.mean)
    if moment.degree == 1:
        return found
    if not isfinite(found.high):  # the sketch does not show that the join has rows: use only the sample
        return CombinedEstimate(sample.value, 0.0, inf, 1.0)
    return reader.about_mean(moment, found.value)


class _Reader:
    """Averages and variances by both readings: combinations over the count, linearized at the answer."""

    def __init__(
        self,
        join: Join,
        totals: Totals,
        sides: Mapping[str, Sides],
        quantities: Mapping[str, SampledQuantity],
        confidence: float,
    ) -> None:
        self.totals, self.quantities, self.confidence = totals, quantities, confidence
        self.residuals = {name: residual_sides(join, name, sides[name]) for name in quantities}
        self.count = self.read({"count": 1.0})

    def read(
        self, factors: Mapping[str, float], centre: float = 0.0, divisor: float = 1.0
    ) -> CombinedEstimate:
        """Return centre + the combination of quantities / divisor."""
        blank = SampleEstimate(centre, centre, centre, centre=centre, divisor=divisor)
        calibrated = calibrated_combination(self.quantities, factors, self.totals)
        sample = with_pieces(self.quantities, factors, calibrated, blank)
        return combine(sample, residual_combination(self.residuals, factors), self.confidence)

    def mean(self, start: float) -> CombinedEstimate:
        """Return the average: linearized at the sample's average, then at the result."""
        if self.count.low <= 0.0 <= self.count.high:
            return CombinedEstimate(start, -inf, inf, 1.0)
        start = start if isfinite(start) else 0.0
        first = self.read({"sum": 1.0, "count": -start}, start, self.count.value).value
        return self.read({"sum": 1.0, "count": -first}, first, self.count.value)

    def about_mean(self, moment: Moment, mean: float) -> CombinedEstimate:
        """Return a variance or its root, from squares about the average, whose error has no first-order effect."""
        assert isinstance(moment, Quotient)
        about = moment.numerator({"sum": mean, "count": 1.0})
        first = self.read(about, 0.0, self.count.value).value
        found = self.read(about | {"count": mean * mean - first}, first, self.count.value)
        rows = self.count.value
        scale = rows / (rows - 1.0) if moment.fewest > 1 and rows > 1.0 else 1.0
        off = CANCELLED * abs(self.quantities[next(iter(moment.sums))].total) / abs(rows)
        ends = [scale * max(end, 0.0) for end in (found.value, found.low - off, found.high + off)]
        if moment.is_root:
            ends = [sqrt(end) for end in ends]
        return CombinedEstimate(ends[0], ends[1], ends[2], found.weight)


def residual_sides(join: Join, quantity: str, sides: Sides) -> Sides:
    """Return both sketches without the followed values, which are no longer candidates either."""
    relations = join.whole_relations(join.shape.quantities[quantity])
    roster = join.state.rosters[join.shape.classes[0]]
    keys = key_array(join.values[0])
    made = []
    for side, relation in zip(sides, relations, strict=True):
        counters = side.counters.copy()
        held = added(relation.weights, relation.places[0], len(join.values[0]))
        if held.dtype == np.float64:
            held = np.rint(held / side.unit).astype(np.int64)
        side.spec.accumulate(counters, keys, -held)
        followed = np.ones(len(side.candidates), dtype=np.bool_)
        roster.drop_unfollowed(side.candidates.view(np.int64), followed)
        made.append(replace(side, counters=counters, candidates=side.candidates[~followed]))
    return made[0], made[1]


def residual_combination(residuals: Mapping[str, Sides], factors: Mapping[str, float]) -> RowEstimates:
    """Return the skimmed reading of a combination of quantities over values that are not followed.

    Where the quantities differ in one relation only, as they do unless both have a measure, the combined sketch of
    that relation is read, so that terms cancel value by value. Otherwise the readings of the quantities are
    combined, and what the dense values add is bounded from above.
    """
    if len(factors) == 1:
        ((name, factor),) = factors.items()
        return skimmed_join(*residuals[name]).scaled(factor)
    left, right = zip(*(residuals[name] for name in factors), strict=True)
    weights = list(factors.values())
    for mine, others in ((left, right), (right, left)):
        if all(_alike(others[0], other) for other in others[1:]):
            return skimmed_join(_combined_side(mine, weights), others[0])
    readings = [skimmed_join(*pair) for pair in zip(left, right, strict=True)]
    squares = sum(abs(f) * sqrt(r.dense_squares[0]) for f, r in zip(weights, readings, strict=True)) ** 2
    return replace(combination(readings, weights), dense_squares=(squares,))


def _alike(one: SketchedRelation, other: SketchedRelation) -> bool:
    same = one.unit == other.unit and one.cut_off == other.cut_off
    return one.spec == other.spec and same and np.array_equal(one.counters, other.counters)


def _combined_side(sides: Sequence[SketchedRelation], factors: Sequence[float]) -> SketchedRelation:
    """Return the sketch of a combination, in a unit so small that integers are precise enough."""
    mixed = sum(
        f * side.unit * side.counters.astype(np.float64) for side, f in zip(sides, factors, strict=True)
    )
    assert isinstance(mixed, np.ndarray)
    counters, unit = as_whole_numbers(mixed)
    candidates = np.unique(np.concatenate([side.candidates for side in sides]))
    population = max(side.population for side in sides)
    cut_off = sum(abs(f) * side.cut_off for side, f in zip(sides, factors, strict=True))
    cut_off += rounded_norm(unit, sides[0].spec.width)
    return SketchedRelation(sides[0].spec, counters, candidates, population, unit, cut_off)


def combine(sample: SampleEstimate, residual: RowEstimates, confidence: float) -> CombinedEstimate:
    """Return one estimate from both: followed + w A + (1 - w) B with w = VB/(VD + VB).

    VB is the residual's variance. VD is A's: at least the sum of what the followed values add to it, and of what the
    dense values found by B would add if followed at the base rate. A's cautious variance may be much larger: it
    allows for the heaviest value that exact totals leave possible. Such a value is in B, so that VD is at most what
    the two estimates differ by beyond VB, if A has seen sampled values at all. The rest of the caution is in the ends,
    as far as B allows.

    A and B are uncorrelated, because A depends on which values are followed and B on the sketch's hash functions.
    """
    noise = residual.row_variance / len(residual.rows)
    dense = sum(residual.dense_squares)
    unseen = dense * (1.0 - sample.base) / sample.base if sample.base > 0.0 else inf
    known = sample.followed_variance + unseen
    doubt = max(sample.cautious_variance, known)
    variance = doubt
    if sample.followed_variance > 0.0:
        variance = max(known, min(doubt, (residual.value - sample.unfollowed) ** 2 - noise))
    weight = noise / (variance + noise) if variance + noise > 0.0 else 0.0
    weight = weight if isfinite(variance) else 0.0
    rest = weight * sample.unfollowed + (1.0 - weight) * residual.value if weight else residual.value
    own = residual.half_width(confidence)
    half = half_width_of_both(weight, variance, sample.carriers, own, confidence)
    more = max(doubt - variance, 0.0) if isfinite(variance) else 0.0
    cautious = sqrt(half**2 + _CAUTION**2 * more)
    below = max(half, min(cautious, rest - residual.value + own))
    above = max(half, min(cautious, residual.value + own - rest))
    quantity = sample.followed + rest
    ends = [sample.centre + each / sample.divisor for each in (quantity, quantity - below, quantity + above)]
    return CombinedEstimate(ends[0], ends[1], ends[2], weight)
