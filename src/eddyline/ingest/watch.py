"""What the input check records about a stream's rows: counts, and columns that never had a value."""

from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.ingest.projection import FLAG_BITS, Projection, carriers, watched_name

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
