"""Estimates from a stream sample: COUNT and SUM with their variance, AVG, VAR and STDDEV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, isnan, nan, sqrt

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.aggregates.moments import Moment
from eddyline.answer.interval import (
    ALIKE,
    TAIL_OF_SQUARES,
    TAIL_OF_SUM,
    FloatArray,
    Interval,
    Spread,
    Tail,
    ends_of_sampled_values,
    heavier_unseen,
    hidden_by_few,
)
from eddyline.answer.joins.missing import Calibrated, calibrate, missing_of, most_removed, relation_gaps
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.answer.notes import FEW_WITNESSES
from eddyline.plan.decide.facets import EVERY_ROW
from eddyline.sample.join import Join
from eddyline.sample.messages import exact_total
from eddyline.sample.spec import COUNT


@dataclass(frozen=True)
class SampleEstimate:
    """An estimate from a sample, with its interval, and what a second reading needs to be combined with it.

    The answer is centre + quantity / divisor, where quantity is the combination of the query's quantities by
    `factors`. For COUNT and SUM the centre is 0, the divisor 1 and the quantity the answer itself. For AVG and VAR
    the centre is the answer by the uncorrected quantities, the divisor the count, and the quantity the linearized
    part, which is 0 at the centre. followed: the quantity over followed values alone, exact. unfollowed: the
    calibrated estimate of the rest. variance: of `unfollowed`, from its own values; cautious_variance: with the
    heaviest value counted twice, values that may be unseen, and more where exact totals are surprising;
    followed_variance: what the followed values themselves add to the true variance. carriers: how many values carry
    the variance. witnesses: how many followed values join. base: the lowest base rate of the query's links;
    lowest_rate: of the values that join. exact: nothing is missing. mean: the average of the measure, for AVG and
    variances. tails: how far values larger than all held ones may move it, below and above; infinite where the
    largest values carry it. quantities: what was read, for a second reading. missing: how far rows that the sample
    does not show, but exact totals or reductions do, may move the estimate, below and above.
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
    mean: float = nan
    missing: tuple[float, float] = (0.0, 0.0)
    tails: tuple[float, float] = (0.0, 0.0)
    quantities: Mapping[str, SampledQuantity] = field(default_factory=dict, repr=False, compare=False)

    @property
    def interval(self) -> Interval:
        """The estimate and its ends."""
        return Interval(self.value, self.low, self.high)

    @property
    def heavy_tail(self) -> bool:
        """Whether unheld values have no bound, because the largest ones carry the estimate."""
        return inf in self.tails

    @property
    def missing_share(self) -> float:
        """The share of a number of rows that the sample may not show."""
        above = self.missing[1]
        return above / (max(self.value, 0.0) + above) if above > 0.0 else 0.0


def has_own_totals(
    quantities: Mapping[str, SampledQuantity], totals: Mapping[str, Sequence[float | None]], name: str
) -> bool:
    """Return whether exact totals of a quantity are known, as for planned queries: they show large values."""
    return EVERY_ROW not in quantities and any(total is not None for total in totals.get(name, ()))


def margin_for_tails(
    count: SampledQuantity, sizes: FloatArray, caution: float, confidence: float
) -> tuple[float, float]:
    """Return how far values larger than all held ones may move an estimate: (below it, above it).

    This is for sums of a measure whose exact totals are not known. sizes: what each value adds, scaled up, with
    `count` rows. A value may add much because it has many rows, which are calibrated for, or because it has few
    rows, which are not averaged. So both its size and its size per row are used, and the smaller margin counts.
    caution: as in `Tail.more_unseen`.
    """
    rows = np.abs(count.added)
    held = rows > 0.0
    if not np.any(held):
        return 0.0, 0.0
    rates, rows, sizes = count.values.probabilities[held], rows[held], sizes[held]
    average = float(rows.sum() / (1.0 / rates).sum())

    def allowance(parts: FloatArray) -> float:
        tail = Tail.of(parts, rates, count.values.base)
        return 0.0 if tail is None else tail.more_unseen(caution, confidence)

    below, above = (
        min(allowance(s * sizes * rates), allowance(s * average * sizes / rows)) for s in (-1.0, 1.0)
    )
    return below, above


def exact_sample_estimate(join: Join, function: str) -> SampleEstimate:
    """Return the answer where every value is followed; the integers are exact up to the last division."""
    quantities = {
        name: Fraction(exact_total(join, quantity), 1 << -quantity.lowest)
        for name, quantity in join.shape.quantities.items()
    }
    value = moment_named(function).rounded(quantities)
    return SampleEstimate(value, value, value, exact=True, followed=value)


