"""Estimates of the two-sided, full and semi-join forms from coordinated samples, each with its variance."""

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from eddyline.answer.distinct_joins.filters import FEWEST_VALUES, LIGHT, MANY, UNFILTERED, Filtered, Hubs
from eddyline.answer.distinct_joins.samples import (
    CountEstimate,
    JoinedPairs,
    SideSamples,
    SketchedSide,
    chosen,
    count_by,
    join,
    thinned_b,
    without_values,
)
from eddyline.answer.interval import FloatArray
from eddyline.sketch.join_distinct import Tuples

# The two-sided and full forms.
#
# p, q: the rates of the samples on a and on c; r: that of the join values sampled on both sides. The
# formulas are in docs/internals/join-distinct.md.


_CONTRADICTS = 3.0  # standard errors from which on two estimates of one number contradict each other
_APART = 2.0  # both are shown where the filters exceed the samples by this many of their standard errors
_HELD = 0.8  # the share of heavy x's that hold a heavy join value
FEW_VALUES, FEW_PAIRS, MANY_WITNESSES = 8, 3, 0.05


@dataclass(frozen=True)
class Samples:
    """Both sides decoded, their samples on x joined, and their samples on b at common levels.

    The samples on b may or may not hold heavy x's; if so, their numbers are given. hubs: join values that are heavy
    on the left side and less so on the right, and the other way round. filtered: the number of triples by both
    sides' filters. missed: for each side, the share of tuples that no sample may count.
    """

    left: SideSamples
    right: SideSamples
    joined: JoinedPairs
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


def pair_variance(u: FloatArray, joined: JoinedPairs, p: float, q: float) -> float:
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
    """Return the total of u over all pairs, and its variance.

    The total is the mean over sampled (a, c), times the numbers of a and of c.
    """
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
    """Return the total of u over all pairs, and its variance, by the method with the smaller variance."""
    return min(horvitz_thompson(u, samples), hajek(u, samples), key=lambda estimate: estimate[1])


def by_pairs(samples: Samples) -> CountEstimate:
    """Return the number of pairs from the samples on x alone."""
    return _from_total(np.ones(samples.joined.pairs), samples, "pairs")


def full_by_pairs(samples: Samples) -> CountEstimate:
    """Return the number of distinct (a, b, c) from the samples on x alone, where they hold every x."""
    if len(samples.left.heavy) + len(samples.right.heavy) > 0:
        return CountEstimate(0.0, inf, 0, "triples")
    return _from_total(samples.joined.witnesses.astype(np.float64), samples, "triples")


def _from_total(u: FloatArray, samples: Samples, method: str) -> CountEstimate:
    if len(u) == 0:
        return CountEstimate(0.0, inf, 0, method)
    value, variance = pair_total(u, samples)
    variance += sum(hubs.unseen_variance() for hubs in samples.hubs)
    return CountEstimate(value, variance / value**2, int(u.sum()), method, by_x=1.0)


def _light_degree(full: np.ndarray, sampled: np.ndarray) -> np.ndarray:
    """Return how many tuples of a join value are light: those with at most LIGHT *other* sampled x's."""
    return np.where(sampled <= LIGHT, full, np.where(sampled == LIGHT + 1, sampled, 0))


def all_triples(samples: Samples) -> CountEstimate:
    """Return the number of distinct (a, b, c): by the filters or by the samples, whichever is more precise.

    The samples are ignored where the filters contradict them.
    """
    sampled, filters = _sampled_triples(samples), samples.filtered.estimate
    if samples.filtered.trusted and filters.variance < inf:
        return filters
    if filters.variance == inf or (sampled.variance == inf and filters.variance * _CONTRADICTS**2 > 1):
        return sampled  # where the samples show nothing, a count by the filters within chance is nothing, too
    errors = sampled.variance * sampled.value**2 + filters.variance * filters.value**2
    contradicted = abs(sampled.value - filters.value) > _CONTRADICTS * errors**0.5
    return filters if contradicted or filters.variance <= sampled.variance else sampled


