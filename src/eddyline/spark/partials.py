"""Partial results between tasks: rows of (name, chunk, block), merged wherever they meet."""

import re
import secrets
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from eddyline import errors
from eddyline.errors import EddylineError
from eddyline.ingest.accumulator import Accumulator
from eddyline.ingest.changes import SHOWN_ROWS
from eddyline.ingest.projection import TIME
from eddyline.ingest.sections import decode_sample, encode_sample
from eddyline.ingest.sketching import Sketches
from eddyline.ingest.stream_pass import StreamPass
from eddyline.ingest.stream_spec import SampleTask, StreamSpec
from eddyline.ingest.tally import Tally
from eddyline.plan.layout import KeptSynopsis
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array
from eddyline.spark.blocks import pack, unpack

if TYPE_CHECKING:
    from eddyline.ingest.sample_pass import SamplePass

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
"""The most bytes of a block that travel in one row, so that batches of many rows stay small."""
_COUNTERS, _HINTS, _SAMPLE, _REPORT = "c:", "h:", "s:", "r:"
_OUTPUT_ROWS = 64
_PANE = re.compile(r"@(-?\d+)@")
"""In the name of a block of a pane, between the window group and the synopsis: the pane's number."""


class Report(msgspec.Struct, frozen=True):
    """What tasks tell beside counters: the tally of rows, bad and late rows, an error of ours if one struck.

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
        """Raise the error that struck a task, as the class it had there."""
        if self.error is not None:
            name, message = self.error
            raise getattr(errors, name, EddylineError)(message)


def failure(error: EddylineError) -> Report:
    """Return the report of a task that failed by an error of ours."""
    return Report(error=(type(error).__name__, str(error)))


class Merger:
    """Adds up blocks of what a pass over one stream fills, whatever part of it comes here.

    Counters that nothing was added to take no memory: an array of zeros gets its pages when they are written.
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
        kept, values = self.kept[_PANE.sub("@", name[2:])], unpack(block)
        start = chunk * CHUNK_WORDS
        part = self._words(name)[start : start + len(values)]
        if name.startswith(_HINTS):
            assert kept.candidates is not None
            part[:] = candidates.merge(kept.candidates, part, values)
        else:
            part[:] = kept.spec.add(part, values, start)
        self.touched[name, chunk] = part

    def _target(self, name: str) -> tuple[Accumulator, str]:
        """Return (accumulator, id) that a block belongs to: the whole stream's, or a pane's."""
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
        """Yield everything taken, added up."""
        yield _REPORT, 0, msgspec.json.encode(self.report)
        beside = {
            _prefix(name) + kept.id for name, sample in self.sampled.items() for kept in sample.task.sketches
        }
        for (name, chunk), words in self.touched.items():
            if name[2:] not in beside:
                yield name, chunk, pack(words)
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
    """Yield the counters of a pass in chunks, untouched chunks left out, and hints and samples whole."""
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
                yield _COUNTERS + prefix + name, chunk, pack(values)
    for name, hints in sketches.hints.items():
        yield _HINTS + prefix + name, 0, pack(hints)


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
    """Yield the rows of Arrow batches of partials, a block that came in pieces when the last of them is here.

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
