"""Estimates of the semi-join form: distinct x of the left side that join with at least one tuple of the right.

Whether a sampled x joins is known where its join values are at levels that the right side decoded, or were seen
there at all; for the others the right side's filter tells, corrected for its fill: the share of joining values
is fitted, and each value in the filter joins with the chance that this share gives it.
Paper: join-distinct, paragraph 0062. Ours: docs/concepts/join-distinct.md.
"""

from math import inf
from typing import NamedTuple

import numpy as np

from eddyline.answer.distinct_joins.estimate import Estimate
from eddyline.answer.distinct_joins.hubs import LIGHT
from eddyline.answer.distinct_joins.pairs import Samples
from eddyline.answer.distinct_joins.samples import SketchedSide, count_by
from eddyline.answer.interval import FloatArray

_FEWEST_JOINS = 0.5  # expected among the sampled tuples, for an estimate to rest on them


class Membership(NamedTuple):
    """The chance that each sampled left tuple joins; and that chance with the fitted share off by its error."""

    chance: FloatArray
    shifted: FloatArray


def _fitted_share(hits: float, misses: float, seen: np.ndarray, fill: float) -> tuple[float, float]:
    """Return the share of values that join, with its standard error: from known ones, and filter bits of others."""
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
    """Return the chance that each distinct x joins: that not all of its tuples fail to."""
    fails = np.log(np.maximum(1 - chance, 1e-300))
    return 1 - np.exp(np.bincount(x, fails))


def joining_x(samples: Samples, member: Membership) -> Estimate:
    """Return the share of sampled x that join, times the number of x; and the heavy x's seen to join."""
    left = samples.left
    if len(left.by_x.x) == 0:
        return Estimate(0.0, inf, 0, "semi by x")
    x = np.unique(left.by_x.x, return_inverse=True)[1]
    joins, shifted = _any_joins(x, member.chance), _any_joins(x, member.shifted)
    number, mean = len(joins), float(joins.mean())
    if number * mean < _FEWEST_JOINS:
        return Estimate(0.0, inf, 0, "semi by x")
    least = (number * mean + 0.5) / (number + 1)  # none seen that fails to join does not mean that all do
    spread = max((1 - left.by_x.rate) * float(joins.var()), (1 - left.by_x.rate) * least * (1 - least))
    spread += float((joins * (1 - joins)).mean())
    slope = float((shifted - joins).mean()) / mean
    variance = spread / (number * mean**2) + slope**2 + left.distinct_variance
    heavy = int(np.isin(left.heavy, samples.b_left.x).sum())
    return Estimate(left.distinct * mean + heavy, variance, int((joins > 0.5).sum()), "semi by x")


def joining_tuples(samples: Samples, member: Membership) -> Estimate:
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
        return Estimate(0.0, inf, 0, "semi by b")
    relative = variance / value**2 + samples.missed[0] ** 2
    return Estimate(float(value), relative, seen, "semi by b", by_x=part / value)


def x_per_tuple(samples: Samples, member: Membership, tuples: Estimate) -> Estimate:
    """Return joining tuples times the share of sampled joining tuples that are a new x."""
    left = samples.left
    x = np.unique(left.by_x.x, return_inverse=True)[1]
    degrees = np.bincount(x)
    many = float((degrees[x] >= 2).mean()) + 3 / len(x) if len(x) else 1.0
    if tuples.value == 0:
        return Estimate(0.0, inf, 0, "semi by b")
    if member.chance.sum() < _FEWEST_JOINS:
        value = min(tuples.value, left.distinct + len(left.heavy))
        return Estimate(value, tuples.variance + 1, tuples.witnesses, "semi by b", thin=True)
    joins, times = _any_joins(x, member.chance), np.bincount(x, member.chance)
    share = float(joins.sum() / times.sum())
    u = joins - times * share
    spread = (1 - samples.p) * float((u**2).sum()) / float(joins.sum()) ** 2
    floor = (2 * min(many, 1.0) / (float(joins.sum()) + 3)) ** 2
    shifted = _any_joins(x, member.shifted).sum() / max(float(member.shifted.sum()), 1e-9)
    slope = float(shifted) / share - 1
    variance = tuples.variance + spread + floor + slope**2
    return Estimate(tuples.value * share, variance, tuples.witnesses, "semi by b", by_x=tuples.by_x)
