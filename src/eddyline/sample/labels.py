"""Labels: the values behind the codes of a group column.

Elements hold 64-bit codes. Those of numbers and times are the values themselves; a text has a hash for a code, and a
dictionary that groups by it keeps the text once for each code that its elements hold.
"""

import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.errors import CorruptState
from eddyline.sample.sorting import BoolArray, IntArray, distinct


@dataclass(frozen=True, eq=False)
class Labels:
    """Codes in ascending order, and the value of each; NULL for a code that only NULL has.

    NULL's code is that of a value, too: 0 is that of the decimal 0.00. A value that comes later takes its place.
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
        """Return the labels of both; the label NULL, of a code that only NULL has held, gives way to a value."""
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
        """Return the labels as a stream of Arrow's own format."""
        batch = pa.record_batch({"code": pa.array(self.codes), "value": self.values})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "Labels":
        """Return the labels that `to_bytes` wrote, or raise CorruptState.

        Nothing is believed: Arrow's arrays point into `data`, and one offset beyond its end would crash the process.
        """
        try:
            batch = _read_batch(data)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptState(f"the labels of a group column cannot be read: {error}.") from error
        if batch.schema.names != ["code", "value"] or not pa.types.is_int64(batch.schema.types[0]):
            raise CorruptState("the labels of a group column are not a code and a value each.")
        if not _is_flat(batch.schema.types[1]):
            raise CorruptState(f"the labels of a group column are {batch.schema.types[1]}.")
        if batch.column(0).null_count:
            raise CorruptState("a label of a group column has no code.")
        codes = batch.column(0).to_numpy()
        if np.any(codes[1:] <= codes[:-1]):
            raise CorruptState("the labels of a group column are not in order.")
        return cls(codes, batch.column(1))


def _is_flat(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers, times, texts or bytes, or NULL alone."""
    return bool(
        pa.types.is_primitive(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_null(kind)
    )


def _read_batch(data: bytes | memoryview) -> pa.RecordBatch:
    """Return the only batch of a stream of Arrow's format, whose buffers have to lie in the stream as they are."""
    buffer = pa.py_buffer(data)
    messages = list(pa.ipc.MessageReader.open_stream(buffer))
    if [each.type for each in messages] != ["schema", "record batch"]:
        raise ValueError("not one batch of rows")
    if _is_compressed(bytes(messages[1].metadata)):
        raise ValueError("its buffers are compressed, which no version of eddyline writes")
    return pa.ipc.read_record_batch(messages[1], pa.ipc.read_schema(messages[0]))


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the metadata of a record batch name a compression, by which few bytes could ask for any memory.

    A flatbuffer: `Message` has the table `RecordBatch` as its third field, and that has `compression` as its fourth.
    """

    def field(table: int, number: int) -> int:
        """Return where a field of a table is, 0 where it is left out."""
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
