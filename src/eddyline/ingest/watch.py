"""Which columns never had a value: looked at in the batches of a pass, until each of them has had one."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.ingest.projection import FLAG_BITS, Projection, carriers, watched_name


class Watch:
    """The columns of a stream that were NULL in all rows so far; nothing is looked at once there are none."""

    def __init__(self, projection: Projection, twins: Mapping[str, str]) -> None:
        self._carriers = {name: twins[by] for name, by in carriers(projection).items()}
        self._watched = projection.watched
        self._first = len(projection.predicates) + len(projection.presence)
        self.empty = {*self._carriers, *self._watched}

    def look(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take note of the columns that have a value in a batch."""
        if self.empty and batch.num_rows:
            self.empty = {name for name in self.empty if not self._has_value(name, batch)}

    def _has_value(self, name: str, batch: pa.RecordBatch | pa.Table) -> bool:
        """Return whether a column has a value, or the batch does not tell."""
        if name in self._carriers:
            return bool(batch.column(self._carriers[name]).null_count < batch.num_rows)
        place = self._watched.index(name)
        if watched_name(place) in batch.schema.names:
            return bool(pc.any(batch.column(watched_name(place))).as_py())
        word, bit = divmod(self._first + place, FLAG_BITS)
        if f"b{word}" not in batch.schema.names:
            return True
        return bool(np.bitwise_or.reduce(batch.column(f"b{word}").to_numpy()) >> bit & 1)
