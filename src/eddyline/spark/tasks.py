"""The functions that run on executors, and the partial results that tasks send: rows of (name, chunk, block)."""

import re
import secrets
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import errors
from eddyline.errors import EddylineError
from eddyline.ingest.changes import SHOWN_ROWS, Tally
from eddyline.ingest.projection import TIME, SampleTask, StreamSpec
from eddyline.ingest.sections import decode_sample, encode_sample
from eddyline.ingest.sketching import Sketches
from eddyline.ingest.stream_pass import Accumulator, StreamPass
from eddyline.plan.layout import KeptSynopsis
from eddyline.sample.labels import KeyLabels
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array

if TYPE_CHECKING:
    from eddyline.ingest.sample_pass import SamplePass


# Columns that are added to a stream's own, from decoding changes to the tasks.


WEIGHT = "__eddyline_weight"
BAD = "__eddyline_bad"
"""Why a row cannot be read and the row, as JSON; NULL for a row that can."""

MARK = "__eddyline_mark"
MARK_KEY = "__eddyline_mark_key"
OTHER, DELETE, TOMBSTONE = 0, 1, 2


# Tombstones: the NULL values that Kafka needs after a delete, and that carry nothing.
#
# The rule, which each task can apply to the records in their order: a NULL value is a tombstone if the
# record just before it is the delete of the same key, or if the task has seen no record yet (the delete
# ended the micro-batch or the split before). Any other NULL value is refused: it would be a delete without
# its row.


@dataclass(frozen=True)
class Last:
    """The last record of a task so far."""

    mark: int
    key: int


def drop_tombstones(table: pa.Table, last: Last | None) -> tuple[pa.Table, Last | None]:
    """Return the table without its tombstones, and its last record; NULL values to refuse stay in it."""
    if MARK not in table.column_names or table.num_rows == 0:
        return table, last
    marks = table.column(MARK).to_numpy()
    keys = table.column(MARK_KEY).to_numpy()
    before_marks = np.concatenate([[DELETE if last is None else last.mark], marks[:-1]])
    before_keys = np.concatenate([[keys[0] if last is None else last.key], keys[:-1]])
    tombstones = (marks == TOMBSTONE) & (before_marks == DELETE) & (before_keys == keys)
    left = table.filter(pa.array(~tombstones)) if tombstones.any() else table
    return left, Last(int(marks[-1]), int(keys[-1]))


# Encoding of blocks of counters between tasks: only what was touched, in as few bytes as its numbers need.
#
# A block is a header and words, each in the fewest of 1, 2, 4 or 8 bytes that hold all of them. If few words
# are not zero, it has only those and their positions. Most counters of a task fit 2 bytes, so a
# state is sent in a quarter of its size or less.


_HEADER: Final = struct.Struct("<BBII")
"""Bytes of a word, bytes of a position (0: all words follow), words of the block, words that follow."""
_WIDTHS: Final = (1, 2, 4, 8)


def pack_block(words: Int64Array) -> bytes:
    """Return a block of words as bytes."""
    width = _width(words)
    count, place = int(np.count_nonzero(words)), _place(len(words))
    if count * (width + place) >= len(words) * width:
        return _HEADER.pack(width, 0, len(words), len(words)) + words.astype(f"<i{width}").tobytes()
    positions = np.flatnonzero(words)
    return b"".join(
        (
            _HEADER.pack(width, place, len(words), count),
            positions.astype(f"<u{place}").tobytes(),
            words[positions].astype(f"<i{width}").tobytes(),
        )
    )


def unpack_block(block: bytes | memoryview) -> Int64Array:
    """Return the words of a block."""
    width, place, words, count = _HEADER.unpack_from(block)
    values = np.frombuffer(block, f"<i{width}", count, _HEADER.size + count * place)
    if place == 0:
        return values.astype(np.int64)
    out = np.zeros(words, dtype=np.int64)
    out[np.frombuffer(block, f"<u{place}", count, _HEADER.size)] = values
    return out


def _width(words: Int64Array) -> int:
    """Return the number of bytes that the largest of some words takes."""
    if len(words) == 0:
        return 1
    low, high = int(words.min()), int(words.max())
    return next(width for width in _WIDTHS if -(1 << 8 * width - 1) <= low and high < 1 << 8 * width - 1)


def _place(words: int) -> int:
    return 2 if words <= 1 << 16 else 4


# Partial results between tasks: rows of (name, chunk, block), merged by whichever task receives them.