def may_be_more(samples: Samples) -> bool:
    """Return whether the filters show more triples than the samples, by more than either's error."""
    sampled, filters = _sampled_triples(samples), samples.filtered.estimate
    if inf in (sampled.variance, filters.variance) or filters.variance <= sampled.variance:
        return False
    more = filters.value - sampled.value
    errors = [estimate.value * sqrt(estimate.variance) for estimate in (sampled, filters)]
    return more > max(_APART * errors[0], errors[1])


def _sampled_triples(samples: Samples) -> CountEstimate:
    """Return J'', which may miss as large a share of the join as its samples miss of either side's tuples."""
    sampled = full_projection(samples)
    return replace(sampled, variance=sampled.variance + sum(share**2 for share in samples.missed))


def full_projection(samples: Samples) -> CountEstimate:
    """Return J'', the number of distinct (a, b, c): light join values by the samples on b, heavy by those on x.

    The class of a triple never depends on its own sampling, so the sum is unbiased.
    """
    light = _light_triples(samples)
    value = float(light.sum()) / samples.r if samples.r > 0 else 0.0
    variance = (1 - samples.r) * float((light**2).sum()) / samples.r**2 if samples.r > 0 else 0.0
    heavy, heavy_variance, noise, seen = _heavy_triples(samples)
    total = value + heavy
    if total == 0:
        return CountEstimate(0.0, inf, 0, "J''")
    variance += heavy_variance + noise
    seen += int((light > 0).sum())
    square = total**2
    return CountEstimate(total, variance / square, seen, "J''", by_x=heavy / total, noise=noise / square)


def _light_triples(samples: Samples) -> FloatArray:
    """Return the number of light triples of each join value sampled on both sides."""
    values = np.unique(samples.b_left.b)
    one, two = (
        _light_degree(count_by(on_b.b, values), count_by(side.by_x.b, values))
        for on_b, side in ((samples.b_left, samples.left), (samples.b_right, samples.right))
    )
    return np.asarray(one * two, dtype=np.float64)


def _heavy_triples(samples: Samples) -> tuple[float, float, float, int]:
    """Return the triples of heavy join values: number, variance, the filter's variance, and how many were seen.

    Values that are heavier on one side than on the other are hubs. Heavy x's, which the samples on x lack, are
    assumed to hold most heavy join values.
    """
    of_left, of_right = samples.hubs
    one, one_variance, one_noise = of_left.triples(_HELD * samples.heavy_left)
    two, two_variance, two_noise = of_right.triples(_HELD * samples.heavy_right)
    both, both_variance, seen = _triples_heavy_on_both(samples)
    value = max(one + two + both, 0.0)
    variance, seen = one_variance + two_variance + both_variance, seen + len(of_left.at) + len(of_right.at)
    return value, variance, one_noise + two_noise, seen


def _triples_heavy_on_both(samples: Samples) -> tuple[float, float, int]:
    """Return the triples of join values as heavy on both sides: number, variance, and how many were seen."""
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


def pairs_per_triple(samples: Samples, triples: CountEstimate) -> CountEstimate:
    """Return the J-ratio: distinct (a, b, c) times the share of sampled triples that are new pairs."""
    joined = samples.joined
    if triples.value == 0:
        return CountEstimate(0.0, inf, 0, "J-ratio")
    share, spread = 1.0, 0.0
    if joined.pairs:
        share = joined.pairs / joined.triples
        u = np.asarray(1 - joined.witnesses * share, dtype=np.float64)
        spread = pair_variance(u, joined, samples.p, samples.q) * (samples.p * samples.q / joined.pairs) ** 2
    floor = (2 * _many_share(samples) / (joined.pairs + 3)) ** 2
    variance = spread + triples.variance + floor
    return CountEstimate(
        triples.value * share,
        variance,
        triples.witnesses,
        "J-ratio",
        by_x=triples.by_x,
        noise=triples.noise,
    )


