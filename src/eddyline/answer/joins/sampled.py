"""Answers of joins from a stream sample: the estimate, calibrated by exact totals, and its interval.

`read_sample_join` puts the steps together: the sum-product of each quantity (sample/messages), what each value adds
(sampled_values), the correction by exact totals (calibration), the interval (answer/interval, missing).
AVG, VAR and STDDEV are in sampled_ratios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from eddyline.answer.interval import TAIL_OF_SUM, Interval, Spread, ends_of_sampled_values
from eddyline.answer.joins.calibration import calibrate, relation_gaps
from eddyline.answer.joins.missing import (
    allowed_by_totals,
    missing_of,
    most_dropped,
    most_removed,
    unseen_join,
)
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

    share: of the rows, which values may hold that are not followed; of such rows nothing else is known: no
    average, no quantile and no group shows them. rows: how many. surprises: as `Calibrated` has them, (below, above).
    """

    share: float
    rows: float
    surprises: tuple[float, float]


def missed_rows(quantities: Mapping[str, SampledQuantity], totals: Totals) -> Missed:
    """Return what exact totals tell of the rows that the sample does not show."""
    count, known = quantities["count"], EVERY_ROW if EVERY_ROW in quantities else "count"
    gaps = relation_gaps(quantities[known], totals.get(known, ()))
    calibrated = calibrate(count.added, count.values.probabilities, gaps)
    missing = missing_of(count, gaps).high
    share = missing / (max(count.total, 0.0) + missing) if missing else 0.0
    return Missed(share, missing, (calibrated.below, calibrated.above))


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
    """Return COUNT or SUM: the calibrated estimate, and ends that allow for what is missing, by its sign."""
    quantity, values = quantities[function], quantities[function].values
    known = EVERY_ROW if EVERY_ROW in quantities else function
    gaps = relation_gaps(quantities[known], totals.get(known, ()))
    calibrated = calibrate(quantity.added, values.probabilities, gaps)
    value = quantity.total + calibrated.shift
    spread = Spread.of(calibrated.residuals, values.probabilities).with_heavier(
        calibrated.residuals,
        values.probabilities,
        values.base,
        _HEAVIER * (quantity.messages.most_members - 2),
    )
    signs = quantity.signs
    over, short = calibrated.below, calibrated.above
    surprises = {(0, 1): (over, short), (-1, 0): (short, over)}.get(signs, (max(over, short),) * 2)
    below, above = ends_of_sampled_values(spread, *surprises, confidence)
    rows = "count" if known == function and "count" in totals else known
    row_gaps = relation_gaps(quantities[rows], totals.get(rows, ()))
    missing = missing_of(quantity, gaps, row_gaps, of_rows=known == EVERY_ROW)
    uncorrected = value - missing.certainty * calibrated.shift
    removed = most_removed(quantity, totals.get(known, ()), confidence)
    tails = (0.0, 0.0)
    if function == "sum" and "count" in quantities and not has_own_totals(quantities, totals, function):
        tails = room_for_tails(quantities["count"], quantity.added, TAIL_OF_SUM, confidence)
    hidden = 0.0
    if not np.any(values.probabilities[quantity.added != 0.0] < 1.0):
        hidden = _unseen(quantities, function, totals, confidence)
    # what an anti join takes off has the sign of what it is taken from, what is hidden that of what is seen
    less = max(hidden if signs[0] else 0.0, removed if signs[1] else 0.0, tails[0])
    more = max(hidden if signs[1] else 0.0, removed if signs[0] else 0.0, tails[1])
    low = min(value, uncorrected + missing.low) - max(below, less)
    high = max(value, uncorrected + missing.high) + max(above, more)
    dropped = most_dropped(values.join.record, value, confidence)
    lost = max(-missing.low, dropped if signs[0] else 0.0), max(missing.high, dropped if signs[1] else 0.0)
    low, high = min(low, value - lost[0]), max(high, value + lost[1])
    found = SampleEstimate(value, low, high, missing=lost, heavy_tail=inf in tails)
    estimate = with_pieces(quantities, {function: 1.0}, calibrated, found)
    doubt = max(hidden, -missing.low, missing.high) / 2.0
    estimate = replace(estimate, cautious_variance=max(estimate.cautious_variance, doubt**2))
    value, low, high = within_certain(quantity, totals.get(function, ()), estimate.interval)
    return replace(estimate, value=value, low=low, high=high)


def within_certain(quantity: SampledQuantity, totals: Sequence[float | None], interval: Interval) -> Interval:
    """Return COUNT or SUM within what is certain: followed values hold so much, and exact totals allow no more."""
    least, most = allowed_by_totals(quantity, totals)
    if quantity.signs == (0, 1):
        least = max(least, float(quantity.followed))
    elif quantity.signs == (-1, 0):
        most = min(most, float(quantity.followed))
    return Interval(*(min(max(each, least), max(most, least)) for each in interval))
