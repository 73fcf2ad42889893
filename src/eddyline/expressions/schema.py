"""Declared schemas: from a DDL string to columns."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import PlanError
from eddyline.types import Column, SqlType

_T = exp.DataType.Type
_KINDS: dict[Any, SqlType] = {
    _T.BOOLEAN: SqlType("boolean"),
    _T.TINYINT: SqlType("tinyint"),
    _T.SMALLINT: SqlType("smallint"),
    _T.INT: SqlType("int"),
    _T.BIGINT: SqlType("bigint"),
    _T.FLOAT: SqlType("float"),
    _T.DOUBLE: SqlType("double"),
    _T.TEXT: SqlType("string"),
    _T.VARCHAR: SqlType("string"),
    _T.CHAR: SqlType("string"),
    _T.BINARY: SqlType("binary"),
    _T.VARBINARY: SqlType("binary"),
    _T.DATE: SqlType("date"),
    _T.TIMESTAMP: SqlType("timestamp"),
    _T.TIMESTAMPTZ: SqlType("timestamp"),
    _T.TIMESTAMPLTZ: SqlType("timestamp"),
    _T.TIMESTAMPNTZ: SqlType("timestamp_ntz"),
}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Valid names of streams and queries."""
COLUMN_NAME = re.compile(r"[^`\x00-\x1f\x7f]{1,255}")
"""Valid names of columns; those that are not plain identifiers need backticks in SQL and in schemas."""


LONG_TEXT = 255
"""Longest VARCHAR whose column is explored with all others, in characters: chosen, a usual limit of names."""


def sql_type(node: exp.DataType) -> SqlType | None:
    """Return the type that a parsed data type names, or None where eddyline has no such type."""
    if node.this == _T.DECIMAL:
        sizes = [int(size.name) for size in node.expressions]
        precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
        return SqlType("decimal", precision, scale) if 0 <= scale <= precision <= 38 else None
    return _KINDS.get(node.this)


def _definitions(stream: str, ddl: str) -> list[exp.Expr]:
    """Return the parsed columns and keys of a DDL string."""
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark").this
    except SqlglotError as error:
        raise PlanError(
            f"the schema of stream {stream!r} cannot be read: {ddl!r}; write `name TYPE, ...`."
        ) from error
    return list(table.expressions) if isinstance(table, exp.Schema) else []


def _is_key(node: exp.Expr) -> bool:
    """Return whether a named constraint is a key."""
    kinds = (exp.PrimaryKey, exp.ForeignKey)
    return isinstance(node, exp.Constraint) and all(isinstance(each, kinds) for each in node.expressions)


def parse_schema(stream: str, ddl: str) -> tuple[Column, ...]:
    """Return the columns of a DDL string such as `id BIGINT, total DECIMAL(12,2)`."""
    columns: list[Column] = []
    for definition in _definitions(stream, ddl):
        if isinstance(definition, exp.PrimaryKey | exp.ForeignKey) or _is_key(definition):
            continue
        columns.append(_column(stream, definition))
        if sum(column.name.lower() == columns[-1].name.lower() for column in columns) > 1:
            raise PlanError(f"the schema of stream {stream!r} declares column {columns[-1].name!r} twice.")
    if not columns:
        raise PlanError(f"the schema of stream {stream!r} declares no column: write `name TYPE, ...`.")
    return tuple(columns)


class ForeignKey(msgspec.Struct, frozen=True):
    """Columns that refer to those of another table; referred: empty where they are its primary key."""

    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...] = ()


class DeclaredKeys(msgspec.Struct, frozen=True):
    """The keys that a schema declares. long: text columns that may hold more than LONG_TEXT characters."""

    primary: tuple[str, ...] = ()
    foreign: tuple[ForeignKey, ...] = ()
    long: tuple[str, ...] = ()


def parse_keys(stream: str, ddl: str) -> DeclaredKeys:
    """Return the keys that a DDL string declares.

    >>> parse_keys("o", "id BIGINT PRIMARY KEY, c BIGINT REFERENCES customers(id)").foreign[0].table
    'customers'
    """
    definitions = _definitions(stream, ddl)
    primary: tuple[str, ...] = ()
    foreign: list[ForeignKey] = []
    long: list[str] = []
    for node in definitions:
        for each in node.expressions if isinstance(node, exp.Constraint) else [node]:
            if isinstance(each, exp.PrimaryKey):
                primary = tuple(part.name for part in each.expressions)
            elif isinstance(each, exp.ForeignKey):
                columns = tuple(part.name for part in each.expressions)
                foreign.append(_reference(columns, each.args["reference"]))
            elif isinstance(each, exp.ColumnDef):
                kinds = [constraint.args.get("kind") for constraint in each.args.get("constraints") or ()]
                if any(isinstance(kind, exp.PrimaryKeyColumnConstraint) for kind in kinds):
                    primary = (each.name,)
                foreign += [
                    _reference((each.name,), kind) for kind in kinds if isinstance(kind, exp.Reference)
                ]
                sizes = [int(size.name) for size in each.args["kind"].expressions if size.name.isdigit()]
                if each.args["kind"].this in (_T.VARCHAR, _T.CHAR) and sizes and sizes[0] > LONG_TEXT:
                    long.append(each.name)
    return DeclaredKeys(primary, tuple(foreign), tuple(long))


def _reference(columns: tuple[str, ...], node: exp.Expr) -> ForeignKey:
    """Return what a REFERENCES clause names."""
    target = node.this
    if isinstance(target, exp.Schema):
        return ForeignKey(columns, target.this.name, tuple(part.name for part in target.expressions))
    return ForeignKey(columns, target.name)


def as_ddl(columns: Iterable[Column]) -> str:
    """Return columns as a DDL string that Spark can read, whatever their names are."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def in_sql(name: str) -> str:
    """Return a name for queries and schemas: in backticks unless it is a plain word that SQL does not reserve."""
    try:
        sqlglot.parse_one(
            f"SELECT {name}.{name} FROM {name} {name} JOIN {name} ON {name} = 1", dialect="spark"
        )
        parse_schema(name, f"{name} INT")
        plain = NAME.fullmatch(name) is not None
    except (SqlglotError, PlanError):
        plain = False
    return name if plain else f"`{name}`"


def _column(stream: str, definition: exp.Expr) -> Column:
    kind = definition.args.get("kind")
    if not isinstance(definition, exp.ColumnDef) or not isinstance(kind, exp.DataType):
        raise PlanError(
            f"the schema of stream {stream!r} has {definition.sql()!r} where a column should be: write `name TYPE`."
        )
    parsed = sql_type(kind)
    if parsed is None:
        raise PlanError(
            f"column {definition.name!r} of stream {stream!r} has type {kind.sql()}, which eddyline does not read: "
            "leave it out of the schema, or declare a scalar type of Spark."
        )
    if not COLUMN_NAME.fullmatch(definition.name):
        raise PlanError(
            f"column name {definition.name!r} of stream {stream!r} has a backtick or a control character, or is longer "
            "than 255: rename it."
        )
    return Column(definition.name, parsed)
