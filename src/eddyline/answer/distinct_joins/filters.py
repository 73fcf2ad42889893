"""Join values that the samples of a distinct count cannot hold: by counting filters, and hubs."""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from eddyline.answer.distinct_joins.samples import CountEstimate, SideSamples, SketchedSide, chosen, count_by
from eddyline.answer.interval import FloatArray

# Hubs: join values that many sampled x's of one side hold, and few sampled x's of the other.
#
# Such a value may carry most of a join: 9,000 tuples on one side may meet 100 on the other, and a sparse sample of
# the other side holds none of the 100. The number of its tuples on the other side is known exactly where its level
# of the sample on b decodes. Otherwise the filter gives an estimate: the rows that its counter has above the
# others, divided by the rows per tuple. It is combined with the sample on x, weighted by their variances.
# Deviation: the document does not treat such values apart.


LIGHT = 3  # a join value is light on a side if at most this many sampled x's hold it
MANY = 16  # a join value that at least this many sampled x's of either side hold is not a hub
_TOP = 99.0  # percentile above which counters of the filter are not background
_UNLIKE = 0.5  # share of the spread of rows per tuple by which a value's own mean may be off
_CONTRADICTS = 4.0  # a sample with this many standard errors fewer tuples proves that rows are repeated
FEWEST_VALUES = 5  # values sampled on a side that a mean needs


@dataclass(frozen=True)
class Hubs:
    """Join values heavier on one side than on the other: sampled tuples there, and numbers of tuples here.

    x, at: the sampled tuples of the heavy side, by their x and the index of their join value. degrees: the tuples
    of the other side, with their variances; seen: those of them in its sample on x. rate, other_rate: the rates of
    the samples on x. values: the x's in the heavy side's sample, out of `distinct` ones, with the relative variance
    of that number.
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
        """Return how many x's a sampled one represents, and the variance of the sum of what each has.

        It uses 1 over its chance, or the number of all x's over that of sampled ones, whichever has the smaller
        variance.
        """
        squares, total, p = float((by_x**2).sum()), float(by_x.sum()), self.rate
        chance = 1 / p, (1 - p) / p**2 * squares
        if self.values < FEWEST_VALUES:
            return chance
        scale = self.distinct / self.values
        spread = (1 - p) * max(squares - total**2 / self.values, 0.0) + total**2 * self.distinct_variance
        return min(chance, (scale, scale**2 * spread), key=lambda each: each[1])

    def unseen_variance(self) -> float:
        """Return the variance that hubs add to pairs of sampled x's, beyond what the sampled pairs show."""
        if len(self.at) == 0:
            return 0.0
        q = self.other_rate
        each = np.bincount(self.at, minlength=len(self.degrees)) / self.rate
        expected = np.maximum(self.degrees, 0) * (1 - q) / q
        return float((each**2 * np.maximum(expected - self.seen * (1 - q) / q**2, 0)).sum())


def hubs_of(side: SideSamples, other: SideSamples, other_side: SketchedSide, *, first: bool) -> Hubs:
    """Return the join values heavier on one side than on the other; ties go to the first side."""
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
    """Return numbers of tuples, with variances, from the filter's counters and the sample on x together."""
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


# Distinct triples (a, b, c) by the filters of both sides, and join values that the samples on b cannot
# hold.
#
# The filters count the rows of join values under one hash function. So the products of their counters, minus what
# values that share a counter would give by chance, add up to the rows of the join: no join value is too heavy or
# too light for this. Rows are converted to distinct triples by the rows per sampled tuple, weighted by what each
# tuple meets.
#
# A join value with more tuples than a level decodes is in no sample on b. Comparing a side's samples with all of
# its rows shows the share of its tuples that they miss. Deviation: the document has no filters.


MANY_COUNTERS = 1000
"""The number of witnesses given for an estimate by filters: a filter has more counters than this."""
_JOINING_UNLIKE = 0.5  # share of the spread of rows per tuple by which joining tuples may differ from others
_RULE_OF_THREE = 3  # tuples of a sample of n may be of a kind that it does not show, out of n + 3
_FILTERS_CONTRADICT = 2.5  # standard errors by which the rows of a sample contradict the filters
_EXPLAINED = 1.5  # standard errors of a sample's rows that are taken for chance