def thin_pairs(samples: Samples, triples: CountEstimate) -> CountEstimate:
    """Return an estimate where hardly any pair was sampled.

    It is distinct (a, b, c) over the mean number of witnesses, as the samples on b show it. It is flagged, because
    witnesses differ between pairs.
    """
    if triples.value == 0 or samples.r == 0:
        return CountEstimate(0.0, inf, 0, "thin", thin=True)
    one, two = thinned_b(samples.b_left, samples.b_right)
    j = join(one, two).witnesses.astype(np.float64)
    once, more = float(j.sum()) / one.rate, float((j * (j - 1)).sum()) / one.rate**2
    share = once / (once + more) if once else 1.0
    unseen = _many_share(samples)
    variance = triples.variance + (1 - share) ** 2 + unseen**2 / 4
    return CountEstimate(
        triples.value * share, variance, triples.witnesses, "thin", thin=True, noise=triples.noise
    )


def is_thin(samples: Samples) -> bool:
    """Return whether the samples on x show too little of how many witnesses a pair has."""
    values = min(len(np.unique(side.by_x.x)) for side in (samples.left, samples.right))
    few = values < FEW_VALUES or samples.joined.pairs < FEW_PAIRS
    return few and _many_share(samples) > MANY_WITNESSES


# Estimates of the semi-join form: distinct x of the left side that join with at least one tuple of the
# right.
#
# Whether a sampled x joins is known where its join values are at levels that the right side decoded, or were seen
# there at all. For the others the right side's filter is used, corrected for its fill: the share of joining values
# is fitted, and each value in the filter joins with the chance that this share gives it. Paper: join-distinct,
# paragraph 0062. Ours: docs/internals/join-distinct.md.


_FEWEST_JOINS = 0.5  # joins expected among the sampled tuples that an estimate needs


class Membership(NamedTuple):
    """The chance that each sampled left tuple joins, and that chance if the fitted share is off by its error."""

    chance: FloatArray
    shifted: FloatArray


def _fitted_share(hits: float, misses: float, seen: np.ndarray, fill: float) -> tuple[float, float]:
    """Return the share of values that join, with its standard error: from known values, and other filter bits."""
    low, high, known = 0.0, 1.0, hits + misses
    for _ in range(50):  # the slope of the likelihood falls with the share
        share = (low + high) / 2
        slope = hits / share - (misses + float((~seen).sum())) / (1 - share)
        slope += float(seen.sum()) * (1 - fill) / (share + (1 - share) * fill)
        low, high = (share, high) if slope > 0 else (low, share)
    bit = share + (1 - share) * fill
    spread = max(share * (1 - share), 0.25 / max(known + len(seen), 1))
    information = known / spread
    if fill < 1:
        information += len(seen) * (1 - fill) ** 2 / max(bit * (1 - bit), 1e-6)
    return share, min(0.5, information**-0.5) if information else 0.5


def _known_values(samples: Samples, right: SketchedSide) -> tuple[float, float]:
    """Return how many join values of the left sample on b join and do not, weighted by their tuples."""
    b = samples.left.by_b.b
    known = b[samples.right.by_b.complete[right.spec.by_b.level_of(b)]]
    if len(known) == 0:
        return 0.0, 0.0
    share, number = float(np.isin(known, samples.right.by_b.b).mean()), len(np.unique(known))
    return share * number, (1 - share) * number


