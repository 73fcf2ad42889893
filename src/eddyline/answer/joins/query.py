"""Aggregates over joins: chooses the reading that answers, and adds the notes."""

from collections.abc import Mapping
from math import inf

from eddyline.answer import notes
from eddyline.answer.aggregates import estimate_of, exact_estimate, unit_of, weighed_unit
from eddyline.answer.estimate import Estimate, most_rows, widened
from eddyline.answer.interval import Interval
from eddyline.answer.joins.late import BOTH, SAMPLE, read_late_join
from eddyline.answer.joins.quantities import read_quantities, sketched_aggregate, sketched_sides
from eddyline.answer.joins.residual import read_residual_join
from eddyline.answer.joins.sampled import held_join, missed_rows
from eddyline.answer.joins.two_way import RowEstimates
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.facets import EVERY_ROW
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.join import Join
from eddyline.sample.messages import exact_total
from eddyline.sql.query import Query

_MOSTLY = 0.9


def answer_join(
    snapshot: Snapshot, planned: PlannedQuery, query: Query, confidence: float, about: list[str]
) -> Estimate:
    """Return an aggregate over a join: exact while the sample holds everything, then by the query's method."""
    if planned.sample is None:
        return _by_sketches(snapshot, planned, query, confidence, about)
    assert planned.shape is not None
    join = held_join(snapshot, planned)
    if join.is_known:
        read = {name: each for name, each in planned.shape.quantities.items() if name != EVERY_ROW}
        totals = {name: exact_total(join, quantity) for name, quantity in read.items()}
        rounded = any(map(join.is_rounded, read.values()))
        return exact_estimate(planned.name, query.aggregate, totals, confidence, about, rounded=rounded)
    if planned.quantities and planned.method != "skimmed":
        interval = sketched_aggregate(
            query.aggregate.function, _readings(snapshot, planned, query), confidence
        )
        interval = widened(query.aggregate, interval, most_rows(snapshot, query))
        return estimate_of(planned, query.aggregate, interval, confidence, planned.method, about)
    return _by_sample(snapshot, planned, query, join, confidence, about)


def _by_sample(
    snapshot: Snapshot, planned: PlannedQuery, query: Query, join: Join, confidence: float, about: list[str]
) -> Estimate:
    """Return an aggregate by the sample, and for two relations by sketches of the rest as well."""
    function = query.aggregate.function
    totals = {
        name: [snapshot.weighed_total(each) for each in names] for name, names in planned.totals.items()
    }
    factor, rows = unit_of(query.aggregate), most_rows(snapshot, query)
    read = read_late_join(snapshot, planned, join, function, totals, confidence)
    sample = read.estimate
    few = [] if sample.exact else notes.few_joined_values(sample.witnesses, sample.base)
    few += [notes.HEAVY_TAIL] if sample.heavy_tail else []
    if not planned.quantities:
        interval = Interval(sample.value, sample.low, sample.high).scaled(factor)
        if (
            not query.aggregate.moment.is_sum
            and missed_rows(sample.quantities, read.totals, read.unknown_rows).share > notes.MOSTLY_MISSED
        ):
            interval, few = Interval(interval.value, -inf, inf), [*few, notes.HEAVY_VALUE_MISSED]
        method = BOTH if read.number else SAMPLE
        return estimate_of(
            planned,
            query.aggregate,
            widened(query.aggregate, interval, rows),
            confidence,
            method,
            [*about, *few],
        )
    both = read_residual_join(
        join, function, totals, sketched_sides(snapshot, planned.quantities), confidence, sample
    )
    about = [*about, *(few if both.weight > 1 - _MOSTLY else [])]
    interval = Interval(both.value, both.low, both.high).scaled(factor)
    return estimate_of(
        planned,
        query.aggregate,
        widened(query.aggregate, interval, rows),
        confidence,
        _method(both.weight),
        about,
    )


def _by_sketches(
    snapshot: Snapshot, planned: PlannedQuery, query: Query, confidence: float, about: list[str]
) -> Estimate:
    """Return an aggregate by sketches alone."""
    readings = _readings(snapshot, planned, query)
    interval = sketched_aggregate(query.aggregate.function, readings, confidence)
    interval = widened(query.aggregate, interval, most_rows(snapshot, query))
    dense = max(reading.dense for reading in readings.values())
    method = "hash" if planned.method == "skimmed" and dense == 0 else planned.method
    return estimate_of(planned, query.aggregate, interval, confidence, method, about)


def _readings(snapshot: Snapshot, planned: PlannedQuery, query: Query) -> Mapping[str, RowEstimates]:
    """Return the sketches' reading of each quantity, in the units of the answer."""
    return {
        name: reading.scaled(weighed_unit(query.aggregate, name))
        for name, reading in read_quantities(snapshot, query, planned.quantities, planned.method).items()
    }


def _method(weight: float) -> str:
    """Return which reading estimated what the sample does not follow: the sample, a sketch, or both."""
    if weight >= _MOSTLY:
        return SAMPLE
    return BOTH if weight > 1 - _MOSTLY else "skimmed"
