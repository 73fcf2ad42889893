"""Answers of joins from a stream sample: the estimate, calibrated by exact totals, and its interval.

`read_sample_join` puts the steps together: the sum-product of each term (sample/messages), what each value adds
(sample_values), the correction by exact totals (sample_calibration), the interval (sample_interval). AVG, VAR and
STDDEV are linearized: near the estimate they are one combination of the terms over a divisor, and are read like it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan, sqrt

import numpy as np

from eddyline.answer.sample_calibration import RelationGap, calibrate
from eddyline.answer.sample_interval import Spread, heavier_unseen, interval
from eddyline.answer.sample_missed import largest_missed, unseen_join
from eddyline.answer.sample_values import SampledTerm, SampledValues
from eddyline.sample.messages import Join, exact_total

Totals = Mapping[str, Sequence[float | None]]
FEW_WITNESSES = 30
"""Fewer joined values than this are few to rest an answer on."""


@dataclass(frozen=True)
class SampleEstimate:
    """An estimate from a sample, with its interval, and what a second reading needs to be combined with it.

    The answer is centre + quantity / divisor, with quantity the combination of the query's terms by `factors`: for
    COUNT and SUM the centre is 0, the divisor 1 and the quantity the answer itself; for AVG and VAR the centre is the
    answer by the terms as they are, the divisor the count, and the quantity what is linearized, 0 at the centre.
    followed: the quantity over followed values alone, exact. unfollowed: the estimate of the rest, not calibrated.
    variance: of `unfollowed`, as its own values tell it; cautious_variance: with the heaviest value twice and those
    that may be unseen; followed_variance: what the followed values themselves add to the true one.
    carriers: how many values carry the variance. witnesses: how many followed values join. base: the lowest base
    rate of the query's links; lowest_rate: of the values that join. exact: nothing is missing. is_square: the answer is
    a variance, never negative; is_root: it is the root of one.
    """

    value: float
    low: float
    high: float
    exact: bool = False
    centre: float = 0.0
    divisor: float = 1.0
    factors: Mapping[str, float] | None = None
    followed: float = 0.0
    unfollowed: float = 0.0
    variance: float = 0.0
    cautious_variance: float = 0.0
    followed_variance: float = 0.0
    carriers: float = 1.0
    witnesses: int = 0
    base: float = 1.0
    lowest_rate: float = 1.0

    is_square: bool = False
    is_root: bool = False

    def rooted(self) -> "SampleEstimate":
        """Return the estimate of the square root."""
        value, low, high = (sqrt(end) for end in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high, is_root=True)


def read_sample_join(join: Join, function: str, totals: Totals, confidence: float) -> SampleEstimate:
    """Return the answer of an aggregate over a join, in the units of the dictionaries' integers.

    function: "count", "sum", "avg", "var_samp", "var_pop", "stddev_samp" or "stddev_pop". totals: for each term the
    exact total of each relation's weight, its predicates applied and its links not NULL; None where it is unknown,
    and no entry for a term of which none is known.
    Where SQL answers NULL (AVG over no rows), the value is nan.
    """
    if not join.state.grouped or join.state.follows_all:
        return _exact(join, function)
    sampled = SampledValues(join)
    terms = {name: SampledTerm.of(sampled, term) for name, term in join.shape.terms.items()}
    if function in ("count", "sum"):
        return _read_sum(join, terms, function, totals, confidence)
    return _read_ratio(join, terms, function, totals, confidence)


def aggregate_of(function: str, terms: Mapping[str, float]) -> float:
    """Return an aggregate from the sums over the join: count, sum and sum of squares; nan where SQL says NULL."""
    if function in ("count", "sum"):
        return terms[function]
    count = terms["count"]
    if function == "avg":
        return terms["sum"] / count if count else nan
    rows = count - 1.0 if function.endswith("_samp") else count
    if rows <= 0.0:
        return nan
    deviations = max(terms["squares"] - terms["sum"] ** 2 / count, 0.0)
    return sqrt(deviations / rows) if function.startswith("stddev") else deviations / rows


def _exact(join: Join, function: str) -> SampleEstimate:
    """Return the answer where every value is followed; the integers are exact up to the last division."""
    terms = {name: exact_total(join, term) for name, term in join.shape.terms.items()}
    if "squares" in terms and terms["count"]:
        squares = terms["squares"] * terms["count"] - terms["sum"] ** 2
        deviations = squares / terms["count"]
        value = aggregate_of(function, {"squares": deviations, "sum": 0.0, "count": float(terms["count"])})
    else:
        value = aggregate_of(function, {name: float(each) for name, each in terms.items()})
    return SampleEstimate(value, value, value, exact=True, followed=value)


def _read_sum(
    join: Join, terms: Mapping[str, SampledTerm], function: str, totals: Totals, confidence: float
) -> SampleEstimate:
    term = terms[function]
    gaps = relation_gaps(term, totals.get(function, ()))
    calibrated = calibrate(term.added, term.values.probabilities, [gap for gap in gaps if gap is not None])
    value = term.total + calibrated.shift
    below, above = interval(calibrated, term.values.probabilities, confidence)
    if calibrated.above > 1.0:
        above = max(above, largest_missed(term, gaps))
    above = max(above, unseen_join(term, totals.get(function, ()), confidence) if term.total == 0.0 else 0.0)
    estimate = _with_pieces(join, terms, {function: 1.0}, SampleEstimate(value, value - below, value + above))
    if all(bool(np.all(each.weights >= 0)) for each in term.messages.relations):
        at_least = estimate.followed
        return replace(
            estimate,
            value=max(value, at_least),
            low=max(estimate.low, at_least),
            high=max(estimate.high, at_least),
        )
    if term.total == 0.0:
        return replace(estimate, low=min(estimate.low, -above))
    return estimate


def _read_ratio(
    join: Join, terms: Mapping[str, SampledTerm], function: str, totals: Totals, confidence: float
) -> SampleEstimate:
    """Return AVG or a variance: linearized at the estimate by the terms as they are, calibrated by the first one's."""
    sums = {name: term.total for name, term in terms.items()}
    count = sums["count"]
    centre = aggregate_of(function.replace("stddev", "var"), sums)
    if centre != centre or count <= 0.0:  # noqa: PLR0124 - nan
        return SampleEstimate(nan, -inf, inf, base=terms["count"].values.base)
    factors = _linear_factors(function, sums)
    first = next(iter(terms))
    gaps = [gap for gap in relation_gaps(terms[first], totals.get(first, ())) if gap is not None]
    added = sum(factor * terms[name].added for name, factor in factors.items())
    assert isinstance(added, np.ndarray)
    calibrated = calibrate(added, terms[first].values.probabilities, gaps)
    shift = calibrated.shift / count
    below, above = interval(calibrated, terms[first].values.probabilities, confidence)
    value = centre + shift
    if below == above == 0.0 and np.count_nonzero(terms["count"].added) < FEW_WITNESSES:
        below = above = inf  # so few values that they happen to agree, or a single one, tell no spread
    found = SampleEstimate(value, value - below / count, value + above / count, centre=centre, divisor=count)
    found = _with_pieces(join, terms, factors, found)
    if function == "avg":
        return found
    value, low, high = (max(end, 0.0) for end in (found.value, found.low, found.high))
    found = replace(found, value=value, low=low, high=high, is_square=True)
    return found.rooted() if function.startswith("stddev") else found