def with_pieces(
    quantities: Mapping[str, SampledQuantity],
    factors: Mapping[str, float],
    calibrated: Calibrated,
    estimate: SampleEstimate,
) -> SampleEstimate:
    """Return the estimate with what a second reading needs, calibrated: see SampleEstimate."""
    values = next(iter(quantities.values())).values
    rates = values.probabilities
    added = np.zeros(len(values))
    total = followed = 0.0
    for name, factor in factors.items():
        added = added + factor * quantities[name].added
        total += factor * quantities[name].total
        followed += factor * float(quantities[name].followed)
    spread = Spread.of(calibrated.residuals, rates)
    unseen = heavier_unseen(added * rates, rates, values.base)
    cautious = spread.variance + spread.largest + min(unseen, 2.0 * spread.variance)
    surprise = max(calibrated.above, calibrated.below)
    joined = added != 0.0
    return replace(
        estimate,
        factors=dict(factors),
        quantities=quantities,
        followed=followed,
        unfollowed=total + calibrated.shift - followed,
        variance=spread.variance,
        cautious_variance=cautious * max(1.0, surprise / 2.0),
        followed_variance=float((calibrated.residuals**2 * rates * (1.0 - rates)).sum()),
        carriers=spread.carriers,
        witnesses=int(joined.sum()),
        base=values.base,
        lowest_rate=float(rates[joined].min(initial=1.0)),
    )


# AVG, VAR and STDDEV over a join from a stream sample.
#
# They are linearized: near the estimate they are one combination of the join's quantities over a divisor, the
# count, and what each value adds to that combination gives their error. Few witnesses need care, because they
# always agree with the average that they determine. So a value's part is enlarged as if it were left out of the
# average, and the differences between witnesses in the relation itself replace what too few of them can show.


_LEAST_REST = 0.2
_HEAVIER_SQUARES = 8.0
"""How many times the variance heavier values may add to a sum of squares."""
_ROUNDING = 1e-9
"""Values whose ratios differ by less than this share agree."""
_FAR = 2.0
"""Standard deviations between rows by which the average of missing rows may differ."""
CANCELLED = 1e-12
"""The relative error of a sum of squares in floats: it matters where squares nearly cancel in a variance."""


def read_ratio(
    quantities: Mapping[str, SampledQuantity],
    function: str,
    totals: Mapping[str, Sequence[float | None]],
    confidence: float,
    late_rows: float = 0.0,
) -> SampleEstimate:
    """Return a function of sums: linearized at the uncorrected estimate, and calibrated by exact totals.

    Rows that are missing by exact totals, and those of late keys, may have another average: see `_open_to_missing`.
    """
    sums = {name: quantity.total for name, quantity in quantities.items()}
    moment, count = moment_named(function), quantities["count"]
    centre = moment.centre(sums)
    if isnan(centre) or sums["count"] <= 0.0:
        return SampleEstimate(nan, -inf, inf, base=count.values.base, quantities=quantities)
    factors = moment.factors(sums)
    rates = count.values.probabilities
    rest = 1.0 - np.abs(count.added) * (1.0 - rates) / sums["count"]
    calibrated = calibrated_combination(quantities, factors, totals)
    residuals = calibrated.residuals / np.maximum(rest, _LEAST_REST)
    calibrated = replace(calibrated, residuals=residuals, above=0.0, below=0.0)
    counted = Spread.of(count.added, rates)
    differences = row_differences(quantities, factors)
    hidden = hidden_by_few(ALIKE * differences, counted.variance, counted.carriers)
    removed = most_removed(count, totals.get("count", ()), confidence)
    hidden += removed**2 * differences  # rows that an anti join removes unseen may differ as rows do
    spread = Spread.of(calibrated.residuals, rates).with_hidden(hidden, counted.carriers)
    if moment.degree > 1:
        spread = spread.with_heavier(calibrated.residuals, rates, count.values.base, _HEAVIER_SQUARES)
    below, above = ends_of_sampled_values(spread, calibrated.below, calibrated.above, confidence)
    scarcity = float(moment.scarcity(np.count_nonzero(count.added)))
    below, above = (scarcity * each if scarcity < inf else inf for each in (below, above))
    tails = (0.0, 0.0)
    if not has_own_totals(quantities, totals, next(iter(factors))):
        carried, of_row = moment.tail(sums)
        sizes = (
            sum(factor * quantities[name].added for name, factor in carried.items()) + of_row * count.added
        )
        caution = TAIL_OF_SQUARES if moment.degree == 2 else TAIL_OF_SUM
        tails = margin_for_tails(count, sizes, caution, confidence)
        below, above = max(below, tails[0]), max(above, tails[1])
    rows = sums["count"] + calibrated_combination(quantities, {"count": 1.0}, totals).shift
    divisor = (
        rows if rows > 0.0 else sums["count"]
    )  # the number of rows is calibrated like the sum that it divides
    value = centre + calibrated.shift / divisor
    size = float(moment.size(sums))
    if max(below, above) <= _ROUNDING * size and np.count_nonzero(count.added) < FEW_WITNESSES:
        below = above = inf  # a single value, or a few that happen to agree, show no spread
    if moment.degree > 1:
        below, above = below + CANCELLED * size, above + CANCELLED * size
    found = SampleEstimate(
        value,
        value - below / divisor,
        value + above / divisor,
        centre=centre,
        divisor=divisor,
        mean=sums.get("sum", nan) / sums["count"],
        tails=(tails[0] / divisor, tails[1] / divisor),
    )
    found = with_pieces(quantities, factors, calibrated, found)
    found = _open_to_missing(found, moment, quantities, totals, differences, late_rows)
    value, low, high = (float(each) for each in moment.ends(found.value, found.low, found.high))
    return replace(found, value=value, low=low, high=high)


