"""Estimates of the two-sided and full forms from coordinated samples, each with its own variance.

p, q: the rates of the samples on a and on c; r: that of the join values sampled on both sides.
The formulas are in docs/concepts/join-distinct.md.
"""

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np

from eddyline.answer.distinct_joins.estimate import Estimate
from eddyline.answer.distinct_joins.filters import UNFILTERED, Filtered
from eddyline.answer.distinct_joins.hubs import FEWEST_VALUES, LIGHT, MANY, Hubs
from eddyline.answer.distinct_joins.samples import Joined, SideSamples, count_by, join, thinned_b
from eddyline.answer.interval import FloatArray
from eddyline.sketch.join_distinct import Tuples

_CONTRADICTS = 3.0  # standard errors by which two estimates of one number are apart
_APART = 2.0  # standard errors of the samples that the filters are above them, for both to be shown
_HELD = 0.8  # the share of heavy x's that hold a heavy join value
FEW_VALUES, FEW_PAIRS, MANY_WITNESSES = 8, 3, 0.05


@dataclass(frozen=True)
class Samples:
    """Both sides decoded, their samples on x joined, and their samples on b at common levels.

    The samples on b may or may not hold heavy x's; if so, their numbers are given. hubs: join values that are heavy
    on the left side and less so on the right, and the other way round. filtered: the number of triples by both
    sides' filters. missed: of each side, the share of tuples that no sample may count.
    """

    left: SideSamples
    right: SideSamples
    joined: Joined
    b_left: Tuples
    b_right: Tuples
    hubs: tuple[Hubs, Hubs]
    heavy_left: int = 0
    heavy_right: int = 0
    filtered: Filtered = UNFILTERED
    missed: tuple[float, float] = (0.0, 0.0)

    @property
    def p(self) -> float:
        """The rate of the sample on a."""
        return self.left.by_x.rate

    @property
    def q(self) -> float:
        """The rate of the sample on c."""
        return self.right.by_x.rate

    @property
    def r(self) -> float:
        """The rate of the join values sampled on both sides."""
        return self.b_left.rate


def pair_variance(u: FloatArray, joined: Joined, p: float, q: float) -> float:
    """Return the estimated variance of sum(u)/(pq) over sampled pairs."""
    own = float((u**2).sum())
    by_a = float((np.bincount(joined.a, u) ** 2).sum()) - own
    by_c = float((np.bincount(joined.c, u) ** 2).sum()) - own
    return ((1 - p) * by_a + (1 - q) * by_c + (1 - p * q) * own) / (p * q) ** 2


def horvitz_thompson(u: FloatArray, samples: Samples) -> tuple[float, float]:
    """Return the total of u over all pairs, and its variance: sampled pairs over their chance."""
    p, q = samples.p, samples.q
    return float(u.sum()) / (p * q), pair_variance(u, samples.joined, p, q)


def hajek(u: FloatArray, samples: Samples) -> tuple[float, float]:
    """Return the total of u over all pairs, and its variance: the mean over sampled (a, c), times the numbers
    of a and of c.
    """  # noqa: D205
    joined, left, right, p, q = samples.joined, samples.left, samples.right, samples.p, samples.q
    number_a, number_c = len(np.unique(left.by_x.x)), len(np.unique(right.by_x.x))
    if min(number_a, number_c) < FEWEST_VALUES:
        return 0.0, inf
    own, mine = float((u**2).sum()), float(u.sum())
    by_a = float((np.bincount(joined.a, u) ** 2).sum()) - mine**2 / number_a
    by_c = float((np.bincount(joined.c, u) ** 2).sum()) - mine**2 / number_c
    spread = (1 - p) * max(by_a - own, 0) + (1 - q) * max(by_c - own, 0) + (1 - p * q) * own
    value = left.distinct * right.distinct * mine / (number_a * number_c)
    relative = spread / mine**2 + left.distinct_variance + right.distinct_variance
    return value, relative * value**2


def pair_total(u: FloatArray, samples: Samples) -> tuple[float, float]:
    """Return the total of u over all pairs, and its variance, the way that has the smaller one."""
    return min(horvitz_thompson(u, samples), hajek(u, samples), key=lambda estimate: estimate[1])


