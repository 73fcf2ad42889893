"""Distinct counts and set expressions: COUNT(DISTINCT ...) of a stream, COUNT(*) over UNION, INTERSECT, EXCEPT."""

from collections.abc import Mapping

from msgspec.structs import replace
from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.clauses import check_clauses
from eddyline.sql.compose import is_not_null
from eddyline.sql.expressions import Source, check_allowed, fragment, relations_of, unparenthesised
from eddyline.sql.expressions import text as written
from eddyline.sql.groups import read_group_query
from eddyline.sql.join_distinct import read_join_distinct
from eddyline.sql.joins import read_from
from eddyline.sql.key_columns import check_meet, key_column
from eddyline.sql.query import (
    Expression,
    GroupQuery,
    JoinDistinctQuery,
    Key,
    SetExpression,
    SetLeaf,
    SetMember,
    SetNode,
    SetQuery,
)
from eddyline.sql.semi_joins import with_semi_joins_as_joins
from eddyline.sql.sides import sides_of
from eddyline.sql.typing import literal_number
from eddyline.types import Column

Streams = Mapping[str, tuple[Column, ...]]


def read_set_query(
    text: str, select: exp.Select, streams: Streams
) -> SetQuery | JoinDistinctQuery | GroupQuery | None:
    """Return the set query that a SELECT asks, or None where it asks something else."""
    aggregate = select.expressions[0] if len(select.expressions) == 1 else None
    aggregate = unparenthesised(
        aggregate.this if isinstance(aggregate, exp.Alias) else aggregate or exp.Null()
    )
    if not isinstance(aggregate, exp.Count):
        return None
    if isinstance(aggregate.this, exp.Distinct):
        return _distinct_count(text, select, streams)
    start = select.args.get("from_")
    if start is None or not isinstance(start.this, exp.Subquery):
        return None
    if not isinstance(aggregate.this, exp.Star):
        raise UnsupportedQuery(f"{fragment(aggregate)!r}: over a set expression only COUNT(*) is answered.")
    check_clauses(select, {"expressions", "from_"})
    inner = start.this.unnest()
    if isinstance(inner, exp.Select) and inner.args.get("distinct"):
        return _distinct_rows(text, inner, streams)
    if isinstance(inner, exp.Select):
        raise UnsupportedQuery(
            f"{fragment(inner)!r} keeps duplicates: to count its rows leave the subquery out, to count its groups "
            "write SELECT DISTINCT of what it groups by."
        )
    members: list[SetMember] = []
    expression = _read_expression(start.this, streams, members)
    return SetQuery(text, tuple(members), expression)


def _distinct_count(
    text: str, select: exp.Select, streams: Streams
) -> SetQuery | JoinDistinctQuery | GroupQuery:
    """Return COUNT(DISTINCT a, b): tuples without NULL; under cross conditions a detail of one row of groups."""
    check_clauses(select, {"expressions", "from_", "joins", "where"})
    outer, semi = with_semi_joins_as_joins(select, streams)
    if not semi and read_from(outer, streams).conditions:
        return read_group_query(text, outer, streams)
    count = outer.find(exp.Distinct)
    assert count is not None
    return _counted(text, outer, count.expressions, streams, semi=semi, null_is_value=False)


def _distinct_rows(text: str, select: exp.Select, streams: Streams) -> SetQuery | JoinDistinctQuery:
    """Return COUNT(*) over SELECT DISTINCT a, b: tuples with NULL among them."""
    check_clauses(select, {"expressions", "from_", "joins", "where", "distinct"})
    outer, semi = with_semi_joins_as_joins(select, streams)
    return _counted(text, outer, outer.expressions, streams, semi=semi, null_is_value=True)


def _counted(
    text: str, select: exp.Select, nodes: list[exp.Expr], streams: Streams, *, semi: bool, null_is_value: bool
) -> SetQuery | JoinDistinctQuery:
    """Return the number of distinct tuples of columns, whatever their order, over one stream or a join of two."""
    relations, links, sources, conditions = read_from(select, streams)
    if sides_of(links) or conditions:
        raise UnsupportedQuery(
            f"{fragment(select)!r}: distinct counts are answered over inner joins and over one semi-join, not over "
            "outer joins, anti joins or another subquery; under conditions between relations only as COUNT(DISTINCT "
            "...) over an inner join."
        )
    for node in nodes if semi else []:
        if relations_of(node, sources) - {0}:
            raise SqlError(
                f"{fragment(node)!r} is a column of the semi-join's other side, which the query cannot see."
            )
    nodes, needed = _without_constants(nodes, null_is_value=null_is_value)
    if needed:
        first = relations[0]
        predicates = tuple(sorted({*first.predicates, *needed}))
        relations = (replace(first, predicates=predicates), *relations[1:])
    if links:
        return read_join_distinct(text, nodes, relations, links, sources, null_is_value=null_is_value)
    columns = sorted(_columns(nodes, sources), key=lambda column: column.text)
    key = Key(tuple(dict.fromkeys(columns)), null_is_value)
    return SetQuery(text, (SetMember(relations[0].stream, key, relations[0].predicates),), SetLeaf(0))


