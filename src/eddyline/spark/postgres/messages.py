"""Messages of PostgreSQL's pgoutput plugin, protocol version 1, of one table.

Documented in PostgreSQL's manual, "Logical Replication Message Formats". An update is a row taken away and a
row put in; the old row must come whole, which REPLICA IDENTITY FULL sees to.
"""

import datetime as dt
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql.types import DataType

from eddyline.errors import ChangeError

Row = dict[str, str | None]
Change = tuple[str, Row]
_UNCHANGED = object()


@dataclass(frozen=True)
class Transaction:
    """A committed transaction: the place in the log where it ends, and the lower half of its number.

    rows: its messages that change rows of the table, each with the names of the columns; they are read when asked for.
    """

    end: int
    number: int
    rows: list[tuple[bytes, list[str]]]
    table: str

    def changes(self) -> Iterator[Change]:
        """Yield its changes, an update as two, or raise ChangeError where an old row does not come whole."""
        for message, columns in self.rows:
            yield from _changes(message, columns, self.table)


class Transactions:
    """The transactions of some messages, in the order of their commits."""

    def __init__(self, messages: Iterable[bytes], table: str, relation: int) -> None:
        self._messages = messages
        self._table = table
        self._relation = relation  # its number: a table keeps it when it is renamed, and renamed back
        self._columns: dict[int, list[str]] = {}

    def all(self) -> Iterator[Transaction]:
        """Yield each transaction."""
        number, rows = 0, list[tuple[bytes, list[str]]]()
        for message in self._messages:
            kind = message[:1]
            if kind == b"B":
                _final, _time, number = struct.unpack_from("!QQI", message, 1)
                rows = []
            elif kind == b"R":
                self._learn(message)
            elif kind in b"IUD":
                (identifier,) = struct.unpack_from("!I", message, 1)
                rows += [(message, self._columns[identifier])] if identifier in self._columns else []
            elif kind == b"T" and self._truncates(message):
                raise ChangeError(f"{self._table} was truncated, which names no rows: build the state anew.")
            elif kind == b"C":
                _flags, _commit, end, _time = struct.unpack_from("!BQQQ", message, 1)
                yield Transaction(end, number, rows, self._table)
                rows = []

    def _learn(self, message: bytes) -> None:
        """Read which columns a table has from here on."""
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


def _changes(message: bytes, columns: list[str], table: str) -> list[Change]:
    kind, tuples, at = message[:1], {}, 5
    while at < len(message):
        letter = message[at : at + 1]
        tuples[letter], at = _tuple(message, at + 1, columns)
    if kind != b"I" and b"O" not in tuples:
        raise ChangeError(
            f"a change of {table} holds only the key of the old row: ALTER TABLE {table} REPLICA IDENTITY FULL."
        )
    old, new = tuples.get(b"O", {}), tuples.get(b"N", {})
    new = {name: old[name] if value is _UNCHANGED else value for name, value in new.items()}
    words = {b"I": (), b"D": (("delete", old),), b"U": (("update_preimage", old),)}[kind]
    after = {b"I": "insert", b"U": "update_postimage"}.get(kind)
    return [*words, *([(after, new)] if after else [])]


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


def _tuple(message: bytes, at: int, columns: list[str]) -> tuple[dict[str, Any], int]:
    (count,) = struct.unpack_from("!H", message, at)
    at += 2
    row: dict[str, Any] = {}
    for name in columns[:count]:
        kind, at = message[at : at + 1], at + 1
        row[name] = _UNCHANGED if kind == b"u" else None
        if kind == b"t":
            (length,) = struct.unpack_from("!I", message, at)
            row[name] = message[at + 4 : at + 4 + length].decode()
            at += 4 + length
    return row, at


def _decimal(text: str) -> Decimal:
    """Return a number, or raise ValueError of NaN and Infinity, which a DECIMAL does not hold and Spark makes NULL."""
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError(text)
    return text == "t"


_CONVERTERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), dt.datetime.fromisoformat),
    "decimal": _decimal,
    "boolean": _boolean,
    "date": dt.date.fromisoformat,
    "binary": lambda text: bytes.fromhex(text.removeprefix("\\x")),
}


def convert(value: str | None, kind: DataType) -> Any:
    """Return a value of PostgreSQL's text form as Spark takes it."""
    return None if value is None else _CONVERTERS.get(kind.typeName(), str)(value)
