"""Messages of PostgreSQL's pgoutput plugin, protocol version 1, of one table.

Documented in PostgreSQL's manual, "Logical Replication Message Formats". An update is a row taken away and a
row put in; the old row must come whole, which REPLICA IDENTITY FULL sees to.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from eddyline.errors import ChangeError, PipelineError

Change = tuple[str, tuple[str | None, ...]]
"""What happened to a row, and the texts of its columns."""
_INSERT, _DELETE, _OLD, _TEXT, _SAME = b"IDOtu"
_UNCHANGED = object()


@dataclass(frozen=True)
class Transaction:
    """A committed transaction: the place in the log where it ends, and the lower half of its number.

    rows: the names of the table's columns, and the messages that change its rows while it has them; they are read when
    asked for.
    """

    end: int
    number: int
    rows: list[tuple[list[str], list[bytes]]]
    table: str

    def changes(self, names: list[str]) -> Iterator[Change]:
        """Yield its changes of some columns, an update as two; ChangeError where an old row does not come whole."""
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
        self._relation = relation  # its number: a table keeps it when it is renamed, and renamed back
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
    """Return the texts of a row, and where it ends."""
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
