"""Distinct counts and set expressions: from followed values, or from distinct sketches if they are surer."""

from math import ceil, floor, inf

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate, Number
from eddyline.answer.joins.sample_estimate import SampleEstimate
from eddyline.answer.sets.condition import Condition, Except, Intersect, Member, Union
from eddyline.answer.sets.expression import set_cardinality
from eddyline.answer.sets.sampled import read_sample_set
from eddyline.errors import SketchError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.join import Join
from eddyline.sample.set_members import null_in_set, set_values
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sql.query import SetExpression, SetLeaf, SetQuery

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
    """Return what distinct sketches say, None where there are none or their capacity is exceeded."""
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
    specs: list[DistinctSpec] = []
    for name in planned.quantities["set"].sketches[0]:
        spec = snapshot.layout.by_id[name].spec
        assert isinstance(spec, DistinctSpec)
        specs.append(spec)
    counters = tuple(snapshot.counters[name] for name in planned.quantities["set"].sketches[0])
    reading = set_cardinality(_condition(query.expression), tuple(specs), counters, confidence)
    return reading.told(planned.name, confidence, "distinct", about)


def _condition(expression: SetExpression) -> Condition:
    if isinstance(expression, SetLeaf):
        return Member(expression.member)
    return _OPERATORS[expression.operator](_condition(expression.left), _condition(expression.right))


def _width(estimate: Estimate) -> float:
    low, high = estimate.low, estimate.high
    return high - low if isinstance(low, Number) and isinstance(high, Number) else inf
