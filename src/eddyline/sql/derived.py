"""Derived columns: declared with a stream as expressions over its columns, and queried like its columns.

    w.stream("orders", "id BIGINT, at TIMESTAMP", derive={"month": "date_trunc('month', at)"})

The expression replaces the derived column in a query. So it works as a key, a group, a measure and a predicate, and
Spark or Arrow evaluates it with the row.
"""

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import PlanError
from eddyline.expressions.nodes import Source, bare, check_allowed, operand, text
from eddyline.expressions.schema import COLUMN_NAME
from eddyline.expressions.typing import infer
from eddyline.sql.clauses import check_precedence, spelled_for_parser
from eddyline.types import Column, DerivedColumn


def derived_columns(
    stream: str, columns: tuple[Column, ...], given: Mapping[str, str]
) -> tuple[DerivedColumn, ...]:
    """Return the derived columns of a stream, or raise PlanError; a column may read those before it."""
    made: list[DerivedColumn] = []
    for name, written in given.items():
        where = f"derived column {name!r} of stream {stream!r}"
        if not isinstance(name, str) or not COLUMN_NAME.fullmatch(name) or not isinstance(written, str):
            raise PlanError(f"{where}: give a name and an expression, such as {{'month': 'month(at)'}}.")
        known = (*columns, *made)
        if name.lower() in (column.name.lower() for column in known):
            raise PlanError(f"{where}: the stream has a column of that name.")
        try:
            parsed = sqlglot.parse_one(
                f"SELECT {spelled_for_parser(written)} FROM `{stream}`", dialect="spark"
            )
        except SqlglotError as error:
            raise PlanError(f"{where}: {written!r} cannot be read as an expression of Spark SQL.") from error
        if not isinstance(parsed, exp.Select) or len(parsed.expressions) != 1 or set(parsed.args) - _READ:
            raise PlanError(f"{where}: {written!r} is not one expression.")
        check_precedence(parsed)
        whole = with_derived_columns(parsed, {stream: known})
        node = whole.expressions[0].unalias()
        check_allowed(node)
        sources = (Source(stream, stream, columns),)
        kind = infer(node, sources)
        if kind is None or kind.kind == "void":
            raise PlanError(f"{where}: the type of {written!r} cannot be worked out: CAST it.")
        made.append(DerivedColumn(name, kind, text(bare(node, sources))))
    return tuple(made)


_READ = {"expressions", "from_", "kind", "hint", "distinct", "limit", "operation_modifiers", "exclude"}


def with_derived_columns(select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> exp.Select:
    """Return a SELECT in which expressions replace the derived columns."""
    derived = {
        name.lower(): {c.name.lower(): c for c in columns if isinstance(c, DerivedColumn)}
        for name, columns in streams.items()
    }
    if not any(derived.values()):
        return select
    made = select.copy()
    for column in list(made.find_all(exp.Column)):
        found = _owner(column, derived, streams)
        if found is None:
            continue
        alias, target = found
        expression = _expression(target, alias)
        if isinstance(column.parent, exp.Select) and column.arg_key == "expressions":
            column.replace(exp.alias_(expression, column.name, quoted=True))
        else:
            column.replace(operand(expression))
    return made


def column_value(column: Column, alias: str) -> exp.Expr:
    """Return a column of a relation of a query, or the expression of a derived one."""
    if isinstance(column, DerivedColumn):
        return _expression(column, alias)
    return exp.column(exp.to_identifier(column.name, quoted=True), table=alias)


def _expression(column: DerivedColumn, alias: str) -> exp.Expr:
    """Return the expression of a derived column over a relation of a query."""
    made = sqlglot.parse_one(column.text, dialect="spark")
    for each in made.find_all(exp.Column):
        each.set("table", exp.to_identifier(alias, quoted=True))
    return made


def _owner(
    column: exp.Column,
    derived: Mapping[str, Mapping[str, DerivedColumn]],
    streams: Mapping[str, tuple[Column, ...]],
) -> tuple[str, DerivedColumn] | None:
    """Return the relation, by its alias, whose derived column a name means; None for any other column."""
    name, select = column.name.lower(), column.find_ancestor(exp.Select)
    plain = {each.lower(): {c.name.lower() for c in columns} for each, columns in streams.items()}
    while select is not None:
        own = [t for t in select.find_all(exp.Table) if t.find_ancestor(exp.Select) is select]
        if column.table:
            own = [table for table in own if table.alias_or_name.lower() == column.table.lower()]
        owners = [table for table in own if name in plain.get(table.name.lower(), set())]
        if owners:
            target = derived.get(owners[0].name.lower(), {}).get(name)
            return (owners[0].alias_or_name, target) if len(owners) == 1 and target is not None else None
        select = select.find_ancestor(exp.Select)
    return None
