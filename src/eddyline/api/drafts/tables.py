"""Drafts of streams from the tables of a PostgreSQL database."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from eddyline.api.drafts.pipeline_text import SAMPLED_ROWS, StreamDraft, stream_name
from eddyline.errors import PipelineError
from eddyline.expressions.schema import DeclaredKeys, ForeignKey
from eddyline.types import Column, SqlType

_TYPES = {
    "boolean": SqlType("boolean"),
    "smallint": SqlType("smallint"),
    "integer": SqlType("int"),
    "bigint": SqlType("bigint"),
    "real": SqlType("float"),
    "double precision": SqlType("double"),
    "text": SqlType("string"),
    "character varying": SqlType("string"),
    "character": SqlType("string"),
    "uuid": SqlType("string"),
    "bytea": SqlType("binary"),
    "date": SqlType("date"),
    "timestamp without time zone": SqlType("timestamp_ntz"),
    "timestamp with time zone": SqlType("timestamp"),
}
_COLUMNS = """
SELECT c.table_schema || '.' || c.table_name, c.column_name, c.data_type, c.numeric_precision, c.numeric_scale,
       EXISTS (SELECT FROM pg_class p JOIN pg_namespace n ON n.oid = p.relnamespace
               WHERE n.nspname = c.table_schema AND p.relname = c.table_name AND p.relispartition)
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE t.table_type = 'BASE TABLE' AND c.table_schema NOT IN ('pg_catalog', 'information_schema')
      AND (c.table_schema, c.table_name) <> ('eddyline', 'slot_positions')
ORDER BY 1, c.ordinal_position
"""
_KEYS = """
SELECT n.nspname || '.' || c.relname, k.contype,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(number, place)
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number ORDER BY u.place),
       fn.nspname || '.' || f.relname,
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(number, place)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number ORDER BY u.place)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_class f ON f.oid = k.confrelid LEFT JOIN pg_namespace fn ON fn.oid = f.relnamespace
WHERE k.contype IN ('p', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1, k.contype, k.conname
"""


def is_dsn(text: str) -> bool:
    """Return whether a string names a PostgreSQL database, as a URI or as `host=... dbname=...`."""
    return text.startswith(("postgresql://", "postgres://")) or "dbname=" in text or "host=" in text


def drafts_of_tables(dsn: str, tables: Collection[str], taken: Collection[str]) -> list[StreamDraft]:
    """Return a draft for each named table of a database (schema.name, or a name in public), or for all of them."""
    try:
        import psycopg  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise PipelineError("PostgreSQL needs psycopg: pip install 'eddyline[postgres]'.") from error
    try:
        plain = password_free(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            found = connection.execute(_COLUMNS).fetchall()
            drafts = list(_drafts(found, [_full(table) for table in tables], plain, list(taken)))
            drafts = _with_keys(drafts, connection.execute(_KEYS).fetchall())
            return [replace(draft, rows=_first_rows(connection, draft)) for draft in drafts]
    except psycopg.Error as error:
        raise PipelineError(f"the database cannot be asked: {str(error).strip().splitlines()[0]}.") from error


def _with_keys(drafts: list[StreamDraft], found: Sequence[tuple[Any, ...]]) -> list[StreamDraft]:
    """Return drafts with the keys of the database's catalog whose columns are all read."""
    names = {draft.options["table"]: draft.name for draft in drafts}
    columns = {draft.options["table"]: {column.name for column in draft.columns} for draft in drafts}
    made = []
    for draft in drafts:
        table = draft.options["table"]
        own = [row for row in found if row[0] == table and set(row[2]) <= columns[table]]
        primary = next((tuple(row[2]) for row in own if row[1] == "p"), ())
        foreign = tuple(
            ForeignKey(tuple(row[2]), names[row[3]], tuple(row[4]))
            for row in own
            if row[1] == "f" and row[3] in names and set(row[4]) <= columns[row[3]]
        )
        made.append(replace(draft, keys=DeclaredKeys(primary, foreign)))
    return made


def password_free(dsn: str) -> str:
    """Return the DSN of a database without its password."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415 - an optional extra

    parts: dict[str, Any] = {**conninfo_to_dict(dsn), "password": None}
    return make_conninfo(**parts)


def slot_name(dsn: str) -> str:
    """Return the name of the replication slot for all tables of a database: slots are named in the whole server."""
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - an optional extra

    database = str(conninfo_to_dict(dsn).get("dbname") or os.environ.get("PGDATABASE", ""))
    return f"eddyline_{re.sub('[^a-z0-9_]', '_', database.lower())}"[:63].rstrip("_")


def _first_rows(connection: Any, draft: StreamDraft) -> dict[str, list[Any]]:
    """Return the first rows of a draft's table; empty if they may not be read."""
    import psycopg  # noqa: PLC0415 - an optional extra
    from psycopg import sql  # noqa: PLC0415

    names = [column.name for column in draft.columns]
    asked = sql.SQL("SELECT {} FROM {} LIMIT {}").format(
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.Identifier(*draft.options["table"].split(".", 1)),
        SAMPLED_ROWS,
    )
    try:
        rows = connection.execute(asked).fetchall()
    except psycopg.Error:
        return {}
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _full(table: str) -> str:
    return table if "." in table else f"public.{table}"


def _drafts(
    found: Sequence[tuple[Any, ...]], wanted: list[str], dsn: str, taken: list[str]
) -> Iterator[StreamDraft]:
    known = list(dict.fromkeys(row[0] for row in found))
    whole = list(dict.fromkeys(row[0] for row in found if not row[5]))
    missing = [table for table in wanted if table not in known]
    if missing or not known:
        raise PipelineError(
            f"there is no table {missing[0] if missing else 'to read'}: {', '.join(known) or 'none'}."
        )
    for table in wanted or whole:  # a partition is read with its table
        columns = {row[1]: _type(*row[2:5]) for row in found if row[0] == table}
        name = stream_name(table.removeprefix("public."), taken)
        taken.append(name)
        yield StreamDraft(
            name,
            tuple(Column(column, kind) for column, kind in columns.items() if kind is not None),
            "eddyline-postgres",
            options={"dsn": dsn, "table": table},
            changes="change_type",
            left_out=tuple(column for column, kind in columns.items() if kind is None),
            remarks=(
                f"first: ALTER TABLE {table} REPLICA IDENTITY FULL; and wal_level = logical in the server",
                "the password comes from PGPASSWORD or ~/.pgpass; `eddyline run` follows the table, then ask",
            ),
            is_followed=True,
        )


def _type(kind: str, precision: int | None, scale: int | None) -> SqlType | None:
    if kind == "numeric":
        return SqlType("decimal", min(precision or 38, 38), scale if precision and scale is not None else 9)
    return _TYPES.get(kind)