def _linear_factors(function: str, sums: Mapping[str, float]) -> dict[str, float]:
    """Return how much the quantity that is linearized takes of each term; its value at the estimate is 0.

    AVG: sum - R count. Variances: squares - 2 m sum + (m^2 - V) count, with m the mean and V the variance.
    """
    mean = sums["sum"] / sums["count"]
    if function == "avg":
        return {"sum": 1.0, "count": -mean}
    variance = sums["squares"] / sums["count"] - mean * mean
    return {"squares": 1.0, "sum": -2.0 * mean, "count": mean * mean - variance}


def relation_gaps(term: SampledTerm, totals: Sequence[float | None]) -> list[RelationGap | None]:
    """Return for each relation how far its estimated total falls short; None where the exact one is 0 or unknown."""
    gaps: list[RelationGap | None] = []
    for relation in range(len(term.messages.relations)):
        exact = totals[relation] if relation < len(totals) else None
        if not exact:
            gaps.append(None)
            continue
        estimate, added = term.relation_weights(relation)
        gaps.append(RelationGap(1.0 - estimate / exact, added / exact))
    return gaps


def _with_pieces(
    join: Join, terms: Mapping[str, SampledTerm], factors: Mapping[str, float], estimate: SampleEstimate
) -> SampleEstimate:
    """Return the estimate with what a second reading needs: see SampleEstimate."""
    values = next(iter(terms.values())).values
    rates = values.probabilities
    added = np.zeros(len(values))
    total = followed = 0.0
    for name, factor in factors.items():
        added = added + factor * terms[name].added
        total += factor * terms[name].total
        followed += factor * float(exact_total(join, join.shape.terms[name]))
    spread = Spread.of(added, rates)
    unseen = heavier_unseen(added * rates, rates, values.base)
    joined = added != 0.0
    return replace(
        estimate,
        factors=dict(factors),
        followed=followed,
        unfollowed=total - followed,
        variance=spread.variance,
        cautious_variance=spread.variance + spread.largest + min(unseen, 2.0 * spread.variance),
        followed_variance=float((added**2 * rates * (1.0 - rates)).sum()),
        carriers=spread.carriers,
        witnesses=int(joined.sum()),
        base=values.base,
        lowest_rate=float(rates[joined].min(initial=1.0)),
    )
