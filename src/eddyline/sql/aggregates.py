"""Aggregates of the SELECT list: the function, and its measure split into a factor per relation."""

from collections.abc import Iterator
from functools import reduce

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.compose import negative, one_where_not_null, product
from eddyline.sql.expressions import (
    Source,
    bare,
    check_allowed,
    fragment,
    relations_of,
    text,
    unparenthesised,
)
from eddyline.sql.filters import (
    PRESENT,
    aggregate_of,
    by_relation,
    conditioned,
    own_conditions,
    without_choice,
)
from eddyline.sql.query import Aggregate, Expression, Factor, Function
from eddyline.sql.typing import infer
from eddyline.types import SqlType

_FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
}
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
"""Operators of two operands whose result is NULL exactly where one of them is."""


def read_aggregate(node: exp.Expr, sources: tuple[Source, ...]) -> Aggregate:
    """Return the aggregate that an expression of the SELECT list asks for."""
    conditions, node = own_conditions(node), aggregate_of(node)
    function = _FUNCTIONS.get(type(node))
    if function is None:
        raise UnsupportedQuery(
            f"{fragment(node)!r} is no aggregate that eddyline answers: write COUNT, SUM, AVG, VARIANCE, STDDEV, "
            "MIN, MAX, MEDIAN, PERCENTILE, or a formula of them."
        )
    if isinstance(node.this, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(node)!r}: only COUNT takes it.")
    if function == "count" and len(node.expressions) > 0:
        raise UnsupportedQuery(f"COUNT takes one argument, not {fragment(node)!r}.")
    if isinstance(node.this, exp.Star):
        if function != "count":
            raise SqlError(f"{fragment(node)!r}: only COUNT takes a star.")
        return _filtered(Aggregate("count"), conditions, sources)
    check_allowed(node.this)
    infer(node.this, sources)
    argument, more = without_choice(node.this, sources)
    read = (
        _count_of(argument, sources)
        if function == "count"
        else Aggregate(function, _factors(argument, sources))
    )
    return _filtered(read, [*conditions, *more], sources)


def _filtered(aggregate: Aggregate, conditions: list[exp.Expr], sources: tuple[Source, ...]) -> Aggregate:
    """Return an aggregate of rows that meet conditions: a relation's factor is NULL where its own are not met."""
    factors = {factor.relation: factor.expression for factor in aggregate.factors}
    of_relations = by_relation(conditions, sources, constant=min(factors, default=0))
    for relation, texts in of_relations.items():
        factors[relation] = conditioned(factors.get(relation, PRESENT), texts)
    return Aggregate(aggregate.function, tuple(Factor(*each) for each in sorted(factors.items())))


def _count_of(argument: exp.Expr, sources: tuple[Source, ...]) -> Aggregate:
    """Return COUNT(x): rows whose x is not NULL, the measure being 1 there and NULL elsewhere.

    An x of several relations is there where each of its parts is, as long as only operators that are NULL for a
    NULL hold the parts together.
    """
    infer(argument, sources)
    if not argument.find(exp.Column, exp.Null):
        return Aggregate("count")
    by_relation: dict[int, list[exp.Expr]] = {}
    for part in _strict_parts(argument, sources):
        relations = relations_of(part, sources)
        if len(relations) > 1:
            raise UnsupportedQuery(
                f"COUNT({fragment(argument)}): {fragment(part)!r} reads several relations: COUNT is answered of "
                "what reads one, and of what is NULL exactly where one of such parts is."
            )
        by_relation.setdefault(min(relations, default=0), []).append(part)
    factors = []
    for relation, parts in sorted(by_relation.items()):
        flags = [bare(one_where_not_null(part), sources) for part in dict.fromkeys(parts)]
        factors.append(Factor(relation, Expression(text(reduce(product, flags)), SqlType("int"))))
    return Aggregate("count", tuple(factors))


def _strict_parts(node: exp.Expr, sources: tuple[Source, ...]) -> Iterator[exp.Expr]:
    """Yield the parts of an expression that is NULL exactly where one of them is, literals left out."""
    node = unparenthesised(node)
    if len(relations_of(node, sources)) < 2:
        if node.find(exp.Column, exp.Null):
            yield node
    elif isinstance(node, exp.Neg):
        yield from _strict_parts(node.this, sources)
    elif isinstance(node, _STRICT):
        yield from _strict_parts(node.left, sources)
        yield from _strict_parts(node.right, sources)
    else:
        yield node


def _factors(measure: exp.Expr, sources: tuple[Source, ...]) -> tuple[Factor, ...]:
    """Return the measure as a product of factors, at most one per relation."""
    infer(measure, sources)
    by_relation: dict[int, list[exp.Expr]] = {}
    constants: list[exp.Expr] = []
    is_negative, parts = False, [unparenthesised(measure)]
    if len(relations_of(measure, sources)) > 1:
        is_negative, parts = _product(measure)
    for part in parts:
        relations = relations_of(part, sources)
        if len(relations) > 1:
            raise UnsupportedQuery(
                f"{fragment(part)!r} mixes columns of several relations other than by a product: SUM(x + y) is "
                "SUM(x) FILTER (WHERE y IS NOT NULL) + SUM(y) FILTER (WHERE x IS NOT NULL)."
            )
        (by_relation.setdefault(min(relations), []) if relations else constants).append(part)
    first = min(by_relation, default=0)
    by_relation[first] = constants + by_relation.get(first, [])
    if is_negative:
        by_relation[first][0] = _opposite(by_relation[first][0], sources)
    return tuple(_factor(relation, parts, sources) for relation, parts in sorted(by_relation.items()))


def _product(node: exp.Expr) -> tuple[bool, list[exp.Expr]]:
    """Return (whether the sign is turned, factors) of a product."""
    node = unparenthesised(node)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
        turned, factors = _product(node.this)
        return not turned, factors
    if isinstance(node, exp.Mul):
        (left, factors), (right, others) = _product(node.left), _product(node.right)
        return left != right, factors + others
    return False, [node]


def _opposite(node: exp.Expr, sources: tuple[Source, ...]) -> exp.Expr:
    """Return a factor with the opposite sign; integers are widened first, for -(-128) is no TINYINT."""
    kind = infer(node, sources)
    widened = (
        exp.cast(node.copy(), "BIGINT", dialect="spark") if kind is not None and kind.is_integer else node
    )
    return negative(widened)


def _factor(relation: int, parts: list[exp.Expr], sources: tuple[Source, ...]) -> Factor:
    measure = reduce(product, parts)
    kind = infer(measure, sources)
    if kind is None or not kind.is_numeric:
        found = "a type that eddyline cannot work out" if kind is None else f"type {kind}"
        raise UnsupportedQuery(
            f"the measure {fragment(measure)!r} has {found}: wrap it in CAST(... AS DECIMAL(p, s)) or another "
            "numeric type."
        )
    return Factor(relation, Expression(text(bare(measure, sources)), kind))
