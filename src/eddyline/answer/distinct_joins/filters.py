"""Distinct triples (a, b, c) by the filters of both sides, and join values that the samples on b cannot hold.

The filters count the rows of join values under one hash function, so that the products of their counters, less what
values that share a counter would give by chance, add up to the rows of the join: no join value is too heavy or
too light for it. Rows become distinct triples by the rows that sampled tuples have, weighted by what each meets.

A join value with more tuples than a level decodes is in no sample on b. What share of a side's tuples its samples
miss shows when they are set against all of its rows.
Deviation: the document has no filters.
"""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from eddyline.answer.distinct_joins.estimate import Estimate
from eddyline.answer.distinct_joins.hubs import LIGHT
from eddyline.answer.distinct_joins.samples import SideSamples, SketchedSide, chosen, count_by
from eddyline.answer.interval import FloatArray

MANY_COUNTERS = 1000
"""Of a filter, which has more than these: what an estimate by filters rests on."""
_UNLIKE = 0.5  # of the spread of rows per tuple: how far joining tuples may be off the others
_RULE_OF_THREE = 3  # tuples of a sample of n may be of a kind that it does not show, out of n + 3
_CONTRADICTS = 2.5  # standard errors by which the rows of a sample contradict the filters
_EXPLAINED = 1.5  # standard errors of a sample's rows that are taken for chance


@dataclass(frozen=True)
class Filtered:
    """The number of distinct (a, b, c) by the filters: its standard error, and how many there can be at most.

    doubted: the samples show so few of the rows that either a heavy join value escaped them, or a few rows are repeated
    so often that the number is wrong. trusted: it is read as if the first were so, whatever the samples say.
    """

    value: float
    error: float
    most: float
    doubted: bool = False
    trusted: bool = False

    @property
    def estimate(self) -> Estimate:
        """The number as an estimate, all of whose variance is noise of the filters; none where that is of no use."""
        if self.value <= 0 or self.error == inf or (self.doubted and not self.trusted):
            return Estimate(0.0, inf, 0, "filters")
        variance = (self.error / self.value) ** 2
        return Estimate(self.value, variance, MANY_COUNTERS, "filters", noise=variance)


UNFILTERED = Filtered(0.0, inf, inf)
"""Nothing is known by the filters."""


def triples_by_filters(
    left: SketchedSide, right: SketchedSide, one: SideSamples, two: SideSamples
) -> Filtered:
    """Return the number of distinct (a, b, c) by the product of both sides' filters.

    A join value has no more tuples than its counter has rows, which tells how many there can be.
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
    unsure = shares[0].variance + shares[1].variance + (_UNLIKE * shares[0].spread * shares[1].spread) ** 2
    return Filtered(product * scale, scale * (variance + unsure * product**2) ** 0.5, most, doubted)


def _rows(side: SketchedSide, decoded: SideSamples) -> FloatArray:
    """Return the counters of the filter; of a side that is known whole, those of its tuples counted once."""
    if decoded.whole:
        found = np.bincount(side.spec.filter_slots(decoded.by_b.b), minlength=side.spec.slots)
        return np.asarray(found, dtype=np.float64)
    return side.spec.filter_counts(side.counters).astype(np.float64)


def _folded(counts: FloatArray, slots: int) -> FloatArray:
    """Return the counters of a filter as one of fewer counters has them."""
    return np.asarray(counts.reshape(-1, slots).sum(axis=0))


class _PerRow(NamedTuple):
    """Tuples per row among those that join, the relative variance of that, and the spread of rows per tuple."""

    value: float
    variance: float
    spread: float


def _tuples_per_row(side: SketchedSide, decoded: SideSamples, met: FloatArray) -> _PerRow:
    """Return how many tuples a joining row stands for; met: the other side's counters, less their mean."""
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
    unlike = (_UNLIKE * spread) ** 2
    if joining > 0 and total > 0:
        off = np.bincount(cluster, weights * (1 - own * total / joining))
        variance = float((off**2).sum()) / total**2
        if variance < unlike:
            # heavy x's on heavy join values are in no sample, and may be repeated most
            more = unlike if len(decoded.heavy) else 0.0
            return _PerRow(total / joining, variance + few + more, spread)
    return _PerRow(1 / float(rows.mean()), unlike + spread**2 / len(rows) + few, spread)


def _weighted(
    side: SketchedSide, decoded: SideSamples, met: FloatArray
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Return (rows, what all that a tuple stands for meet, its cluster) of the sample on x, and of heavy x's on b."""
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

    The rows of sampled tuples, each times what its join value meets, tell of the same number. Where they tell of
    another, a few tuples that no sample holds have many of the rows. As the sample on x lacks x's with many tuples, and
    that on b such join values, it is enough that one of the two accounts for them.
    """
    if decoded.whole:
        return 0.0
    by_x, by_b = decoded.by_x, decoded.by_b
    on_x, on_b = (sample.counts * met[side.spec.filter_slots(sample.b) % len(met)] for sample in (by_x, by_b))
    heavy = np.isin(by_b.x, decoded.heavy)
    of_heavy, heavy_variance = _told(by_b.b[heavy], on_b[heavy], by_b.rate)
    found: list[float] = []
    for told, variance in (_told(by_x.x, on_x, by_x.rate), _told(by_b.b, on_b, by_b.rate)):
        more, more_variance = (of_heavy, heavy_variance) if not found else (0.0, 0.0)
        off, spread = (product - told - more) ** 2, variance + more_variance
        found.append(inf if off > _CONTRADICTS**2 * spread else max(off - _EXPLAINED**2 * spread, 0.0))
    return min(found)


def _told(sampled: np.ndarray, counts: np.ndarray, rate: float) -> tuple[float, float]:
    """Return the total that sampled counts tell of, and its variance."""
    if len(sampled) == 0:
        return 0.0, 0.0
    each = np.bincount(np.unique(sampled, return_inverse=True)[1], counts)
    return float(each.sum()) / rate, float((each**2).sum()) / rate**2


def missed_share(side: SketchedSide, decoded: SideSamples) -> float:
    """Return an upper estimate of the share of a side's tuples whose join values neither kind of sample counts.

    Counted are values that at most LIGHT sampled x's hold by the sample on b, and others by that on x.
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
