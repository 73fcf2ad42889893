"""The catalog: pg_catalog, information_schema and the tables of answers, evaluated by DuckDB in memory.

A database belongs to one plan. It cannot read files, the network or variables of this process, and has limits of
memory, rows and time.
"""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property

import duckdb
import pyarrow as pa
from sqlglot import exp

from eddyline.serve.postgres.catalog.functions import create_functions
from eddyline.serve.postgres.catalog.relations import FIRST_OID, UserRelation, create_relations, create_views
from eddyline.serve.postgres.dialect.duckdb_forms import duckdb_form
from eddyline.serve.postgres.dialect.kinds import annotate, kinds_of
from eddyline.serve.postgres.dialect.to_duckdb import for_duckdb
from eddyline.serve.postgres.refusals import Refusal
from eddyline.serve.postgres.settings import Settings

_MEMORY = "256MB"
"""Memory of DuckDB, for all sessions together: a store's answers are small."""
MOST_RESULT_BYTES = 64 << 20
"""Bytes of one result: chosen. A million rows of a few columns fit."""
_BATCH = 10_000
_STATES = (
    (duckdb.InterruptException, "57014"),
    (duckdb.OutOfMemoryException, "53200"),
    (duckdb.ConversionException, "22P02"),
    (duckdb.OutOfRangeException, "22003"),
    (duckdb.ParserException, "42601"),
    (duckdb.CatalogException, "42883"),
    (duckdb.BinderException, "42703"),
)
"""The SQLSTATE of each of the engine's errors."""
_STATES_BY_SENTENCE = {
    "division by zero": "22012",
    "cannot take square root of a negative number": "2201F",
    "cannot take logarithm of a negative number": "2201E",
    "cannot take logarithm of zero": "2201E",
    "value out of range: overflow": "22003",
}
"""Errors of values, in PostgreSQL's words."""


class Catalog:
    """The catalog of one plan: its streams and planned queries, and everything that PostgreSQL has around them."""

    def __init__(self, relations: tuple[UserRelation, ...]) -> None:
        self.relations = {
            each.name.lower(): UserRelation(
                each.name, each.kind, each.schema, each.definition, each.comment, oid
            )
            for oid, each in enumerate(relations, FIRST_OID)
        }
        self.started = datetime.now(UTC).isoformat()
        self._turn = threading.Lock()

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """The database, created on first use."""
        database = duckdb.connect(
            ":memory:",
            config={"threads": 1, "memory_limit": _MEMORY, "temp_directory": "", "autoload_known_extensions": "false",
                    "autoinstall_known_extensions": "false", "python_enable_replacements": "false"},
        )  # fmt: skip
        create_relations(database, tuple(self.relations.values()))
        create_functions(database)
        create_views(database)
        for setting in ("integer_division = true", "enable_external_access = false", "TimeZone = 'UTC'"):
            database.execute(f"SET GLOBAL {setting}")
        database.execute("SET lock_configuration = true")
        return database

    def connect(self, user: str, database: str, process: int) -> duckdb.DuckDBPyConnection:
        """Return a connection for a session."""
        with self._turn:
            connection = self._database.cursor()
        named = {"user": user, "database": database, "process": process, "started": self.started}
        for name, value in named.items():
            connection.execute(f"SET VARIABLE {name} = ?", [value])
        return connection

    def run(
        self,
        connection: duckdb.DuckDBPyConnection,
        tree: exp.Expr,
        settings: Settings,
        tables: Mapping[str, pa.Table] | None = None,
        *,
        checked: bool = False,
    ) -> pa.Table:
        """Return the result of a query over the catalog and the tables of some answers, by relation's name.

        checked: only forms that mean the same in PostgreSQL are taken. What tools ask of the catalog takes more.
        """
        given = tables or {}
        places = {name: f"answer_{number}" for number, name in enumerate(given)}
        text = for_duckdb(tree, places, settings, *([self._checked] if checked else []))
        try:
            for name, place in places.items():
                connection.register(place, given[name])
            return _fetched(connection.sql(text))
        except duckdb.Error as error:
            raise _refusal_of(error) from error
        finally:
            for place in places.values():
                connection.unregister(place)

    def _checked(self, tree: exp.Expr) -> exp.Expr:
        annotate(tree, {name: kinds_of(relation.schema) for name, relation in self.relations.items()})
        return duckdb_form(tree)


def _fetched(result: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return all rows of a result; Refusal 54000 if there are too many."""
    read = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader  # the name before DuckDB 1.4
    reader = read(_BATCH)
    batches, size = [], 0
    for batch in reader:
        size += batch.nbytes
        if size > MOST_RESULT_BYTES:
            raise Refusal(
                "54000", f"the result has more than {MOST_RESULT_BYTES >> 20} MB", hint="Add a LIMIT."
            )
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _refusal_of(error: duckdb.Error) -> Refusal:
    """Return an error of the engine without its line of the rewritten SQL."""
    sentence = str(error).split("\n")[0].removesuffix("!")
    _, _, without_kind = sentence.partition(" Error: ")
    message = without_kind or sentence
    state, is_ours, ours = message.partition(" raised: ")
    if is_ours:
        return Refusal(state, ours)
    if isinstance(error, duckdb.BinderException) and "olumn" not in message:
        return Refusal("42883" if "function" in message.lower() else "42601", message)
    state = next((code for kind, code in _STATES if isinstance(error, kind)), "0A000")
    for said, code in _STATES_BY_SENTENCE.items():
        if said in message.lower():
            return Refusal(code, said)
    return Refusal(state, message)
