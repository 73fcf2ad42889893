"""Queries with a stream sample: exact while every value is followed, then read from what is followed."""

from math import ceil, floor, inf

from eddyline.answer.aggregates import aggregate_value, told, whole_digits
from eddyline.answer.distinct_joins.counted import count_pairs
from eddyline.answer.distinct_joins.query import answer_join_distinct
from eddyline.answer.estimate import Estimate
from eddyline.answer.joins.residual import read_residual_join
from eddyline.answer.joins.sample_estimate import FEW_WITNESSES, SampleEstimate
from eddyline.answer.joins.sampled import read_sample_join
from eddyline.answer.joins.sketched import Interval, aggregate_of
from eddyline.answer.joins.terms import read_terms, sides_of
from eddyline.answer.sets.query import answer_set
from eddyline.answer.sets.sampled import read_sample_set
from eddyline.errors import SketchError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Planned
from eddyline.sample.messages import Join, exact_total, set_values
from eddyline.sample.spec import Shape
from eddyline.sample.state import SampleState
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery

SAMPLE = "sample"
_MOSTLY = 0.9
_NO_PAIRS = (
    "the rows no longer fit the stream sample, and the budget has no room for a synopsis of distinct pairs, which "
    "would answer from here on: plan with a larger budget."
)


def answer_sampled(snapshot: Snapshot, planned: Planned, confidence: float, notes: list[str]) -> Estimate:
    """Return the estimate of a query that has a stream sample."""
    assert planned.sample is not None
    state = snapshot.samples[planned.sample]
    query = planned.query
    if isinstance(query, JoinDistinctQuery):
        return _pairs(snapshot, planned, query, state, confidence, notes)
    shape = planned.shape
    assert shape is not None
    join = Join(state, shape)
    if isinstance(query, SetQuery):
        return _set(snapshot, planned, join, confidence, notes)
    if follows_all(state, shape):
        totals = {name: exact_total(join, term) for name, term in shape.terms.items()}
        return _exactly(planned, aggregate_value(query, totals), confidence, notes)
    return _join(snapshot, planned, query, join, confidence, notes)


def follows_all(state: SampleState, shape: Shape) -> bool:
    """Return whether the sample misses nothing of what a query reads."""
    return all(state.rosters[link].follows_all for link in shape.classes)


def _exactly(planned: Planned, value: float | None, confidence: float, notes: list[str]) -> Estimate:
    return Estimate(planned.name, value, value, value, confidence, "exact", exact=True, notes=tuple(notes))


def _join(
    snapshot: Snapshot, planned: Planned, query: Query, join: Join, confidence: float, notes: list[str]
) -> Estimate:
    """Return an aggregate over a join: by the sample, and for two relations by sketches of the rest as well."""
    function = query.aggregate.function
    totals = {
        name: [float(snapshot.counters[each][0]) for each in names] for name, names in planned.totals.items()
    }
    factor = _unit(query, function)
    if planned.terms and planned.method != "skimmed":
        readings = {
            name: reading.scaled(10.0 ** -whole_digits(query, name))
            for name, reading in read_terms(snapshot, query, planned.terms, planned.method).items()
        }
        return told(
            planned, query, aggregate_of(function, readings, confidence), confidence, planned.method, notes
        )
    sample = read_sample_join(join, function, totals, confidence)
    if not planned.terms:
        notes = [*notes, *_rate_notes(sample)]
        interval = Interval(sample.value * factor, sample.low * factor, sample.high * factor)
        return told(planned, query, interval, confidence, SAMPLE, notes)
    sides = sides_of(snapshot, planned.terms)
    both = read_residual_join(join, function, totals, sides, confidence)
    method = _method(both.weight)
    notes = [*notes, *(_rate_notes(sample) if both.weight > 1 - _MOSTLY else [])]
    interval = Interval(both.value * factor, both.low * factor, both.high * factor)
    return told(planned, query, interval, confidence, method, notes)


def _unit(query: Query, function: str) -> float:
    """Return what one unit of the dictionaries' integers is in the answer."""
    digits = whole_digits(query, "sum") if function != "count" else 0
    if function.startswith("var"):
        digits = whole_digits(query, "squares")
    elif function.startswith("stddev"):
        return float(10.0 ** (-whole_digits(query, "squares") / 2))
    return float(10.0**-digits)


def _method(weight: float) -> str:
    """Return which reading told what the sample does not follow: the sample, a sketch, or both."""
    if weight >= _MOSTLY:
        return SAMPLE
    return "sample and skimmed" if weight > 1 - _MOSTLY else "skimmed"


def _rate_notes(sample: SampleEstimate) -> list[str]:
    """Return notes on an answer that rests on few followed values, with what to do."""
    if sample.exact or sample.witnesses >= FEW_WITNESSES:
        return []
    note = (
        f"the sample holds {sample.witnesses} joined values, new ones followed at a rate of {sample.base:.2g}: more "
        "memory would make the answer steadier; after heavy deletes, building the state anew restores the rate."
    )
    return [note]


def _set(snapshot: Snapshot, planned: Planned, join: Join, confidence: float, notes: list[str]) -> Estimate:
    """Return a distinct count or set expression: from followed values, or from distinct sketches if surer."""
    if follows_all(join.state, join.shape):
        return _exactly(planned, int(set_values(join).sum()), confidence, notes)
    sample = read_sample_set(join, confidence)
    sketched = _set_sketched(snapshot, planned, confidence, notes)
    if sketched is not None and (sketched.exact or _width(sketched) < sample.high - sample.low):
        return sketched
    notes = [*notes, *_rate_notes(sample)]
    value, low = round(sample.value), floor(sample.low)
    high = ceil(sample.high) if sample.high < inf else inf
    return Estimate(planned.name, value, low, high, confidence, SAMPLE, notes=tuple(notes))


def _width(estimate: Estimate) -> float:
    return estimate.high - estimate.low if estimate.high is not None and estimate.low is not None else inf


def _set_sketched(
    snapshot: Snapshot, planned: Planned, confidence: float, notes: list[str]
) -> Estimate | None:
    """Return what distinct sketches say, None where there are none or their capacity is exceeded."""
    if not planned.terms:
        return None
    try:
        return answer_set(snapshot, planned, confidence, notes)
    except SketchError:
        return None


def _pairs(
    snapshot: Snapshot,
    planned: Planned,
    query: JoinDistinctQuery,
    state: SampleState,
    confidence: float,
    notes: list[str],
) -> Estimate:
    """Return a distinct count over a join: counted while exact dictionaries hold all, then from its own synopsis."""
    assert planned.sample is not None
    if not state.grouped:
        found = count_pairs(snapshot.layout.sample(planned.sample), state, query)
        if found is not None:
            return _exactly(planned, found, confidence, notes)
        snapshot = snapshot.in_second_stage(planned.sample)
    if not planned.terms:
        notes = [*notes, _NO_PAIRS]
        return Estimate(planned.name, None, None, None, confidence, SAMPLE, notes=tuple(notes))
    return answer_join_distinct(snapshot, planned, confidence, notes)
