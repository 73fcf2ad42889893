"""Answers of joins from a stream sample: the estimate, calibrated by exact totals, and its interval.

`read_sample_join` puts the steps together: the sum-product of each term (sample/messages), what each value adds
(sampled_values), the correction by exact totals (calibration), the interval (answer/interval, missed).
AVG, VAR and STDDEV are in sampled_ratios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eddyline.answer.interval import Spread, ends_of_sampled_values
from eddyline.answer.joins.calibration import calibrate, relation_gaps
from eddyline.answer.joins.missed import largest_missed, unseen_join
from eddyline.answer.joins.sample_estimate import SampleEstimate, exact_estimate, with_pieces
from eddyline.answer.joins.sampled_ratios import read_ratio
from eddyline.answer.joins.sampled_values import SampledTerm, SampledValues
from eddyline.sample.messages import Join

Totals = Mapping[str, Sequence[float | None]]


def read_sample_join(join: Join, function: str, totals: Totals, confidence: float) -> SampleEstimate:
    """Return the answer of an aggregate over a join, in the units of the dictionaries' integers.

    function: "count", "sum", "avg", "var_samp", "var_pop", "stddev_samp" or "stddev_pop". totals: for each term the
    exact total of each relation's weight, its predicates applied and its links not NULL; None where it is unknown,
    and no entry for a term of which none is known.
    Where SQL answers NULL (AVG over no rows), the value is nan.
    """
    if join.follows_all:
        return exact_estimate(join, function)
    sampled = SampledValues(join)
    terms = {name: SampledTerm.of(sampled, term) for name, term in join.shape.terms.items()}
    if function in ("count", "sum"):
        return _read_sum(join, terms, function, totals, confidence)
    return read_ratio(join, terms, function, totals, confidence)


def _read_sum(
    join: Join, terms: Mapping[str, SampledTerm], function: str, totals: Totals, confidence: float
) -> SampleEstimate:
    term = terms[function]
    gaps = relation_gaps(term, totals.get(function, ()))
    calibrated = calibrate(term.added, term.values.probabilities, gaps)
    value = term.total + calibrated.shift
    spread = Spread.of(calibrated.residuals, term.values.probabilities)
    below, above = ends_of_sampled_values(spread, calibrated.below, calibrated.above, confidence)
    above = max(above, largest_missed(term, gaps, calibrated.above))
    above = max(above, unseen_join(term, totals.get(function, ()), confidence) if term.total == 0.0 else 0.0)
    found = SampleEstimate(value, value - below, value + above)
    estimate = with_pieces(join, terms, {function: 1.0}, calibrated, found)
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
