"""Partial results between tasks: rows of (name, chunk, block), merged wherever they meet."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from eddyline import errors
from eddyline.errors import EddylineError
from eddyline.ingest.accumulator import Accumulator
from eddyline.ingest.changes import SHOWN_ROWS
from eddyline.plan.layout import Kept
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array

CHUNK_WORDS = 8192
DDL = "name string, chunk int, block binary"
_SCHEMA = pa.schema([("name", pa.string()), ("chunk", pa.int32()), ("block", pa.binary())])
_COUNTERS, _HINTS, _REPORT = "c:", "h:", "r:"
_OUTPUT_ROWS = 64


class Report(msgspec.Struct, frozen=True):
    """What tasks tell beside counters: rows, deletes, unreadable rows, and an error of ours if one struck."""

    rows: int = 0
    deletes: int = 0
    unreadable: int = 0
    shown: tuple[str, ...] = ()
    error: tuple[str, str] | None = None

    def __add__(self, other: "Report") -> "Report":
        return Report(
            self.rows + other.rows,
            self.deletes + other.deletes,
            self.unreadable + other.unreadable,
            (*self.shown, *other.shown)[:SHOWN_ROWS],
            self.error or other.error,
        )

    def raise_error(self) -> None:
        """Raise the error that struck a task, as the class it had there."""
        if self.error is not None:
            name, message = self.error
            raise getattr(errors, name, EddylineError)(message)


def failure(error: EddylineError) -> Report:
    """Return the report of a task that failed by an error of ours."""
    return Report(error=(type(error).__name__, str(error)))


class Merger:
    """Adds up blocks of one stream's synopses, whatever part of them it is given."""

    def __init__(self, kept: Sequence[Kept]) -> None:
        self.kept = {each.id: each for each in kept}
        self.blocks: dict[tuple[str, int], Int64Array] = {}
        self.report = Report()

    def take(self, name: str, chunk: int, block: bytes) -> None:
        """Add one block."""
        if name == _REPORT:
            self.report += msgspec.json.decode(block, type=Report)
            return
        values = np.frombuffer(block, dtype="<i8")
        before = self.blocks.get((name, chunk))
        if before is not None:
            values = self._combine(name, chunk, before, values)
        self.blocks[name, chunk] = values

    def _combine(self, name: str, chunk: int, left: Int64Array, right: Int64Array) -> Int64Array:
        kept = self.kept[name[2:]]
        if name.startswith(_HINTS):
            assert kept.candidates is not None
            return candidates.merge(kept.candidates, left, right)
        return kept.spec.add(left, right, chunk * CHUNK_WORDS)

    def rows(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield everything taken, added up."""
        yield _REPORT, 0, msgspec.json.encode(self.report)
        for (name, chunk), values in self.blocks.items():
            yield name, chunk, values.astype("<i8", copy=False).tobytes()

    def accumulator(self) -> Accumulator:
        """Return everything taken as an accumulator of the stream."""
        whole = Accumulator(tuple(self.kept.values()))
        for (name, chunk), values in self.blocks.items():
            target = (whole.hints if name.startswith(_HINTS) else whole.counters)[name[2:]]
            target[chunk * CHUNK_WORDS : chunk * CHUNK_WORDS + len(values)] = values
        whole.rows, whole.deletes = self.report.rows, self.report.deletes
        return whole


def partial_rows(accumulator: Accumulator) -> Iterator[tuple[str, int, bytes]]:
    """Yield an accumulator's counters in chunks, untouched chunks left out, and its hints whole."""
    for name, counters in accumulator.counters.items():
        for chunk in range(-(-len(counters) // CHUNK_WORDS)):
            values = counters[chunk * CHUNK_WORDS : (chunk + 1) * CHUNK_WORDS]
            if values.any():
                yield _COUNTERS + name, chunk, values.astype("<i8", copy=False).tobytes()
    for name, hints in accumulator.hints.items():
        yield _HINTS + name, 0, hints.astype("<i8", copy=False).tobytes()


def report_row(report: Report) -> tuple[str, int, bytes]:
    """Return a report as a row."""
    return _REPORT, 0, msgspec.json.encode(report)


def to_batches(rows: Iterable[tuple[str, int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches of a few megabytes at most."""
    pending: list[tuple[str, int, bytes]] = []
    for row in rows:
        pending.append(row)
        if len(pending) == _OUTPUT_ROWS:
            yield _batch(pending)
            pending = []
    if pending:
        yield _batch(pending)


def _batch(rows: list[tuple[str, int, bytes]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )


def from_batch(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[str, int, bytes]]:
    """Yield the rows of an Arrow batch of partials."""
    yield from zip(*(batch.column(name).to_pylist() for name in _SCHEMA.names), strict=True)
