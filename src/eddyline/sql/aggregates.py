"""The SELECT list: one aggregate, its measure split into a factor per relation."""

from collections.abc import Iterator

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.expressions import (
    Source,
    bare,
    check_allowed,
    fragment,
    relations_of,
    text,
    unparenthesised,
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


def read_aggregate(select: exp.Select, sources: tuple[Source, ...]) -> Aggregate:
    """Return the aggregate that a SELECT asks for."""
    if len(select.expressions) != 1:
        raise UnsupportedQuery(
            f"a query selects one aggregate and this one selects {len(select.expressions)}: make them queries of "
            "their own; they will share synopses."
        )
    node = select.expressions[0]
    node = unparenthesised(node.this if isinstance(node, exp.Alias) else node)
    function = _FUNCTIONS.get(type(node))
    if function is None:
        raise UnsupportedQuery(f"{fragment(node)!r} is not COUNT, SUM, AVG, VARIANCE or STDDEV.")
    if isinstance(node.this, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(node)!r}: only COUNT takes it.")
    if function == "count" and len(node.expressions) > 0:
        raise UnsupportedQuery(f"COUNT takes one argument, not {fragment(node)!r}.")
    if isinstance(node.this, exp.Star):
        if function != "count":
            raise SqlError(f"{fragment(node)!r}: only COUNT takes a star.")
        return Aggregate("count")
    check_allowed(node.this)
    if function == "count":
        return _count_of(node.this, sources)
    return Aggregate(function, _factors(node.this, sources))


def _count_of(argument: exp.Expr, sources: tuple[Source, ...]) -> Aggregate:
    """Return COUNT(x): rows whose x is not NULL, the measure being 1 there and NULL elsewhere."""
    if not list(argument.find_all(exp.Column)) and not list(argument.find_all(exp.Null)):
        return Aggregate("count")
    relations = relations_of(argument, sources)
    if len(relations) != 1:
        raise UnsupportedQuery(f"COUNT({fragment(argument)}) must read exactly one relation.")
    written = f"CASE WHEN {text(bare(argument, sources))} IS NOT NULL THEN 1 END"
    return Aggregate("count", (Factor(min(relations), Expression(written, SqlType("int"))),))


def _factors(measure: exp.Expr, sources: tuple[Source, ...]) -> tuple[Factor, ...]:
    """Return the measure as a product of factors, at most one per relation."""
    by_relation: dict[int, list[exp.Expr]] = {}
    constants: list[exp.Expr] = []
    for part in _product(measure) if len(relations_of(measure, sources)) > 1 else [unparenthesised(measure)]:
        relations = relations_of(part, sources)
        if len(relations) > 1:
            raise UnsupportedQuery(
                f"{fragment(part)!r} mixes columns of several relations other than by a product: ask the parts "
                "in queries of their own."
            )
        (by_relation.setdefault(min(relations), []) if relations else constants).append(part)
    first = min(by_relation, default=0)
    by_relation[first] = constants + by_relation.get(first, [])
    return tuple(_factor(relation, parts, sources) for relation, parts in sorted(by_relation.items()))


def _product(node: exp.Expr) -> Iterator[exp.Expr]:
    node = unparenthesised(node)
    if isinstance(node, exp.Mul):
        yield from _product(node.left)
        yield from _product(node.right)
    else:
        yield node


def _factor(relation: int, parts: list[exp.Expr], sources: tuple[Source, ...]) -> Factor:
    product = parts[0]
    for part in parts[1:]:
        product = exp.Mul(this=exp.paren(product), expression=exp.paren(part))
    kind = infer(product, sources)
    if kind is None or not kind.is_numeric:
        found = "a type that eddyline cannot work out" if kind is None else f"type {kind}"
        raise UnsupportedQuery(
            f"the measure {fragment(product)!r} has {found}: wrap it in CAST(... AS DECIMAL(p, s)) or another "
            "numeric type."
        )
    return Factor(relation, Expression(text(bare(product, sources)), kind))
