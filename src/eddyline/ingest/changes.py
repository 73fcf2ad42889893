"""Change formats: how rows encode inserts and deletes, how they are read, and what the input check counts."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import ChangeError, PlanError
from eddyline.expressions.arrow_values import python_rows
from eddyline.expressions.schema import COLUMN_NAME
from eddyline.ingest.projection import FLAG_BITS, Projection, carriers, watched_name
from eddyline.plan.layout import Stream
from eddyline.sketch.counters import Int64Array

# Columns that never had a value: checked in the batches of a pass, until each has had one.


class Watch:
    """The columns of a stream that were NULL in all rows so far; nothing is checked once none is left."""

    def __init__(self, projection: Projection, twins: Mapping[str, str]) -> None:
        self._carriers = {name: twins[by] for name, by in carriers(projection).items()}
        self._watched = projection.watched
        self._first = len(projection.predicates) + len(projection.presence)
        self.empty = {*self._carriers, *self._watched}

    def look(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Record the columns that have a value in a batch."""
        if self.empty and batch.num_rows:
            self.empty = {name for name in self.empty if not self._has_value(name, batch)}

    def _has_value(self, name: str, batch: pa.RecordBatch | pa.Table) -> bool:
        """Return whether a column has a value, or the batch does not show it."""
        if name in self._carriers:
            return bool(batch.column(self._carriers[name]).null_count < batch.num_rows)
        place = self._watched.index(name)
        if watched_name(place) in batch.schema.names:
            return bool(pc.any(batch.column(watched_name(place))).as_py())
        word, bit = divmod(self._first + place, FLAG_BITS)
        if f"b{word}" not in batch.schema.names:
            return True
        return bool(np.bitwise_or.reduce(batch.column(f"b{word}").to_numpy()) >> bit & 1)


# What is recorded about a stream's rows besides all counters: the basis of the input check.
#
# Tallies of two parts of a stream add up to the tally of both, however the rows were divided.


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """The number of rows of a stream, and what the input check found in them.

    deletes: how many are deletes. empty: columns that were NULL in all of them. earliest, latest: their event
    times, in microseconds since 1970, where windows use them. unread: columns that look like a change type, and
    that nothing reads. similar: columns that the schema does not have, spelled like those that were NULL. timed:
    rows whose event time was checked, which needs a query with a window.
    """

    rows: int = 0
    deletes: int = 0
    empty: tuple[str, ...] = ()
    earliest: int | None = None
    latest: int | None = None
    unread: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    timed: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        if not self.rows or not other.rows:
            return other if not self.rows else self
        return Tally(
            self.rows + other.rows,
            self.deletes + other.deletes,
            _both(self.empty, other.empty),
            min((each.earliest for each in (self, other) if each.earliest is not None), default=None),
            max((each.latest for each in (self, other) if each.latest is not None), default=None),
            _both(self.unread, other.unread),
            tuple(sorted({*self.similar, *other.similar})),
            self.timed + other.timed,
        )


def _both(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in left if name in right)


# The spellings of `changes=`, and how they are read on Arrow tables:
#
# | spelling | a row has | weight |
# | --- | --- | --- |
# | (none) | nothing | +1 |
# | inserts | columns that look like changes, but are not | +1 |
# | a column name | a signed integer | that integer |
# | change_type | `_change_type` (Spark CHANGES, Delta CDF) | insert, update_postimage +1;
# |   |   | delete, update_preimage -1 |
# |   | the same in Iceberg | INSERT, UPDATE_AFTER +1; DELETE, UPDATE_BEFORE -1 |
# | flink | `row_kind` | +I, +U: +1; -U, -D: -1 |
# | debezium | `op` with `before` and `after` (or all in `payload`) | c, r: after +1; d: before -1; u: both |
# | debezium:full | the same, from tables that all have REPLICA IDENTITY FULL | the same |
#
# `change_type:col` and `flink:col` read another column than the usual one. An update is a delete and an
# insert. A row whose change cannot be read is an error that shows the row, never a silent drop.


CHANGE_TYPE_WEIGHTS = {
    "insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1,
    "INSERT": 1, "UPDATE_AFTER": 1, "DELETE": -1, "UPDATE_BEFORE": -1,
}  # fmt: skip
FLINK_WEIGHTS = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}
DEBEZIUM_OPS = {"c": ("after",), "r": ("after",), "d": ("before",), "u": ("before", "after")}
"""The images of a row that each op of Debezium has."""
IMAGE_WEIGHTS = {"before": -1, "after": 1}
UNKNOWN_OP = "its op is not c, r, u or d"
UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes in place of a value that PostgreSQL did not send."""
REPLICA_IDENTITY = "let the database send whole rows: ALTER TABLE ... REPLICA IDENTITY FULL"
NOT_SENT = f"was too large to be sent with a change of other columns (TOAST); {REPLICA_IDENTITY}"
SHOWN_ROWS = 3
CORRUPT = "_corrupt_record"
"""The column where Spark's JSON and CSV readers leave the text of a record that they could not read."""
INSERTS = "inserts"
"""The spelling of streams whose rows are all inserts, whatever columns they have."""

