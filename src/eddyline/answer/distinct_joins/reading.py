"""COUNT(DISTINCT ...) over a join of two streams, from the coordinated samples of both sides.

For streams R(a, b) and S(b, c), where x is a on the left side and c on the right side:

    two-sided   COUNT(DISTINCT a, c)
    semi        COUNT(DISTINCT a): the a of R whose b is in S; the right side's x does not matter
    full        COUNT(DISTINCT a, b, c)

Other mixes reduce to these: where the join column is among the projected ones on one side or both, use `full` with
x the other columns; COUNT(DISTINCT a, b) is `semi` with x the pair (a, b), and COUNT(DISTINCT b) `semi` with x = b.
`full` with x empty on one side is `semi` with x the pair of the other. Where all tuples of both sides decode, the
answer is exact; otherwise the estimate with the least estimated relative variance is used, with the interval m
exp(+-z se/m). Paper: join-distinct; `document` has its own. Ours: docs/internals/join-distinct.md.
"""

from dataclasses import replace
from math import inf, prod, sqrt

import numpy as np

from eddyline.answer import notes
from eddyline.answer.distinct_joins.filters import hubs_of, missed_share, triples_by_filters
from eddyline.answer.distinct_joins.pairs import (
    Samples,
    all_triples,
    by_pairs,
    full_by_pairs,
    heavy_pairs,
    is_thin,
    joining_tuples,
    joining_x,
    light_samples,
    may_be_more,
    membership,
    pairs_per_triple,
    thin_pairs,
    total,
    x_per_tuple,
)
from eddyline.answer.distinct_joins.samples import (
    CountEstimate,
    SketchedSide,
    check_sides,
    common_b,
    decode_side,
    join,
    thinned_x,
)
from eddyline.answer.interval import most_unsampled, of_factor
from eddyline.answer.sets.expression import SetReading
from eddyline.plan.size.specs import two_sided_z
from eddyline.sql.query import ProjectionForm

_NOISY = 0.04  # the relative variance by the filters from which an estimate is called uncertain
_MUCH_WORSE = 5.0  # times the smaller variance
_FAR_OFF = 4.0  # standard errors by which a number of x's is off at most
_SHARED = 0.3  # the share of an estimate that may be based on the samples of the other


def samples_of(left: SketchedSide, right: SketchedSide) -> Samples:
    """Return both sides decoded and joined."""
    check_sides(left.spec, right.spec)
    one, two = decode_side(left), decode_side(right)
    by_left, by_right = thinned_x(one.by_x, two.by_x)
    fewer = min(left.spec, right.spec, key=lambda spec: spec.levels)
    b_left, b_right = common_b(one, two, fewer.by_b.level_rates)
    one, two = one._replace(by_x=by_left), two._replace(by_x=by_right)
    joined = join(by_left, by_right)
    hubs = hubs_of(one, two, right, first=True), hubs_of(two, one, left, first=False)
    return Samples(
        one,
        two,
        joined,
        b_left,
        b_right,
        hubs,
        len(one.heavy),
        len(two.heavy),
        triples_by_filters(left, right, one, two),
        (missed_share(left, one), missed_share(right, two)),
    )


def join_distinct(
    left: SketchedSide, right: SketchedSide, form: ProjectionForm, confidence: float = 0.95
) -> SetReading:
    """Return the cardinality of a projection of the join of two streams."""
    return read_form(samples_of(left, right), right, form, confidence)


def read_form(
    samples: Samples, right: SketchedSide, form: ProjectionForm, confidence: float = 0.95
) -> SetReading:
    """Return the cardinality of one form from the samples of both sides, decoded and joined once for all."""
    seen = _seen(samples, form)
    if samples.left.whole and samples.right.whole and samples.p * samples.q == 1:
        return SetReading(float(seen), float(seen), float(seen), exact=True, witnesses=seen)
    if form == "semi" or not (samples.filtered.doubted or may_be_more(samples)):
        return _read(samples, right, form, confidence)
    trusted = replace(samples, filtered=replace(samples.filtered, trusted=True))
    return _either(*(_read(each, right, form, confidence) for each in (samples, trusted)))


def _read(samples: Samples, right: SketchedSide, form: ProjectionForm, confidence: float) -> SetReading:
    """Return the reading of samples that do not hold everything."""
    seen, best = _seen(samples, form), _estimate(samples, right, form)
    if best.variance == inf:
        return _unseen(samples, form, seen, confidence)
    return _reading(best, seen, _most(samples, form), confidence)


def _either(without: SetReading, by_filters: SetReading) -> SetReading:
    """Return the reading where samples and filters disagree: either may be right, so the interval holds both."""
    low, high = without.low, max(without.high, by_filters.high)
    if by_filters.value < without.value:
        low = min(low, by_filters.low)
    return replace(without, low=low, high=high, note=notes.ROWS_NOT_SEEN)