def membership(samples: Samples, right: SketchedSide) -> Membership:
    """Return how likely each tuple of the left sample on x joins."""
    b, side = samples.left.by_x.b, samples.right
    present = np.isin(b, side.by_b.b) | np.isin(b, side.by_x.b)
    if side.whole:
        return Membership(present.astype(np.float64), present.astype(np.float64))
    known = side.by_b.complete[right.spec.by_b.level_of(b)]
    maybe = right.spec.filter_holds(right.counters, b)
    first = np.unique(b, return_index=True)[1]
    fill = right.spec.filter_fill(right.counters)
    hits, misses = _known_values(samples, right)
    hits += float(present[first[known[first]]].sum())
    misses += float((~present[first[known[first]]]).sum())
    share, error = _fitted_share(hits, misses, maybe[first[~known[first]]], fill)
    unknown, lucky = maybe & ~known, int((present & ~known).sum())
    chances = []
    for own in (share, share + error if share < 0.5 else share - error):
        odds = own / (own + (1 - own) * fill) if own > 0 else 0.0
        others = max(odds * int(unknown.sum()) - lucky, 0.0) / max(int(unknown.sum()) - lucky, 1)
        chances.append(np.where(present, 1.0, np.where(unknown, others, 0.0)))
    return Membership(chances[0], chances[1])


def _any_joins(x: np.ndarray, chance: FloatArray) -> FloatArray:
    """Return the chance that each distinct x joins: that at least one of its tuples does."""
    fails = np.log(np.maximum(1 - chance, 1e-300))
    return 1 - np.exp(np.bincount(x, fails))


def joining_x(samples: Samples, member: Membership) -> CountEstimate:
    """Return the share of sampled x that join, times the number of x; and the heavy x's seen to join."""
    left = samples.left
    if len(left.by_x.x) == 0:
        return CountEstimate(0.0, inf, 0, "semi by x")
    x = np.unique(left.by_x.x, return_inverse=True)[1]
    joins, shifted = _any_joins(x, member.chance), _any_joins(x, member.shifted)
    number, mean = len(joins), float(joins.mean())
    if number * mean < _FEWEST_JOINS:
        return CountEstimate(0.0, inf, 0, "semi by x")
    least = (number * mean + 0.5) / (number + 1)  # that no seen x fails to join does not mean that all join
    spread = max((1 - left.by_x.rate) * float(joins.var()), (1 - left.by_x.rate) * least * (1 - least))
    spread += float((joins * (1 - joins)).mean())
    slope = float((shifted - joins).mean()) / mean
    variance = spread / (number * mean**2) + slope**2 + left.distinct_variance
    heavy = int(np.isin(left.heavy, samples.b_left.x).sum())
    return CountEstimate(left.distinct * mean + heavy, variance, int((joins > 0.5).sum()), "semi by x")


def joining_tuples(samples: Samples, member: Membership) -> CountEstimate:
    """Return the number of distinct left tuples (x, b) that join: light b by samples on b, heavy by those on x."""
    left, r, p = samples.left, samples.r, samples.p
    value, variance, seen, part = 0.0, 0.0, 0, 0.0
    sampled = count_by(left.by_x.b, left.by_x.b)
    if r > 0:
        values = np.unique(samples.b_left.b)
        full, held = count_by(samples.b_left.b, values), count_by(left.by_x.b, values)
        light = np.where(held <= LIGHT, full, np.where(held == LIGHT + 1, held, 0)).astype(np.float64)
        value, variance = light.sum() / r, (1 - r) / r**2 * float((light**2).sum())
        seen = int(light.sum())
    heavy = sampled > LIGHT + 1
    if heavy.any():
        x = np.unique(left.by_x.x, return_inverse=True)[1]
        own = np.bincount(x, np.where(heavy, member.chance, 0.0))
        part = float(own.sum()) / p
        value += part
        variance += (1 - p) / p**2 * float((own**2).sum())
        unsure = np.where(heavy, member.shifted - member.chance, 0.0)
        variance += float(unsure.sum() / p) ** 2
        seen += int(own.sum())
    if value == 0:
        return CountEstimate(0.0, inf, 0, "semi by b")
    relative = variance / value**2 + samples.missed[0] ** 2
    return CountEstimate(float(value), relative, seen, "semi by b", by_x=part / value)


