"""Changes as the Arrow batches that Spark takes as they are; rows of Python it would convert value by value.

A decimal that its column does not hold as it is, NaN among them, is refused: Spark would round it, or make it NULL. A
timestamp without a zone is of the zone of the process, as Spark has it.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, DecimalType, StructField, StructType, TimestampType

from eddyline.errors import PipelineError
from eddyline.spark.postgres.messages import Change

CHANGE = "_change_type"
_ROWS = 10_000


def batches(changes: Iterator[Change], schema: StructType, table: str) -> Iterator[pa.RecordBatch]:
    """Yield changes, whose rows have the columns of a schema without `_change_type`, as batches of that schema."""
    names = [field.name for field in schema.fields if field.name != CHANGE]
    kinds = pa.schema([pa.field(each.name, _type(each.dataType), each.nullable) for each in schema.fields])
    while True:
        words, texts = list[str | None](), list[str | None]()
        for change, row in islice(changes, _ROWS):
            words.append(change)
            texts += row  # a list of rows would keep Python's garbage collector busy
        if not words:
            return
        columns = {name: texts[at :: len(names)] for at, name in enumerate(names)} | {CHANGE: words}
        arrays = [_array(columns[field.name], field, table) for field in schema.fields]
        yield pa.RecordBatch.from_arrays(arrays, schema=kinds)


def _array(texts: Sequence[str | None], field: StructField, table: str) -> pa.Array:
    make = _converter(field.dataType)
    try:
        values = texts if make is str else [None if text is None else make(text) for text in texts]
        return pa.array(values, _type(field.dataType))
    except (ValueError, ArithmeticError, TypeError) as error:
        if len(texts) > 1:  # which one?
            return pa.concat_arrays([_array([text], field, table) for text in texts])
        raise PipelineError(
            f"column {field.name!r} of {table} holds {texts[0]!r}, which is no {field.dataType.simpleString()}: "
            "declare it as what the table has."
        ) from error


def _type(kind: DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if isinstance(kind, TimestampType) else to_arrow_type(kind)


def _converter(kind: DataType) -> Callable[[str], Any]:
    """Return what makes a value of PostgreSQL's text form."""
    if isinstance(kind, DecimalType):
        unit = Decimal(1).scaleb(-kind.scale)
        strict = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
        return lambda text: _finite(Decimal(text)).quantize(unit, context=strict)
    return _CONVERTERS.get(kind.typeName(), str)


def _finite(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise ValueError("no number")
    return value


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError("no truth value")
    return text == "t"


def _without_zone(text: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(text)
    if value.tzinfo is not None:
        raise ValueError("has a zone")
    return value


_CONVERTERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    "timestamp": lambda text: dt.datetime.fromisoformat(text).astimezone(dt.UTC),
    "timestamp_ntz": _without_zone,
    "boolean": _boolean,
    "date": dt.date.fromisoformat,
    "binary": lambda text: bytes.fromhex(text.removeprefix("\\x")),
}