def by_pairs(samples: Samples) -> Estimate:
    """Return the number of pairs from the samples on x alone."""
    return _from_total(np.ones(samples.joined.pairs), samples, "pairs")


def full_by_pairs(samples: Samples) -> Estimate:
    """Return the number of distinct (a, b, c) from the samples on x alone, where these hold every x."""
    if len(samples.left.heavy) + len(samples.right.heavy) > 0:
        return Estimate(0.0, inf, 0, "triples")
    return _from_total(samples.joined.witnesses.astype(np.float64), samples, "triples")


def _from_total(u: FloatArray, samples: Samples, method: str) -> Estimate:
    if len(u) == 0:
        return Estimate(0.0, inf, 0, method)
    value, variance = pair_total(u, samples)
    variance += sum(hubs.unseen_variance() for hubs in samples.hubs)
    return Estimate(value, variance / value**2, int(u.sum()), method, by_x=1.0)


def _light_degree(full: np.ndarray, sampled: np.ndarray) -> np.ndarray:
    """Return how many tuples of a join value are light: those with at most LIGHT *other* sampled x's."""
    return np.where(sampled <= LIGHT, full, np.where(sampled == LIGHT + 1, sampled, 0))


def all_triples(samples: Samples) -> Estimate:
    """Return the number of distinct (a, b, c): by the filters or by the samples, whichever is more precise.

    The samples do not count where the filters contradict them.
    """
    sampled, filters = _sampled_triples(samples), samples.filtered.estimate
    if samples.filtered.trusted and filters.variance < inf:
        return filters
    if filters.variance == inf or (sampled.variance == inf and filters.variance * _CONTRADICTS**2 > 1):
        return sampled  # where the samples show nothing, no more than chance may give by the filters is nothing too
    errors = sampled.variance * sampled.value**2 + filters.variance * filters.value**2
    contradicted = abs(sampled.value - filters.value) > _CONTRADICTS * errors**0.5
    return filters if contradicted or filters.variance <= sampled.variance else sampled


def may_be_more(samples: Samples) -> bool:
    """Return whether the filters tell of more triples than the samples, by more than either's error."""
    sampled, filters = _sampled_triples(samples), samples.filtered.estimate
    if inf in (sampled.variance, filters.variance) or filters.variance <= sampled.variance:
        return False
    more = filters.value - sampled.value
    errors = [estimate.value * sqrt(estimate.variance) for estimate in (sampled, filters)]
    return more > max(_APART * errors[0], errors[1])


def _sampled_triples(samples: Samples) -> Estimate:
    """Return J'', which may miss as large a share of the join as its samples do of either side's tuples."""
    sampled = full_projection(samples)
    return replace(sampled, variance=sampled.variance + sum(share**2 for share in samples.missed))


def full_projection(samples: Samples) -> Estimate:
    """Return J'', the number of distinct (a, b, c): light join values by the samples on b, heavy by those on x.

    The class of a triple never depends on its own sampling, so that the sum is unbiased.
    """
    light = _light_triples(samples)
    value = float(light.sum()) / samples.r if samples.r > 0 else 0.0
    variance = (1 - samples.r) * float((light**2).sum()) / samples.r**2 if samples.r > 0 else 0.0
    heavy, heavy_variance, noise, seen = _heavy_triples(samples)
    total = value + heavy
    if total == 0:
        return Estimate(0.0, inf, 0, "J''")
    variance += heavy_variance + noise
    seen += int((light > 0).sum())
    square = total**2
    return Estimate(total, variance / square, seen, "J''", by_x=heavy / total, noise=noise / square)


def _light_triples(samples: Samples) -> FloatArray:
    """Return the number of light triples of each join value sampled on both sides."""
    values = np.unique(samples.b_left.b)
    one, two = (
        _light_degree(count_by(on_b.b, values), count_by(side.by_x.b, values))
        for on_b, side in ((samples.b_left, samples.left), (samples.b_right, samples.right))
    )
    return np.asarray(one * two, dtype=np.float64)


