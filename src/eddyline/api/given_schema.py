"""The columns of a stream, from DDL, an Arrow schema or table, a frame or a file."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.errors import PlanError
from eddyline.expressions.arrow_values import from_arrow
from eddyline.expressions.schema import parse_schema
from eddyline.ingest.changes import ChangeFormat
from eddyline.types import Column

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".orc": "orc",
    ".arrow": "arrow",
    ".feather": "arrow",
}


def columns_of_stream(stream: str, given: Any, changes: ChangeFormat) -> tuple[Column, ...]:
    """Return the columns that a stream is declared with, or raise PlanError.

    Unless the columns are given as DDL, those of types that no query reads are left out, and so is the change
    column.
    """
    if isinstance(given, str) and not _is_path(given):
        return parse_schema(stream, given)
    if hasattr(given, "schema") and hasattr(given, "sparkSession"):
        return _scalars(stream, given, changes)
    schema = _arrow_schema(stream, given)
    columns = tuple(_readable(schema, changes))
    if not columns:
        raise PlanError(
            f"stream {stream!r}: no column of {', '.join(schema.names) or 'it'} has a type that is read."
        )
    return columns


def _is_path(text: str) -> bool:
    return " " not in text.strip() and (
        Path(text).suffix in _FORMATS or text.endswith("/") or Path(text).is_dir()
    )


def _arrow_schema(stream: str, given: Any) -> pa.Schema:
    """Return the schema of an Arrow schema, a table, a frame that exports Arrow data, or a file."""
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, pa.Table | pa.RecordBatch):
        return given.schema
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given).schema
    if isinstance(given, str | os.PathLike):
        from pyarrow import dataset as ds  # noqa: PLC0415 - loads pandas where it is installed

        path = Path(given)
        try:
            return ds.dataset(path, format=_FORMATS.get(path.suffix, "parquet")).schema
        except (OSError, pa.ArrowException) as error:
            raise PlanError(
                f"stream {stream!r}: the columns of {str(path)!r} cannot be read: {error}."
            ) from error
    raise PlanError(
        f"stream {stream!r} is declared by its columns, 'id BIGINT, total DECIMAL(12,2)', or by what has them "
        f"(a frame, an Arrow schema or table, a path), not by {type(given).__name__}."
    )


def _readable(schema: pa.Schema, changes: ChangeFormat) -> Iterator[Column]:
    for field in schema:
        kind = from_arrow(field.type)
        if kind is not None and kind.kind != "void" and field.name.lower() != changes.column.lower():
            yield Column(field.name, kind)


def _scalars(stream: str, frame: Any, changes: ChangeFormat) -> tuple[Column, ...]:
    """Return the columns of a Spark frame, from its DDL."""
    fields = [
        f"`{field.name}` {field.dataType.simpleString()}"
        for field in frame.schema.fields
        if not any(nested in field.dataType.simpleString() for nested in ("<", "variant", "interval", "void"))
        and field.name.lower() != changes.column.lower()
    ]
    return parse_schema(stream, ", ".join(fields))


# The time zone of the active Spark session, if there is one.


def session_zone() -> str | None:
    """Return the active session's zone, None without a session; Spark is asked only if it is already imported."""
    if "pyspark.sql" not in sys.modules:
        return None
    from eddyline.spark.session import active_zone  # noqa: PLC0415 - Spark only where it is used

    return active_zone()
