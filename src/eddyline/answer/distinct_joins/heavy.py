"""Pairs of heavy x's: those with too many tuples for any sample on x, seen in the samples on b.

How many pairs such an a forms with the c's of the other side is modelled: its joined triples W are counted, and
each tuple of a c is one of them with the same chance phi, in a share 1/rho of the pairs (rho phi there), where
rho matches the second moment of the witnesses seen. rho = 1 is independence. Intervals allow for the model. Pairs
of two heavy x's are counted as they are seen.
Deviation: the document has no such values: its sketches are not split by weight.
"""

from dataclasses import replace
from math import inf

import numpy as np

from eddyline.answer.distinct_joins.estimate import Estimate
from eddyline.answer.distinct_joins.pairs import Samples
from eddyline.answer.distinct_joins.samples import SideSamples, chosen, join, thinned_b, without
from eddyline.answer.interval import FloatArray
from eddyline.sketch.join_distinct import Tuples

_UNSURE = 0.3  # the relative error that is allowed for the model's share of repeated witnesses


def light_samples(samples: Samples) -> Samples:
    """Return the samples without heavy x's on either side."""
    b_left, b_right = (
        without(sample, side.heavy)
        for sample, side in ((samples.b_left, samples.left), (samples.b_right, samples.right))
    )
    one, two = chosen(b_left, np.isin(b_left.b, b_right.b)), chosen(b_right, np.isin(b_right.b, b_left.b))
    light = Samples(
        samples.left, samples.right, samples.joined, one, two, samples.hubs, missed=samples.missed
    )
    has_heavy = len(samples.left.heavy) + len(samples.right.heavy) > 0
    return light if has_heavy else replace(light, filtered=samples.filtered)


def total(light: Estimate, heavy: Estimate) -> Estimate:
    """Return the sum of the two parts of an answer."""
    if heavy.value == 0:
        return light
    if light.variance == inf:
        return Estimate(heavy.value, heavy.variance + 0.25, heavy.witnesses, heavy.method, thin=True)
    value = light.value + heavy.value
    variance = (light.variance * light.value**2 + heavy.variance * heavy.value**2) / value**2
    witnesses = light.witnesses + heavy.witnesses
    noise = light.noise * (light.value / value) ** 2
    return Estimate(value, variance, witnesses, f"{light.method}, heavy x", thin=light.thin, noise=noise)


def _degrees(side: SideSamples) -> tuple[FloatArray, FloatArray]:
    """Return numbers of tuples of the x's of a side that are not heavy, and how many x's each stands for."""
    light = np.unique(side.by_x.x, return_counts=True)[1].astype(np.float64)
    return light, np.full(len(light), side.distinct / max(len(light), 1))


def _pairs(triples: FloatArray, degrees: FloatArray, weights: FloatArray, rho: float) -> float:
    """Return the modelled number of pairs of x's that have so many triples each."""
    phi = np.minimum(triples / max(float((weights * degrees).sum()), 1.0), 1.0)
    inner = np.log1p(-np.minimum(rho * phi, 1 - 1e-9))
    kinds, at = np.unique(degrees, return_inverse=True)
    numbers = np.bincount(at, weights)
    return float(((1 - np.exp(np.outer(inner, kinds))) @ numbers).sum()) / rho


def _with_light(heavy: Tuples, others: Tuples, side: SideSamples, boost: float) -> Estimate:
    """Return the pairs of the heavy x's of one side (as sampled on b) with the others of the other side."""
    one, two = thinned_b(heavy, others)
    joined = join(one, two)
    if joined.triples == 0:
        return Estimate(0.0, 0.0, 0, "heavy x")
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
    return Estimate(value, variance, joined.triples, "heavy x")


def heavy_pairs(samples: Samples, triples: Estimate) -> Estimate:
    """Return the number of distinct pairs with a heavy x on either side."""
    left, right = samples.left, samples.right
    if len(left.heavy) + len(right.heavy) == 0:
        return Estimate(0.0, 0.0, 0, "heavy x")
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
    return Estimate(value, error**2, sum(part.witnesses for part in parts), "heavy x")


def _both_heavy(left: Tuples, right: Tuples, most: int) -> Estimate:
    """Return the pairs of two heavy x's: those seen to join, and as many more as pairs seen once and twice tell.

    Heavy x's that join have many join values in common, so that most such pairs are seen.
    """
    j = join(*thinned_b(left, right)).witnesses
    once, twice = int((j == 1).sum()), int((j == 2).sum())
    more = once * (once - 1) / (2 * (twice + 1))
    value = min(len(j) + more, float(most))
    return Estimate(value, (more / value) ** 2 if value else 0.0, len(j), "heavy x")
