"""Intervals: every interval of the product is computed here, from the errors that the readings report.

    of rows               a join by sketches: rows are independent estimates of one quantity
    of sampled values     a join by a stream sample: what each followed value adds, and how surprising totals are
    of groups             the same for many groups at once
    of both               a two-way join by sample and sketch together
    of a followed count   distinct values by a stream sample
    of a relative error   set expressions by distinct sketches
    of a factor           distinct pairs over a join, known to within a factor
    of a frequency        one key's frequency by a sketch

Factors next to the quantiles were measured: figures/ has the scripts, docs/internals/intervals.md the reasons.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import exp, inf, log, pi, sqrt
from typing import NamedTuple, TypeVar

import numpy as np
import scipy  # its subpackages are loaded where they are touched

from eddyline.plan.size.specs import two_sided_z
from eddyline.sample.packing import chunks, summed

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Number = TypeVar("Number", float, FloatArray)

_ROWS_AT_95, _ROW_VARIANCE = 2.3, 1.5
_SAFETY_ABOVE, _SAFETY_BELOW, _HEAVIEST = 1.15, 0.9, 4.0
_CALIBRATED = 0.95
"""The confidence at which the factors above were measured."""
_TYPICAL_VALUES = 2.0
"""How many values of the typical group each group allows for, divided by those that carry its own variance."""
_FEW = 30
"""Sampled values whose own spread is not trusted at higher confidence."""
_TAIL_SHARE, _LEAST_TAIL, _LARGEST_TAIL = 10, 20, 400
"""The tail of a sample: a tenth of its values, within these limits. A twentieth and a fifth do about as well."""
_LIGHT = 4.0
"""Values of a tail have rates of at most this multiple of the base; others are followed because they are heavy."""
_ALIKE_SIZES = 1 - 1e-9
_NO_MEAN, _HEAVIEST_SHAPE = 1.1, 5.0
"""The shape from which on a sum has no bound, and the largest shape that is drawn."""
TAIL_OF_SUM, TAIL_OF_SQUARES = 1.5, 0.0
"""How many standard errors of a tail's shape count. Chosen for 95% over Pareto, lognormal and log-logistic values,
1,000 to 40,000 of them at rates of .03 to .2; the variance of squares leaves a margin as well."""
_SHAPE_OF_GROUPS = 0.75
"""The shape of a tail that groups share: between .5, below which variances are enough, and 1, from which on a sum
has no mean. Without it, intervals of groups of Pareto (1.3) values held in 84% of cases; with .5 they were twice as
wide."""
_TINY = 1e-300
_LEAST_GROUPS = 10
"""The fewest groups whose variances show how alike groups are."""
_LEAST_DEGREES = 0.1
"""The degrees of freedom of a variance that is carried by hardly more than one value."""
_RATES_CHOSEN = 1.1
"""Rates of a sample were chosen by looking at it: the variance at fixed rates is a little too small."""
_VARIANCE_ESTIMATED = 1.03
"""The variance of a set expression is itself estimated: this keeps every setting of the figure above 93%."""
_NOISE_MEASURED = 1.1
_SMALLEST_CHOSEN, _WIDEST_FACTOR = 1.25, 8.0
"""Allowances for choosing the distinct-pairs estimate of smallest variance: variances are estimated, too.
"""
_NEAREST_ONE = 1 - 1e-15
ALIKE, ALIKE_IN_GROUPS = 0.3, 0.1
"""The share of a measure's variation between rows that all rows of a join value are assumed to have in common."""
_FILTERS_COLLIDE = 1.05
"""The variance from filters is that of their counters, not of the values in them."""


class Interval(NamedTuple):
    """An estimate and its ends; not a number where the join has no rows."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, half: float) -> "Interval":
        """Return the interval that reaches as far below the value as above it."""
        return cls(value, value - half, value + half)

    def scaled(self, factor: float) -> "Interval":
        """Return the interval scaled by `factor`, which is positive."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