def _without_constants(nodes: list[exp.Expr], *, null_is_value: bool) -> tuple[list[exp.Expr], list[str]]:
    """Return (columns, predicates): constants tell no tuples apart; one that is NULL leaves none that counts.

    A list of constants alone keeps one of them: it has one distinct tuple, if there is any row.
    """
    values = [node.this if isinstance(node, exp.Alias) else node for node in nodes]
    constants = [value for value in values if not value.find(exp.Column) and not value.is_star]
    for constant in constants:
        check_allowed(constant)
    needed = [
        written(is_not_null(constant))
        for constant in constants
        if not null_is_value and literal_number(constant) is None and not constant.is_string
    ]
    columns = [value for value in values if value not in constants]
    return columns or [exp.Boolean(this=True)], needed


def _columns(nodes: list[exp.Expr], sources: tuple[Source, ...]) -> list[Expression]:
    columns = []
    for node in nodes:
        value = node.this if isinstance(node, exp.Alias) else node
        if isinstance(value, exp.Star) or (
            isinstance(value, exp.Column) and isinstance(value.this, exp.Star)
        ):
            raise UnsupportedQuery("a star in a set expression means whatever columns there are: name them.")
        check_allowed(value)
        columns.append(key_column(value, sources))
    return columns


def _read_expression(node: exp.Expr, streams: Streams, members: list[SetMember]) -> SetExpression:
    """Return a set expression, its SELECTs added to the members; equal SELECTs are one member."""
    if isinstance(node, exp.Subquery):
        extra = [key for key, value in node.args.items() if value and key not in ("this", "alias")]
        if extra:
            raise UnsupportedQuery(f"{fragment(node)!r} says more than a set expression: {', '.join(extra)}.")
        return _read_expression(node.this, streams, members)
    if isinstance(node, exp.Select):
        return _read_member(node, streams, members)
    operators: dict[type[exp.Expr], str] = {
        exp.Union: "union",
        exp.Intersect: "intersect",
        exp.Except: "except",
    }
    operator = operators.get(type(node))
    if operator is None or not isinstance(node, exp.SetOperation):
        raise UnsupportedQuery(f"{fragment(node)!r} is not a set expression over SELECTs.")
    if not node.args.get("distinct"):
        raise UnsupportedQuery(
            f"the ALL in {fragment(node)!r} counts duplicates: only the DISTINCT forms are answered; the rows of a "
            "UNION ALL are those of its SELECTs, each counted in a query of its own."
        )
    check_clauses(node, {"this", "expression", "distinct"})
    left = _read_expression(node.this, streams, members)
    right = _read_expression(node.expression, streams, members)
    return SetNode(operator, left, right)  # type: ignore[arg-type]


def _read_member(select: exp.Select, streams: Streams, members: list[SetMember]) -> SetLeaf:
    check_clauses(select, {"expressions", "from_", "joins", "where", "distinct"})
    relations, links, sources, _ = read_from(select, streams)
    if links:
        raise UnsupportedQuery(f"{fragment(select)!r} joins: a SELECT of a set expression reads one stream.")
    key = Key(tuple(_columns(select.expressions, sources)), null_is_value=True)
    member = SetMember(relations[0].stream, key, relations[0].predicates)
    if members:
        _check_alike(members[0], member)
    if member not in members:
        members.append(member)
    return SetLeaf(members.index(member))


def _check_alike(first: SetMember, other: SetMember) -> None:
    if len(first.key.columns) != len(other.key.columns):
        raise SqlError(
            f"the SELECTs of a set expression have {len(first.key.columns)} and {len(other.key.columns)} columns: "
            "give all the same number."
        )
    for left, right in zip(first.key.columns, other.key.columns, strict=True):
        check_meet(left, first.stream, right, other.stream)
