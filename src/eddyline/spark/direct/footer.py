"""What a Parquet file says of itself: the SQL types of its columns as Spark reads them, and its calendar."""

import json
from collections.abc import Iterable

import pyarrow.parquet as pq

from eddyline.spark.direct.doubt import Doubt
from eddyline.types import SqlType

_PLAIN = {
    "BOOLEAN": SqlType("boolean"),
    "INT32": SqlType("int"),
    "INT64": SqlType("bigint"),
    "FLOAT": SqlType("float"),
    "DOUBLE": SqlType("double"),
    "BYTE_ARRAY": SqlType("binary"),
    "INT96": SqlType("timestamp"),
}
_INTEGERS = {8: SqlType("tinyint"), 16: SqlType("smallint"), 32: SqlType("int"), 64: SqlType("bigint")}
_DECIMAL_DIGITS = 38
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY, _LEGACY_96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_SINCE, _SINCE_96 = "3.0.0", "3.1.0"
"""The versions of Spark that write today's calendar unless they say otherwise."""


def column_names(metadata: pq.FileMetaData) -> list[str]:
    """Return the names of a file's columns."""
    paths = [metadata.schema.column(i).path for i in range(len(metadata.schema))]
    return list(dict.fromkeys(path.partition(".")[0] for path in paths))


def holds_signs(footers: Iterable[pq.FileMetaData], name: str) -> bool:
    """Return whether integers of a column lie between -1 and 1, and reach both, in every row group of some files."""
    ends = set()
    for footer in footers:
        paths = [footer.schema.column(i).path for i in range(len(footer.schema))]
        if name not in paths or footer.schema.column(paths.index(name)).physical_type not in (
            "INT32",
            "INT64",
        ):
            return False
        for group in range(footer.num_row_groups):
            found = footer.row_group(group).column(paths.index(name)).statistics
            if found is None or not found.has_min_max:
                return False
            try:
                ends |= {found.min, found.max}
            except OverflowError:  # dates beyond Python's calendar
                return False
    return ends == {-1, 1}


def sql_types(metadata: pq.FileMetaData, names: set[str]) -> dict[str, SqlType]:
    """Return the SQL types of some columns of a file, or raise Doubt where one is missing or not plain."""
    schema, types = metadata.schema, {}
    wanted = {name.lower() for name in names}
    seen: list[str] = []
    for i in range(len(schema)):
        column = schema.column(i)
        top, _, inner = column.path.partition(".")
        if top.lower() not in wanted or (inner and top in seen):
            continue
        seen.append(top)
        kind = None if inner or column.max_repetition_level else _sql_type(column)
        if kind is None:
            raise Doubt(f"column {top!r} is stored as {column.physical_type} ({column.logical_type})")
        types[top] = kind
    if len({name.lower() for name in seen}) < len(seen):
        raise Doubt("a file has columns whose names differ in case only")
    if types.keys() != names:
        raise Doubt(f"a file has no column {min(names - types.keys())!r}")
    return types


def _sql_type(column: pq.ColumnSchema) -> SqlType | None:
    """Return the type that Spark gives a column, None for the types that it does not read as Arrow does."""
    told, kind = json.loads(column.logical_type.to_json()), None
    match column.logical_type.type:
        case "NONE":
            kind = _PLAIN.get(column.physical_type)
        case "STRING":
            kind = SqlType("string")
        case "DATE":
            kind = SqlType("date")
        case "INT" if told["isSigned"]:
            kind = _INTEGERS[told["bitWidth"]]
        case "DECIMAL" if told["precision"] <= _DECIMAL_DIGITS:
            kind = SqlType("decimal", told["precision"], told["scale"])
        case "TIMESTAMP" if told["timeUnit"] in ("milliseconds", "microseconds"):
            kind = SqlType("timestamp" if told["isAdjustedToUTC"] else "timestamp_ntz")
    return kind


def check_calendar(metadata: pq.FileMetaData, names: set[str], *, ours: bool) -> None:
    """Raise Doubt if dates and times of a file may be of the calendar that Spark used before 3.0.

    ours: Spark takes files that do not say so for files of today's calendar; never for times of 96 bits.
    """
    columns = [metadata.schema.column(i) for i in range(len(metadata.schema))]
    read = [column for column in columns if column.path in names]
    told = metadata.metadata or {}
    version = told.get(_SPARK_VERSION, b"").decode()
    if any(column.logical_type.type in ("DATE", "TIMESTAMP") for column in read):
        old = version < _SINCE if version else not ours
        if old or _LEGACY in told:
            raise Doubt("a file may hold dates of the old calendar")
    if any(column.physical_type == "INT96" for column in read) and (
        version < _SINCE_96 or _LEGACY_96 in told
    ):
        raise Doubt("a file may hold times of 96 bits of the old calendar")