ChangeEncoding = Literal["insert", "weight", "words", "debezium"]


class ChangeFormat(msgspec.Struct, frozen=True):
    """A spelling of changes: its form, the column that has it and the weight of each word."""

    form: ChangeEncoding
    column: str = ""
    words: dict[str, int] = msgspec.field(default_factory=dict)


def change_format(stream: str, spelling: str | None) -> ChangeFormat:
    """Return the format that a `changes=` spelling means."""
    if spelling is None or spelling == INSERTS:
        return ChangeFormat("insert")
    name, _, column = spelling.partition(":") if isinstance(spelling, str) else ("", "", "")
    if not COLUMN_NAME.fullmatch(name) or (column and not COLUMN_NAME.fullmatch(column)):
        raise PlanError(
            f"stream {stream!r}: changes={spelling!r} is neither a column name nor change_type, debezium, flink or "
            "inserts."
        )
    if name == "change_type":
        return ChangeFormat("words", column or "_change_type", CHANGE_TYPE_WEIGHTS)
    if name == "flink":
        return ChangeFormat("words", column or "row_kind", FLINK_WEIGHTS)
    if name == "debezium":
        if column not in ("", "full"):
            raise PlanError(f"stream {stream!r}: changes={spelling!r} is neither debezium nor debezium:full.")
        return ChangeFormat("debezium", column)
    return ChangeFormat("weight", name)


UNREADABLE = "it is not a record of the declared columns"
"""Why a line of CSV or JSON is bad, whatever change it may contain."""


def missing_image(side: str) -> str:
    """Return why a row of Debezium is bad that lacks the image of its op."""
    return f"its op needs {side}, which is missing" + (f"; {REPLICA_IDENTITY}" if side == "before" else "")


def bad_rows_error(stream: str, count: int, total: int, shown: list[str]) -> ChangeError:
    """Return the error for rows whose change cannot be read."""
    rows = "; ".join(shown[:SHOWN_ROWS])
    if all(UNREADABLE in row for row in shown):
        return ChangeError(
            f"stream {stream!r}: {count:,} of {total:,} lines cannot be read as the declared columns, for example "
            f"{rows}; nothing was applied. Correct the lines or the schema of the stream; a run goes on "
            'without them by on_bad = "skip" or "dead-letter" in [run].'
        )
    return ChangeError(
        f"stream {stream!r}: {count:,} of {total:,} rows carry a change that cannot be read, for example {rows}; "
        "nothing was applied. Correct the rows or the `changes=` spelling of the stream."
    )


def rows_and_weights(
    stream: str, table: pa.Table, form: ChangeFormat, read: Collection[str] = ()
) -> tuple[pa.Table, Int64Array]:
    """Return (rows, weights) of a table of changes, or raise ChangeError.

    read: the columns whose values queries read; Debezium may not have sent those of others.
    """
    if form.form == "insert":
        return table, np.ones(table.num_rows, dtype=np.int64)
    if form.form == "debezium":
        return _debezium(stream, table, read)
    if form.column not in table.column_names:
        raise ChangeError(
            f"stream {stream!r}: the table has no column {form.column!r}, which carries the change."
        )
    column = table.column(form.column)
    if form.form == "weight":
        if not pa.types.is_integer(column.type):
            raise ChangeError(
                f"stream {stream!r}: weight column {form.column!r} is {column.type}, not an integer."
            )
        try:
            weights = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ChangeError(
                f"stream {stream!r}: weight column {form.column!r} holds a weight beyond 64 bits: {error}."
            ) from error
    else:
        words, numbers = pa.array(list(form.words)), pa.array(list(form.words.values()), pa.int64())
        weights = numbers.take(pc.index_in(column.cast(pa.string()), words).combine_chunks())
    _refuse_nulls(stream, table, weights)
    return table, weights.to_numpy(zero_copy_only=False) if isinstance(
        weights, pa.Array
    ) else weights.to_numpy()


def _refuse_nulls(stream: str, table: pa.Table, weights: pa.Array | pa.ChunkedArray) -> None:
    if weights.null_count:
        bad = table.filter(pc.is_null(weights))
        shown = [str(row) for row in python_rows(bad.slice(0, SHOWN_ROWS))]
        raise bad_rows_error(stream, bad.num_rows, table.num_rows, shown)