def student(confidence: float, degrees: float) -> float:
    """Return the quantile of Student's distribution that leaves (1 - confidence)/2 on either side."""
    return float(scipy.special.stdtrit(degrees, 0.5 + confidence / 2))


def half_width_of_rows(rows: FloatArray, row_variance: float, confidence: float) -> float:
    """Return half the width of the interval of a mean of rows: 2.3 standard errors at 95%.

    It uses the larger of the measured spread of the rows and 1.5 times the variance that theory expects of one row.
    """
    depth = len(rows)
    spread = float(rows.var(ddof=1)) if depth > 1 else 0.0
    scale = _ROWS_AT_95 * two_sided_z(confidence) / two_sided_z(0.95)
    return scale * sqrt(max(_ROW_VARIANCE * row_variance, spread) / depth)


@dataclass(frozen=True)
class Spread:
    """The variance of an estimate, by value: its sum, its largest part, how many values carry it, the skewness.

    skewness: the third moment over the variance, in the units of the estimate. heavier: the variance that values
    heavier than all seen may add, where they are allowed for: (below the estimate, above it).
    """

    variance: float
    largest: float
    carriers: float
    skewness: float
    heavier: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, added: FloatArray, probabilities: FloatArray) -> "Spread":
        """Return the spread of an estimate to which the values add `added`."""

        def parts(at: slice) -> FloatArray:
            own: FloatArray = added[at] ** 2 * (1.0 - probabilities[at])
            return own

        rows = len(added)
        variance = summed(rows, parts)
        if variance <= 0.0:
            return cls(0.0, 0.0, 1.0, 0.0)
        carriers = max(1.0, variance**2 / summed(rows, lambda at: parts(at) ** 2))
        largest = max(float(parts(at).max()) for at in chunks(rows))
        third = summed(rows, lambda at: parts(at) * added[at] * (1.0 - probabilities[at]))
        return cls(variance, largest, carriers, third / variance)

    def with_hidden(self, variance: float, carriers: float) -> "Spread":
        """Return the spread plus variance that few witnesses hide, carried by at most `carriers` values."""
        return replace(self, variance=self.variance + variance, carriers=min(self.carriers, carriers))

    def with_heavier(
        self, added: FloatArray, probabilities: FloatArray, base: float, most: float
    ) -> "Spread":
        """Return the spread with an allowance for heavier values than seen: at most `most` times its variance."""
        if most <= 0.0:
            return self
        own = added * probabilities
        below, above = (
            min(heavier_unseen(np.maximum(side * own, 0.0), probabilities, base), most * self.variance)
            for side in (-1.0, 1.0)
        )
        return replace(self, heavier=(below, above))


def hidden_by_few(alike: float, counted: Number, carriers: Number) -> Number:
    """Return the variance of a sum of deviations from an average that stays hidden in the values carrying it.

    These values determine the average, so they agree with it. alike: the variance of the measure that rows of one
    value have in common. counted, carriers: the variance of the number of rows, and how many values carry it.
    """
    return alike * counted / carriers