def _heavy_triples(samples: Samples) -> tuple[float, float, float, int]:
    """Return the number of triples of heavy join values, its variance, the filter's, and how many were seen.

    Those that are heavy on one side, and less so on the other, are hubs. Heavy x's, which the samples on x lack, are
    taken to hold most heavy join values.
    """
    of_left, of_right = samples.hubs
    one, one_variance, one_noise = of_left.triples(_HELD * samples.heavy_left)
    two, two_variance, two_noise = of_right.triples(_HELD * samples.heavy_right)
    both, both_variance, seen = _triples_heavy_on_both(samples)
    value = max(one + two + both, 0.0)
    variance, seen = one_variance + two_variance + both_variance, seen + len(of_left.at) + len(of_right.at)
    return value, variance, one_noise + two_noise, seen


def _triples_heavy_on_both(samples: Samples) -> tuple[float, float, int]:
    """Return the number of triples of join values as heavy on both sides, its variance, and how many were seen."""
    joined, left, right = samples.joined, samples.left, samples.right
    n_a, n_c = count_by(left.by_x.b, joined.b), count_by(right.by_x.b, joined.b)
    heavy = np.minimum(n_a, n_c) >= MANY
    if not heavy.any():
        return 0.0, 0.0, 0
    u = np.asarray(np.bincount(joined.pair_of, heavy, minlength=joined.pairs), dtype=np.float64)
    value, variance = pair_total(u, samples)
    more_a = _HELD * samples.heavy_left * samples.p / n_a[heavy]
    more_c = _HELD * samples.heavy_right * samples.q / n_c[heavy]
    missing = float(((1 + more_a) * (1 + more_c)).mean())
    variance = variance * missing**2 + (0.5 * value * (missing - 1)) ** 2
    return value * missing, variance, int(heavy.sum())


def _many_share(samples: Samples) -> float:
    """Return an upper estimate of how many tuples share their x, on the side where fewer do."""
    shares = []
    for side in (samples.left, samples.right):
        degrees = count_by(side.by_x.x, side.by_x.x)
        few = 3 / max(len(degrees), 1)
        shares.append(min(1.0, float((degrees >= 2).sum()) / max(len(degrees), 1) + few))
    return min(shares)


def pairs_per_triple(samples: Samples, triples: Estimate) -> Estimate:
    """Return the J-ratio: distinct (a, b, c) times the share of sampled triples that are new pairs."""
    joined = samples.joined
    if triples.value == 0:
        return Estimate(0.0, inf, 0, "J-ratio")
    share, spread = 1.0, 0.0
    if joined.pairs:
        share = joined.pairs / joined.triples
        u = np.asarray(1 - joined.witnesses * share, dtype=np.float64)
        spread = pair_variance(u, joined, samples.p, samples.q) * (samples.p * samples.q / joined.pairs) ** 2
    floor = (2 * _many_share(samples) / (joined.pairs + 3)) ** 2
    variance = spread + triples.variance + floor
    return Estimate(
        triples.value * share,
        variance,
        triples.witnesses,
        "J-ratio",
        by_x=triples.by_x,
        noise=triples.noise,
    )


def thin_pairs(samples: Samples, triples: Estimate) -> Estimate:
    """Return an estimate where hardly any pair was sampled: distinct (a, b, c) over the mean number of
    witnesses, as the samples on b show it; flagged, because witnesses differ between pairs.
    """  # noqa: D205
    if triples.value == 0 or samples.r == 0:
        return Estimate(0.0, inf, 0, "thin", thin=True)
    one, two = thinned_b(samples.b_left, samples.b_right)
    j = join(one, two).witnesses.astype(np.float64)
    once, more = float(j.sum()) / one.rate, float((j * (j - 1)).sum()) / one.rate**2
    share = once / (once + more) if once else 1.0
    unseen = _many_share(samples)
    variance = triples.variance + (1 - share) ** 2 + unseen**2 / 4
    return Estimate(
        triples.value * share, variance, triples.witnesses, "thin", thin=True, noise=triples.noise
    )


def is_thin(samples: Samples) -> bool:
    """Return whether the samples on x say too little about how many witnesses a pair has."""
    values = min(len(np.unique(side.by_x.x)) for side in (samples.left, samples.right))
    few = values < FEW_VALUES or samples.joined.pairs < FEW_PAIRS
    return few and _many_share(samples) > MANY_WITNESSES
