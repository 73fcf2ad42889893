"""Distinct counts and set expressions: from followed values, or from distinct sketches if they are more precise."""

from math import ceil, floor, inf

import numpy as np

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate, Number
from eddyline.answer.interval import of_followed_count
from eddyline.answer.joins.sampled_ratios import SampleEstimate
from eddyline.answer.sets.document import EPSILON, Witnesses, document_cardinality
from eddyline.answer.sets.expression import (
    Condition,
    Except,
    Intersect,
    SeenCells,
    SetReading,
    StreamLeaf,
    Union,
    seen_in_cells,
    set_cardinality,
)
from eddyline.errors import SketchError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.demands import DEFAULT_METHOD
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.join import Join
from eddyline.sample.messages import null_in_set, set_values
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.two_level import TwoLevelSpec
from eddyline.sql.query import SetExpression, SetLeaf, SetQuery

# Distinct counts and set expressions from a stream sample: followed values, each weighted by 1/pi.
#
# Everything about a followed value is known, including whether it is in the expression. The count is the sum of
# 1/pi over the values that are; as with theta sketches, its error depends on their number and not on the streams.


def read_sample_set(join: Join, confidence: float) -> SampleEstimate:
    """Return how many values are in a set expression."""
    has_null, certain = null_in_set(join)
    rates = np.append(join.probabilities[0][set_values(join)], [1.0] * has_null)
    witnesses = len(rates)
    if join.follows_all:
        return SampleEstimate(
            witnesses, witnesses, witnesses, exact=True, followed=witnesses, witnesses=witnesses
        )
    base = join.state.rosters[join.shape.classes[0]].base
    value = float((1.0 / rates).sum())
    variance = float(((1.0 - rates) / rates**2).sum())
    _, low, high = of_followed_count(value, variance, base, confidence)
    return SampleEstimate(
        value,
        max(low, witnesses) - (has_null and not certain),
        max(high, witnesses) + (not has_null and not certain),
        followed=witnesses,
        unfollowed=value - witnesses,
        variance=variance,
        cautious_variance=variance,
        carriers=max(1.0, witnesses),
        witnesses=witnesses,
        base=base,
        lowest_rate=float(rates.min(initial=1.0)),
    )


_OPERATORS: dict[str, type[Union | Intersect | Except]] = {
    "union": Union,
    "intersect": Intersect,
    "except": Except,
}


def answer_set(
    snapshot: Snapshot, planned: PlannedQuery, query: SetQuery, confidence: float, about: list[str]
) -> Estimate:
    """Return the number of distinct elements of a set query."""
    if planned.sample is None:
        return _by_sketches(snapshot, planned, query, confidence, about)
    assert planned.shape is not None
    join = Join(snapshot.samples[planned.sample], planned.shape)
    if join.follows_all:
        return Estimate.exactly(
            planned.name, int(set_values(join).sum()) + null_in_set(join)[0], confidence, about
        )
    if planned.method != DEFAULT_METHOD:
        return _by_document(snapshot, planned, query, confidence, about)
    sample = read_sample_set(join, confidence)
    sketched = _by_sketches_if_they_can(snapshot, planned, query, confidence, about)
    if sketched is not None and (sketched.exact or _width(sketched) < sample.high - sample.low):
        return sketched
    return _by_sample(sample, planned, confidence, about)


def _by_sample(
    sample: SampleEstimate, planned: PlannedQuery, confidence: float, about: list[str]
) -> Estimate:
    """Return the number of elements from followed values."""
    about = [*about, *notes.few_joined_values(sample.witnesses, sample.base)]
    value, low = round(sample.value), floor(sample.low)
    high = ceil(sample.high) if sample.high < inf else inf
    return Estimate(planned.name, value, low, high, confidence, "sample", notes=tuple(about))


def _by_sketches_if_they_can(
    snapshot: Snapshot, planned: PlannedQuery, query: SetQuery, confidence: float, about: list[str]
) -> Estimate | None:
    """Return the reading of distinct sketches, None where they do not exist or their capacity is exceeded."""
    if not planned.quantities:
        return None
    try:
        return _by_sketches(snapshot, planned, query, confidence, about)
    except SketchError:
        return None


def _by_sketches(
    snapshot: Snapshot, planned: PlannedQuery, query: SetQuery, confidence: float, about: list[str]
) -> Estimate:
    """Return the number of elements from the distinct sketches of the members."""
    if planned.method != DEFAULT_METHOD:
        return _by_document(snapshot, planned, query, confidence, about)
    reading = set_cardinality(
        _condition(query.expression), *_distinct_sketches(snapshot, planned), confidence
    )
    return reading.estimate(planned.name, confidence, "distinct", about)


def _distinct_sketches(
    snapshot: Snapshot, planned: PlannedQuery
) -> tuple[tuple[DistinctSpec, ...], tuple[Int64Array, ...]]:
    """Return the specs and counters of the distinct sketches of a query's members."""
    specs: list[DistinctSpec] = []
    names = planned.quantities["set"].sketches[0]
    for name in names:
        spec = snapshot.layout.by_id[name].spec
        assert isinstance(spec, DistinctSpec)
        specs.append(spec)
    return tuple(specs), tuple(snapshot.counters[name] for name in names)


def read_seen_cells(snapshot: Snapshot, planned: PlannedQuery, query: SetQuery) -> SeenCells | None:
    """Return what the distinct sketches of an expression show; None where it can hold nothing."""
    return seen_in_cells(_condition(query.expression), *_distinct_sketches(snapshot, planned))


def _by_document(
    snapshot: Snapshot, planned: PlannedQuery, query: SetQuery, confidence: float, about: list[str]
) -> Estimate:
    """Return the number of elements from the document's 2-level hash sketches, by its estimators."""
    reading, found = read_document_set(snapshot, planned, query, confidence)
    if reading is None:
        note = notes.no_singleton(found.level)
        return Estimate.unknown(planned.name, confidence, planned.method, [*about, note])
    return reading.estimate(planned.name, confidence, planned.method, about)


def read_document_set(
    snapshot: Snapshot, planned: PlannedQuery, query: SetQuery, confidence: float
) -> tuple[SetReading | None, Witnesses]:
    """Return (what the document's sketches show, from which level and how many witnesses)."""
    sketches = []
    for name in planned.quantities["set"].sketches[0]:
        spec = snapshot.layout.by_id[name].spec
        assert isinstance(spec, TwoLevelSpec)
        sketches.append((spec, snapshot.counters[name]))
    epsilon = EPSILON if planned.guarantee is None else planned.guarantee.epsilon
    return document_cardinality(_condition(query.expression), sketches, confidence, epsilon)


def _condition(expression: SetExpression) -> Condition:
    if isinstance(expression, SetLeaf):
        return StreamLeaf(expression.member)
    return _OPERATORS[expression.operator](_condition(expression.left), _condition(expression.right))


def _width(estimate: Estimate) -> float:
    low, high = estimate.low, estimate.high
    return high - low if isinstance(low, Number) and isinstance(high, Number) else inf
