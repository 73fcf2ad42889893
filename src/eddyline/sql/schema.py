"""Declared schemas: from a DDL text to columns."""

import re
from collections.abc import Iterable
from typing import Any

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
"""What streams and queries are called."""
COLUMN_NAME = re.compile(r"[^`\x00-\x1f\x7f]{1,255}")
"""What columns may be called; what is not a plain identifier stands between backticks in SQL and in schemas."""


def sql_type(node: exp.DataType) -> SqlType | None:
    """Return the type that a parsed data type names, or None where eddyline has no such type."""
    if node.this == _T.DECIMAL:
        sizes = [int(size.name) for size in node.expressions]
        precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
        return SqlType("decimal", precision, scale) if 0 <= scale <= precision <= 38 else None
    return _KINDS.get(node.this)


def parse_schema(stream: str, ddl: str) -> tuple[Column, ...]:
    """Return the columns of a DDL text such as `id BIGINT, total DECIMAL(12,2)`."""
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark").this
    except SqlglotError as error:
        raise PlanError(
            f"the schema of stream {stream!r} cannot be read: {ddl!r}; write `name TYPE, ...`."
        ) from error
    columns: list[Column] = []
    for definition in table.expressions if isinstance(table, exp.Schema) else []:
        columns.append(_column(stream, definition))
        if sum(column.name.lower() == columns[-1].name.lower() for column in columns) > 1:
            raise PlanError(f"the schema of stream {stream!r} declares column {columns[-1].name!r} twice.")
    if not columns:
        raise PlanError(f"the schema of stream {stream!r} declares no column: write `name TYPE, ...`.")
    return tuple(columns)


def as_ddl(columns: Iterable[Column]) -> str:
    """Return columns as a DDL text that Spark reads, whatever their names are."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def in_sql(name: str) -> str:
    """Return a name as queries and schemas take it: between backticks unless it is a plain word, and none of SQL's."""
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