def _debezium(stream: str, table: pa.Table, read: Collection[str]) -> tuple[pa.Table, Int64Array]:
    if "payload" in table.column_names:
        table = _fields(table.column("payload"))
    for name in ("op", "before", "after"):
        if name not in table.column_names:
            raise ChangeError(
                f"stream {stream!r}: a Debezium table has op, before and after; {name!r} is missing."
            )
    parts: list[pa.Table] = []
    weights: list[Int64Array] = []
    op = table.column("op")
    bad = [(pc.invert(pc.is_in(op, pa.array(list(DEBEZIUM_OPS)))), UNKNOWN_OP)]
    for side, sign in IMAGE_WEIGHTS.items():
        image = table.column(side)
        needs = pc.is_in(op, pa.array([name for name, sides in DEBEZIUM_OPS.items() if side in sides]))
        bad.append((pc.and_(needs, pc.is_null(image)), missing_image(side)))
        for name, absent in _not_sent(image, read):
            bad.append((pc.and_(needs, absent), f"its {side}.{name} {NOT_SENT}"))
        parts.append(_fields(image.filter(needs)))
        weights.append(np.full(parts[-1].num_rows, sign, dtype=np.int64))
    _refuse(stream, table, bad)
    return pa.concat_tables(parts), np.concatenate(weights)


def _fields(structs: pa.ChunkedArray) -> pa.Table:
    """Return the fields of a column as a table; `Table.from_struct_array` of pyarrow 16 needs at least one chunk."""
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in structs.chunks]
    return pa.Table.from_batches(batches, pa.schema(list(structs.type)))


def _not_sent(image: pa.ChunkedArray, read: Collection[str]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the columns of an image that are read and can hold Debezium's placeholder, and where they hold it."""
    wanted = {name.lower() for name in read}
    for place, field in enumerate(image.type):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        if field.name.lower() in wanted and (is_text or is_binary):
            placeholder = pa.scalar(UNAVAILABLE if is_text else UNAVAILABLE.encode(), kind)
            values = pc.struct_field(image, place).cast(kind)
            yield field.name, pc.fill_null(pc.equal(values, placeholder), False)


def _refuse(stream: str, table: pa.Table, bad: list[tuple[pa.ChunkedArray, str]]) -> None:
    """Raise ChangeError if any row is bad, with the first reason that applies to each row shown."""
    reasons = pa.chunked_array([pa.nulls(table.num_rows, pa.string())])
    for where, reason in reversed(bad):
        reasons = pc.if_else(where, reason, reasons)
    count = table.num_rows - reasons.null_count
    if count:
        first = table.append_column("reason", reasons).filter(pc.is_valid(reasons)).slice(0, SHOWN_ROWS)
        raise bad_rows_error(stream, count, table.num_rows, [str(row) for row in python_rows(first)])


# Columns that look like a change type, on a stream whose rows all count as inserts.


_CERTAIN = {
    "change_type": ("_change_type", "_commit_version"),
    "debezium": ("op", "before", "after"),
}
"""Spellings of changes whose columns do not occur by chance."""
_TELLING = {
    "_change_type": "change_type",
    "row_kind": "flink",
    "op": None,
    "__op": None,
    "_commit_version": None,
}
"""Columns that often have the change type, and the spelling if it is known."""

_SOME = 5


def unread_changes(stream: Stream, names: Iterable[str], read: Collection[str]) -> tuple[str, ...]:
    """Return the columns whose names look like a change type, and that nothing reads.

    Raise ChangeError where they certainly are one.
    """
    if stream.changes is not None:
        return ()
    used = {name.lower() for name in read}
    unread = {name.lower(): name for name in names if name.lower() not in used}
    for spelling, columns in _CERTAIN.items():
        if unread.keys() >= set(columns):
            raise ChangeError(
                f"the rows of stream {stream.name!r} say what they change ({', '.join(columns)}), and all would count "
                f'as inserts: declare the stream with changes="{spelling}", or with changes="{INSERTS}" if that is '
                "what you mean."
            )
    return tuple(sorted(unread[name] for name in _TELLING if name in unread))


def unread_in_table(stream: Stream, table: pa.Table, read: Collection[str], before: Tally) -> tuple[str, ...]:
    """Return the same for a table, with columns that hold only 1 and -1; before: the tally of earlier rows."""
    named = unread_changes(stream, table.column_names, read)
    if stream.changes is not None or (before.rows and not before.unread):
        return named
    used = {name.lower() for name in (*read, *named)}
    whole = [each.name for each in table.schema if pa.types.is_signed_integer(each.type)]
    signs = [name for name in whole if name.lower() not in used and _holds_signs(table.column(name))]
    return tuple(sorted([*named, *signs]))


def _holds_signs(column: pa.ChunkedArray) -> bool:
    ends: Mapping[str, int | None] = pc.min_max(column).as_py()
    return (ends["min"], ends["max"]) == (-1, 1) and not pc.any(pc.equal(column, 0)).as_py()


def spelling_of(column: str) -> str | None:
    """Return the `changes=` spelling for a column that looks like a change type; None where there is none."""
    return _TELLING.get(column.lower(), column)


def similar_columns(stream: Stream, names: Iterable[str], empty: Collection[str]) -> tuple[str, ...]:
    """Return columns missing in the schema, spelled like those without a value; some others if none are."""
    declared = {column.name.lower() for column in stream.columns}
    others = [name for name in names if name.lower() not in declared]
    if not empty:
        return ()
    alike = [name for each in empty for name in get_close_matches(each, others, 2)]
    return tuple(sorted(dict.fromkeys(alike or others[:_SOME])))
