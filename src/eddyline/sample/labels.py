"""Labels: the values behind the codes of a group column and behind the candidate keys of a sketch."""

import struct
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.errors import CorruptState
from eddyline.sample.packing import BoolArray, IntArray, distinct

# Elements hold 64-bit codes. Codes of numbers and times are the values themselves. The code of a string is a
# hash, and a dictionary that groups by it keeps the string once for each code that its elements hold.


@dataclass(frozen=True, eq=False)
class Labels:
    """Codes in ascending order, and the value of each; NULL for a code that only NULL has.

    NULL shares its code with a value: 0 is also the code of the decimal 0.00. A value that comes later replaces
    NULL.
    """

    codes: IntArray
    values: pa.Array

    @classmethod
    def none(cls) -> "Labels":
        """Return the labels of a column without rows."""
        return cls(np.empty(0, dtype=np.int64), pa.nulls(0))

    @classmethod
    def of(cls, codes: IntArray, values: pa.Array) -> "Labels":
        """Return the labels of rows: each code once, with the value of one of its rows."""
        found, first = np.unique(codes, return_index=True)
        return cls(found, values.take(pa.array(first)))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """The bytes of codes and values."""
        return int(self.codes.nbytes + self.values.nbytes)

    def plus(self, other: "Labels") -> "Labels":
        """Return the labels of both; the label NULL, of a code that only NULL has held, is replaced by a value."""
        mine, theirs = self.without_null(), other.without_null()
        fresh = ~np.isin(theirs.codes, mine.codes)
        if not fresh.any():
            return mine
        if len(mine) == 0:
            return theirs
        codes = np.concatenate([mine.codes, theirs.codes[fresh]])
        added = theirs.values.filter(pa.array(fresh)).cast(mine.values.type)
        order = np.argsort(codes, kind="stable")
        return Labels(codes[order], pa.concat_arrays([mine.values, added]).take(pa.array(order)))

    def without_null(self) -> "Labels":
        """Return the labels of values alone."""
        valid = np.asarray(self.values.is_valid())
        return self if valid.all() else Labels(self.codes[valid], self.values.filter(pa.array(valid)))

    def only(self, codes: IntArray, null: BoolArray) -> "Labels":
        """Return the labels of rows with these codes: each once, NULL for a code that only rows with NULL have."""
        held, of_values = distinct([codes]), distinct([codes[~null]])
        values = self.decoded(held)
        if len(of_values) < len(held):
            values = values.take(pa.array(np.arange(len(held)), mask=~np.isin(held, of_values)))
        return Labels(held, values)

    def decoded(self, codes: IntArray) -> pa.Array:
        """Return the values of codes in any order, NULL for a code without a label."""
        if len(self) == 0:
            return pa.nulls(len(codes), self.values.type)
        places = np.minimum(np.searchsorted(self.codes, codes), len(self) - 1)
        missing = self.codes[places] != codes
        return self.values.take(pa.array(places, mask=missing))

    def to_bytes(self) -> bytes:
        """Return the labels as a stream in Arrow's own format."""
        batch = pa.record_batch({"code": pa.array(self.codes), "value": self.values})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "Labels":
        """Return the labels that `to_bytes` wrote, or raise CorruptState.

        Nothing is trusted: Arrow's arrays point into `data`, and one offset beyond its end would crash the process.
        """
        try:
            batch = read_batch(data)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptState(f"the labels of a group column cannot be read: {error}.") from error
        if batch.schema.names != ["code", "value"] or not pa.types.is_int64(batch.schema.types[0]):
            raise CorruptState("the labels of a group column are not a code and a value each.")
        if not is_flat(batch.schema.types[1]):
            raise CorruptState(f"the labels of a group column are {batch.schema.types[1]}.")
        if batch.column(0).null_count:
            raise CorruptState("a label of a group column has no code.")
        codes = batch.column(0).to_numpy()
        if np.any(codes[1:] <= codes[:-1]):
            raise CorruptState("the labels of a group column are not in order.")
        return cls(codes, batch.column(1))


