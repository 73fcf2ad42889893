"""Aggregates that need the single values of a group: distinct counts, quantiles, MIN and MAX.

COUNT(DISTINCT a, b)                                       tuples without a NULL
PERCENTILE_APPROX(x, p), PERCENTILE_DISC(p) WITHIN GROUP   the least value that a share p of the rows does not exceed
MEDIAN(x), PERCENTILE(x, p), PERCENTILE_CONT(p) ...        between the two values in question, as Spark has it
MIN(x), MAX(x)                                             while everything is held

Argument types are as in Spark: any type for MIN and MAX; numbers, dates and timestamps for PERCENTILE_APPROX;
numbers for the others. A quantile, MIN or MAX may be of an expression over several relations, such as a.x - b.y, and
of a difference of two times, which is an interval.
"""

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import Source, check_allowed, fragment, relations_of, unparenthesised
from eddyline.expressions.times import TIMES
from eddyline.expressions.typing import infer, literal_number
from eddyline.sql.aggregates import (
    PRESENT,
    Conditions,
    aggregate_of,
    by_relation,
    conditioned,
    own_conditions,
)
from eddyline.sql.cross_conditions import computed_value
from eddyline.sql.links import key_column, value_column
from eddyline.sql.query import Computed, Detail, GroupColumn
from eddyline.types import SqlType

_QUANTILES: dict[type[exp.Expr], str] = {
    exp.ApproxQuantile: "quantile",
    exp.PercentileDisc: "quantile",
    exp.Quantile: "percentile",
    exp.PercentileCont: "percentile",
    exp.Median: "percentile",
}
_ENDS: dict[type[exp.Expr], str] = {exp.Min: "min", exp.Max: "max"}


def is_detail(node: exp.Expr) -> bool:
    """Return whether an expression of the SELECT list needs the single values of a group."""
    node = aggregate_of(node)
    return (
        isinstance(node, exp.WithinGroup)
        or type(node) in _QUANTILES
        or type(node) in _ENDS
        or counts_distinct(node)
    )


def counts_distinct(node: exp.Expr) -> bool:
    """Return whether an expression of the SELECT list is COUNT(DISTINCT ...)."""
    node = aggregate_of(node)
    return isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct)


def read_detail(name: str, node: exp.Expr, sources: tuple[Source, ...]) -> Detail:
    """Return the aggregate that an expression asks for, with its name in the answer."""
    read = _read(name, aggregate_of(node), sources)
    conditions = by_relation(own_conditions(node), sources, constant=read.columns[0].relation)
    if read.computed is not UNSET:
        return replace(read, columns=(*read.columns, *_conditions_as_columns(conditions)))
    return replace(read, columns=_filtered(read, conditions, node))


def _filtered(detail: Detail, conditions: Conditions, node: exp.Expr) -> tuple[GroupColumn, ...]:
    """Return a detail's columns, NULL where conditions fail; distinct tuples get a column per other relation."""
    made = [
        replace(column, expression=conditioned(column.expression, conditions.get(column.relation, ())))
        for column in detail.columns
    ]
    others = {relation: conditions[relation] for relation in conditions.keys() - {c.relation for c in made}}
    if others and not detail.aggregate.counts:
        raise UnsupportedQuery(
            f"{fragment(node)!r}: the condition is on another relation than the column: ask for the aggregate alone, "
            "without GROUP BY."
        )
    return (*made, *_conditions_as_columns(others))


def _conditions_as_columns(conditions: Conditions) -> tuple[GroupColumn, ...]:
    """Return a column of each relation that is NULL in rows that do not meet its conditions."""
    return tuple(
        GroupColumn(" AND ".join(texts), relation, conditioned(PRESENT, texts))
        for relation, texts in sorted(conditions.items())
    )


def _read(name: str, node: exp.Expr, sources: tuple[Source, ...]) -> Detail:
    """Return a detail without its FILTER."""
    if counts_distinct(node):
        return Detail(name, "distinct", _columns(node.this.expressions, node, sources))
    if type(node) in _ENDS:
        if node.expressions:
            raise UnsupportedQuery(f"{fragment(node)!r}: MIN and MAX take one column.")
        columns, computed = _values(node.this, node, sources)
        return Detail(name, _ENDS[type(node)], columns, computed=computed)
    value, quantile = node.this, node
    if isinstance(node, exp.WithinGroup):
        value, quantile = _ordered_value(node), node.this
    function = _QUANTILES.get(type(quantile))
    if function is None:
        raise UnsupportedQuery(f"{fragment(node)!r} is not an aggregate that eddyline supports.")
    columns, computed = _values(value, node, sources)
    kind = columns[0].expression.type if computed is UNSET else computed.type
    _check_quantile(value, kind, quantile)
    return Detail(name, function, columns, _share(quantile, node, within=quantile is not node), computed)


