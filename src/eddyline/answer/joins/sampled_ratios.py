"""AVG, VAR and STDDEV over a join from a stream sample.

They are linearized: near the estimate they are one combination of the join's quantities over a divisor, the count, and
what each value adds to that combination tells their error. Few witnesses need care, because they always agree with
the average that they make: a value's part is enlarged as if it were left out of the average, and what witnesses
differ by in the relation itself stands in for what too few of them can show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isnan, nan, sqrt

import numpy as np

from eddyline.answer.interval import (
    ALIKE,
    TAIL_OF_SQUARES,
    TAIL_OF_SUM,
    Spread,
    ends_of_sampled_values,
    hidden_by_few,
)
from eddyline.answer.joins.calibration import Calibrated, calibrate, relation_gaps
from eddyline.answer.joins.missing import missing_of, most_removed
from eddyline.answer.joins.sample_estimate import (
    SampleEstimate,
    aggregate_of,
    has_own_totals,
    room_for_tails,
    with_pieces,
)
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.answer.notes import FEW_WITNESSES
from eddyline.plan.decide.facets import EVERY_ROW
from eddyline.sample.spec import COUNT

_LEAST_REST = 0.2
_HEAVIER_SQUARES = 8.0
"""How many times the variance heavier values may add to a sum of squares."""
_ROUNDING = 1e-9
"""Values whose ratios differ by less than this share agree."""
_FAR = 2.0
"""Standard deviations between rows by which the average of missing rows may differ."""
CANCELLED = 1e-12
"""The share of a sum of squares that its floats may be off: it matters where squares nearly cancel in a variance."""


def read_ratio(
    quantities: Mapping[str, SampledQuantity],
    function: str,
    totals: Mapping[str, Sequence[float | None]],
    confidence: float,
) -> SampleEstimate:
    """Return AVG or a variance: linearized at the estimate by the quantities as they are, calibrated by exact totals.

    Rows that exact totals show to be missing may have another average: see `_open_to_missing`.
    """
    sums = {name: quantity.total for name, quantity in quantities.items()}
    centre, count = aggregate_of(function.replace("stddev", "var"), sums), quantities["count"]
    if isnan(centre) or sums["count"] <= 0.0:
        return SampleEstimate(nan, -inf, inf, base=count.values.base, quantities=quantities)
    factors = _linear_factors(function, sums)
    rates = count.values.probabilities
    rest = 1.0 - np.abs(count.added) * (1.0 - rates) / sums["count"]
    calibrated = calibrated_combination(quantities, factors, totals)
    residuals = calibrated.residuals / np.maximum(rest, _LEAST_REST)
    calibrated = replace(calibrated, residuals=residuals, above=0.0, below=0.0)
    counted = Spread.of(count.added, rates)
    differences = row_differences(quantities, factors)
    hidden = hidden_by_few(ALIKE * differences, counted.variance, counted.carriers)
    removed = most_removed(count, totals.get("count", ()), confidence)
    hidden += removed**2 * differences  # rows of an anti join that are taken off unseen may differ as rows do
    spread = Spread.of(calibrated.residuals, rates).with_hidden(hidden, counted.carriers)
    if function != "avg":
        spread = spread.with_heavier(calibrated.residuals, rates, count.values.base, _HEAVIER_SQUARES)
    below, above = ends_of_sampled_values(spread, calibrated.below, calibrated.above, confidence)
    tails = (0.0, 0.0)
    if not has_own_totals(quantities, totals, next(iter(factors))):
        sizes = (
            sum(factor * quantities[name].added for name, factor in factors.items()) + centre * count.added
        )
        caution = TAIL_OF_SUM if function == "avg" else TAIL_OF_SQUARES
        tails = room_for_tails(count, sizes, caution, confidence)
        below, above = max(below, tails[0]), max(above, tails[1])
    rows = sums["count"] + calibrated_combination(quantities, {"count": 1.0}, totals).shift
    divisor = (
        rows if rows > 0.0 else sums["count"]
    )  # the number of rows is calibrated as what is divided by it is
    value = centre + calibrated.shift / divisor
    size = abs(sums["sum" if function == "avg" else "squares"])
    if max(below, above) <= _ROUNDING * size and np.count_nonzero(count.added) < FEW_WITNESSES:
        below = above = inf  # so few values that they happen to agree, or a single one, tell no spread
    if function != "avg":
        below, above = below + CANCELLED * size, above + CANCELLED * size
    found = SampleEstimate(
        value,
        value - below / divisor,
        value + above / divisor,
        centre=centre,
        divisor=divisor,
        mean=sums["sum"] / sums["count"],
        heavy_tail=inf in tails,
    )
    found = with_pieces(quantities, factors, calibrated, found)
    found = _open_to_missing(found, function, quantities, totals, differences)
    if function == "avg":
        return found
    ends = [max(end, 0.0) for end in (found.value, found.low, found.high)]
    if function.startswith("stddev"):
        ends = [sqrt(end) for end in ends]
    return replace(found, value=ends[0], low=ends[1], high=ends[2])


def _open_to_missing(
    found: SampleEstimate,
    function: str,
    quantities: Mapping[str, SampledQuantity],
    totals: Mapping[str, Sequence[float | None]],
    differences: float,
) -> SampleEstimate:
    """Return a ratio whose ends reach as far as joined rows may move it that exact totals show to be missing.

    differences: the variance between rows of the linearized quantity, for the case that the totals do not tell the
    average of the missing rows.
    """
    count, known = quantities["count"], EVERY_ROW if EVERY_ROW in quantities else "count"
    missing = missing_of(count, relation_gaps(quantities[known], totals.get(known, ())))
    if missing.high <= 0.0:
        return found
    sums, rows = {name: quantity.total for name, quantity in quantities.items()}, missing.high
    lows, highs = [found.low], [found.high]
    for moments in _moments_of_missing(quantities, totals, sqrt(differences)):
        mixed = {name: sums[name] + rows * moments[name] for name in sums if name != EVERY_ROW}
        value = aggregate_of(function.replace("stddev", "var"), mixed)
        share = sums["count"] / mixed["count"]
        lows.append(value - share * (found.value - found.low))
        highs.append(value + share * (found.high - found.value))
    return replace(found, low=min(lows), high=max(highs))


def _moments_of_missing(
    quantities: Mapping[str, SampledQuantity],
    totals: Mapping[str, Sequence[float | None]],
    deviation: float,
) -> list[dict[str, float]]:
    """Return what a missing row may count in each quantity: as the exact totals say, or the ends of what rows have."""
    count, total = quantities["count"], quantities["sum"]
    measured = [k for k, node in enumerate(total.quantity.nodes) if node.exact.measure != COUNT]
    if len(measured) == 1:
        (k,) = measured
        left = {}
        for name, quantity in quantities.items():
            exact = totals.get(name, ())
            if name != EVERY_ROW and k < len(exact) and exact[k] is not None:
                left[name] = float(exact[k] or 0.0) - quantity.relation_weights(k)[0]
        if left.keys() >= quantities.keys() - {EVERY_ROW} and left["count"] > 0.05 * abs(
            float(totals["count"][k] or 0.0)
        ):
            return [{name: each / left["count"] for name, each in left.items()}]
    mean = total.total / count.total
    ends = (mean - _FAR * deviation, mean + _FAR * deviation)
    return [{"count": 1.0, "sum": end, "squares": end * end} for end in ends]


def calibrated_combination(
    quantities: Mapping[str, SampledQuantity],
    factors: Mapping[str, float],
    totals: Mapping[str, Sequence[float | None]],
) -> Calibrated:
    """Return the correction of a combination of quantities, by the totals of the first one and of the count.

    By those of all rows where the query was not planned.
    """
    values = quantities["count"].values
    added = sum((factor * quantities[name].added for name, factor in factors.items()), np.zeros(len(values)))
    first = next(iter(factors)) if EVERY_ROW not in quantities else EVERY_ROW
    gaps = relation_gaps(quantities[first], totals.get(first, ()))
    if first not in ("count", EVERY_ROW):
        sums, counts = totals.get(first, ()), totals.get("count", ())
        fresh = [k for k, count in enumerate(counts) if k >= len(sums) or count != sums[k]]
        others = relation_gaps(quantities["count"], counts) if fresh else []
        gaps += [others[k] for k in fresh]
    return calibrate(added, values.probabilities, gaps)


def _linear_factors(function: str, sums: Mapping[str, float]) -> dict[str, float]:
    """Return the factors of the combination of quantities that is linearized; its value at the estimate is 0.

    AVG: sum - R count. Variances: squares - 2 m sum + (m^2 - V) count, with m the mean and V the variance.
    """
    mean = sums["sum"] / sums["count"]
    if function == "avg":
        return {"sum": 1.0, "count": -mean}
    variance = sums["squares"] / sums["count"] - mean * mean
    return {"squares": 1.0, "sum": -2.0 * mean, "count": mean * mean - variance}


def row_differences(quantities: Mapping[str, SampledQuantity], factors: Mapping[str, float]) -> float:
    """Return the variance, between the elements of the relations, of what a row adds to the linearized quantity.

    Of one relation after the other, with the others at their averages.
    """
    relations = range(len(quantities["count"].messages.relations))
    means = {
        name: [_mean(quantity, quantities["count"], k) for k in relations]
        for name, quantity in quantities.items()
    }
    total = 0.0
    for k in relations:
        counts = quantities["count"].scaled_weights[k]
        held = counts > 0.0
        each = np.zeros(int(held.sum()))
        for name, factor in factors.items():
            others = float(np.prod([mean for j, mean in enumerate(means[name]) if j != k]))
            each += factor * others * quantities[name].scaled_weights[k][held] / counts[held]
        if len(each):
            middle = float(np.average(each, weights=counts[held]))
            total += float(np.average((each - middle) ** 2, weights=counts[held]))
    return total


def _mean(quantity: SampledQuantity, count: SampledQuantity, relation: int) -> float:
    rows = float(count.scaled_weights[relation].sum())
    return (
        float(quantity.scaled_weights[relation].sum()) / rows if rows else 1.0
    )  # none seen: of an anti join, say
