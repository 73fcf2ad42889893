"""Answers of joins from a stream sample: whether it can answer, the estimate, and its interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.answer.interval import TAIL_OF_SUM, Interval, Spread, ends_of_sampled_values
from eddyline.answer.joins.missing import (
    allowed_by_totals,
    calibrate,
    missing_of,
    most_dropped,
    most_removed,
    relation_gaps,
    unseen_join,
)
from eddyline.answer.joins.sampled_ratios import (
    SampleEstimate,
    exact_sample_estimate,
    has_own_totals,
    margin_for_tails,
    read_ratio,
    with_pieces,
)
from eddyline.answer.joins.sampled_values import SampledQuantity, sampled_quantities
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.decide.facets import EVERY_ROW
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.join import Join
from eddyline.sample.spec import Shape

# `read_sample_join` puts the steps together: the sum-product of each quantity (sample/messages), what each value
# adds (sampled_values), the correction by exact totals (missing), the interval (answer/interval, missing). AVG, VAR
# and STDDEV are in sampled_ratios.


Totals = Mapping[str, Sequence[float | None]]
_HEAVIER = 8.0
"""How many times its variance heavier values may add to a join, per relation of a link beyond two.

The rows that three or more relations have of one value are multiplied, and such products have heavy tails."""


def read_sample_join(
    join: Join, function: str, totals: Totals, confidence: float, late_rows: float = 0.0
) -> SampleEstimate:
    """Return the answer of an aggregate over a join, in the units of the dictionaries' integers.

    function: its name in `aggregates.catalog`. totals: for each quantity the exact total of each relation's weight,
    its predicates applied and its links not NULL; None where it is unknown, and no entry for a quantity without
    known totals. Ad hoc queries are calibrated by EVERY_ROW: all rows of each relation that have its links,
    whatever the predicates. Where SQL answers NULL (AVG over no rows), the value is nan.
    """
    if join.follows_all:
        return exact_sample_estimate(join, function)
    return estimate_of_quantities(sampled_quantities(join), function, totals, confidence, late_rows)


def estimate_of_quantities(
    quantities: Mapping[str, SampledQuantity],
    function: str,
    totals: Totals,
    confidence: float,
    late_rows: float = 0.0,
) -> SampleEstimate:
    """Return the answer of an aggregate by its quantities as the sample sees them; totals as above.

    late_rows: the most joined rows of late keys, which are not in the totals. A ratio is open to what these average.
    """
    if moment_named(function).is_sum:
        return _read_sum(quantities, function, totals, confidence)
    return read_ratio(quantities, function, totals, confidence, late_rows)


@dataclass(frozen=True)
class Missed:
    """What exact totals show about the rows of a join that the sample does not show.

    share: the share of the rows that unfollowed values may hold. Nothing else is known of such rows: no average, no
    quantile and no group shows them. rows: how many. surprises: as `Calibrated` has them, (below, above).
    """

    share: float
    rows: float
    surprises: tuple[float, float]


def missed_rows(quantities: Mapping[str, SampledQuantity], totals: Totals, late_rows: float = 0.0) -> Missed:
    """Return what exact totals show about the rows that the sample does not show, and late keys."""
    count, known = quantities["count"], EVERY_ROW if EVERY_ROW in quantities else "count"
    gaps = relation_gaps(quantities[known], totals.get(known, ()))
    calibrated = calibrate(count.added, count.values.probabilities, gaps)
    missing = missing_of(count, gaps).high + late_rows
    share = missing / (max(count.total, 0.0) + missing) if missing else 0.0
    return Missed(share, missing, (calibrated.below, calibrated.above))


def _unseen(
    quantities: Mapping[str, SampledQuantity], function: str, totals: Totals, confidence: float
) -> float:
    """Return how much may exist that the sample does not show: of the rows, not more than of any rows."""
    hidden = unseen_join(quantities[function], totals.get(function, ()), confidence)
    hidden *= quantities[function].unseen_share
    if not moment_named(function).is_count or EVERY_ROW not in quantities:
        return hidden
    return min(hidden, unseen_join(quantities[EVERY_ROW], totals.get(EVERY_ROW, ()), confidence))


def _read_sum(
    quantities: Mapping[str, SampledQuantity], function: str, totals: Totals, confidence: float
) -> SampleEstimate:
    """Return COUNT or SUM: the calibrated estimate, with ends that allow for what is missing, by its sign."""
    quantity, values = quantities[function], quantities[function].values
    known = EVERY_ROW if EVERY_ROW in quantities else function
    gaps = relation_gaps(quantities[known], totals.get(known, ()))
    calibrated = calibrate(quantity.added, values.probabilities, gaps)
    value = quantity.total + calibrated.shift
    spread = Spread.of(calibrated.residuals, values.probabilities).with_heavier(
        calibrated.residuals,
        values.probabilities,
        values.base,
        _HEAVIER * quantity.multiplied,
    )
    signs = quantity.signs
    over, short = calibrated.below, calibrated.above
    surprises = {(0, 1): (over, short), (-1, 0): (short, over)}.get(signs, (max(over, short),) * 2)
    below, above = ends_of_sampled_values(spread, *surprises, confidence)
    rows = "count" if known == function and "count" in totals else known
    row_gaps = gaps if rows == known else relation_gaps(quantities[rows], totals.get(rows, ()))
    missing = missing_of(quantity, gaps, row_gaps, of_rows=known == EVERY_ROW)
    uncorrected = value - missing.certainty * calibrated.shift
    removed = most_removed(quantity, totals.get(known, ()), confidence)
    tails = (0.0, 0.0)
    is_count = moment_named(function).is_count
    if not is_count and "count" in quantities and not has_own_totals(quantities, totals, function):
        tails = margin_for_tails(quantities["count"], quantity.added, TAIL_OF_SUM, confidence)
    hidden = 0.0
    if not np.any(values.probabilities[quantity.added != 0.0] < 1.0):
        hidden = _unseen(quantities, function, totals, confidence)
    # what an anti join removes has the sign of what it is removed from; what is hidden, that of what is seen
    less = max(hidden if signs[0] else 0.0, removed if signs[1] else 0.0, tails[0])
    more = max(hidden if signs[1] else 0.0, removed if signs[0] else 0.0, tails[1])
    low = min(value, uncorrected + missing.low) - max(below, less)
    high = max(value, uncorrected + missing.high) + max(above, more)
    dropped = most_dropped(values.join.record, value, confidence)
    lost = max(-missing.low, dropped if signs[0] else 0.0), max(missing.high, dropped if signs[1] else 0.0)
    low, high = min(low, value - lost[0]), max(high, value + lost[1])
    found = SampleEstimate(value, low, high, missing=lost, tails=tails)
    estimate = with_pieces(quantities, {function: 1.0}, calibrated, found)
    doubt = max(hidden, -missing.low, missing.high) / 2.0
    estimate = replace(estimate, cautious_variance=max(estimate.cautious_variance, doubt**2))
    value, low, high = within_certain(quantity, totals.get(function, ()), estimate.interval)
    return replace(estimate, value=value, low=low, high=high)


def within_certain(quantity: SampledQuantity, totals: Sequence[float | None], interval: Interval) -> Interval:
    """Return COUNT or SUM within certain bounds: at least what followed values hold, at most what totals allow."""
    least, most = allowed_by_totals(quantity, totals)
    if quantity.signs == (0, 1):
        least = max(least, float(quantity.followed))
    elif quantity.signs == (-1, 0):
        most = min(most, float(quantity.followed))
    return Interval(*(min(max(each, least), max(most, least)) for each in interval))


# A query over the stream sample that answers it, and whether the sample can answer.


def held_join(snapshot: Snapshot, planned: PlannedQuery, shape: Shape | None = None) -> Join:
    """Return a query's quantities from its sample; shape: those to read, all by default.

    Raises PlanError where the sample no longer holds everything that the query needs: see `Shape.has_deep_sides`,
    `Shape.groups_missing_keys` and `Join.may_be_empty`.
    """
    assert planned.sample is not None
    assert planned.shape is not None
    shape = planned.shape if shape is None else shape
    join = Join(snapshot.samples[planned.sample], shape, _filled(snapshot, planned))
    if not join.follows_all and shape.has_deep_sides:
        why, what = "is itself a join", "plan with a larger budget"
        if isinstance(planned, AdHocQuery):
            why, what = "is held for a join on other columns, too", "add the query to the workload"
        raise PlanError(
            f"query {planned.name!r} has an outer, semi or anti join whose optional side {why}. Such a query needs "
            f"all rows, and they no longer fit the stream sample: {what}."
        )
    if not join.follows_all and shape.groups_missing_keys:
        raise PlanError(
            f"query {planned.name!r} groups by the join column of the optional side of an outer join. Such a query "
            "needs all rows, and they no longer fit the stream sample: group by the other side's column, or "
            "plan with a larger budget."
        )
    if not join.follows_all and join.may_be_empty and planned.totals.keys() <= {EVERY_ROW}:
        raise PlanError(
            f"query {planned.name!r}: the stream sample has no row of the subquery of NOT IN. Whether the subquery "
            "is empty decides the result for NULL: add the query to the workload, so that these rows are counted, "
            "and build the "
            "state again."
        )
    if join.may_have_null:
        raise PlanError(
            f"query {planned.name!r}: the stream sample has no NULL of the subquery of NOT IN, but not all rows fit "
            "it. A single NULL would make the result empty: plan with a larger budget, or write NOT EXISTS."
        )
    return join


def _filled(snapshot: Snapshot, planned: PlannedQuery) -> frozenset[int]:
    """Return the relations that have rows by their exact totals; those of EVERY_ROW are without predicates."""
    assert planned.shape is not None
    found = set()
    quantities = {name: each for name, each in planned.shape.quantities.items() if name != EVERY_ROW}
    for name, quantity in quantities.items():
        for index, (node, total) in enumerate(
            zip(quantity.nodes, planned.totals.get(name, ()), strict=False)
        ):
            if "not in" in node.roles and snapshot.total(total) > 0:
                found.add(index)
    return frozenset(found)


# The second stage of a sample that still holds everything: its sketches, for queries that name them.


def in_second_stage(snapshot: Snapshot, sample: str) -> Snapshot:
    """Return the snapshot with one sample in its second stage, which is built once."""
    if snapshot.samples[sample].grouped:
        return snapshot
    return snapshot.memo.recall(("second stage", sample), lambda: snapshot.in_second_stage(sample))
