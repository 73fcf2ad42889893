"""Answers: from a snapshot and a planned query to an estimate."""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor, inf, isnan, sqrt

from eddyline.answer import sampled as samples
from eddyline.answer import sketched as sketches
from eddyline.answer.combined import SAMPLE, combine
from eddyline.answer.estimate import Estimate
from eddyline.answer.join_distinct_query import answer_join_distinct
from eddyline.answer.join_terms import read_terms
from eddyline.answer.key_sample import SampleReading
from eddyline.answer.set_query import answer_set
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Demand, Planned, Term
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery

FEW_WITNESSES = 30


def answer(snapshot: Snapshot, planned: Planned, confidence: float) -> Estimate:
    """Return the estimate of a planned query at a confidence."""
    if not 0.5 <= confidence < 1:
        raise PlanError(f"confidence={confidence} is not between 0.5 and 1.")
    notes = _negative_notes(snapshot, planned)
    if isinstance(planned.query, SetQuery):
        return answer_set(snapshot, planned, confidence, notes)
    if isinstance(planned.query, JoinDistinctQuery):
        return answer_join_distinct(snapshot, planned, confidence, notes)
    if not planned.query.links:
        return _exact(snapshot, planned, planned.query.aggregate.function, confidence, notes)
    return _aggregate(snapshot, planned, planned.query, confidence, notes)


def _aggregate(
    snapshot: Snapshot, planned: Planned, query: Query, confidence: float, notes: list[str]
) -> Estimate:
    """Return the estimate of an aggregate over a join."""
    function = query.aggregate.function
    digits = {name: _scale(snapshot, term) for name, term in planned.terms.items()}
    sampled = _read_samples(snapshot, planned, query)
    if sampled and all(reading.exact for reading in sampled.values()):
        return _told_exactly(planned, function, sampled, digits, confidence, notes)
    scales = {name: 10.0**-each for name, each in digits.items()}
    sketched = {
        name: reading.scaled(scales[name])
        for name, reading in read_terms(snapshot, query, planned.terms, planned.method).items()
    }
    interval = sketches.aggregate_of(function, sketched, confidence)
    dense = max(reading.dense for reading in sketched.values())
    method = "hash" if planned.method == "skimmed" and dense == 0 else planned.method
    if sampled:
        scaled = {name: samples.scaled(reading, scales[name]) for name, reading in sampled.items()}
        other = samples.aggregate_of(function, scaled, sketched, confidence)
        interval, method = combine(interval, other, method)
        notes += _thin_notes(method, sampled)
    value, low, high = interval
    if isnan(value):
        told = (*notes, "the join has no rows.")
        return Estimate(planned.name, None, None, None, confidence, method, notes=told)
    if function == "count":
        value, low, high = max(round(value), 0), max(floor(low), 0), max(ceil(high), 0)
    if function not in ("sum", "avg"):
        low = max(low, 0)
    notes += _width_notes(value, low, high)
    return Estimate(planned.name, value, low, high, confidence, method, notes=tuple(notes))


def _read_samples(snapshot: Snapshot, planned: Planned, query: Query) -> dict[str, SampleReading]:
    """Return what the key samples say of each term, in fixed point; nothing where a term has none."""
    if not all(term.samples for term in planned.terms.values()):
        return {}
    return {name: samples.read_samples(snapshot, query, term) for name, term in planned.terms.items()}


def _told_exactly(
    planned: Planned,
    function: str,
    sampled: Mapping[str, SampleReading],
    digits: Mapping[str, int],
    confidence: float,
    notes: list[str],
) -> Estimate:
    """Return an aggregate over a join of which the samples hold every row."""
    totals = {name: int(reading.value) for name, reading in sampled.items()}
    value = _exact_value(function, totals, {name: 10**each for name, each in digits.items()})
    if value is None:
        notes = [*notes, "the join has no rows." if totals["count"] == 0 else "the join has one row."]
    return Estimate(planned.name, value, value, value, confidence, SAMPLE, exact=True, notes=tuple(notes))


def _exact(
    snapshot: Snapshot, planned: Planned, function: str, confidence: float, notes: list[str]
) -> Estimate:
    """Return an aggregate over one stream, which exact counters hold."""
    totals = {name: int(snapshot.counters[term.sketches[0][0]][0]) for name, term in planned.terms.items()}
    scales = {name: 10 ** _scale(snapshot, term) for name, term in planned.terms.items()}
    value = _exact_value(function, totals, scales)
    return Estimate(planned.name, value, value, value, confidence, "exact", exact=True, notes=tuple(notes))


def _exact_value(function: str, totals: dict[str, int], scales: dict[str, int]) -> int | float | None:
    """Return an aggregate from its exact totals, None (NULL) where there is nothing to aggregate."""
    count = totals.get("count", 1)  # a SUM over a join keeps none, and is 0 where nothing joins
    if function == "count":
        return count
    if count == 0 or (function.endswith("_samp") and count == 1):
        return None
    if function == "sum":
        return totals["sum"] if scales["sum"] == 1 else totals["sum"] / scales["sum"]
    if function == "avg":
        return totals["sum"] / scales["sum"] / count
    deviations = (
        Fraction(totals["squares"], scales["squares"]) - Fraction(totals["sum"], scales["sum"]) ** 2 / count
    )
    spread = float(deviations / (count - 1 if function.endswith("_samp") else count))
    return sqrt(max(spread, 0.0)) if function.startswith("stddev") else spread


def _scale(snapshot: Snapshot, term: Term) -> int:
    """Return the decimal digits that the fixed-point measures of a term carry together."""
    measures = [snapshot.layout.by_id[name].demand.measure for name in term.sketches[0]]
    return sum(measure.scale for measure in measures if measure is not None)


def _thin_notes(method: str, sampled: Mapping[str, SampleReading]) -> list[str]:
    """Return a note where an answer rests on few sampled rows."""
    witnesses = min(reading.witnesses for reading in sampled.values())
    if SAMPLE not in method or witnesses >= FEW_WITNESSES or all(each.exact for each in sampled.values()):
        return []
    return [f"the key sample holds {witnesses} joined values: more memory would make the answer steadier."]


def _negative_notes(snapshot: Snapshot, planned: Planned) -> list[str]:
    """Return a note for each stream whose net count is below zero: deletes of rows never seen."""
    notes = []
    query = planned.query
    parts = query.members if isinstance(query, SetQuery) else query.relations
    for name in dict.fromkeys(part.stream for part in parts):
        rows = next(k for k in snapshot.layout.kept_for(name) if k.demand == Demand(name, "total"))
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
