"""Answers: from a snapshot and a planned query to an estimate."""

from math import ceil, floor, inf, isnan

from eddyline.answer.estimate import Estimate
from eddyline.answer.join_distinct_query import answer_join_distinct
from eddyline.answer.join_terms import read_term
from eddyline.answer.ratio import ratio
from eddyline.answer.reading import Reading
from eddyline.answer.set_query import answer_set
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Planned
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery


def answer(snapshot: Snapshot, planned: Planned, confidence: float) -> Estimate:
    """Return the estimate of a planned query at a confidence."""
    if not 0.5 <= confidence < 1:
        raise PlanError(f"confidence={confidence} is not between 0.5 and 1.")
    notes = _negative_notes(snapshot, planned)
    if isinstance(planned.query, SetQuery):
        return answer_set(snapshot, planned, confidence, notes)
    if isinstance(planned.query, JoinDistinctQuery):
        return answer_join_distinct(snapshot, planned, confidence, notes)
    return _aggregate(snapshot, planned, planned.query, confidence, notes)


def _aggregate(
    snapshot: Snapshot, planned: Planned, query: Query, confidence: float, notes: list[str]
) -> Estimate:
    """Return the estimate of a COUNT, SUM or AVG."""
    if not query.joins:
        return _exact(snapshot, planned, query.aggregate.function, confidence, notes)
    readings = {term: read_term(snapshot, ids, planned.method) for term, ids in planned.terms.items()}
    scale = 10.0 ** _scale(snapshot, planned)
    function = query.aggregate.function
    if function == "avg":
        value, low, high = (end / scale for end in ratio(readings["sum"], readings["count"], confidence))
    else:
        value, low, high = (end / scale for end in _interval(readings[function], confidence))
    if isnan(value):
        return Estimate(
            planned.name,
            None,
            None,
            None,
            confidence,
            planned.method,
            notes=(*notes, "the join has no rows."),
        )
    if function == "count":
        value, low, high = max(round(value), 0), max(floor(low), 0), max(ceil(high), 0)
    reading = readings[function if function != "avg" else "sum"]
    notes += _width_notes(value, low, high)
    return Estimate(planned.name, value, low, high, confidence, _method(planned, reading), notes=tuple(notes))


def _interval(reading: Reading, confidence: float) -> tuple[float, float, float]:
    half = reading.half_width(confidence)
    return reading.value, reading.value - half, reading.value + half


def _exact(
    snapshot: Snapshot, planned: Planned, function: str, confidence: float, notes: list[str]
) -> Estimate:
    """Return an aggregate over one stream, which exact counters hold."""
    totals = {term: int(snapshot.counters[ids[0]][0]) for term, ids in planned.terms.items()}
    scale = 10 ** _scale(snapshot, planned)
    value: int | float | None
    if function == "count":
        value = totals["count"]
    elif totals["count"] == 0:
        value = None
    elif function == "sum":
        value = totals["sum"] if scale == 1 else totals["sum"] / scale
    else:
        value = totals["sum"] / scale / totals["count"]
    return Estimate(planned.name, value, value, value, confidence, "exact", exact=True, notes=tuple(notes))


def _scale(snapshot: Snapshot, planned: Planned) -> int:
    """Return the decimal digits that the fixed-point measures of the query carry together."""
    ids = planned.terms.get("sum", ())
    measures = [snapshot.layout.by_id[identifier].measure for identifier in ids]
    return sum(measure.scale for measure in measures if measure is not None)


def _method(planned: Planned, reading: Reading) -> str:
    return "hash" if planned.method == "skimmed" and reading.dense == 0 else planned.method


def _negative_notes(snapshot: Snapshot, planned: Planned) -> list[str]:
    """Return a note for each stream whose net count is below zero: deletes of rows never seen."""
    notes = []
    query = planned.query
    parts = query.members if isinstance(query, SetQuery) else query.relations
    for name in dict.fromkeys(part.stream for part in parts):
        rows = next(
            k
            for k in snapshot.layout.kept_for(name)
            if k.spec.words == 1 and not k.predicates and not k.measure
        )
        net = int(snapshot.counters[rows.id][0])
        if net < 0:
            notes.append(
                f"stream {name!r} has a net count of {net:,}: rows were deleted whose inserts are not in it."
            )
    return notes


def _width_notes(value: float, low: float, high: float) -> list[str]:
    half = (high - low) / 2
    if half <= abs(value):
        return []
    if half == inf or value == 0:
        return [
            "the interval is wider than the estimate: the join may be empty or far smaller than the noise."
        ]
    factor = (half / (0.1 * abs(value))) ** 2
    return [
        f"the interval is wider than the estimate; about {factor:,.0f} times the memory would bring it to 10%."
    ]
