"""Guards of a pass: on which rows expressions that can fail are evaluated, for all that is kept of a stream."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from eddyline.plan.layout import Elements, KeptSynopsis, Measure
from eddyline.sketch.keys import BoolArray
from eddyline.sql.failing import may_fail
from eddyline.sql.query import Expression, Key

Predicates = tuple[tuple[str, ...], ...]
"""Conjunctions of predicates of which one must hold."""
_ALWAYS: Predicates = ((),)


def projected_guards(
    kept: Sequence[KeptSynopsis], elements: Sequence[Elements]
) -> tuple[dict[str, Predicates], dict[Measure, Predicates]]:
    """Return (the guards of expressions, the guards of measures) that serve all that is kept of a stream."""
    texts: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    measures: dict[Measure, set[tuple[str, ...]]] = defaultdict(set)
    for each in kept:
        demand = each.demand
        own = [demand.measure] if demand.measure is not None else []
        for text in _texts(demand.keys, demand.presence, own):
            texts[text].add(demand.predicates)
        for measure in own:
            measures[measure].add(demand.predicates)
    for part in elements:
        for text in _texts(part.keys, [p for flag in part.flags for p in flag.presence], part.measures):
            texts[text].update(part.guard(text) or _ALWAYS)
        for measure in part.measures:
            measures[measure].update(part.guard(measure.expression.text, measure.power) or _ALWAYS)
    return (
        {text: tuple(sorted(each)) for text, each in texts.items() if () not in each and may_fail(text)},
        {measure: tuple(sorted(each)) for measure, each in measures.items() if () not in each},
    )


def _texts(keys: Sequence[Key], presence: Sequence[Expression], measures: Sequence[Measure]) -> Iterator[str]:
    yield from (part.text for key in keys for part in key.columns)
    yield from (part.text for part in presence)
    yield from (measure.expression.text for measure in measures)


def any_of(
    predicates: Collection[tuple[str, ...]], truths: Mapping[tuple[str, ...], BoolArray]
) -> BoolArray | None:
    """Return the rows for which one of some conjunctions holds, None where that is all of them or none are given."""
    if not predicates:
        return None
    rows = np.logical_or.reduce([truths[each] for each in predicates])
    return None if rows.all() else np.asarray(rows)
