"""What the samples of the two sides of a join show: tuples, joined pairs, common join values."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.join_distinct import JoinDistinctSpec, Tuples
from eddyline.sketch.peeling import DistinctSample

_MOSTLY = 0.5  # the rate from which on the sample of distinct x is enough by itself
_FEWEST_SIGHTS = 6  # sightings of a heavy x in the sample on b
MOST_PAIRS = 20_000_000
"""Most joined pairs that are counted one by one; beyond that, an estimate is quicker."""
MOST_TRIPLES = 4_000_000  # joined sampled triples held at once; beyond that the samples are thinned


class SketchedSide(NamedTuple):
    """One side of the join: its spec and counters."""

    spec: JoinDistinctSpec
    counters: Int64Array


class SideSamples(NamedTuple):
    """One side, decoded.

    `heavy` are x's with too many tuples: no level with one of them decodes, so `by_x` lacks them, and `by_b` shows
    them. `distinct` is the number of the other x's, with its relative variance. `whole`: all tuples are known.
    """

    by_x: Tuples
    by_b: Tuples
    distinct: float
    distinct_variance: float
    heavy: np.ndarray
    whole: bool


def decode_side(side: SketchedSide) -> SideSamples:
    """Return what the counters of a side show; where one sample is whole, it replaces both."""
    spec, counters = side
    by_x, by_b = spec.tuples_by_x(counters), spec.tuples_by_b(counters)
    for sample in (by_x, by_b):
        if sample.complete.all():
            whole, none = sample._replace(rate=1.0), np.empty(0, dtype=np.uint64)
            return SideSamples(whole, whole, float(len(np.unique(sample.x))), 0.0, none, True)
    heavy = _heavy_x(by_b, spec.cells)
    by_x = without_values(by_x, heavy)
    distinct = spec.distinct_x(counters)
    number, variance = _light_number(by_x, distinct, len(heavy))
    return SideSamples(by_x, by_b, number, variance, heavy, False)


def _light_number(by_x: Tuples, distinct: DistinctSample, heavy: int) -> tuple[float, float]:
    """Return the number of x's that are not heavy, and its relative variance, from both samples of them."""
    own, others = len(np.unique(by_x.x)), len(distinct.keys) - heavy * distinct.rate
    if distinct.rate >= _MOSTLY:
        return max(others / distinct.rate, float(own)), (1 - distinct.rate) / max(others, 1)
    number, rate = max(own + others, float(own)), by_x.rate + distinct.rate
    spread = by_x.rate * (1 - by_x.rate) + distinct.rate * (1 - distinct.rate)
    return number / rate, spread / (rate * max(number, 1))


def _heavy_x(by_b: Tuples, cells: int) -> np.ndarray:
    """Return the x's with at least about a quarter as many tuples as a level has cells."""
    x, times = np.unique(by_b.x, return_counts=True)
    return np.asarray(x[times >= max(_FEWEST_SIGHTS, by_b.rate * cells / 4)])


def without_values(sample: Tuples, x: np.ndarray) -> Tuples:
    """Return the sample without the tuples of some x's."""
    return chosen(sample, ~np.isin(sample.x, x))


def chosen(sample: Tuples, inside: np.ndarray) -> Tuples:
    """Return the tuples of a sample at which `inside` is true, with its rate."""
    return sample._replace(
        x=sample.x[inside],
        b=sample.b[inside],
        counts=sample.counts[inside],
        levels=sample.levels[inside],
    )


def check_sides(left: JoinDistinctSpec, right: JoinDistinctSpec) -> None:
    """Raise unless the two sides sample the same join values, and their own x independently."""
    if left.seed != right.seed:
        raise IncompatibleSpecs(
            f"these join-distinct synopses differ in their seeds and cannot be joined: {left} and {right}; "
            "build both from one plan."
        )
    if left.side == right.side:
        raise IncompatibleSpecs(
            f"both synopses were built for side {left.side} of a join: build one with side 0, one with side 1."
        )


def restrict(sample: Tuples, keep: np.ndarray, rates: np.ndarray) -> Tuples:
    """Return the sample at those of its complete levels for which `keep` is true."""
    kept = sample.complete & keep
    rate = float(rates[kept].sum())
    return chosen(sample, kept[sample.levels])._replace(complete=kept, rate=rate)


def _lowered(sample: Tuples, levels: int) -> Tuples:
    """Return the sample as if its table had `levels` levels, the last holding all further ones."""
    complete = sample.complete[:levels].copy()
    complete[-1] = sample.complete[levels - 1 :].all()
    lowered = sample._replace(levels=np.minimum(sample.levels, levels - 1), complete=complete)
    return chosen(lowered, complete[lowered.levels])


