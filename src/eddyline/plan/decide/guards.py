"""Guards: on which rows of a stream an expression that can fail is evaluated at all.

It is evaluated where a query that reads it counts the row: `SELECT SUM(a / b) FROM t WHERE b <> 0` has an answer,
though t has rows with b = 0. Where some query reads it on all rows, it is evaluated on all.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from eddyline.plan.decide.facets import Facet, flags_of
from eddyline.plan.layout import Demand, Flag, Guard, Measure
from eddyline.sql.failing import may_fail
from eddyline.sql.query import Expression, Key

_DIGITS_OF_64_BITS = 18
_Use = tuple[str, int]
"""An expression and the power that it is a measure of, 0 where it is a key or present."""


def guards_of(facets: Iterable[Facet], demands: Iterable[Demand] = ()) -> dict[str, tuple[Guard, ...]]:
    """Return the guards of each stream, given all that is read of it."""
    read: dict[str, dict[_Use, set[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(set))
    for facet in facets:
        for use in _uses((*facet.keys, *facet.groups), facet.flags, facet.measure):
            read[facet.stream][use].add(facet.predicates)
    for demand in demands:
        for use in _uses(demand.keys, flags_of(demand), demand.measure):
            read[demand.stream][use].add(demand.predicates)
    return {
        stream: tuple(
            Guard(*use, tuple(sorted(predicates)))
            for use, predicates in sorted(uses.items())
            if () not in predicates
        )
        for stream, uses in read.items()
    }


def _uses(keys: Iterable[Key], flags: Iterable[Flag], measure: Measure | None) -> Iterator[_Use]:
    """Yield the expressions that can fail among those that are read together."""
    parts: list[Expression] = [part for key in keys for part in key.columns]
    parts += [part for flag in flags for part in flag.presence]
    parts += [measure.expression] if measure is not None else []
    yield from ((part.text, 0) for part in parts if may_fail(part.text))
    if measure is not None and measure_may_fail(measure):
        yield measure.expression.text, measure.power


def measure_may_fail(measure: Measure) -> bool:
    """Return whether a measure has no value on some rows: its expression, or its number in fixed point."""
    kind = measure.expression.type
    wide = kind.is_float or (kind.kind == "decimal" and kind.precision > _DIGITS_OF_64_BITS)
    return wide or measure.power > 1 or may_fail(measure.expression.text)
