"""Labels: the values behind the codes of a group column.

Elements hold 64-bit codes. Those of numbers and times are the values themselves; a text has a hash for a code, and a
dictionary that groups by it keeps the text once for each code that its elements hold.
"""

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
        """Return the labels that `to_bytes` wrote, or raise CorruptState."""
        try:
            table = pa.ipc.open_stream(data).read_all()
            codes = table.column("code").to_numpy().astype(np.int64)
            values = table.column("value").combine_chunks()
        except (pa.ArrowException, KeyError, OSError) as error:
            raise CorruptState(f"the labels of a group column cannot be read: {error}.") from error
        if np.any(codes[1:] <= codes[:-1]):
            raise CorruptState("the labels of a group column are not in order.")
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
        return cls(codes, values)