CHUNK_WORDS = 8192
DDL = "name string, chunk int, sender bigint, piece int, pieces int, block binary"
_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("chunk", pa.int32()),
        ("sender", pa.int64()),
        ("piece", pa.int32()),
        ("pieces", pa.int32()),
        ("block", pa.binary()),
    ]
)
PIECE_BYTES = 1 << 16
"""The most bytes of a block in one row, so that batches of many rows stay small."""
_COUNTERS, _HINTS, _LABELS, _SAMPLE, _REPORT = "c:", "h:", "l:", "s:", "r:"
_OUTPUT_ROWS = 64
_PANE = re.compile(r"@(-?\d+)@")
"""The pane's number in the name of its block, between the window group and the synopsis."""


class Report(msgspec.Struct, frozen=True):
    """What tasks report alongside counters: the tally of rows, bad and late rows, and one of our errors if raised.

    newest: the newest pane of each window group.
    """

    tally: Tally = Tally()
    bad: int = 0
    shown: tuple[str, ...] = ()
    error: tuple[str, str] | None = None
    late: int = 0
    newest: dict[str, int] = {}

    def __add__(self, other: "Report") -> "Report":
        newest = dict(self.newest)
        for group, number in other.newest.items():
            newest[group] = max(number, newest.get(group, number))
        return Report(
            self.tally + other.tally,
            self.bad + other.bad,
            (*self.shown, *other.shown)[:SHOWN_ROWS],
            self.error or other.error,
            self.late + other.late,
            newest,
        )

    def raise_error(self) -> None:
        """Raise the error that a task raised, in its original class."""
        if self.error is not None:
            name, message = self.error
            raise getattr(errors, name, EddylineError)(message)


def failure(error: EddylineError) -> Report:
    """Return the report of a task that failed with one of our errors."""
    return Report(error=(type(error).__name__, str(error)))


