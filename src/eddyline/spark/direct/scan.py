"""A task of a direct scan: row groups of Parquet files, skipped by their statistics or read by Arrow."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from eddyline.errors import EddylineError
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.times import UTC
from eddyline.ingest.arrow_path import project_table
from eddyline.ingest.changes import change_format, rows_and_weights
from eddyline.ingest.projection import StreamSpec
from eddyline.ingest.stream_pass import StreamPass, deciding_predicates, pass_over
from eddyline.spark.direct.files import READ_ERRORS, Doubt, Piece, location_of, one_line
from eddyline.spark.direct.planning import Scan
from eddyline.spark.tasks import Report, failure, partial_rows, report_row, to_batches
from eddyline.sql.frame_conditions import Bounds, rules_out
from eddyline.types import Column

# Row groups in which no row counts or passes a filter, by the statistics that Parquet keeps for each group.


_ORDERED = ("tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz")
"""Types whose statistics bound every value in Spark's order of comparison."""


class Skipping:
    """Finds the row groups that need not be read, for everything that a pass over a stream fills.

    Predicates of the plan are used only where rows are unfiltered inserts: skipped rows are counted as rows.
    """

    def __init__(self, scan: Scan, spec: StreamSpec) -> None:
        self._scan = scan
        inserts = change_format(scan.stream.name, scan.stream.changes).form == "insert"
        self._predicates = deciding_predicates(spec) if inserts and not scan.filters else None

    def drops(self, group: pq.RowGroupMetaData) -> bool:
        """Return whether no row of a group passes the filters of the frame."""
        for each in self._scan.filters:
            bounds = self._bounds(group, each.columns, each.schema)
            if any(rules_out(conjunct, bounds, each.schema, each.timezone) for conjunct in each.conjuncts):
                return True
        return False

    def skips(self, group: pq.RowGroupMetaData) -> bool:
        """Return whether each synopsis that does not count all rows has a conjunct that no row of a group meets."""
        if self._predicates is None:
            return False
        columns, timezone = self._scan.stream.columns, self._scan.timezone or UTC
        bounds = self._bounds(group, self._scan.columns, columns) if self._predicates else {}
        return all(
            any(rules_out(conjunct, bounds, columns, timezone) for conjunct in predicates)
            for predicates in self._predicates
        )

    def _bounds(
        self, group: pq.RowGroupMetaData, stored: Mapping[str, str], columns: Iterable[Column]
    ) -> Bounds:
        """Return the known bounds of columns in a row group; stored: the columns of the files for them."""
        chunks = {(chunk := group.column(i)).path_in_schema: chunk for i in range(group.num_columns)}
        bounds = {}
        for column in columns:
            of = stored.get(column.name)
            if of is None or self._scan.types[of].kind not in _ORDERED:
                continue
            try:
                statistics = chunks[of].statistics
                if statistics is None or not statistics.has_min_max:
                    continue
                found = pa.array([statistics.min, statistics.max], to_arrow(self._scan.types[of]))
                found = found.cast(to_arrow(column.type))
            except (*READ_ERRORS, TypeError, OverflowError):  # dates beyond Python's calendar
                continue
            bounds[column.name] = (found[:1], found[1:])
        return bounds


# How a task reads: row groups are read by Arrow, evaluated and fed to the pass.


SCAN_ROWS = 1 << 18
"""The number of rows that are read, evaluated and fed at a time."""
_PLAIN_STRING = 4
"""The bytes that a plain page takes for a string's length alone."""


def encode_scan(scan: Scan) -> bytes:
    """Return a scan as bytes, to be sent to the executors."""
    return msgspec.msgpack.encode(scan)


