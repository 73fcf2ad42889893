"""Semi-joins written as IN (SELECT ...), EXISTS or LEFT SEMI JOIN, rewritten as joins for distinct counts.

COUNT(DISTINCT ...) over the outer relation does not see how often a row matches, so that
`r.b IN (SELECT s.b FROM s WHERE p)` and `r JOIN s ON r.b = s.b WHERE p` mean the same there.
"""

from collections.abc import Mapping

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.clauses import check_clauses
from eddyline.sql.compose import operand
from eddyline.sql.expressions import check_allowed, conjuncts, fragment
from eddyline.types import Column

Streams = Mapping[str, tuple[Column, ...]]


def with_semi_joins_as_joins(select: exp.Select, streams: Streams) -> tuple[exp.Select, bool]:
    """Return the SELECT with its one semi-join, if it has any, written as an inner join, and whether it had one."""
    select = select.copy()
    for join in select.args.get("joins") or []:
        if str(join.args.get("kind") or "").upper() == "SEMI" and str(
            join.args.get("side") or ""
        ).upper() in ("", "LEFT"):
            _check_scope(select, join, streams)
            join.set("kind", None)
            join.set("side", None)
            return select, True
    where = select.args.get("where")
    parts = list(conjuncts(where.this if where else None))
    semi = [part for part in parts if subquery_of(part) is not None]
    if not semi:
        return select, False
    if len(semi) > 1 or select.args.get("joins"):
        raise UnsupportedQuery(
            f"{fragment(semi[-1])!r}: a distinct count takes one semi-join and no join beside it."
        )
    _qualify_outer(select, streams)
    where = select.args["where"]
    parts = list(conjuncts(where.this))
    rewritten = next(part for part in parts if subquery_of(part) is not None)
    _replace_by_join(select, rewritten, [part for part in parts if part is not rewritten], streams)
    return select, True


def _check_scope(select: exp.Select, join: exp.Join, streams: Streams) -> None:
    """Raise SqlError where WHERE names a column of a LEFT SEMI JOIN's right side, which Spark does not show it."""
    where = select.args.get("where")
    left, right = select.args["from_"].this, join.this
    if where is None or not isinstance(left, exp.Table) or not isinstance(right, exp.Table):
        return
    own, hidden = _columns_of(left, streams), _columns_of(right, streams)
    for column in where.find_all(exp.Column):
        bare_name = column.name.lower()
        if column.table.lower() == right.alias_or_name.lower() or (
            not column.table and bare_name in hidden - own
        ):
            raise SqlError(
                f"{fragment(column)!r} in WHERE is a column of the LEFT SEMI JOIN's right side, which only its ON "
                f"can see: move the condition into ON, as in LEFT SEMI JOIN {right.name} ON ... AND "
                f"{fragment(where.this)}."
            )
        if not column.table and bare_name in own:
            column.set("table", exp.to_identifier(left.alias_or_name))


def check_rows(inner: exp.Select) -> None:
    """Raise UnsupportedQuery where a subquery yields rows other than those of its stream, as an aggregate does."""
    for node in inner.expressions:
        value = node.this if isinstance(node, exp.Alias) else node
        if value.find(exp.AggFunc):
            raise UnsupportedQuery(
                f"the subquery {fragment(inner)!r} selects an aggregate, which is one row whatever its stream "
                "holds: select columns of the stream."
            )
        if not value.is_star:
            check_allowed(value)


def subquery_of(part: exp.Expr) -> exp.Select | None:
    """Return the SELECT of an IN or EXISTS, or None where the conjunct is something else."""
    if isinstance(part, exp.Exists):
        return part.this if isinstance(part.this, exp.Select) else None
    query = part.args.get("query") if isinstance(part, exp.In) else None
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    return inner if isinstance(inner, exp.Select) else None


def _replace_by_join(select: exp.Select, semi: exp.Expr, others: list[exp.Expr], streams: Streams) -> None:
    inner = subquery_of(semi)
    assert inner is not None
    check_clauses(inner, {"expressions", "from_", "where", "distinct"})
    check_rows(inner)
    table = inner.args["from_"].this if inner.args.get("from_") else None
    if not isinstance(table, exp.Table):
        raise UnsupportedQuery(f"{fragment(inner)!r}: the subquery of a semi-join reads one stream.")
    alias = _fresh_alias(select, table)
    _qualify(inner, table, alias, streams)
    where = inner.args.get("where")
    conditions = list(conjuncts(where.this if where else None))
    if isinstance(semi, exp.In):
        conditions += [exp.EQ(this=operand(a), expression=operand(b)) for a, b in compared_pairs(semi, inner)]
    joined = exp.to_table(table.name)
    joined.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    select.set("joins", [exp.Join(this=joined, on=exp.and_(*conditions) if conditions else None)])
    select.set("where", exp.Where(this=exp.and_(*others)) if others else None)


def compared_pairs(semi: exp.In, inner: exp.Select) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return what IN compares: (an expression of the outer query, one of the subquery) for each column."""
    outer = semi.this.expressions if isinstance(semi.this, exp.Tuple) else [semi.this]
    found = [part.this if isinstance(part, exp.Alias) else part for part in inner.expressions]
    if len(outer) != len(found):
        raise UnsupportedQuery(f"{fragment(semi)!r} compares {len(outer)} columns with {len(found)}.")
    return list(zip(outer, found, strict=True))


def _fresh_alias(select: exp.Select, table: exp.Table) -> str:
    taken = {part.alias_or_name.lower() for part in select.find_all(exp.Table)} - {
        table.alias_or_name.lower()
    }
    outer = select.args["from_"].this.alias_or_name.lower()
    alias = table.alias_or_name
    return alias if alias.lower() not in taken | {outer} else f"{alias}_matched"


def _columns_of(table: exp.Table, streams: Streams) -> set[str]:
    found = next((columns for name, columns in streams.items() if name.lower() == table.name.lower()), ())
    return {column.name.lower() for column in found}


def _qualify(inner: exp.Select, table: exp.Table, alias: str, streams: Streams) -> None:
    """Give the subquery's own columns its alias; the others are the outer relation's."""
    own = _columns_of(table, streams)
    for column in inner.find_all(exp.Column):
        if column.table.lower() == table.alias_or_name.lower() or (
            not column.table and column.name.lower() in own
        ):
            column.set("table", exp.to_identifier(alias))


def _qualify_outer(select: exp.Select, streams: Streams) -> None:
    """Give the outer relation's unqualified columns its alias, so that the join makes none of them ambiguous."""
    table = select.args["from_"].this
    if not isinstance(table, exp.Table):
        return
    own = _columns_of(table, streams)
    for column in select.find_all(exp.Column):
        inside = column.parent_select is not select
        if not column.table and not inside and column.name.lower() in own:
            column.set("table", exp.to_identifier(table.alias_or_name))
