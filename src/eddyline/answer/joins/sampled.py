"""Answers of joins from a stream sample: the estimate, calibrated by exact totals, and its interval.

`read_sample_join` puts the steps together: the sum-product of each quantity (sample/messages), what each value adds
(sampled_values), the correction by exact totals (calibration), the interval (answer/interval, missed).
AVG, VAR and STDDEV are in sampled_ratios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from eddyline.answer.interval import TAIL_OF_SUM, Spread, ends_of_sampled_values
from eddyline.answer.joins.calibration import calibrate, relation_gaps
from eddyline.answer.joins.missed import largest_missed, most_removed, unseen_join
from eddyline.answer.joins.sample_estimate import (
    SampleEstimate,
    exact_estimate,
    has_own_totals,
    room_for_tails,
    with_pieces,
)
from eddyline.answer.joins.sampled_ratios import read_ratio
from eddyline.answer.joins.sampled_values import SampledQuantity, sampled_quantities
from eddyline.plan.decide.facets import EVERY_ROW
from eddyline.sample.join import Join

Totals = Mapping[str, Sequence[float | None]]
_HEAVIER = 8.0
"""How many times its variance heavier values may add to a join, for each relation of a link beyond two.

What three and more relations have of one value is multiplied, and such products have heavy tails."""


def read_sample_join(join: Join, function: str, totals: Totals, confidence: float) -> SampleEstimate:
    """Return the answer of an aggregate over a join, in the units of the dictionaries' integers.

    function: "count", "sum", "avg", "var_samp", "var_pop", "stddev_samp" or "stddev_pop". totals: for each quantity the
    exact total of each relation's weight, its predicates applied and its links not NULL; None where it is unknown,
    and no entry for a quantity of which none is known. Queries that were not
    planned are calibrated by EVERY_ROW: all rows of each relation that have its links, whatever the predicates.
    Where SQL answers NULL (AVG over no rows), the value is nan.
    """
    if join.follows_all:
        return exact_estimate(join, function)
    return read_quantities(sampled_quantities(join), function, totals, confidence)


def read_quantities(
    quantities: Mapping[str, SampledQuantity], function: str, totals: Totals, confidence: float
) -> SampleEstimate:
    """Return the answer of an aggregate by its quantities as the sample sees them; totals as above."""
    if function in ("count", "sum"):
        return _read_sum(quantities, function, totals, confidence)
    return read_ratio(quantities, function, totals, confidence)


@dataclass(frozen=True)
class Missed:
    """What exact totals tell of the rows of a join that the sample does not show.

    share: of the rows, which a heavy value may hold that is not followed; of such rows nothing else is known: no
    average, no quantile and no group shows them. surprises: as `Calibrated` has them, (below, above).
    """

    share: float
    surprises: tuple[float, float]


def missed_rows(quantities: Mapping[str, SampledQuantity], totals: Totals) -> Missed:
    """Return what exact totals tell of the rows that the sample does not show."""
    count, known = quantities["count"], EVERY_ROW if EVERY_ROW in quantities else "count"
    gaps = relation_gaps(quantities[known], totals.get(known, ()))
    calibrated = calibrate(count.added, count.values.probabilities, gaps)
    missed = largest_missed(count, gaps, calibrated.above)
    share = missed / (max(count.total, 0.0) + missed) if missed else 0.0
    return Missed(share, (calibrated.below, calibrated.above))


def _unseen(
    quantities: Mapping[str, SampledQuantity], function: str, totals: Totals, confidence: float
) -> float:
    """Return how much may be there of which the sample shows nothing: of rows no more than of any rows."""
    hidden = unseen_join(quantities[function], totals.get(function, ()), confidence)
    hidden *= quantities[function].unseen_share
    if function != "count" or EVERY_ROW not in quantities:
        return hidden
    return min(hidden, unseen_join(quantities[EVERY_ROW], totals.get(EVERY_ROW, ()), confidence))


def _read_sum(
    quantities: Mapping[str, SampledQuantity], function: str, totals: Totals, confidence: float
) -> SampleEstimate:
    quantity = quantities[function]
    known = EVERY_ROW if EVERY_ROW in quantities else function
    gaps = relation_gaps(quantities[known], totals.get(known, ()))
    calibrated = calibrate(quantity.added, quantity.values.probabilities, gaps)
    value = quantity.total + calibrated.shift
    values = quantity.values
    spread = Spread.of(calibrated.residuals, values.probabilities).with_heavier(
        calibrated.residuals,
        values.probabilities,
        values.base,
        _HEAVIER * (quantity.messages.most_members - 2),
    )
    below, above = ends_of_sampled_values(spread, calibrated.below, calibrated.above, confidence)
    above = max(above, largest_missed(quantity, gaps, calibrated.above))
    removed = most_removed(quantity, totals.get(known, ()), confidence)
    below = max(below, removed)
    tails = (0.0, 0.0)
    if function == "sum" and "count" in quantities and not has_own_totals(quantities, totals, function):
        tails = room_for_tails(quantities["count"], quantity.added, TAIL_OF_SUM, confidence)
        below, above = max(below, tails[0]), max(above, tails[1])
    hidden = 0.0
    if not np.any(quantity.values.probabilities[quantity.added != 0.0] < 1.0):
        hidden = _unseen(quantities, function, totals, confidence)
    above = max(above, hidden)
    found = SampleEstimate(value, value - below, value + above, heavy_tail=inf in tails)
    estimate = with_pieces(quantities, {function: 1.0}, calibrated, found)
    estimate = replace(estimate, cautious_variance=max(estimate.cautious_variance, (hidden / 2.0) ** 2))
    if all(bool(np.all(each.weights >= 0)) for each in quantity.messages.relations):
        at_least = estimate.followed
        return replace(
            estimate,
            value=max(value, at_least),
            low=max(estimate.low, at_least),
            high=max(estimate.high, at_least),
        )
    low, high = min(estimate.low, value - hidden), max(estimate.high, value + removed)
    return replace(estimate, low=low, high=high)