def x_per_tuple(samples: Samples, member: Membership, tuples: CountEstimate) -> CountEstimate:
    """Return joining tuples times the share of sampled joining tuples that are a new x."""
    left = samples.left
    x = np.unique(left.by_x.x, return_inverse=True)[1]
    degrees = np.bincount(x)
    many = float((degrees[x] >= 2).mean()) + 3 / len(x) if len(x) else 1.0
    if tuples.value == 0:
        return CountEstimate(0.0, inf, 0, "semi by b")
    if member.chance.sum() < _FEWEST_JOINS:
        value = min(tuples.value, left.distinct + len(left.heavy))
        return CountEstimate(value, tuples.variance + 1, tuples.witnesses, "semi by b", thin=True)
    joins, times = _any_joins(x, member.chance), np.bincount(x, member.chance)
    share = float(joins.sum() / times.sum())
    u = joins - times * share
    spread = (1 - samples.p) * float((u**2).sum()) / float(joins.sum()) ** 2
    floor = (2 * min(many, 1.0) / (float(joins.sum()) + 3)) ** 2
    shifted = _any_joins(x, member.shifted).sum() / max(float(member.shifted.sum()), 1e-9)
    slope = float(shifted) / share - 1
    variance = tuples.variance + spread + floor + slope**2
    return CountEstimate(tuples.value * share, variance, tuples.witnesses, "semi by b", by_x=tuples.by_x)


# Pairs of heavy x's: those with too many tuples for any sample on x, seen in the samples on b.
#
# A model gives how many pairs such an a forms with the c's of the other side: its joined triples W are counted, and
# each tuple of a c is one of them with the same chance phi, in a share 1/rho of the pairs (rho phi there), where
# rho matches the second moment of the witnesses seen. rho = 1 is independence. Intervals allow for the model. Pairs
# of two heavy x's are counted as seen. Deviation: the document has no such values, because its sketches are not
# split by weight.


_UNSURE = 0.3  # the relative error that is allowed for the model's share of repeated witnesses


def light_samples(samples: Samples) -> Samples:
    """Return the samples without heavy x's on either side."""
    b_left, b_right = (
        without_values(sample, side.heavy)
        for sample, side in ((samples.b_left, samples.left), (samples.b_right, samples.right))
    )
    one, two = chosen(b_left, np.isin(b_left.b, b_right.b)), chosen(b_right, np.isin(b_right.b, b_left.b))
    light = Samples(
        samples.left, samples.right, samples.joined, one, two, samples.hubs, missed=samples.missed
    )
    has_heavy = len(samples.left.heavy) + len(samples.right.heavy) > 0
    return light if has_heavy else replace(light, filtered=samples.filtered)


def total(light: CountEstimate, heavy: CountEstimate) -> CountEstimate:
    """Return the sum of the two parts of an answer."""
    if heavy.value == 0:
        return light
    if light.variance == inf:
        return CountEstimate(heavy.value, heavy.variance + 0.25, heavy.witnesses, heavy.method, thin=True)
    value = light.value + heavy.value
    variance = (light.variance * light.value**2 + heavy.variance * heavy.value**2) / value**2
    witnesses = light.witnesses + heavy.witnesses
    noise = light.noise * (light.value / value) ** 2
    return CountEstimate(value, variance, witnesses, f"{light.method}, heavy x", thin=light.thin, noise=noise)


def _degrees(side: SideSamples) -> tuple[FloatArray, FloatArray]:
    """Return numbers of tuples of the light x's of a side, and how many x's each represents."""
    light = np.unique(side.by_x.x, return_counts=True)[1].astype(np.float64)
    return light, np.full(len(light), side.distinct / max(len(light), 1))