@dataclass(frozen=True)
class Filtered:
    """The number of distinct (a, b, c) by the filters: its standard error, and how many there can be at most.

    doubted: the samples show so few of the rows that either they missed a heavy join value, or a few rows are
    repeated so often that the number is wrong. trusted: the first case is assumed, whatever the samples show.
    """

    value: float
    error: float
    most: float
    doubted: bool = False
    trusted: bool = False

    @property
    def estimate(self) -> CountEstimate:
        """The number as an estimate whose variance is all noise of the filters; nothing where it is not usable."""
        if self.value <= 0 or self.error == inf or (self.doubted and not self.trusted):
            return CountEstimate(0.0, inf, 0, "filters")
        variance = (self.error / self.value) ** 2
        return CountEstimate(self.value, variance, MANY_COUNTERS, "filters", noise=variance)


UNFILTERED = Filtered(0.0, inf, inf)
"""Nothing is known by the filters."""


def triples_by_filters(
    left: SketchedSide, right: SketchedSide, one: SideSamples, two: SideSamples
) -> Filtered:
    """Return the number of distinct (a, b, c) by the product of both sides' filters.

    A join value has at most as many tuples as its counter has rows, which bounds the number of triples.
    """
    slots = min(left.spec.slots, right.spec.slots)
    rows = [_folded(_rows(*each), slots) for each in ((left, one), (right, two))]
    most = inf if any((each < 0).any() for each in rows) else float(rows[0] @ rows[1])
    rows = [each - each.mean() for each in rows]
    product = float(rows[0] @ rows[1]) * slots / (slots - 1)
    squares, own = [float(each @ each) for each in rows], float(((rows[0] * rows[1]) ** 2).sum())
    variance = max(squares[0] * squares[1] + product**2 - 2 * own, 0.0) / slots
    shares = [
        _tuples_per_row(side, decoded, met)
        for side, decoded, met in ((left, one, rows[1]), (right, two, rows[0]))
    ]
    unknown = _unexplained(left, one, rows[1], product) + _unexplained(right, two, rows[0], product)
    doubted = unknown == inf
    variance += 0.0 if doubted else unknown
    scale = shares[0].value * shares[1].value
    unsure = (
        shares[0].variance + shares[1].variance + (_JOINING_UNLIKE * shares[0].spread * shares[1].spread) ** 2
    )
    return Filtered(product * scale, scale * (variance + unsure * product**2) ** 0.5, most, doubted)


def _rows(side: SketchedSide, decoded: SideSamples) -> FloatArray:
    """Return the counters of the filter; for a side that is wholly known, those of its tuples counted once."""
    if decoded.whole:
        found = np.bincount(side.spec.filter_slots(decoded.by_b.b), minlength=side.spec.slots)
        return np.asarray(found, dtype=np.float64)
    return side.spec.filter_counts(side.counters).astype(np.float64)


def _folded(counts: FloatArray, slots: int) -> FloatArray:
    """Return the counters of a filter folded to fewer counters."""
    return np.asarray(counts.reshape(-1, slots).sum(axis=0))


class _PerRow(NamedTuple):
    """Tuples per row among those that join, its relative variance, and the spread of rows per tuple."""

    value: float
    variance: float
    spread: float


def _tuples_per_row(side: SketchedSide, decoded: SideSamples, met: FloatArray) -> _PerRow:
    """Return how many tuples a joining row represents; met: the other side's counters, minus their mean."""
    if decoded.whole:
        return _PerRow(1.0, 0.0, 0.0)
    rows = np.abs(np.concatenate([decoded.by_x.counts, decoded.by_b.counts])).astype(np.float64)
    few = (_RULE_OF_THREE / (len(rows) + _RULE_OF_THREE)) ** 2
    if len(rows) == 0:
        return _PerRow(1.0, inf, 1.0)
    if (rows == rows[0]).all():
        return _PerRow(1 / float(rows[0]), few, 0.0)
    spread = float(rows.std() / rows.mean())
    own, weights, cluster = _weighted(side, decoded, met)
    joining, total = float(weights @ own), float(weights.sum())
    unlike = (_JOINING_UNLIKE * spread) ** 2
    if joining > 0 and total > 0:
        off = np.bincount(cluster, weights * (1 - own * total / joining))
        variance = float((off**2).sum()) / total**2
        if variance < unlike:
            # heavy x's on heavy join values are in no sample, and may be the most repeated
            more = unlike if len(decoded.heavy) else 0.0
            return _PerRow(total / joining, variance + few + more, spread)
    return _PerRow(1 / float(rows.mean()), unlike + spread**2 / len(rows) + few, spread)