class Merger:
    """Adds up blocks of what a pass over one stream fills, whichever part of them arrives here.

    Counters without additions take no memory: an array of zeros gets its pages when they are written.
    """

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.kept = {each.id: each for each in _all_kept(spec.kept, spec.samples)}
        for pane in spec.panes:
            self.kept |= {f"{pane.group}@{each.id}": each for each in _all_kept(pane.kept, pane.samples)}
        self.touched: dict[tuple[str, int], Int64Array] = {}
        self.added = StreamPass(spec, TIME)
        self.sampled: dict[str, SamplePass] = {}
        self.report = Report()

    def take(self, name: str, chunk: int, block: bytes | memoryview) -> None:
        """Add one block."""
        if name == _REPORT:
            self.report += msgspec.json.decode(block, type=Report)
            return
        if name.startswith(_SAMPLE):
            accumulator, identifier = self._target(name)
            sample = self.sampled.setdefault(name, accumulator.samples[identifier])
            sample.take(decode_sample(sample.task.sample, block))
            return
        kept = self.kept[_PANE.sub("@", name[2:])]
        if name.startswith(_LABELS):
            accumulator, identifier = self._target(name)
            labels = _sketches_of(accumulator, identifier).labels
            came = KeyLabels.from_bytes(bytes(block), len(kept.demand.keys[0].columns))
            labels[identifier] = labels[identifier].plus(came)
            return
        values = unpack_block(block)
        start = chunk * CHUNK_WORDS
        part = self._words(name)[start : start + len(values)]
        if name.startswith(_HINTS):
            assert kept.candidates is not None
            part[:] = candidates.merge_tables(kept.candidates, part, values)
        else:
            part[:] = kept.spec.add(part, values, start)
        self.touched[name, chunk] = part

    def _target(self, name: str) -> tuple[Accumulator, str]:
        """Return the (accumulator, id) that a block belongs to: the whole stream's, or a pane's."""
        identifier = name[2:]
        match = _PANE.search(identifier)
        if match is None:
            return self.added.whole, identifier
        group = next(pane for pane in self.spec.panes if pane.group == identifier[: match.start()])
        return self.added.pane(group, int(match[1])), identifier[match.end() :]

    def _words(self, name: str) -> Int64Array:
        """Return the counters or hints that a block belongs to."""
        accumulator, identifier = self._target(name)
        sketches = _sketches_of(accumulator, identifier)
        return (sketches.hints if name.startswith(_HINTS) else sketches.counters)[identifier]

    def rows(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield the sum of everything taken."""
        yield _REPORT, 0, msgspec.json.encode(self.report)
        around = {
            _prefix(name) + kept.id for name, sample in self.sampled.items() for kept in sample.task.sketches
        }
        for (name, chunk), words in self.touched.items():
            if name[2:] not in around:
                yield name, chunk, pack_block(words)
        for name, sample in self.sampled.items():
            yield name, 0, encode_sample(sample.state())
            yield from _words(sample.sketches, _prefix(name))

    def stream_pass(self) -> StreamPass:
        """Return everything taken as a pass over the stream."""
        added = self.added
        added.newest = dict(self.report.newest)
        for pane in self.spec.panes:
            if pane.group in added.newest:
                added.drop_old(pane)
        added.count(self.report.tally)
        added.late, added.bad = self.report.late, self.report.bad
        return added


def _all_kept(kept: Iterable[KeptSynopsis], tasks: Iterable[SampleTask]) -> list[KeptSynopsis]:
    return [*kept, *(each for task in tasks for each in task.sketches)]


def _sketches_of(accumulator: Accumulator, identifier: str) -> Sketches:
    """Return the sketches that hold a synopsis: those of the stream, or of a sample in its second stage."""
    if identifier in accumulator.sketches.counters:
        return accumulator.sketches
    for sample in accumulator.samples.values():
        if any(kept.id == identifier for kept in sample.task.sketches):
            sample.go_over()
            return sample.sketches
    raise AssertionError(identifier)


def _prefix(name: str) -> str:
    """Return the part of a block's name that says which pane it belongs to, if any."""
    match = _PANE.search(name)
    return name[2 : match.end()] if match else ""


def partial_rows(added: StreamPass) -> Iterator[tuple[str, int, bytes]]:
    """Yield the counters of a pass in chunks without untouched ones, and hints and samples whole."""
    yield from _accumulated(added.whole, "")
    for (group, number), accumulator in added.panes.items():
        yield from _accumulated(accumulator, f"{group}@{number}@")


def _accumulated(accumulator: Accumulator, prefix: str) -> Iterator[tuple[str, int, bytes]]:
    yield from _words(accumulator.sketches, prefix)
    for name, sample in accumulator.samples.items():
        yield _SAMPLE + prefix + name, 0, encode_sample(sample.state())
        yield from _words(sample.sketches, prefix)


def _words(sketches: Sketches, prefix: str) -> Iterator[tuple[str, int, bytes]]:
    for name, counters in sketches.counters.items():
        for chunk in range(-(-len(counters) // CHUNK_WORDS)):
            values = counters[chunk * CHUNK_WORDS : (chunk + 1) * CHUNK_WORDS]
            if values.any():
                yield _COUNTERS + prefix + name, chunk, pack_block(values)
    for name, hints in sketches.hints.items():
        yield _HINTS + prefix + name, 0, pack_block(hints)
    for name, labels in sketches.labels.items():
        yield _LABELS + prefix + name, 0, labels.to_bytes()


def report_row(report: Report) -> tuple[str, int, bytes]:
    """Return a report as a row."""
    return _REPORT, 0, msgspec.json.encode(report)


def to_batches(rows: Iterable[tuple[str, int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches of a few megabytes at most, long blocks in pieces of one sender."""
    sender = secrets.randbits(63)
    cut = (piece for row in rows for piece in _pieces(*row, sender))
    while pending := list(islice(cut, _OUTPUT_ROWS)):
        columns = zip(*pending, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        yield pa.record_batch(arrays, schema=_SCHEMA)


def _pieces(name: str, chunk: int, block: bytes, sender: int) -> Iterator[tuple[object, ...]]:
    pieces = max(-(-len(block) // PIECE_BYTES), 1)
    for piece in range(pieces):
        yield name, chunk, sender, piece, pieces, block[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES]


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int, bytes | memoryview]]:
    """Yield the rows of Arrow batches of partials; a block in pieces is yielded when its last piece arrives.

    Blocks of one piece are views of the batches' memory.
    """
    waiting: dict[tuple[str, int, int], dict[int, bytes]] = {}
    for batch in batches:
        *columns, blocks = (batch.column(name) for name in _SCHEMA.names)
        for row, block in zip(
            zip(*(column.to_pylist() for column in columns), strict=True), blocks, strict=True
        ):
            name, chunk, sender, piece, pieces = row
            if pieces == 1:
                yield name, chunk, memoryview(block.as_buffer())
                continue
            came = waiting.setdefault((name, chunk, sender), {})
            came[piece] = block.as_py()
            if len(came) == pieces:
                del waiting[name, chunk, sender]
                yield name, chunk, b"".join(came[each] for each in range(pieces))
    assert not waiting, f"blocks of {sorted({name for name, *_ in waiting})} came without all their pieces"


# What runs on the executors: two functions of Arrow batches that need nothing but the specs they are given.


FEED_ROWS = 1 << 16


def encode_spec(spec: StreamSpec) -> bytes:
    """Return what a pass fills as bytes, to be sent to the executors."""
    return msgspec.json.encode(spec)


def sketch_task(spec: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the partial counters of one task: all its batches go into all synopses, which are emitted once."""
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
    """Yield the reports of rows that cannot be read, in a column `value`."""
    last: Last | None = None
    for batch in batches:
        records, last = drop_tombstones(pa.Table.from_batches([batch]), last)
        bad = records.column(BAD)
        yield from pa.table({"value": bad.filter(pc.is_valid(bad))}).to_batches()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches gathered into tables large enough for an efficient kernel call."""
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
