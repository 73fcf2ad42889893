"""Messages of PostgreSQL's pgoutput plugin for one table, and changes as Arrow batches."""

import datetime as dt
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, DecimalType, StructField, StructType, TimestampType

from eddyline.errors import ChangeError, PipelineError

# Protocol version 1.
#
# It is documented in PostgreSQL's manual, "Logical Replication Message Formats". An update is a delete and
# an insert; the old row must be complete, which REPLICA IDENTITY FULL ensures.


Change = tuple[str, tuple[str | None, ...]]
"""What happened to a row, and the text values of its columns."""
_INSERT, _DELETE, _OLD, _TEXT, _SAME = b"IDOtu"
_UNCHANGED = object()


@dataclass(frozen=True)
class Transaction:
    """A committed transaction: the place in the log where it ends, and the lower half of its number.

    rows: the names of the table's columns, and the messages that change rows while it has these columns; they are
    parsed on demand.
    """

    end: int
    number: int
    rows: list[tuple[list[str], list[bytes]]]
    table: str

    def changes(self, names: list[str]) -> Iterator[Change]:
        """Yield its changes of some columns, an update as two; raise ChangeError if an old row is not complete."""
        for columns, messages in self.rows:
            places = _places(columns, names, self.table)
            for message in messages:
                for change, row in _changes(message, self.table):
                    yield change, tuple(map(row.__getitem__, places))


class Transactions:
    """The transactions of some messages, in the order of their commits."""

    def __init__(self, messages: Iterable[bytes], table: str, relation: int) -> None:
        self._messages = messages
        self._table = table
        self._relation = relation  # its number: a table keeps it when it is renamed and renamed back
        self._columns: dict[int, list[str]] = {}

    def all(self) -> Iterator[Transaction]:
        """Yield each transaction."""
        number, rows = 0, list[tuple[list[str], list[bytes]]]()
        for message in self._messages:
            kind = message[:1]
            if kind == b"B":
                _final, _time, number = struct.unpack_from("!QQI", message, 1)
                rows = []
            elif kind == b"R":
                self._learn(message)
            elif kind in b"IUD":
                (identifier,) = struct.unpack_from("!I", message, 1)
                columns = self._columns.get(identifier)
                if columns is not None:
                    if not rows or rows[-1][0] is not columns:
                        rows.append((columns, []))
                    rows[-1][1].append(message)
            elif kind == b"T" and self._truncates(message):
                raise ChangeError(f"{self._table} was truncated, which names no rows: rebuild the state.")
            elif kind == b"C":
                _flags, _commit, end, _time = struct.unpack_from("!BQQQ", message, 1)
                yield Transaction(end, number, rows, self._table)
                rows = []

    def _learn(self, message: bytes) -> None:
        """Read which columns a table has from this message on."""
        (identifier,) = struct.unpack_from("!I", message, 1)
        _schema, at = _text(message, 5)
        _name, at = _text(message, at)
        (count,) = struct.unpack_from("!H", message, at + 1)
        at += 3
        columns = []
        for _ in range(count):
            column, at = _text(message, at + 1)
            columns.append(column)
            at += 8
        if identifier == self._relation:
            self._columns[identifier] = columns

    def _truncates(self, message: bytes) -> bool:
        (count,) = struct.unpack_from("!I", message, 1)
        return any(each in self._columns for each in struct.unpack_from(f"!{count}I", message, 6))


def _places(columns: list[str], names: list[str], table: str) -> list[int]:
    missing = [name for name in names if name not in columns]
    if missing:
        raise PipelineError(f"the table {table} has no column {missing[0]!r}.")
    return [columns.index(name) for name in names]


def _changes(message: bytes, table: str) -> list[tuple[str, list[Any]]]:
    """Return a message's changes with all columns of the table."""
    kind = message[0]
    row, at = _values(message, 6)
    if kind == _INSERT:
        return [("insert", row)]
    if message[5] != _OLD:
        raise ChangeError(
            f"a change of {table} holds only the key of the old row: ALTER TABLE {table} REPLICA IDENTITY FULL."
        )
    if kind == _DELETE:
        return [("delete", row)]
    new, _end = _values(message, at + 1)
    new = [before if after is _UNCHANGED else after for before, after in zip(row, new, strict=True)]
    return [("update_preimage", row), ("update_postimage", new)]


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


def _values(message: bytes, at: int) -> tuple[list[Any], int]:
    """Return the text values of a row, and where it ends."""
    (count,) = struct.unpack_from("!H", message, at)
    at += 2
    row: list[Any] = []
    for _ in range(count):
        kind, at = message[at], at + 1
        if kind == _TEXT:
            begin = at + 4
            at = begin + int.from_bytes(message[at:begin])
            row.append(message[begin:at].decode())
        else:
            row.append(_UNCHANGED if kind == _SAME else None)
    return row, at


# Changes as Arrow batches, which Spark takes unchanged; it would convert Python rows value by value.
#
# A decimal that its column cannot hold exactly, such as NaN, is refused: Spark would round it, or
# make it NULL. A timestamp without a zone is in the zone of the process, as in Spark.


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
            f"column {field.name!r} of {table} has {texts[0]!r}, which is not a valid {field.dataType.simpleString()}: "
            "declare it with its type in the table."
        ) from error


def _type(kind: DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if isinstance(kind, TimestampType) else to_arrow_type(kind)


def _converter(kind: DataType) -> Callable[[str], Any]:
    """Return the function that makes a value from PostgreSQL's text form."""
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