def _weighted(
    side: SketchedSide, decoded: SideSamples, met: FloatArray
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Return (rows, what the tuples it represents meet, cluster) of tuples sampled on x, and of heavy x's on b."""
    by_x, by_b = decoded.by_x, chosen(decoded.by_b, np.isin(decoded.by_b.x, decoded.heavy))
    parts = [(by_x, by_x.x), (by_b, by_b.b + np.uint64(1 << 32))]
    rows = np.concatenate([np.abs(sample.counts) for sample, _ in parts]).astype(np.float64)
    weights = np.concatenate(
        [met[side.spec.filter_slots(sample.b) % len(met)] / sample.rate for sample, _ in parts]
    )
    cluster = np.unique(np.concatenate([key for _, key in parts]), return_inverse=True)[1]
    return rows, weights, cluster


def _unexplained(side: SketchedSide, decoded: SideSamples, met: FloatArray, product: float) -> float:
    """Return the variance of the joined rows that a side's own samples do not account for.

    The rows of sampled tuples, each times what its join value meets, estimate the same number. Where they give
    another number, a few tuples that no sample holds have many of the rows. The sample on x lacks x's with many
    tuples, and that on b lacks such join values, so it is enough that one of the two accounts for them.
    """
    if decoded.whole:
        return 0.0
    by_x, by_b = decoded.by_x, decoded.by_b
    on_x, on_b = (sample.counts * met[side.spec.filter_slots(sample.b) % len(met)] for sample in (by_x, by_b))
    heavy = np.isin(by_b.x, decoded.heavy)
    of_heavy, heavy_variance = _scaled_up(by_b.b[heavy], on_b[heavy], by_b.rate)
    found: list[float] = []
    for size, variance in (_scaled_up(by_x.x, on_x, by_x.rate), _scaled_up(by_b.b, on_b, by_b.rate)):
        more, more_variance = (of_heavy, heavy_variance) if not found else (0.0, 0.0)
        off, spread = (product - size - more) ** 2, variance + more_variance
        found.append(inf if off > _FILTERS_CONTRADICT**2 * spread else max(off - _EXPLAINED**2 * spread, 0.0))
    return min(found)


def _scaled_up(sampled: np.ndarray, counts: np.ndarray, rate: float) -> tuple[float, float]:
    """Return the total estimated from sampled counts, and its variance."""
    if len(sampled) == 0:
        return 0.0, 0.0
    each = np.bincount(np.unique(sampled, return_inverse=True)[1], counts)
    return float(each.sum()) / rate, float((each**2).sum()) / rate**2


def missed_share(side: SketchedSide, decoded: SideSamples) -> float:
    """Return an upper estimate of the share of a side's tuples whose join values neither kind of sample counts.

    Values that at most LIGHT sampled x's hold are counted by the sample on b, the others by that on x.
    """
    if decoded.whole:
        return 0.0
    by_x, by_b = decoded.by_x, decoded.by_b
    rows = np.abs(np.concatenate([by_x.counts, by_b.counts])).astype(np.float64)
    if len(rows) == 0:
        return 1.0
    tuples = abs(float(side.spec.filter_counts(side.counters).sum())) / float(rows.mean())
    error = float(rows.std() / rows.mean()) / len(rows) ** 0.5
    values, full = np.unique(by_b.b, return_counts=True)
    held = count_by(by_x.b, values)
    light = np.where(held <= LIGHT, full, np.where(held == LIGHT + 1, held, 0)).astype(np.float64)
    heavy = float((count_by(by_x.b, by_x.b) > LIGHT + 1).sum()) / by_x.rate
    found = float(light.sum()) / by_b.rate + heavy
    spread = (float((light**2).sum()) / by_b.rate**2 + heavy / by_x.rate) ** 0.5 / max(tuples, 1.0)
    return float(min(max(1 - found / max(tuples, 1.0), 0.0) + spread + error, 1.0))
