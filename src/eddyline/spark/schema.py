"""Frames and declared schemas, and the Arrow batches in which rows leave the JVM."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.types import DataType

from eddyline.errors import PipelineError
from eddyline.plan.layout import Stream
from eddyline.types import SqlType

# Frames against declared schemas.


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


# How rows leave the JVM: in Arrow batches that are limited by their rows and not measured in bytes.
#
# Before every row Spark asks each column of the batch for its bytes, to end it before `maxBytesPerBatch`.
# Of a pass through the JVM that takes more than half of the time (benchmarks/pass.py), unless the limit is
# the largest integer, for which Spark does not ask.


_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = str((1 << 31) - 1)
BATCH_ROWS = 4096
"""Rows of a batch; from 1,000 to a million they take the same time. A piece of a state is a row of up to 64 KB."""
_NARROW = (st.NumericType, st.BooleanType, st.DateType, st.TimestampType, st.TimestampNTZType)


@contextmanager
def unmeasured_batches(rows: DataFrame) -> Iterator[None]:
    """Limit the batches of a frame's session by rows alone while something runs, where the frame is all of numbers.

    A row with a text may be of any size: there the session's own limits stay. So they do where they have no bytes in
    them, because another pass of the session is under way or its user has said so.
    """
    conf = rows.sparkSession.conf
    before = {name: str(conf.get(name)) for name in (_ROWS, _BYTES)}
    narrow = all(isinstance(field.dataType, _NARROW) for field in rows.schema.fields)
    if not narrow or before[_BYTES].removesuffix("b") == _NO_LIMIT:
        yield
        return
    try:
        conf.set(_ROWS, str(BATCH_ROWS))
        conf.set(_BYTES, _NO_LIMIT)
        yield
    finally:
        for name, value in before.items():
            conf.set(name, value)
