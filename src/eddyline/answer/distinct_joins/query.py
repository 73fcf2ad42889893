"""Distinct counts over joins: the coordinated samples of both sides, read in the query's form."""

from math import ceil, floor

from eddyline.answer.distinct_joins.reading import join_distinct
from eddyline.answer.distinct_joins.samples import JdSide
from eddyline.answer.estimate import Estimate
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Planned
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sql.query import JoinDistinctQuery


def answer_join_distinct(
    snapshot: Snapshot, planned: Planned, confidence: float, notes: list[str]
) -> Estimate:
    """Return the number of distinct values over a join."""
    assert isinstance(planned.query, JoinDistinctQuery)
    left, right = (_side(snapshot, name) for name in planned.terms["pairs"].sketches[0])
    reading = join_distinct(left, right, planned.query.form, confidence)
    if reading.note:
        notes = [*notes, reading.note]
    value, low, high = round(reading.value), floor(reading.low), ceil(reading.high)
    method = "exact" if reading.exact else "join-distinct"
    return Estimate(
        planned.name, value, low, high, confidence, method, exact=reading.exact, notes=tuple(notes)
    )


def _side(snapshot: Snapshot, name: str) -> JdSide:
    spec = snapshot.layout.by_id[name].spec
    assert isinstance(spec, JoinDistinctSpec)
    return JdSide(spec, snapshot.counters[name])
