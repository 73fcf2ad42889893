"""Rows on request: `SELECT * FROM orders TABLESAMPLE (100 ROWS)` or `... LIMIT 100`, each row with its weight.

A stream's rows are not kept, but the elements of a stream sample that explores them are rows: each represents as
many rows of the stream as its weight says. Only a query that asks for a sample gets them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import Source, check_allowed, fragment, relations_of, text, unparenthesised
from eddyline.sql.derived import column_value, with_derived_columns
from eddyline.sql.join_tree import check_missing_is_null, sides_of
from eddyline.sql.joins import read_from
from eddyline.sql.links import value_column
from eddyline.sql.query import GroupColumn, Ordering, Query
from eddyline.types import Column

WEIGHT_COLUMN = "weight"
"""The column with the number of rows that a row represents."""
_CLAUSES = frozenset(("expressions", "from_", "joins", "where", "order", "limit", "sample", "kind", "hint"))


@dataclass(frozen=True)
class RowSample:
    """A query for rows.

    query: it groups by the columns, so that a group is a row. share: of the rows that are held, those to take.
    rows: the most to take. is_cut: the first rows in an order are taken, which a sample of rows does not know.
    left_out: columns of a star that are not held.
    """

    query: Query
    share: float | None
    rows: int | None
    seed: int
    order: tuple[Ordering, ...]
    is_cut: bool
    left_out: tuple[str, ...]


def asks_for_rows(statement: exp.Expr) -> TypeGuard[exp.Select]:
    """Return whether a query asks for some rows of what it reads, and not for aggregates."""
    if not isinstance(statement, exp.Select):
        return False
    if _sampling(statement) is None and not statement.args.get("limit"):
        return False
    if any(value for name, value in statement.args.items() if name not in _CLAUSES):
        return False
    return statement.args.get("from_") is not None and not any(
        item.find(exp.AggFunc, exp.Window, exp.Query) for item in statement.expressions
    )


def read_row_sample(
    written: str,
    select: exp.Select,
    streams: Mapping[str, tuple[Column, ...]],
    held: Mapping[str, Collection[str]],
) -> RowSample:
    """Return what a query for rows asks for; held: the columns of each stream whose values are held.

    Raises SqlError or UnsupportedQuery where it cannot be answered.
    """
    select = with_derived_columns(select.copy(), streams)
    sampling, limit = _sampling(select), select.args.get("limit")
    if sampling is not None:
        (sampling.parent or select).set("sample", None)
    order = select.args.get("order")
    for clause in ("order", "limit"):
        select.set(clause, None)
    relations, links, sources, conditions = read_from(select, streams)
    items, left_out = _items(select, sources, held)
    columns = []
    for name, node in items:
        check_allowed(node)
        if len(relations_of(node, sources)) != 1:
            raise UnsupportedQuery(
                f"{fragment(node)!r} in a sample of rows: each column is read of one stream; compute it from the rows."
            )
        columns.append(GroupColumn(name, min(relations_of(node, sources)), value_column(node, sources)))
        check_missing_is_null(sides_of(links), columns[-1].relation, columns[-1].expression, "the column")
    share, rows, seed = _size(sampling)
    most = None if limit is None else _whole(limit, limit.expression)
    query = Query(written, tuple(columns), (), relations, links, conditions=conditions)
    return RowSample(
        query,
        share,
        most if rows is None else rows if most is None else min(rows, most),
        seed,
        tuple(_ordering(each, [name for name, _ in items]) for each in order.expressions) if order else (),
        order is not None and most is not None,
        tuple(left_out),
    )


def _sampling(statement: exp.Select) -> exp.TableSample | None:
    """Return the TABLESAMPLE of a query of one SELECT."""
    tables = [each for each in statement.find_all(exp.Table) if each.find_ancestor(exp.Select) is statement]
    found = [each for node in (statement, *tables) if (each := node.args.get("sample")) is not None]
    if len(found) > 1:
        raise UnsupportedQuery(
            f"{fragment(found[1])!r}: a query takes one TABLESAMPLE, of the rows of its join."
        )
    return found[0] if found else None


def _size(sampling: exp.TableSample | None) -> tuple[float | None, int | None, int]:
    """Return (share, rows, seed) of a TABLESAMPLE."""
    if sampling is None:
        return None, None, 0
    given = sampling.args.get("seed")
    seed = 0 if given is None else _whole(sampling, given)
    percent, size = sampling.args.get("percent"), sampling.args.get("size")
    if isinstance(percent, exp.Literal) and not percent.is_string and 0 <= float(percent.name) <= 100:
        return float(percent.name) / 100, None, seed
    if isinstance(size, exp.Literal):
        return None, _whole(sampling, size), seed
    raise UnsupportedQuery(
        f"{fragment(sampling)!r}: write TABLESAMPLE (100 ROWS), or TABLESAMPLE (10 PERCENT) of the rows that are held."
    )


def _whole(node: exp.Expr, number: exp.Expr) -> int:
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise UnsupportedQuery(f"{fragment(node)!r} takes a whole number.")
    return int(number.name)


def _items(
    select: exp.Select, sources: tuple[Source, ...], held: Mapping[str, Collection[str]]
) -> tuple[list[tuple[str, exp.Expr]], list[str]]:
    """Return the columns of the SELECT list with their names, and the columns of a star that are not held."""
    found: list[tuple[str, exp.Expr]] = []
    left_out: list[str] = []
    for item in select.expressions:
        node = unparenthesised(item.unalias())
        if not node.is_star:
            found.append(
                (item.alias or (node.name if isinstance(node, exp.Column) else fragment(node)), node)
            )
            continue
        of = node.table.lower() if isinstance(node, exp.Column) else ""
        read = [s for s in sources if not s.hidden and (not of or s.alias.lower() == of)]
        if not read:
            raise SqlError(f"{fragment(item)!r}: there is no stream {of!r} in FROM.")
        for source in read:
            for column in source.columns:
                value = column_value(column, source.alias)
                if all(each.name in held.get(source.stream, ()) for each in value.find_all(exp.Column)):
                    found.append((column.name, value))
                else:
                    left_out.append(column.name)
    lower = [name.lower() for name, _ in found] + [WEIGHT_COLUMN]
    twice = next((name for name in lower if lower.count(name) > 1), None)
    if twice is not None:
        raise SqlError(f"two columns of the result have the name {twice!r}: give one of them another alias.")
    if not found:
        raise UnsupportedQuery(
            f"no column of {', '.join(source.stream for source in sources)} is held, so that there are no rows to "
            "show: explore the stream."
        )
    return found, left_out


def _ordering(ordered: exp.Expr, names: list[str]) -> Ordering:
    node = unparenthesised(ordered.this)
    if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(names):
        name = names[int(node.name) - 1]
    else:
        name = next(
            (
                each
                for each in (*names, WEIGHT_COLUMN)
                if isinstance(node, exp.Column) and each.lower() == node.name.lower()
            ),
            "",
        )
    if not name:
        raise UnsupportedQuery(f"{text(ordered)!r}: a sample of rows is ordered by columns that it selects.")
    descending = bool(ordered.args.get("desc"))
    return Ordering(name, descending, bool(ordered.args.get("nulls_first", not descending)))