def is_flat(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers, times, strings or bytes, or only NULL."""
    return bool(
        pa.types.is_primitive(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_null(kind)
    )


def read_batch(data: bytes | memoryview) -> pa.RecordBatch:
    """Return the only batch of a stream in Arrow's format, whose buffers must lie in the stream uncompressed."""
    buffer = pa.py_buffer(data)
    messages = list(pa.ipc.MessageReader.open_stream(buffer))
    if [each.type for each in messages] != ["schema", "record batch"]:
        raise ValueError("not one batch of rows")
    if _is_compressed(bytes(messages[1].metadata)):
        raise ValueError("its buffers are compressed, which no version of eddyline writes")
    return pa.ipc.read_record_batch(messages[1], pa.ipc.read_schema(messages[0]))


def _is_compressed(metadata: bytes) -> bool:
    """Return whether a record batch's metadata name a compression, with which few bytes could request any memory.

    It is a flatbuffer: `Message` has the table `RecordBatch` as its third field, whose fourth is `compression`.
    """

    def field(table: int, number: int) -> int:
        """Return the position of a field of a table, 0 if it is left out."""
        (back,) = struct.unpack_from("<i", metadata, table)
        size, *_ = struct.unpack_from("<H", metadata, table - back)
        place = 4 + 2 * number
        (offset,) = struct.unpack_from("<H", metadata, table - back + place) if place < size else (0,)
        return table + offset if offset else 0

    def followed(at: int) -> int:
        return at + int(struct.unpack_from("<I", metadata, at)[0])

    try:
        header = field(followed(0), 2)
        return not header or field(followed(header), 3) != 0
    except struct.error as error:
        raise ValueError("its metadata are cut off") from error


# The values behind the candidate keys of a sketch: what to show for a heavy group that no dictionary holds.
#
# The key of a string column, or of several columns together, is a hash. A dictionary keeps the values of the
# keys that it holds. A sketch of other keys keeps the values only of the keys in its candidate table.


_CODE = "code"


@dataclass(frozen=True, eq=False)
class KeyLabels:
    """Codes of keys in ascending order, and the values of each: an array for each column of the key."""

    codes: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    columns: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """The bytes of codes and values."""
        return int(self.codes.nbytes + sum(column.nbytes for column in self.columns)) if len(self) else 0

    @classmethod
    def of(cls, codes: IntArray, columns: tuple[pa.Array, ...]) -> "KeyLabels":
        """Return the labels of rows: each code once, with the values of one of its rows."""
        found, first = np.unique(codes, return_index=True)
        return cls(found, tuple(column.take(pa.array(first)) for column in columns))

    def lacks(self, codes: IntArray) -> np.ndarray:
        """Return which codes have no label."""
        return ~np.isin(codes, self.codes)

    def plus(self, other: "KeyLabels") -> "KeyLabels":
        """Return the labels of both; for codes that both have, `self` wins."""
        fresh = self.lacks(other.codes)
        if not fresh.any():
            return self
        if len(self) == 0:
            return other
        codes = np.concatenate([self.codes, other.codes[fresh]])
        order, chosen = np.argsort(codes, kind="stable"), pa.array(fresh)
        columns = (
            pa.concat_arrays([mine, theirs.filter(chosen).cast(mine.type)]).take(pa.array(order))
            for mine, theirs in zip(self.columns, other.columns, strict=True)
        )
        return KeyLabels(codes[order], tuple(columns))

    def only(self, codes: IntArray) -> "KeyLabels":
        """Return the labels of some codes."""
        kept = np.isin(self.codes, codes)
        if kept.all():
            return self
        return KeyLabels(self.codes[kept], tuple(column.filter(pa.array(kept)) for column in self.columns))

    def decoded(self, codes: IntArray) -> tuple[pa.Array, ...]:
        """Return the values of codes, all of which have labels, column by column."""
        places = pa.array(np.searchsorted(self.codes, codes))
        return tuple(column.take(places) for column in self.columns)

    def to_bytes(self) -> bytes:
        """Return the labels as a stream in Arrow's own format, nothing if there are no labels."""
        if len(self) == 0:
            return b""
        named = {f"value{place}": column for place, column in enumerate(self.columns)}
        batch = pa.record_batch({_CODE: pa.array(self.codes), **named})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, columns: int) -> "KeyLabels":
        """Return the labels that `to_bytes` wrote, or raise CorruptState; columns: how many there must be."""
        if len(data) == 0:
            return cls()
        try:
            batch = read_batch(data)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptState(f"the labels of candidate keys cannot be read: {error}.") from error
        names = [_CODE, *(f"value{place}" for place in range(columns))]
        types = batch.schema.types
        if batch.schema.names != names or not pa.types.is_int64(types[0]) or batch.column(0).null_count:
            raise CorruptState(f"the labels of candidate keys do not have {columns} columns.")
        codes = batch.column(0).to_numpy()
        if np.any(codes[1:] <= codes[:-1]) or not all(map(is_flat, types)):
            raise CorruptState("the labels of candidate keys are not in order, or not plain values.")
        return cls(codes, tuple(batch.columns[1:]))
