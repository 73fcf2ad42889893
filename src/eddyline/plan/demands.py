"""What a query asks to be kept: for each of its terms, one demand per relation.

A term is a quantity that is read from synopses of one family: COUNT and SUM have one, AVG has both. A
demand says what of a stream a synopsis must hold; equal demands of different queries share one synopsis.
"""

from typing import Literal, get_args

import msgspec

from eddyline.plan.layout import Kept, Measure
from eddyline.sql.query import AnyQuery, Expression, JoinDistinctQuery, Key, Query, SetQuery

SynopsisFamily = Literal["total", "hash", "agms", "distinct", "peeling", "join-distinct"]
Method = Literal["skimmed", "hash", "skimmed-paper", "agms"]
METHODS: tuple[Method, ...] = get_args(Method)


class Demand(msgspec.Struct, frozen=True, order=True):
    """What of a stream a synopsis must hold, and in which family."""

    stream: str
    family: SynopsisFamily
    keys: tuple[Key, ...] = ()
    predicates: tuple[str, ...] = ()
    measure: Measure | None = None
    presence: tuple[Expression, ...] = ()
    sample: int = 0
    side: int = 0


def demand_of(kept: Kept) -> Demand:
    """Return the demand that a kept synopsis satisfies."""
    family: SynopsisFamily = kept.spec.__struct_config__.tag  # type: ignore[assignment]
    return Demand(
        kept.stream, family, kept.keys, kept.predicates, kept.measure, kept.presence, kept.sample, kept.side
    )


def terms_of(query: AnyQuery, method: Method) -> dict[str, tuple[Demand, ...]]:
    """Return the terms of a query: name to one demand per relation, or per member of a set expression."""
    if isinstance(query, SetQuery):
        return {"set": tuple(Demand(m.stream, "distinct", (m.key,), m.predicates) for m in query.members)}
    if isinstance(query, JoinDistinctQuery):
        return {"pairs": _sides(query)}
    if not query.joins:
        family: SynopsisFamily = "total"
    else:
        family = "agms" if method == "agms" else "hash"
    terms: dict[str, tuple[Demand, ...]] = {}
    function = query.aggregate.function
    if function == "count":
        terms["count"] = _term(query, family, measured=True)
    else:
        terms["sum"] = _term(query, family, measured=True)
        if function == "avg" or family == "total":
            terms["count"] = _term(query, family, measured=False)
    return terms


def _sides(query: JoinDistinctQuery) -> tuple[Demand, ...]:
    """Return what a distinct count over a join keeps: of either side, its projected columns and its join key."""
    keys = ((query.left, query.join.left_key), (query.right, query.join.right_key))
    return tuple(
        Demand(relation.stream, "join-distinct", key, relation.predicates, side=side)
        for side, (relation, key) in enumerate(zip(query.relations, keys, strict=True))
    )


def _term(query: Query, family: SynopsisFamily, *, measured: bool) -> tuple[Demand, ...]:
    """Return a term's demands: with the measures as weights, or with them only required to be there."""
    factors = {factor.relation: factor.expression for factor in query.aggregate.factors}
    return tuple(
        Demand(
            stream=relation.stream,
            family=family,
            keys=_keys(query, index),
            predicates=relation.predicates,
            measure=Measure(factors[index]) if measured and index in factors else None,
            presence=(factors[index],) if not measured and index in factors else (),
        )
        for index, relation in enumerate(query.relations)
    )


def _keys(query: Query, relation: int) -> tuple[Key, ...]:
    sides = [(join.left, join.left_key) for join in query.joins]
    sides += [(join.right, join.right_key) for join in query.joins]
    return tuple(key for index, key in sides if index == relation)
