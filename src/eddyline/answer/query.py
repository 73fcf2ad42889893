"""Answers: from a snapshot and a planned query to an estimate.

An aggregate of one stream has exact counters. A query with a stream sample is exact while the sample follows every
value; from then on joins are read from the sample, joins of two relations together with sketches of what the sample
does not follow, and set expressions from the sample or from distinct sketches, whichever is surer. Without samples,
sketches answer alone.
"""

from dataclasses import replace

from eddyline.answer.aggregates import aggregate_value, told, whole_digits
from eddyline.answer.distinct_joins.query import answer_join_distinct
from eddyline.answer.estimate import Estimate
from eddyline.answer.joins.sketched import aggregate_of
from eddyline.answer.joins.terms import read_terms
from eddyline.answer.sampled_query import answer_sampled
from eddyline.answer.sets.query import answer_set
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Demand, Planned
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery


def answer(snapshot: Snapshot, planned: Planned, confidence: float) -> Estimate:
    """Return the estimate of a planned query at a confidence."""
    if not 0.5 <= confidence < 1:
        raise PlanError(f"confidence={confidence} is not between 0.5 and 1.")
    estimate = _estimate(snapshot, planned, confidence, _negative_notes(snapshot, planned))
    wanted = snapshot.layout.error
    if wanted is None or estimate.value is None or estimate.relative_error <= wanted:
        return estimate
    note = (
        f"the error of {wanted:.2g} that the workload asks for is not reached here: plan with a larger error, or give "
        "a budget."
    )
    return replace(estimate, notes=(*estimate.notes, note))


def _estimate(snapshot: Snapshot, planned: Planned, confidence: float, notes: list[str]) -> Estimate:
    query = planned.query
    if isinstance(query, Query) and not query.links:
        return _exact(snapshot, planned, query, confidence, notes)
    if planned.sample is not None:
        return answer_sampled(snapshot, planned, confidence, notes)
    snapshot = _with_sketches(snapshot, planned)
    if isinstance(query, SetQuery):
        return answer_set(snapshot, planned, confidence, notes)
    if isinstance(query, JoinDistinctQuery):
        return answer_join_distinct(snapshot, planned, confidence, notes)
    return _sketched(snapshot, planned, query, confidence, notes)


def _with_sketches(snapshot: Snapshot, planned: Planned) -> Snapshot:
    """Return the snapshot with the sketches that a query reads, built where they stand beside an exact sample."""
    for sample in snapshot.layout.samples:
        if any(kept.id in planned.ids for kept in sample.sketches):
            snapshot = snapshot.in_second_stage(sample.id)
    return snapshot


def _sketched(
    snapshot: Snapshot, planned: Planned, query: Query, confidence: float, notes: list[str]
) -> Estimate:
    """Return the estimate of an aggregate over a join by sketches alone."""
    readings = {
        name: reading.scaled(10.0 ** -whole_digits(query, name))
        for name, reading in read_terms(snapshot, query, planned.terms, planned.method).items()
    }
    interval = aggregate_of(query.aggregate.function, readings, confidence)
    dense = max(reading.dense for reading in readings.values())
    method = "hash" if planned.method == "skimmed" and dense == 0 else planned.method
    return told(planned, query, interval, confidence, method, notes)


def _exact(
    snapshot: Snapshot, planned: Planned, query: Query, confidence: float, notes: list[str]
) -> Estimate:
    """Return an aggregate over one stream, which exact counters hold."""
    totals = {name: int(snapshot.counters[term.sketches[0][0]][0]) for name, term in planned.terms.items()}
    value = aggregate_value(query, totals)
    return Estimate(planned.name, value, value, value, confidence, "exact", exact=True, notes=tuple(notes))


def _negative_notes(snapshot: Snapshot, planned: Planned) -> list[str]:
    """Return a note for each stream whose net count is below zero: deletes of rows never seen."""
    notes = []
    for name in planned.streams:
        rows = next(k for k in snapshot.layout.kept_for(name) if k.demand == Demand(name, "total"))
        net = int(snapshot.counters[rows.id][0])
        if net < 0:
            notes.append(
                f"stream {name!r} has a net count of {net:,}: rows were deleted whose inserts are not in it."
            )
    return notes