def _ordered_value(node: exp.WithinGroup) -> exp.Expr:
    parts = node.expression.expressions if isinstance(node.expression, exp.Order) else []
    if len(parts) != 1 or parts[0].args.get("desc"):
        raise UnsupportedQuery(f"{fragment(node)!r}: WITHIN GROUP takes ORDER BY one column, ascending.")
    found: exp.Expr = parts[0].this
    return found


def _share(quantile: exp.Expr, node: exp.Expr, *, within: bool) -> float:
    """Return the share of the rows below a quantile."""
    if isinstance(quantile, exp.Median):
        return 0.5
    given = quantile.this if within else quantile.args.get("quantile")
    number = literal_number(given) if given is not None else None
    if number is None or not 0.0 <= float(number) <= 1.0:
        raise UnsupportedQuery(
            f"{fragment(node)!r}: a quantile takes one number from 0 to 1; ask several in columns of "
            "their own."
        )
    return float(number)


def _columns(nodes: list[exp.Expr], whole: exp.Expr, sources: tuple[Source, ...]) -> tuple[GroupColumn, ...]:
    """Return the columns whose distinct tuples are counted."""
    made: list[GroupColumn] = []
    for node in nodes:
        column = _column(node, whole, sources)
        if (column.relation, column.expression) not in [(c.relation, c.expression) for c in made]:
            made.append(column)
    return tuple(made)


def _values(
    node: exp.Expr, whole: exp.Expr, sources: tuple[Source, ...]
) -> tuple[tuple[GroupColumn, ...], Computed | UnsetType]:
    """Return the columns of a quantile, MIN or MAX, and how its value is computed from them.

    A value of one relation is a column of its own, which may be a FLOAT or a DOUBLE. A value of several relations,
    and a difference of times, are computed when the query is answered.
    """
    if isinstance(node, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(whole)!r}: only COUNT takes it.")
    node = unparenthesised(node)
    times = _times_of_difference(node, sources)
    if not times and (node.find(exp.AggFunc) or len(relations_of(node, sources)) < 2):
        return (_column(node, whole, sources, of_floats=True),), UNSET
    return computed_value(node, times or (node,), sources)


def _times_of_difference(node: exp.Expr, sources: tuple[Source, ...]) -> tuple[exp.Expr, ...]:
    """Return both sides of a difference of two times; nothing for any other expression."""
    if not isinstance(node, exp.Sub) or isinstance(node.expression, exp.Interval):
        return ()
    if node.find(exp.AggFunc) or not node.find(exp.Column):
        return ()
    check_allowed(node)
    kinds = [infer(side, sources) for side in (node.left, node.right)]
    if any(kind is None or kind.kind not in TIMES for kind in kinds):
        return ()
    if kinds[0] != kinds[1]:
        raise UnsupportedQuery(
            f"{fragment(node)!r} subtracts a {kinds[1]} from a {kinds[0]}, which depends on the time zone: CAST one "
            "side to the type of the other."
        )
    return node.left, node.right


def _check_quantile(value: exp.Expr, kind: SqlType, quantile: exp.Expr) -> None:
    """Raise UnsupportedQuery where Spark has no quantile of a type, or would cast a string for it."""
    if kind.is_numeric or kind.kind == "interval":
        return
    if kind.kind in TIMES and isinstance(quantile, exp.ApproxQuantile):
        return
    instead = (
        "of these Spark takes PERCENTILE_APPROX alone, which returns a value of the column"
        if kind.kind in TIMES
        else "quantiles are supported for numbers, dates and timestamps; CAST it to one"
    )
    raise UnsupportedQuery(f"a quantile of {fragment(value)!r}, which is of type {kind}: {instead}.")


def _column(
    node: exp.Expr, whole: exp.Expr, sources: tuple[Source, ...], *, of_floats: bool = False
) -> GroupColumn:
    node = unparenthesised(node)
    if node.find(exp.AggFunc):
        raise SqlError(f"{fragment(whole)!r} is an aggregate of an aggregate.")
    if node.is_star or not node.find(exp.Column):
        raise UnsupportedQuery(f"{fragment(whole)!r}: name a column of a stream.")
    check_allowed(node)
    relations = relations_of(node, sources)
    if len(relations) != 1:
        raise UnsupportedQuery(
            f"{fragment(node)!r} in {fragment(whole)!r} mixes columns of several relations: an aggregate of single "
            "values reads one."
        )
    expression = value_column(node, sources) if of_floats else key_column(node, sources)
    return GroupColumn(fragment(node), min(relations), expression)
