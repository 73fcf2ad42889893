"""An estimate from a stream sample, and what a second reading needs to be combined with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import nan, sqrt

import numpy as np

from eddyline.answer.interval import FloatArray, Interval, Spread, Tail, heavier_unseen
from eddyline.answer.joins.calibration import Calibrated
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.plan.decide.facets import EVERY_ROW
from eddyline.sample.join import Join
from eddyline.sample.messages import exact_total


@dataclass(frozen=True)
class SampleEstimate:
    """An estimate from a sample, with its interval, and what a second reading needs to be combined with it.

    The answer is centre + quantity / divisor, with quantity the combination of the query's quantities by `factors`: for
    COUNT and SUM the centre is 0, the divisor 1 and the quantity the answer itself; for AVG and VAR the centre is the
    answer by the quantities as they are, the divisor the count, and the quantity what is linearized, 0 at the centre.
    followed: the quantity over followed values alone, exact. unfollowed: the calibrated estimate of the rest.
    variance: of `unfollowed`, as its own values tell it; cautious_variance: with the heaviest value twice,
    those that may be unseen, and more where exact totals surprise; followed_variance: what the followed values
    themselves add to the true one.
    carriers: how many values carry the variance. witnesses: how many followed values join. base: the lowest base
    rate of the query's links; lowest_rate: of the values that join. exact: nothing is missing. mean: the average of
    the measure, for AVG and variances. heavy_tail: the largest values carry it, and those that are not held have no
    bound. quantities: what was read, for a second reading to go on with. missing: how far below and above the estimate
    rows may take it that the sample does not show, though exact totals or reductions do.
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
    heavy_tail: bool = False
    quantities: Mapping[str, SampledQuantity] = field(default_factory=dict, repr=False, compare=False)

    @property
    def interval(self) -> Interval:
        """The estimate and its ends."""
        return Interval(self.value, self.low, self.high)

    @property
    def missing_share(self) -> float:
        """The share of a number of rows that the sample may not show."""
        above = self.missing[1]
        return above / (max(self.value, 0.0) + above) if above > 0.0 else 0.0


def aggregate_of(function: str, quantities: Mapping[str, float]) -> float:
    """Return an aggregate from the sums over the join: count, sum and sum of squares; nan where SQL says NULL."""
    if function in ("count", "sum"):
        return quantities[function]
    count = quantities["count"]
    if function == "avg":
        return quantities["sum"] / count if count else nan
    rows = count - 1.0 if function.endswith("_samp") else count
    if rows <= 0.0:
        return nan
    deviations = max(quantities["squares"] - quantities["sum"] ** 2 / count, 0.0)
    return sqrt(deviations / rows) if function.startswith("stddev") else deviations / rows


def has_own_totals(
    quantities: Mapping[str, SampledQuantity], totals: Mapping[str, Sequence[float | None]], name: str
) -> bool:
    """Return whether exact totals of a quantity itself are known, as of planned queries: they show large values."""
    return EVERY_ROW not in quantities and any(total is not None for total in totals.get(name, ()))


def room_for_tails(
    count: SampledQuantity, sizes: FloatArray, caution: float, confidence: float
) -> tuple[float, float]:
    """Return how far values larger than all that are held may move an estimate: (below it, above it).

    For sums of a measure whose exact totals are not known. sizes: what each value adds, scaled up, by so many rows
    (`count`). A value may add much because it has many rows, which are calibrated for, or because it has few rows that
    are not averaged. So its size is taken as it is and by the row, and the smaller room counts. caution: as in
    `Tail.more_unseen`.
    """
    rows = np.abs(count.added)
    held = rows > 0.0
    if not np.any(held):
        return 0.0, 0.0
    rates, rows, sizes = count.values.probabilities[held], rows[held], sizes[held]
    average = float(rows.sum() / (1.0 / rates).sum())

    def room(parts: FloatArray) -> float:
        tail = Tail.of(parts, rates, count.values.base)
        return 0.0 if tail is None else tail.more_unseen(caution, confidence)

    below, above = (min(room(s * sizes * rates), room(s * average * sizes / rows)) for s in (-1.0, 1.0))
    return below, above


def exact_estimate(join: Join, function: str) -> SampleEstimate:
    """Return the answer where every value is followed; the integers are exact up to the last division."""
    quantities = {
        name: Fraction(exact_total(join, quantity), 1 << -quantity.lowest)
        for name, quantity in join.shape.quantities.items()
    }
    if "squares" in quantities and quantities["count"]:
        deviations = quantities["squares"] - quantities["sum"] ** 2 / quantities["count"]
        value = aggregate_of(
            function, {"squares": float(deviations), "sum": 0.0, "count": float(quantities["count"])}
        )
    else:
        value = aggregate_of(function, {name: float(each) for name, each in quantities.items()})
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
