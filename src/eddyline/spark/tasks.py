"""What runs on the executors: two functions of Arrow batches, self-contained but for the specs they are given."""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import EddylineError
from eddyline.ingest.changes import SHOWN_ROWS
from eddyline.ingest.projection import TIME
from eddyline.ingest.stream_pass import StreamPass
from eddyline.ingest.stream_spec import StreamSpec
from eddyline.spark.marks import BAD
from eddyline.spark.partials import (
    Merger,
    Report,
    failure,
    from_batches,
    partial_rows,
    report_row,
    to_batches,
)
from eddyline.spark.tombstones import Last, drop_tombstones

FEED_ROWS = 1 << 16


def encode_spec(spec: StreamSpec) -> bytes:
    """Return what a pass fills as bytes that travel to the executors."""
    return msgspec.json.encode(spec)


def sketch_task(spec: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the partial counters of one task: all its batches into all synopses, emitted once."""
    added = StreamPass(msgspec.json.decode(spec, type=StreamSpec), TIME)
    report = Report()
    last: Last | None = None
    try:
        for table in _gathered(batches):
            records, last = drop_tombstones(table, last)
            readable, seen = _split_bad(records)
            report += seen
            added.feed(readable)
    except EddylineError as error:
        yield from to_batches([report_row(failure(error))])
        return
    report += Report(added.tally, late=added.late, newest=added.newest)
    yield from to_batches(chain([report_row(report)], partial_rows(added)))


def merge_task(spec: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one block for each (name, chunk) that reaches this task."""
    merger = Merger(msgspec.json.decode(spec, type=StreamSpec))
    try:
        for row in from_batches(batches):
            merger.take(*row)
    except EddylineError as error:
        yield from to_batches([report_row(failure(error))])
        return
    yield from to_batches(merger.rows())


def dead_letter_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what is told of the rows that cannot be read, in a column `value`."""
    last: Last | None = None
    for batch in batches:
        records, last = drop_tombstones(pa.Table.from_batches([batch]), last)
        told = records.column(BAD)
        yield from pa.table({"value": told.filter(pc.is_valid(told))}).to_batches()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches gathered into tables large enough to be worth a kernel call."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= FEED_ROWS:
            yield pa.Table.from_batches(pending).combine_chunks()
            pending, rows = [], 0
    if pending:
        yield pa.Table.from_batches(pending).combine_chunks()


def _split_bad(table: pa.Table) -> tuple[pa.Table, Report]:
    """Return (rows whose change was read, a report of the others)."""
    if BAD not in table.column_names:
        return table, Report()
    bad = pc.is_valid(table.column(BAD))
    count = pc.sum(bad).as_py() or 0
    if count == 0:
        return table, Report()
    shown = table.column(BAD).filter(bad).slice(0, SHOWN_ROWS).to_pylist()
    return table.filter(pc.invert(bad)), Report(bad=count, shown=tuple(shown))