def _open_to_missing(
    found: SampleEstimate,
    moment: Moment,
    quantities: Mapping[str, SampledQuantity],
    totals: Mapping[str, Sequence[float | None]],
    differences: float,
    late_rows: float,
) -> SampleEstimate:
    """Return a ratio whose ends allow for joined rows that are missing by exact totals, or of late keys.

    differences: the variance between rows of the linearized quantity, used if the totals do not give the average of
    the missing rows.
    """
    count, known = quantities["count"], EVERY_ROW if EVERY_ROW in quantities else "count"
    missing = missing_of(count, relation_gaps(quantities[known], totals.get(known, ())))
    rows = missing.high + late_rows
    if rows <= 0.0:
        return found
    sums = {name: quantity.total for name, quantity in quantities.items()}
    share = sums["count"] / (sums["count"] + rows)
    if moment.sums_of_row(0.0) is None:
        # what a row adds to the linear form is known, but not how many measures it is made of
        far = (1.0 - share) * _FAR * sqrt(differences)
        values = [found.value - far, found.value + far]
    else:
        values = [
            moment.centre({name: sums[name] + rows * moments[name] for name in sums if name != EVERY_ROW})
            for moments in _sums_of_missing_row(moment, quantities, totals, sqrt(differences))
        ]
    lows = [value - share * (found.value - found.low) for value in values]
    highs = [value + share * (found.high - found.value) for value in values]
    return replace(found, low=min(found.low, *lows), high=max(found.high, *highs))


def _sums_of_missing_row(
    moment: Moment,
    quantities: Mapping[str, SampledQuantity],
    totals: Mapping[str, Sequence[float | None]],
    deviation: float,
) -> list[dict[str, float]]:
    """Return what a missing row may add to each sum: by the exact totals, or the extremes of what rows have."""
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
    return [sums for end in ends if (sums := moment.sums_of_row(end)) is not None]


def calibrated_combination(
    quantities: Mapping[str, SampledQuantity],
    factors: Mapping[str, float],
    totals: Mapping[str, Sequence[float | None]],
) -> Calibrated:
    """Return the correction of a combination of quantities, by the totals of the first one and of the count.

    For ad hoc queries it uses the totals of all rows.
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


def row_differences(quantities: Mapping[str, SampledQuantity], factors: Mapping[str, float]) -> float:
    """Return the variance, between the elements of the relations, of what a row adds to the linearized quantity.

    It sums over the relations, each with the others at their averages.
    """
    relations = range(len(quantities["count"].messages.relations))
    means = {
        name: [_mean(quantity, quantities["count"], k) for k in relations]
        for name, quantity in quantities.items()
    }
    total = 0.0
    for k in relations:
        counts = quantities["count"].messages.scaled_weights(k)
        held = counts > 0.0
        each = np.zeros(int(held.sum()))
        for name, factor in factors.items():
            others = float(np.prod([mean for j, mean in enumerate(means[name]) if j != k]))
            each += factor * others * quantities[name].messages.scaled_weights(k)[held] / counts[held]
        if len(each):
            middle = float(np.average(each, weights=counts[held]))
            total += float(np.average((each - middle) ** 2, weights=counts[held]))
    return total


def _mean(quantity: SampledQuantity, count: SampledQuantity, relation: int) -> float:
    rows = count.relation_weights(relation)[0]
    return quantity.relation_weights(relation)[0] / rows if rows else 1.0  # no row seen, as in an anti join