def common_b(left: SideSamples, right: SideSamples, rates: np.ndarray) -> tuple[Tuples, Tuples]:
    """Return both samples on b at the levels known on both sides, with only the values that join.

    A side that is wholly known is known at every level, whatever level its tuples were decoded from. `rates` are
    those of the levels of the table with fewer levels.
    """
    one, two = (_lowered(side.by_b, len(rates)) for side in (left, right))
    if not right.whole:
        one = one if left.whole else restrict(one, two.complete, rates)
    if not left.whole:
        two = two if right.whole else restrict(two, one.complete, rates)
    rate = min(one.rate, two.rate)
    first, second = chosen(one, np.isin(one.b, two.b)), chosen(two, np.isin(two.b, one.b))
    return first._replace(rate=rate), second._replace(rate=rate)


@dataclass(frozen=True)
class JoinedPairs:
    """Joined pairs of two samples of tuples: a, c (indices) and witnesses of each; and every triple's b."""

    a: Int64Array
    c: Int64Array
    witnesses: Int64Array
    pair_of: Int64Array
    b: np.ndarray

    @property
    def pairs(self) -> int:
        """The number of distinct pairs."""
        return len(self.a)

    @property
    def triples(self) -> int:
        """The number of distinct triples."""
        return len(self.b)


def _triples(left: np.ndarray, right: np.ndarray) -> int:
    """Return the number of pairs of equal values."""
    values, times = np.unique(right, return_counts=True)
    at = np.minimum(np.searchsorted(values, left), max(len(values) - 1, 0))
    return int(times[at][values[at] == left].sum()) if len(values) else 0


def _halved(sample: Tuples, values: np.ndarray, share: float) -> Tuples:
    """Return the tuples whose value is below `share` of all values: half of those below twice the share.

    Values are fingerprints, hence uniform; tuples above twice the share are already removed.
    """
    return chosen(sample, values < share * 2.0**32)._replace(rate=sample.rate / 2)


def thinned_x(left: Tuples, right: Tuples) -> tuple[Tuples, Tuples]:
    """Return both samples on x, the larger one thinned until their join is small enough."""
    one, two = 1.0, 1.0
    while _triples(left.b, right.b) > MOST_TRIPLES:
        if len(left.b) >= len(right.b):
            one /= 2
            left = _halved(left, left.x, one)
        else:
            two /= 2
            right = _halved(right, right.x, two)
    return left, right


def thinned_b(left: Tuples, right: Tuples) -> tuple[Tuples, Tuples]:
    """Return both samples on b, thinned alike until their join is small enough."""
    share = 1.0
    while _triples(left.b, right.b) > MOST_TRIPLES:
        share /= 2
        left, right = _halved(left, left.b, share), _halved(right, right.b, share)
    return left, right


def join(left: Tuples, right: Tuples) -> JoinedPairs:
    """Return the join of two samples of tuples on b."""
    order = np.argsort(right.b, kind="stable")
    values = right.b[order]
    first, last = np.searchsorted(values, left.b), np.searchsorted(values, left.b, side="right")
    times = last - first
    at_left = np.repeat(np.arange(len(left.b)), times)
    offset = np.arange(len(at_left)) - np.repeat(np.cumsum(times) - times, times)
    at_right = order[np.repeat(first, times) + offset]
    a = np.unique(left.x, return_inverse=True)[1][at_left]
    xs, c_all = np.unique(right.x, return_inverse=True)
    codes, pair_of, witnesses = np.unique(
        a * max(len(xs), 1) + c_all[at_right], return_inverse=True, return_counts=True
    )
    width = max(len(xs), 1)
    return JoinedPairs(codes // width, codes % width, witnesses, pair_of, left.b[at_left])


def count_by(values: np.ndarray, wanted: np.ndarray) -> Int64Array:
    """Return how often each wanted value occurs among the values."""
    unique, times = np.unique(values, return_counts=True)
    if len(unique) == 0:
        return np.zeros(len(wanted), dtype=np.int64)
    at = np.minimum(np.searchsorted(unique, wanted), len(unique) - 1)
    return np.where(unique[at] == wanted, times[at], 0)


# An estimate of a distinct count over a join, before it becomes a reading.


@dataclass(frozen=True)
class CountEstimate:
    """A value with its relative variance, what it is based on, and how it was computed.

    `by_x` is the share of the value from the samples on x; the rest is from those on b. `noise` is the part of the
    variance that comes from the filter; it is known even if witnesses are few.
    """

    value: float
    variance: float
    witnesses: int
    method: str
    by_x: float = 0.0
    thin: bool = False
    noise: float = 0.0
