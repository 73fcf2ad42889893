"""Distinct counts: of one stream, of set expressions (UNION, INTERSECT, EXCEPT), and over a join of two streams."""

from collections.abc import Mapping

from msgspec.structs import replace
from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import (
    Source,
    check_allowed,
    fragment,
    is_not_null,
    relations_of,
    unparenthesised,
)
from eddyline.expressions.nodes import text as written
from eddyline.expressions.typing import literal_number
from eddyline.sql.clauses import check_clauses
from eddyline.sql.groups import read_group_query
from eddyline.sql.join_tree import Joined, sides_of
from eddyline.sql.joins import read_from
from eddyline.sql.links import check_meet, key_column
from eddyline.sql.query import (
    Expression,
    Join,
    JoinDistinctQuery,
    Key,
    Link,
    ProjectionForm,
    Query,
    Relation,
    SetExpression,
    SetLeaf,
    SetMember,
    SetNode,
    SetQuery,
)
from eddyline.types import Column

# Distinct counts over the equi-join of two streams: which columns are counted, and in which form.
#
# two-sided  columns of both sides                         COUNT(DISTINCT r.a, s.c)
# semi       columns of one side, including join columns  COUNT(DISTINCT r.a)
# full       both sides and the whole join key             COUNT(DISTINCT r.a, r.b, s.c)


def read_join_distinct(
    text: str,
    counted: list[exp.Expr],
    relations: tuple[Relation, ...],
    links: tuple[Link, ...],
    sources: tuple[Source, ...],
    *,
    null_is_value: bool,
) -> JoinDistinctQuery:
    """Return the distinct count of columns over a join."""
    left, right = links[0].members
    join = Join(0, 1, left.key, right.key)
    sides = _by_side(counted, join, sources)
    own = [
        [c for c in columns if c not in key.columns] for columns, key in zip(sides, _keys(join), strict=True)
    ]
    matched = {
        index
        for columns, key in zip(sides, _keys(join), strict=True)
        for index, column in enumerate(key.columns)
        if column in columns
    }
    whole_key = len(matched) == len(join.left_key.columns)
    if own[0] and own[1]:
        form: ProjectionForm = "full" if whole_key else "two-sided"
        extra = [] if whole_key else [join.left_key.columns[index] for index in sorted(matched)]
        projected = [own[0] + extra, own[1]]
    else:
        form = "semi"
        counted_side = 1 if own[1] else 0
        columns = own[counted_side] + [_keys(join)[counted_side].columns[index] for index in sorted(matched)]
        projected = [columns, list(join.right_key.columns)]
        if counted_side == 1:
            relations, join = (relations[1], relations[0]), Join(0, 1, join.right_key, join.left_key)
            projected = [columns, list(join.right_key.columns)]
    keys = tuple(Key(_ordered(columns), null_is_value) for columns in projected)
    return JoinDistinctQuery(text, form, relations, join, keys[0], keys[1])


def _keys(join: Join) -> tuple[Key, Key]:
    return join.left_key, join.right_key


def _ordered(columns: list[Expression]) -> tuple[Expression, ...]:
    return tuple(sorted(dict.fromkeys(columns), key=lambda column: column.text))


def _by_side(
    counted: list[exp.Expr], join: Join, sources: tuple[Source, ...]
) -> tuple[list[Expression], list[Expression]]:
    """Return the counted columns of the left and of the right relation."""
    sides: tuple[list[Expression], list[Expression]] = ([], [])
    for node in counted:
        value = node.this if isinstance(node, exp.Alias) else node
        check_allowed(value)
        used = relations_of(value, sources)
        if len(used) != 1:
            raise UnsupportedQuery(
                f"{fragment(value)!r} must read one relation to be counted over a join, and name a column of it."
            )
        sides[0 if min(used) == join.left else 1].append(key_column(value, sources))
    return sides


# Distinct counts and set expressions: COUNT(DISTINCT ...) of a stream, COUNT(*) over UNION, INTERSECT,
# EXCEPT.


Streams = Mapping[str, tuple[Column, ...]]


def read_set_query(
    text: str, select: exp.Select, streams: Streams
) -> SetQuery | JoinDistinctQuery | Query | None:
    """Return the set query of a SELECT, or None for any other SELECT."""
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
        raise UnsupportedQuery(f"{fragment(aggregate)!r}: over a set expression only COUNT(*) is supported.")
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


def _distinct_count(text: str, select: exp.Select, streams: Streams) -> SetQuery | JoinDistinctQuery | Query:
    """Return COUNT(DISTINCT a, b): tuples without NULL, over any join; see `_counted`."""
    joined = read_from(select, streams, matches_once=True)
    if not _joins_at_most_two(joined):
        return read_group_query(text, select, streams)
    check_clauses(select, {"expressions", "from_", "joins", "where"})
    count = select.find(exp.Distinct)
    assert count is not None
    return _counted(text, count.expressions, joined, null_is_value=False)


def _distinct_rows(text: str, select: exp.Select, streams: Streams) -> SetQuery | JoinDistinctQuery:
    """Return COUNT(*) over SELECT DISTINCT a, b: tuples, including those with NULL."""
    check_clauses(select, {"expressions", "from_", "joins", "where", "distinct"})
    joined = read_from(select, streams, matches_once=True)
    if not _joins_at_most_two(joined):
        raise UnsupportedQuery(
            f"{fragment(select)!r}: SELECT DISTINCT is supported over one stream, and over an inner join or a "
            "semi-join of two streams on equal columns; other joins only with COUNT(DISTINCT ...), which leaves tuples "
            "with a NULL out."
        )
    return _counted(text, select.expressions, joined, null_is_value=True)


def _joins_at_most_two(joined: Joined) -> bool:
    """Return whether a SELECT has one relation, or two in an inner join, without other conditions on joined rows."""
    return len(joined.relations) <= 2 and not sides_of(joined.links) and not joined.conditions


def _counted(
    text: str, nodes: list[exp.Expr], joined: Joined, *, null_is_value: bool
) -> SetQuery | JoinDistinctQuery:
    """Return the number of distinct tuples of columns, whatever their order, over one stream or a join of two."""
    relations, links, sources, _ = joined
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
    """Return (columns, predicates): constants distinguish no tuples; with a NULL constant no tuple counts.

    A list of only constants keeps one of them: it has one distinct tuple, if there is any row.
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
            raise UnsupportedQuery("a set expression needs the names of its columns instead of a star.")
        check_allowed(value)
        columns.append(key_column(value, sources))
    return columns


def _read_expression(node: exp.Expr, streams: Streams, members: list[SetMember]) -> SetExpression:
    """Return a set expression, and add its SELECTs to the members; equal SELECTs are one member."""
    if isinstance(node, exp.Subquery):
        extra = [key for key, value in node.args.items() if value and key not in ("this", "alias")]
        if extra:
            raise UnsupportedQuery(f"{fragment(node)!r} has more than a set expression: {', '.join(extra)}.")
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
            f"the ALL in {fragment(node)!r} counts duplicates: only the DISTINCT forms are supported; the rows of a "
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
