"""Frames against declared schemas."""

import re
from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from eddyline.errors import PipelineError
from eddyline.plan.layout import Stream
from eddyline.types import SqlType

_SIMPLE = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def from_spark(kind: DataType) -> SqlType | None:
    """Return the SQL type of a Spark type, or None where eddyline has none."""
    name = kind.simpleString()
    if match := _DECIMAL.fullmatch(name):
        return SqlType("decimal", int(match[1]), int(match[2]))
    if re.fullmatch(r"(var)?char\(\d+\)", name):
        return SqlType("string")
    return SqlType(name) if name in (*_SIMPLE, "timestamp", "timestamp_ntz") else None  # type: ignore[arg-type]


def declared_columns(
    stream: Stream, frame: DataFrame, names: Sequence[str], prefix: str = ""
) -> list[SparkColumn]:
    """Return the named columns of a frame in their declared types, or raise PipelineError.

    prefix: the struct that holds the columns (`before.`), where they are not the frame's own.
    """
    schema = frame.select(f"{prefix}*").schema if prefix else frame.schema
    declared = {column.name: column for column in stream.columns}
    columns = []
    for name in names:
        found = [field for field in schema.fields if field.name.lower() == name.lower()]
        if len(found) != 1:
            number = f"{len(found)} columns" if found else "no column"
            raise PipelineError(
                f"stream {stream.name!r}: the frame has {number} {prefix + name!r}, in upper or lower case; it has "
                f"{', '.join(f.name for f in schema.fields)}."
            )
        field = found[0]
        kind, wanted = from_spark(field.dataType), declared[name].type
        if kind is None or not kind.widens_to(wanted):
            raise PipelineError(
                f"stream {stream.name!r}: column {name!r} is declared {wanted} and the frame has "
                f"{field.dataType.simpleString()}: cast it in the frame or declare it as it is."
            )
        columns.append(sf.col(f"{prefix}`{field.name}`").cast(str(wanted)).alias(name))
    return columns
