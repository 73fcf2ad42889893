"""SQL types and Arrow types, both ways, and Arrow's values as Python's.

Python's calendar ends with the year 9999 and begins with the year 1; Spark's and Arrow's do not. A date or time beyond
is a text in Python, as Spark writes it: `+10000-01-01`.
"""

import datetime as dt
from typing import Any

import pyarrow as pa

from eddyline.types import SqlType

_TO_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_FROM_ARROW: dict[pa.DataType, SqlType] = {
    pa.bool_(): SqlType("boolean"),
    pa.int8(): SqlType("tinyint"),
    pa.int16(): SqlType("smallint"),
    pa.uint8(): SqlType("smallint"),
    pa.int32(): SqlType("int"),
    pa.uint16(): SqlType("int"),
    pa.int64(): SqlType("bigint"),
    pa.uint32(): SqlType("bigint"),
    pa.float32(): SqlType("float"),
    pa.float64(): SqlType("double"),
    pa.string(): SqlType("string"),
    pa.large_string(): SqlType("string"),
    pa.string_view(): SqlType("string"),
    pa.binary(): SqlType("binary"),
    pa.large_binary(): SqlType("binary"),
    pa.date32(): SqlType("date"),
}


def to_arrow(kind: SqlType) -> pa.DataType:
    """Return the Arrow type that Spark gives columns of a SQL type."""
    if kind.kind == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _TO_ARROW[kind.kind]


def from_arrow(kind: pa.DataType) -> SqlType | None:
    """Return the SQL type of an Arrow type, or None where there is none."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return SqlType("decimal", kind.precision, kind.scale) if kind.precision <= 38 else None
    if pa.types.is_timestamp(kind):
        return SqlType("timestamp" if kind.tz else "timestamp_ntz")
    return _FROM_ARROW.get(kind)


_DAY = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After which the calendar repeats."""
_BEFORE_1970 = dt.date(1970, 1, 1).toordinal()


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column in Python; dates and times beyond Python's calendar as texts."""
    kind = column.type
    if not pa.types.is_date32(kind) and kind not in (_TO_ARROW["timestamp"], _TO_ARROW["timestamp_ntz"]):
        return list(column.to_pylist())
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # pyarrow raises either
        numbers = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).to_pylist()
        return [None if number is None else _python_time(number, kind) for number in numbers]


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table in Python, as `python_values` has their values."""
    columns = [python_values(column) for column in table.columns]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def date_of(day: int) -> dt.date | str:
    """Return a date, given in days since 1970; a text where Python has no such date.

    >>> date_of(2932896), date_of(2932897), date_of(-719529)
    (datetime.date(9999, 12, 31), '+10000-01-01', '-0001-12-31')
    """
    cycles, of_cycle = divmod(day + _BEFORE_1970 - 1, _CYCLE_DAYS)
    date = dt.date.fromordinal(of_cycle + 1)
    year = date.year + cycles * _CYCLE_YEARS
    if dt.MINYEAR <= year <= dt.MAXYEAR:
        return date.replace(year=year)
    sign = "+" if year > 0 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}{date.isoformat()[4:]}"


def _python_time(number: int, kind: pa.DataType) -> dt.date | str:
    """Return a date or time, given in days or microseconds since 1970."""
    if pa.types.is_date32(kind):
        return date_of(number)
    day, micros = divmod(number, _DAY)
    date, zone = date_of(day), None if kind.tz is None else dt.UTC
    time = (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)).time()
    if isinstance(date, str):
        return f"{date} {time.isoformat()}{'' if zone is None else '+00:00'}"
    return dt.datetime.combine(date, time, zone)
