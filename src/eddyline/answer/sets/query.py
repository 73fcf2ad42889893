"""Set queries: the distinct sketches of their members, read as one expression."""

from math import ceil, floor

from eddyline.answer.estimate import Estimate
from eddyline.answer.sets.condition import Condition, Except, Intersect, Member, Union
from eddyline.answer.sets.expression import set_cardinality
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Planned
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sql.query import SetExpression, SetLeaf, SetQuery

_OPERATORS: dict[str, type[Union | Intersect | Except]] = {
    "union": Union,
    "intersect": Intersect,
    "except": Except,
}


def answer_set(snapshot: Snapshot, planned: Planned, confidence: float, notes: list[str]) -> Estimate:
    """Return the number of distinct elements of a set query."""
    assert isinstance(planned.query, SetQuery)
    specs: list[DistinctSpec] = []
    for name in planned.terms["set"].sketches[0]:
        spec = snapshot.layout.by_id[name].spec
        assert isinstance(spec, DistinctSpec)
        specs.append(spec)
    counters = tuple(snapshot.counters[name] for name in planned.terms["set"].sketches[0])
    reading = set_cardinality(_condition(planned.query.expression), tuple(specs), counters, confidence)
    if reading.note:
        notes = [*notes, reading.note]
    value, low, high = round(reading.value), floor(reading.low), ceil(reading.high)
    method = "exact" if reading.exact else "distinct"
    return Estimate(
        planned.name, value, low, high, confidence, method, exact=reading.exact, notes=tuple(notes)
    )


def _condition(expression: SetExpression) -> Condition:
    if isinstance(expression, SetLeaf):
        return Member(expression.member)
    return _OPERATORS[expression.operator](_condition(expression.left), _condition(expression.right))