def heavier_unseen(parts: FloatArray, rates: FloatArray, base: float) -> float:
    """Return the variance that values larger than all seen would add, if sizes have a power tail.

    parts: what each value adds, before scaling up, and its rate. Hill's estimator over the largest fifth of the
    values at the base rate; infinite where the tail is too heavy to have a variance, or too few values show it.
    """
    light = np.abs(parts[(rates <= 1.5 * base) & (rates < 1.0) & (parts != 0)])
    if len(light) < 5:
        return inf
    below = len(light) - max(5, len(light) // 5)
    light.partition(below)  # only the largest fifth is sorted
    top = np.sort(light[below:])[::-1]
    mean_log = float(np.log(top[:-1] / top[-1]).mean())
    if mean_log <= 0.0:
        return 0.0
    tail = 1.0 / mean_log
    if tail <= 2.0:
        return inf
    unseen = (1.0 - base) / base  # values above the largest one seen, as expected
    return float(unseen**2 * top[0] ** 2 * tail / (tail - 2.0))


@dataclass(frozen=True)
class Tail:
    """How the largest parts of an estimate decrease: the sizes of those in the sample, the largest first.

    shape: by the moment estimator of Dekkers, Einmahl and de Haan. 1/a for a power tail with exponent a, 0 for an
    exponential one; from 1/2 on there is no variance, from 1 on no mean.
    """

    sizes: FloatArray
    chances: FloatArray
    shape: float
    scale: float

    @classmethod
    def of(cls, parts: FloatArray, rates: FloatArray, base: float) -> "Tail | None":
        """Return the tail of what values at the base rate add, before scaling up; None if too few add something."""
        light = (rates <= _LIGHT * base) & (rates < 1.0)
        number = min(max(int(light.sum()) // _TAIL_SHARE, _LEAST_TAIL), _LARGEST_TAIL)
        sizes, chances = parts[light], 1.0 - rates[light]
        kept = np.flatnonzero(sizes > 0.0)
        kept = kept[np.argsort(-sizes[kept], kind="stable")][: number + 1]
        if len(kept) < _LEAST_TAIL:
            return None
        sizes, chances = sizes[kept], chances[kept]
        logs = np.log(sizes[:-1] / sizes[-1])
        first, second = float(logs.mean()), float((logs**2).mean())
        alike = first**2 / second if second > 0.0 else 1.0
        shape = first + 1.0 - 0.5 / (1.0 - alike) if alike < _ALIKE_SIZES else -inf
        return cls(
            sizes[:-1], chances[:-1], shape, float(sizes[-1]) * first * (1.0 - min(shape - first, 0.0))
        )

    def more_unseen(self, caution: float, confidence: float) -> float:
        """Return how much more than estimated the tail values outside the sample may add.

        It assumes a generalized Pareto tail whose shape is uncertain by `caution` of its standard errors: the
        quantile of what the largest unseen values would add, minus what the estimate includes for as many of them.
        Infinite where the tail has no mean. Beyond 95% it grows as quantiles of such a tail do.
        """
        if self.shape > _NO_MEAN:
            return inf
        if self.shape == -inf:
            return 0.0
        stands_for = np.cumsum(self.chances / (1.0 - self.chances))
        unseen = float(stands_for[-1])
        arrivals, scores = _tail_draws()
        number = min(arrivals.shape[1], int(unseen))
        if number == 0:
            return 0.0
        error = sqrt((1.0 + min(max(self.shape, 0.0), 1.0) ** 2) / len(self.sizes))
        shapes = np.clip(self.shape + caution * error * scores, -1.0, _HEAVIEST_SHAPE)[:, None]
        shapes = np.where(np.abs(shapes) < 1e-6, 1e-6, shapes)
        beyond = np.minimum(arrivals[:, :number] / unseen, 1.0)
        drawn = self.sizes[-1] + self.scale * (beyond**-shapes - 1.0) / shapes
        held = np.diff(np.minimum(stands_for, number), prepend=0.0)
        more = drawn.sum(axis=1) - float((held * self.sizes).sum())
        most = float(np.quantile(more, 0.5 + min(confidence, _CALIBRATED) / 2.0))
        rarer = max((1.0 - _CALIBRATED) / (1.0 - confidence), 1.0)
        return max(most, 0.0) * float(rarer ** max(self.shape, 0.0))


@cache
def _tail_draws() -> tuple[FloatArray, FloatArray]:
    """Return (times of the first arrivals of a Poisson process, normal scores): a row and a number per draw.

    Always the same, so that equal states give equal answers.
    """
    draws, largest = 3000, 40
    rng, places = np.random.default_rng(20_260), (np.arange(draws) + 0.5) / draws
    gaps = rng.exponential(size=(draws, largest))
    gaps[:, 0] = -np.log(rng.permutation(places))
    return np.cumsum(gaps, axis=1), rng.permutation(scipy.special.ndtri(places))


def tail_share(share: FloatArray) -> FloatArray:
    """Return which part of what a tail may add to all rows it may add to a share of the rows.

    The largest of n values with a power tail grows as n to the power of its shape.
    """
    return np.asarray(share**_SHAPE_OF_GROUPS)


def ends_of_sampled_values(
    spread: Spread, below: float, above: float, confidence: float
) -> tuple[float, float]:
    """Return how far the ends lie from an estimate by sampled values: (below it, above it).

    Few values carry most of a skewed join, and the sample shows nothing of heavy values that it does not follow.
    Therefore the quantile is Student's with as many degrees of freedom as values carry the variance, the heaviest
    value counts twice, skewness moves the ends, and totals that the sample misses (below, above: how surprising
    they are) widen the side that they point to. Beyond 95% each end moves out at least in proportion to Student's
    quantile: the skewness term grows with its square, is badly known from few values, and would hold one end back.
    """
    if spread.variance == 0.0:
        return 0.0, 0.0
    ends = _ends_of_values(spread, below, above, confidence)
    if confidence <= _CALIBRATED:
        return ends
    further = student(confidence, spread.carriers + 1.0) / student(_CALIBRATED, spread.carriers + 1.0)
    near = _ends_of_values(spread, below, above, _CALIBRATED)
    return max(ends[0], further * near[0]), max(ends[1], further * near[1])


def _ends_of_values(spread: Spread, below: float, above: float, confidence: float) -> tuple[float, float]:
    t = student(confidence, spread.carriers + 1.0)
    shift = t * t * spread.skewness / 2.0
    ends = []
    for surprise, safety, heavier in zip(
        (below, above), (_SAFETY_BELOW, _SAFETY_ABOVE), spread.heavier, strict=True
    ):
        factor = _widened(surprise)
        wide = factor * spread.variance + min(factor, _HEAVIEST) * spread.largest + heavier
        ends.append(sqrt(safety * t * t * wide + shift * shift))
    return max(0.0, ends[0] - shift), max(0.0, ends[1] + shift)


def _widened(surprise: float) -> float:
    """Return the factor of the variance where exact totals differ from the sample's; surprise: how surprisingly.

    It applies from one standard error on: the missing part of the totals is in values that are not followed.
    """
    return max(1.0, min(surprise, max(2.0, surprise / 2.0)))


@dataclass(frozen=True)
class GroupSpread:
    """The spread of many groups' estimates, as `Spread` has it for one: each array has an entry per group."""

    variance: FloatArray
    largest: FloatArray
    carriers: FloatArray
    skewness: FloatArray

    @classmethod
    def of(cls, added: FloatArray, probabilities: FloatArray, groups: np.ndarray, size: int) -> "GroupSpread":
        """Return the spread of estimates to which the values add `added`; groups: the group of each value."""
        chance = 1.0 - probabilities
        parts = added**2 * chance
        largest = np.zeros(size)
        np.maximum.at(largest, groups, parts)
        variance, squares, third = (
            np.bincount(groups, weights=each, minlength=size).astype(np.float64)
            for each in (parts, parts**2, parts * added * chance)
        )
        return cls.of_moments(variance, squares, third, largest)

    @classmethod
    def of_moments(
        cls, variance: FloatArray, squares: FloatArray, third: FloatArray, largest: FloatArray
    ) -> "GroupSpread":
        """Return the spread from the sums of its parts, their squares and third moments, and the largest part."""
        with np.errstate(divide="ignore", invalid="ignore"):
            carriers = np.where(squares > 0.0, variance**2 / squares, 1.0)
            skewness = np.where(variance > 0.0, third / variance, 0.0)
        return cls(variance, largest, np.maximum(carriers, 1.0), skewness)

    def with_hidden(self, variance: FloatArray) -> "GroupSpread":
        """Return the spread plus variance that few witnesses hide."""
        return replace(self, variance=self.variance + variance)

    def of_values_with(self, entries: int) -> "GroupSpread":
        """Return the spread of values with at most `entries` parts each, where only the parts are known.

        The square of a sum of n numbers is at most n times the sum of their squares.
        """
        if entries == 1:
            return self
        carriers = np.maximum(self.carriers / entries, 1.0)
        return GroupSpread(
            entries * self.variance, entries**2 * self.largest, carriers, entries * self.skewness
        )

    def with_typical(self, sampled: FloatArray) -> "GroupSpread":
        """Return the spread with an allowance from other groups' values; sampled: sampled values of each group.

        The few values of a small group say little about heavier ones. What a value adds to the variance of a
        typical group, by the geometric mean, is added to each group: the fewer values carry its own variance, the
        more is added.
        """
        measured = (self.variance > 0.0) & (sampled > 0.0)
        if not np.any(measured):
            return self
        typical = float(np.exp(np.mean(np.log(self.variance[measured] / sampled[measured]))))
        more = np.where(sampled > 0.0, _TYPICAL_VALUES * typical / self.carriers, 0.0)
        return replace(self, variance=self.variance + more)

    def with_others(self, sampled: FloatArray) -> "GroupSpread":
        """Return the spread with each group's own variance moved towards the variance over all groups.

        Two or three values of a group estimate its variance badly, while hundreds of groups together estimate well
        how much values differ. How alike the groups may be taken to be follows from how much more their variances
        differ than chance explains (Smyth's moderated variances). carriers: then those of both. Where values have
        heavy tails, sums of a few of them do, too: they get Student's distribution with the kurtosis of such a sum.
        sampled: the sampled values of each group.
        """
        measured = (self.variance > 0.0) & (sampled > 0.0)
        if int(measured.sum()) < _LEAST_GROUPS:
            return self
        variance, number, own = self.variance[measured], sampled[measured], self.carriers[measured] + 1.0
        each = np.log(variance / number) - scipy.special.digamma(own / 2.0) + np.log(own / 2.0)
        explained = float(scipy.special.polygamma(1, own / 2.0).mean())
        others = 2.0 * _inverse_trigamma(float(each.var(ddof=1)) - explained)
        common = exp(float(each.mean()) + float(scipy.special.digamma(others / 2.0)) - log(others / 2.0))
        degrees = self.carriers + 1.0
        moved = (others * common * sampled + degrees * self.variance) / (others + degrees)
        skewness = float((self.skewness * self.variance).sum() / self.variance.sum())
        skewness = min(
            max(skewness, -sqrt(common)), sqrt(common)
        )  # that of equal values: tails are in the kurtosis
        third = others * skewness * common * sampled + degrees * self.skewness * self.variance
        fourth = (variance / moved[measured] * number) ** 2 / self.carriers[measured]
        kurtosis = float(fourth.sum() / number.sum()) - 3.0
        of_tails = 4.0 + 6.0 * sampled / kurtosis if kurtosis > 0.0 else np.full(len(sampled), inf)
        carriers = np.maximum(np.minimum(others + degrees, of_tails) - 1.0, self.carriers)
        return replace(
            self,
            variance=np.where(sampled > 0.0, moved, self.variance),
            skewness=np.where(
                sampled > 0.0, third / (others + degrees) / np.maximum(moved, _TINY), self.skewness
            ),
            carriers=np.where(sampled > 0.0, carriers, self.carriers),
        )


def _inverse_trigamma(value: float) -> float:
    """Return the inverse of the trigamma function, by Newton's method; 1,000 where the value is hardly positive."""
    if value <= 1e-3:
        return 1e3
    found = 0.5 + 1.0 / value
    for _ in range(20):
        there = float(scipy.special.polygamma(1, found))
        found += there * (1.0 - there / value) / float(scipy.special.polygamma(2, found))
    return found


def ends_of_unseen_groups(
    rare: FloatArray, typical: float, base: float, confidence: float
) -> tuple[float, float]:
    """Return how far the ends lie from Good and Turing's estimate of unseen groups: (below it, above it).

    rare: what each value adds to groups that at most two values show; typical: what a sampled value adds alone;
    base: the rate of those that are not followed. A few values say little: the quantile is Student's, and the
    largest value counts twice.
    """
    squares = rare**2
    variance = float(squares.sum())
    hidden = typical * most_unsampled(base, confidence)
    if variance == 0.0:
        return 0.0, hidden
    carriers = variance**2 / float((squares**2).sum())
    half = student(confidence, carriers + 1.0) * sqrt(variance + float(squares.max()))
    return half, half + hidden


def ends_of_groups(
    spread: GroupSpread,
    confidence: float,
    below: float = 0.0,
    above: float = 0.0,
    sampled: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return how far the ends of each group lie from its estimate by sampled values: (below it, above it).

    sampled: the sampled values of each group, given where the values of all groups inform each group beyond 95%.
    """
    ends = _ends_of_groups(spread, below, above, min(confidence, _CALIBRATED))
    if confidence <= _CALIBRATED:
        return _ends_of_groups(spread, below, above, confidence)
    if sampled is not None:
        spread = spread.with_others(sampled)
    quantiles = [
        scipy.special.stdtrit(spread.carriers + 1.0, 0.5 + each / 2) for each in (confidence, _CALIBRATED)
    ]
    near, far = (_ends_of_groups(spread, below, above, each) for each in (_CALIBRATED, confidence))
    further = quantiles[0] / quantiles[1]
    found = [np.maximum(np.maximum(far[k], further * near[k]), ends[k]) for k in range(2)]
    return found[0], found[1]


def _ends_of_groups(
    spread: GroupSpread, below: float, above: float, confidence: float
) -> tuple[FloatArray, FloatArray]:
    t = scipy.special.stdtrit(spread.carriers + 1.0, 0.5 + confidence / 2)
    shift = t * t * spread.skewness / 2.0
    ends = []
    for surprise, safety in ((below, _SAFETY_BELOW), (above, _SAFETY_ABOVE)):
        factor = _widened(surprise)
        wide = t * t * (factor * spread.variance + min(factor, _HEAVIEST) * spread.largest)
        ends.append(np.sqrt(safety * wide + shift**2))
    return np.maximum(ends[0] - shift, 0.0), np.maximum(ends[1] + shift, 0.0)


def least_ends_of_few(variances: FloatArray, sampled: FloatArray, confidence: float) -> FloatArray:
    """Return the least distance of the ends of each group's ratio, beyond 95%; sampled: its sampled values.

    Few values may happen to agree. Among many groups some do, and their own spread is too small: a group of few
    values gets at least the average spread, over all groups, of that number of values.
    """
    total = float(sampled.sum())
    if confidence <= _CALIBRATED or total == 0.0:
        return np.zeros(len(variances))
    pooled = float(variances.sum()) / total * sampled
    return np.asarray(np.where(sampled < _FEW, two_sided_z(confidence) * np.sqrt(pooled), 0.0))


def highest_variance_of_few(variance: FloatArray, carriers: FloatArray, confidence: float) -> FloatArray:
    """Return how large a variance known from few values may be, by the chi-square distribution; 0 for many values.

    Two or three values may happen to agree, and then their differences are too small.
    """
    degrees = np.maximum(carriers - 1.0, _LEAST_DEGREES)
    least = 2.0 * scipy.special.gammaincinv(degrees / 2.0, (1.0 - confidence) / 2.0) / degrees
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.where(carriers < _FEW, variance / least, 0.0))


def half_width_of_both(
    weight: float, variance: float, carriers: float, residual: float, confidence: float
) -> float:
    """Return half the width for a sample with weight `weight` and an uncorrelated sketch with the rest.

    variance, carriers: of the sample's part. residual: half the width for the sketch alone.
    """
    own = student(confidence, carriers + 1.0) * sqrt(variance) if weight else 0.0
    return sqrt((weight * own) ** 2 + ((1.0 - weight) * residual) ** 2)


def of_followed_count(value: float, variance: float, base: float, confidence: float) -> Interval:
    """Return the interval of a number of values, each seen at a known rate: the sum of 1/rate is the value.

    The ends are Wilson's, solved for the number of values: n with (n - value)^2 = z^2 n (1 - rate)/rate, so that
    the ends are also valid for few witnesses or none. Unseen values are assumed to be followed at the base rate.
    """
    z = _RATES_CHOSEN * two_sided_z(confidence)
    lower_shift = z * z * (variance / value if value else 0.0) / 2.0
    upper_shift = z * z * ((1.0 - base) / base if base > 0.0 else inf) / 2.0
    low = value + lower_shift - sqrt(z * z * variance + lower_shift**2)
    high = value + upper_shift + sqrt(z * z * variance + upper_shift**2)
    return Interval(value, low, high)


def of_relative_error(value: float, variance: float, confidence: float) -> Interval:
    """Return the interval of a count whose relative variance is known at the truth.

    It is skewed upwards, because the variance of a count grows with it.
    """
    z = _VARIANCE_ESTIMATED * two_sided_z(confidence)
    shift, half = z**2 * variance / 2, z * sqrt(variance + z**2 * variance**2 / 4)
    return Interval(value, max(0.0, value * (1 + shift - half)), value * (1 + shift + half))


def most_unseen(total: float, seen: float, confidence: float) -> float:
    """Return how many of a total may be of a kind that does not occur among the `seen` elements."""
    z = two_sided_z(confidence)
    return total * z**2 / (seen + z**2)


def wilson_ends(share: float, parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how far Wilson's ends lie from a share: (below it, above it).

    parts: z^2 over the number of equal values that would estimate shares as well as the sample does. Close to 0 and
    1 the sample's own spread is too small, because hardly any value lies on the other side.
    """
    half = np.sqrt(parts * share * (1.0 - share) + parts**2 / 4.0)
    low, high = ((share + parts / 2.0 + sign * half) / (1.0 + parts) for sign in (-1.0, 1.0))
    return share - low, high - share


def most_unsampled(rate: float, confidence: float) -> float:
    """Return how many elements of a kind there may be if a sample at a rate shows none of them."""
    return two_sided_z(confidence) ** 2 / rate if rate > 0 else inf


def of_factor(value: float, error: float, noise: float, confidence: float) -> Interval:
    """Return the interval of a count that samples give to within a factor, and filters to within a difference.

    error: the standard error of its logarithm; noise: relative to the value. The two are independent.
    """
    z = two_sided_z(confidence)
    half, noise = min(_SMALLEST_CHOSEN * z * error, _WIDEST_FACTOR), _FILTERS_COLLIDE * z * noise
    low = value * (1 - sqrt((1 - exp(-half)) ** 2 + noise**2))
    return Interval(value, low, value * (1 + sqrt((exp(half) - 1) ** 2 + noise**2)))


def of_each(confidence: float, compared: int) -> float:
    """Return the confidence that each of `compared` intervals needs for all to hold together (Bonferroni)."""
    return min(1.0 - (1.0 - confidence) / max(compared, 1), _NEAREST_ONE)


def half_width_of_frequency(noise: float, confidence: float) -> float:
    """Return half the width for a median over rows with noise `noise`, which is itself measured."""
    return _NOISE_MEASURED * two_sided_z(confidence) * sqrt(pi / 2) * noise


def half_width_of_key(errors: FloatArray, confidence: float) -> FloatArray:
    """Return half the widths for frequencies of keys fitted together, whose errors are themselves measured."""
    return _NOISE_MEASURED * two_sided_z(confidence) * errors