def _pairs(triples: FloatArray, degrees: FloatArray, weights: FloatArray, rho: float) -> float:
    """Return the modeled number of pairs of x's with `triples` triples each."""
    phi = np.minimum(triples / max(float((weights * degrees).sum()), 1.0), 1.0)
    inner = np.log1p(-np.minimum(rho * phi, 1 - 1e-9))
    kinds, at = np.unique(degrees, return_inverse=True)
    numbers = np.bincount(at, weights)
    return float(((1 - np.exp(np.outer(inner, kinds))) @ numbers).sum()) / rho


def _with_light(heavy: Tuples, others: Tuples, side: SideSamples, boost: float) -> CountEstimate:
    """Return the pairs of the heavy x's of one side (as sampled on b) with the others of the other side."""
    one, two = thinned_b(heavy, others)
    joined = join(one, two)
    if joined.triples == 0:
        return CountEstimate(0.0, 0.0, 0, "heavy x")
    rate, j = one.rate, joined.witnesses.astype(np.float64)
    triples = np.bincount(joined.a, j) / rate
    degrees, weights = _degrees(side)
    phi = triples / max(float((weights * degrees).sum()), 1.0)
    expected = float((phi**2).sum()) * float((weights * degrees * (degrees - 1)).sum())
    seen = float((j * (j - 1)).sum()) / rate**2
    rho = max(1.0, seen / expected) if expected > 0 else 1.0
    all_triples = boost * float(triples.sum())
    value = min(max(_pairs(boost * triples, degrees, weights, rho), joined.pairs), all_triples)
    by_b = np.unique(joined.b, return_counts=True)[1].astype(np.float64)
    variance = (1 - rate) * float((by_b**2).sum()) / joined.triples**2
    variance += (_UNSURE * (1 - value / all_triples)) ** 2 + (_UNSURE * (1 - 1 / boost)) ** 2
    return CountEstimate(value, variance, joined.triples, "heavy x")


def heavy_pairs(samples: Samples, triples: CountEstimate) -> CountEstimate:
    """Return the number of distinct pairs with a heavy x on either side."""
    left, right = samples.left, samples.right
    if len(left.heavy) + len(right.heavy) == 0:
        return CountEstimate(0.0, 0.0, 0, "heavy x")
    values, one = np.unique(samples.b_left.b, return_counts=True)
    two = np.unique(samples.b_right.b, return_counts=True)[1]
    shown = float((one * two).sum()) / samples.r
    boost = max(1.0, triples.value / shown) if len(values) else 1.0
    is_left, is_right = np.isin(samples.b_left.x, left.heavy), np.isin(samples.b_right.x, right.heavy)
    heavy_left, light_left = chosen(samples.b_left, is_left), chosen(samples.b_left, ~is_left)
    heavy_right, light_right = chosen(samples.b_right, is_right), chosen(samples.b_right, ~is_right)
    parts = [
        _with_light(heavy_left, light_right, right, boost),
        _with_light(heavy_right, light_left, left, boost),
        _both_heavy(heavy_left, heavy_right, len(left.heavy) * len(right.heavy)),
    ]
    value = sum(part.value for part in parts)
    if value == 0:
        return parts[0]
    error = sum(part.value * part.variance**0.5 for part in parts) / value
    return CountEstimate(value, error**2, sum(part.witnesses for part in parts), "heavy x")


def _both_heavy(left: Tuples, right: Tuples, most: int) -> CountEstimate:
    """Return the pairs of two heavy x's: those seen to join, and the unseen ones by pairs seen once and twice.

    Heavy x's that join have many join values in common, so that most such pairs are seen.
    """
    j = join(*thinned_b(left, right)).witnesses
    once, twice = int((j == 1).sum()), int((j == 2).sum())
    more = once * (once - 1) / (2 * (twice + 1))
    value = min(len(j) + more, float(most))
    return CountEstimate(value, (more / value) ** 2 if value else 0.0, len(j), "heavy x")