def _seen(samples: Samples, form: ProjectionForm) -> int:
    """Return how many elements of the answer were seen in the samples: a certain lower bound."""
    if form == "semi":
        right = np.concatenate([samples.right.by_x.b, samples.right.by_b.b])
        shown = [side.x[np.isin(side.b, right)] for side in (samples.left.by_x, samples.left.by_b)]
        return len(np.unique(np.concatenate(shown)))
    return samples.joined.pairs if form == "two-sided" else samples.joined.triples


def _most(samples: Samples, form: ProjectionForm) -> float:
    """Return how many elements the answer can have at most."""
    if form == "semi":
        return inf
    most = samples.filtered.most
    if form == "full":
        return most
    sides = (samples.left, samples.right)
    return min(
        most,
        prod(
            (side.distinct + len(side.heavy)) * (1 + _FAR_OFF * sqrt(side.distinct_variance))
            for side in sides
        ),
    )


def _estimate(samples: Samples, right: SketchedSide, form: ProjectionForm) -> CountEstimate:
    """Return the estimate of a form: the best of each kind, combined."""
    if form == "semi":
        member = membership(samples, right)
        tuples = joining_tuples(samples, member)
        return combined(joining_x(samples, member), x_per_tuple(samples, member, tuples))
    triples = all_triples(samples)
    if form == "full":
        return triples if samples.filtered.trusted else combined(full_by_pairs(samples), triples)
    light = _two_sided(light_samples(samples))
    best = light if samples.r == 0 else total(light, heavy_pairs(samples, triples))
    sides = (samples.left, samples.right)
    most = prod(side.distinct + len(side.heavy) for side in sides)
    if best.value <= most:
        return best
    unsure = sum(side.distinct_variance for side in sides)
    return replace(best, value=most, variance=best.variance + unsure)


def _two_sided(samples: Samples) -> CountEstimate:
    """Return the estimate of the number of distinct pairs without heavy x's."""
    triples = all_triples(samples)
    if is_thin(samples):
        return thin_pairs(samples, triples)
    by_triples = pairs_per_triple(samples, triples)
    return by_triples if samples.filtered.trusted else combined(by_pairs(samples), by_triples)


def combined(on_x: CountEstimate, on_b: CountEstimate) -> CountEstimate:
    """Return the mean of two estimates, weighted by their relative precision, or the better one alone.

    The first is based on the samples on x, the second on those on b, which are drawn independently, unless much of
    the second is based on samples on x, too. An estimate that is much worse is left out.
    """
    best, other = sorted((on_x, on_b), key=lambda estimate: estimate.variance)
    apart = other.variance <= _MUCH_WORSE * best.variance and on_b.by_x < _SHARED
    if not apart or best.variance in {0.0, inf} or best.thin or other.thin:
        return best
    weight = other.variance / (best.variance + other.variance)
    value = weight * best.value + (1 - weight) * other.value
    variance = weight**2 * best.variance + (1 - weight) ** 2 * other.variance
    variance += 2 * weight * (1 - weight) * on_b.by_x * sqrt(best.variance * other.variance)
    witnesses = best.witnesses + other.witnesses
    noise = weight**2 * best.noise + (1 - weight) ** 2 * other.noise
    return CountEstimate(value, variance, witnesses, f"{best.method} and {other.method}", noise=noise)


def _reading(best: CountEstimate, seen: int, most: float, confidence: float) -> SetReading:
    """Return the reading of the chosen estimate, between what was seen and what the filters allow.

    The uncertainty of the samples is a factor; few witnesses widen it, as their variance is less known. The
    uncertainty of the filters is a difference with a known variance. The two are independent.
    """
    sampled = best.variance - best.noise
    error = sqrt(sampled * (1 + 6 * max(sampled, 1 / max(best.witnesses, 1))))
    _, low, high = of_factor(best.value, error, sqrt(best.noise), confidence)
    value = min(max(best.value, float(seen)), max(most, float(seen)))
    low, high = max(low, float(seen)), min(max(value, high), max(most, value))
    return SetReading(value, min(low, value), high, exact=False, witnesses=best.witnesses, note=_note(best))


def _note(best: CountEstimate) -> str | None:
    """Return the note on an estimate that is based on few witnesses."""
    if best.thin:
        return notes.FEW_COMMON_VALUES
    return notes.UNEVEN_JOIN_VALUES if best.noise > _NOISY else notes.few_sampled_joins(best.witnesses)


def _unseen(samples: Samples, form: ProjectionForm, seen: int, confidence: float) -> SetReading:
    """Return the reading of a join that the samples do not show.

    It lies between what was seen and what would most likely have been sampled.
    """
    z = two_sided_z(confidence)
    p, q, r = samples.p, samples.q, samples.r
    rates = [p, r] if form == "semi" else [p * q, r]
    rate = max(rates) if form != "two-sided" else p * q
    high = most_unsampled(rate, confidence)
    if form != "semi":
        high = min(max(high, samples.filtered.value + z * samples.filtered.error), _most(samples, form))
    high = max(high, float(seen))
    return SetReading(float(seen), float(seen), high, exact=False, witnesses=0, note=notes.NO_PAIRS_SEEN)