def scan_task(spec: bytes, scan: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the partial counters of the tasks with the given numbers, or the doubt that one of them raised."""
    todo = msgspec.msgpack.decode(scan, type=Scan)
    added = StreamPass(msgspec.json.decode(spec, type=StreamSpec), todo.stream.event_time)
    added.unread = todo.unread
    try:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                _scan(todo, todo.tasks[number], added)
    except Doubt as doubt:
        yield from to_batches([report_row(Report(error=(Doubt.__name__, str(doubt))))])
        return
    except EddylineError as error:
        yield from to_batches([report_row(failure(error))])
        return
    report = Report(added.tally, late=added.late, newest=added.newest)
    yield from to_batches(chain([report_row(report)], partial_rows(added)))


def scan_here(spec: StreamSpec, scan: Scan) -> StreamPass:
    """Return the pass over all rows of a scan, in this process and without Spark; raise Doubt as a task does."""
    added = StreamPass(spec, scan.stream.event_time)
    added.unread = scan.unread
    for pieces in scan.tasks:
        _scan(scan, pieces, added)
    return added


def _scan(scan: Scan, pieces: Iterable[Piece], added: StreamPass) -> None:
    filesystem = location_of(scan.where).filesystem
    for piece in pieces:
        for rows in _or_doubt(piece, _projected(scan, added, filesystem, piece)):
            added.feed(rows)


def _or_doubt(piece: Piece, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables; an error in one becomes a Doubt that names the file."""
    try:
        yield from tables
    except READ_ERRORS as error:
        raise Doubt(f"{piece.file.path} cannot be read by Arrow ({one_line(error)})") from None


def _projected(scan: Scan, added: StreamPass, filesystem: fs.FileSystem, piece: Piece) -> Iterator[pa.Table]:
    """Yield the projected rows of a piece; rows of skipped row groups are counted here."""
    skipping = Skipping(scan, added.spec)
    form = change_format(scan.stream.name, scan.stream.changes)
    with filesystem.open_input_file(piece.file.path) as handle:
        if handle.size() != piece.file.size:
            raise Doubt(f"{piece.file.path} is not the file that was listed")
        metadata = pq.read_metadata(handle)
        scan.check(metadata)
        groups = row_groups(metadata, piece)
        file = pq.ParquetFile(
            handle,
            metadata=metadata,
            read_dictionary=_dictionaries(scan, metadata, groups),
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        for group in groups:
            if skipping.drops(metadata.row_group(group)):
                continue
            if skipping.skips(metadata.row_group(group)):
                pass_over(added, metadata.row_group(group).num_rows)
                continue
            for batch in file.iter_batches(
                SCAN_ROWS, row_groups=[group], columns=list(scan.types), use_threads=False
            ):
                rows, weights = rows_and_weights(scan.stream.name, _named(scan, _filtered(scan, batch)), form)
                yield project_table(scan.stream, rows, weights, added.projection, scan.timezone)


def _dictionaries(scan: Scan, metadata: pq.FileMetaData, groups: list[int]) -> list[str]:
    """Return the string columns that row groups store as dictionaries: as plain values they take more bytes."""
    texts = {name for name, kind in scan.types.items() if kind.kind in ("string", "binary")}
    chunks = [metadata.row_group(group).column(i) for group in groups for i in range(metadata.num_columns)]
    return [
        name
        for name in texts
        if sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == name)
        < _PLAIN_STRING * sum(chunk.num_values for chunk in chunks if chunk.path_in_schema == name)
    ]


def _filtered(scan: Scan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch that pass the frame's filters."""
    for each in scan.filters:
        columns = {of: _zoned(scan, of, batch.column(of)) for of in each.columns.values()}
        batch = batch.filter(each.passing(columns))
    return batch


def _named(scan: Scan, batch: pa.RecordBatch) -> pa.Table:
    """Return a batch with the stream's column names."""
    if not scan.columns:
        return pa.Table.from_batches([batch])
    return pa.table({name: _zoned(scan, of, batch.column(of)) for name, of in scan.columns.items()})


def _zoned(scan: Scan, name: str, column: pa.Array) -> pa.Array:
    """Return a column; times of 96 bits have no zone in the file, and are in UTC."""
    if scan.types[name].kind == "timestamp" and column.type.tz is None:
        return column.cast(pa.timestamp("us", "UTC"))
    return column


def row_groups(metadata: pq.FileMetaData, piece: Piece) -> list[int]:
    """Return the row groups whose middle lies in a piece of a file."""
    starts = [_start(metadata.row_group(i)) for i in range(metadata.num_row_groups)]
    ends = [*starts[1:], piece.file.size]
    middles = [
        min(max((start + end) // 2, 0), piece.file.size - 1) for start, end in zip(starts, ends, strict=True)
    ]
    return [i for i, middle in enumerate(middles) if piece.start <= middle < piece.end]


def _start(group: pq.RowGroupMetaData) -> int:
    if group.num_columns == 0:
        return 0
    return int(group.column(0).data_page_offset)
