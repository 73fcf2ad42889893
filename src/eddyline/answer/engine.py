"""DuckDB as the engine for what a SQL query does with our answers: small tables in, one table out.

It runs in memory, in one thread, with a memory limit, and has no access to files, extensions or the network.
"""

import threading
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from math import isfinite
from types import ModuleType
from typing import Any

import pyarrow as pa

from eddyline.errors import PlanError, UnsupportedQuery

_MEMORY = "256MB"
"""Chosen: the tables are at most as large as a state's groups, and joins of them are small."""
_MISSING = 'DuckDB computes what this SQL does with its aggregates: pip install "eddyline[sql]".'
_SECONDS = 30.0
"""How long a query may take: chosen; joins of grouped results take milliseconds."""
_SETTINGS = {
    "threads": 1,
    "memory_limit": _MEMORY,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_START = "CASE WHEN p > 0 THEN p - 1 WHEN p = 0 THEN 0 ELSE length(s) + p END"
_SUBSTRING = (
    f"CREATE MACRO spark_substring(s, p, l) AS substr(s, greatest({_START}, 0) + 1, "
    f"greatest(greatest(({_START}) + l, 0) - greatest({_START}, 0), 0))"
)
_MACROS = (
    "CREATE MACRO spark_divide(a, b) AS a / b",
    "CREATE MACRO whole_division(a, b) AS a // b",
    _SUBSTRING,
)


class _Connections(threading.local):
    """The connections of a thread, one for each time zone: opening one takes longer than most queries."""

    def __init__(self) -> None:
        self.by_zone: dict[str, Any] = {}

    def get(self, duckdb: ModuleType, zone: str) -> Any:
        """Return the connection of a zone."""
        if zone not in self.by_zone:
            self.by_zone[zone] = _open(duckdb, zone)
        return self.by_zone[zone]

    def drop(self, zone: str) -> None:
        """Close a connection after an error, whatever it holds."""
        connection = self.by_zone.pop(zone, None)
        if connection is not None:
            connection.close()


_CONNECTIONS = _Connections()


def _open(duckdb: ModuleType, zone: str) -> Any:
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    connection.execute(f"SET TimeZone = '{zone.replace(chr(39), '')}'")
    for macro in _MACROS:
        connection.execute(macro)
    connection.create_function("spark_round", _rounded, ["DOUBLE", "BIGINT"], "DOUBLE")
    connection.create_function("spark_initcap", _capitals, ["VARCHAR"], "VARCHAR")
    connection.execute("SET lock_configuration = true")
    return connection


def run_engine(sql: str, tables: Mapping[str, pa.Table], timezone: str | None) -> pa.Table:
    """Return the result of a query over tables; times are read in a zone."""
    duckdb, zone = _duckdb(), timezone or "UTC"
    connection = _CONNECTIONS.get(duckdb, zone)
    stop = threading.Timer(_SECONDS, connection.interrupt)
    stop.daemon = True
    stop.start()
    try:
        for name, table in tables.items():
            connection.register(name, table)
        made = _table(connection.sql(sql))
        for name in tables:
            connection.unregister(name)
    except duckdb.Error as error:
        _CONNECTIONS.drop(zone)
        reason = str(error).split("\n")[0]
        raise UnsupportedQuery(
            f"DuckDB, which computes the SQL around the aggregates, refuses it: {reason}"
        ) from error
    finally:
        stop.cancel()
    return made


def _duckdb() -> ModuleType:
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise PlanError(_MISSING) from error
    return duckdb


def _table(relation: Any) -> pa.Table:
    """Return a relation as an Arrow table, by whichever method this version of DuckDB has."""
    made = relation.to_arrow_table() if hasattr(relation, "to_arrow_table") else relation.arrow()
    table = made.read_all() if isinstance(made, pa.RecordBatchReader) else made
    for place, field in enumerate(table.schema):
        if field.type == pa.month_day_nano_interval():
            table = table.set_column(place, field.name, _without_months(table.column(place)))
    return table


def _without_months(intervals: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return intervals as lengths of time, unless one has months, which have no fixed length."""
    values = intervals.to_pylist()
    if any(each is not None and each.months for each in values):
        return intervals
    lengths = [
        None if each is None else each.days * 86_400_000_000 + each.nanoseconds // 1000 for each in values
    ]
    return pa.chunked_array([pa.array(lengths, pa.duration("us"))])


def _rounded(number: float, places: int) -> float:
    """Return a number rounded half up in its decimal digits, as Spark does."""
    if not isfinite(number):
        return number
    try:
        with localcontext(prec=400):
            return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
    except InvalidOperation:
        return number


def _capitals(text: str) -> str:
    """Return a string whose words, separated by spaces, begin with a capital."""
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))
