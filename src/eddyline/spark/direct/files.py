"""Parquet files of a path: their types as Spark reads them, filters, how tasks share them, and why not to scan them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from eddyline.errors import EddylineError, PipelineError, StoreError
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.nodes import columns_of
from eddyline.ingest.arrow_path import decoded
from eddyline.sql.frame_conditions import read_conjuncts
from eddyline.store.filesystem import Location, open_filesystem
from eddyline.types import Column, SqlType

READ_ERRORS = (OSError, ValueError, KeyError, pa.ArrowException, EddylineError)
"""The errors that opening, reading and evaluating a file can raise."""


class Doubt(Exception):  # noqa: N818 - not an error: the pass goes through the JVM, which always reads correctly
    """The files may mean something else to Spark than to Arrow; the message gives the reason, to follow a colon."""


def one_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


# Parquet files of a path, and how they are divided among tasks.


TASK_BYTES = 4 << 20
"""The least bytes of a task, if there are as many: each task sends a partial state, however few rows it had."""
WHOLE_BYTES = 8 << 20
"""Smaller files are never split: opening a file twice costs more than the balance gains."""
_GLOB = "*?[]{}"
_LOCAL = "file:"


class DataFile(msgspec.Struct, frozen=True):
    """A file by its path in the filesystem, and its size when it was listed."""

    path: str
    size: int


class Piece(msgspec.Struct, frozen=True):
    """The row groups of a file whose middle lies in a range of its bytes."""

    file: DataFile
    start: int
    end: int


class Listing(msgspec.Struct, frozen=True):
    """Files of one filesystem; where: a path or a URI that opens it."""

    where: str
    files: tuple[DataFile, ...]


def location_of(where: str) -> Location:
    """Return the filesystem of a path or a URI, or raise Doubt."""
    try:
        return open_filesystem(where)
    except StoreError as error:
        raise Doubt(str(error).rstrip(".")) from None


def is_data(name: str) -> bool:
    """Return whether Spark reads a file or a folder of this name as data."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def list_path(stream: str, where: str) -> Listing:
    """Return the files that Spark would read from a path: a file, or the files directly in a folder."""
    place = location_of(where)
    if any(letter in place.root for letter in _GLOB):
        raise Doubt("its path is a pattern")
    try:
        found = place.filesystem.get_file_info(place.root)
        if found.type == fs.FileType.File:
            return Listing(where, (DataFile(found.path, found.size),))
        entries = place.filesystem.get_file_info(fs.FileSelector(place.root))
    except READ_ERRORS:
        raise Doubt(f"{place.shown} cannot be listed by Arrow") from None
    if any(entry.base_name == "_delta_log" for entry in entries):
        raise PipelineError(
            f"stream {stream!r}: {place.shown} holds a Delta table, whose files are not all its rows: give the frame "
            '`spark.read.format("delta").load(...)`.'
        )
    data = [entry for entry in entries if is_data(entry.base_name)]
    if any(entry.type != fs.FileType.File for entry in data):
        raise Doubt(f"{place.shown} has folders in it")
    return Listing(where, tuple(DataFile(entry.path, entry.size) for entry in data if entry.size))


def listing_of(uris: Sequence[tuple[str, int]]) -> Listing:
    """Return files that Spark listed, by Hadoop's names for them, all of one filesystem."""
    opened = [_of_hadoop(uri) for uri, _ in uris]
    places = {where for where, _ in opened}
    if len(places) > 1:
        raise Doubt("its files are on several filesystems")
    files = [
        DataFile(path, size)
        for (_, path), (_, size) in zip(opened, uris, strict=True)
        if size and is_data(PurePosixPath(path).name)
    ]
    return Listing(places.pop() if places else "", tuple(files))


def _of_hadoop(uri: str) -> tuple[str, str]:
    """Return (a URI that opens the filesystem, the path in it) of a Hadoop path."""
    if uri.startswith(_LOCAL):
        path = uri.removeprefix(_LOCAL)
        return "/", path if not path.startswith("//") else "/" + path.lstrip("/")
    scheme, _, rest = uri.partition("://")
    bucket = rest.partition("/")[0]
    if scheme in ("s3", "s3a", "s3n"):
        return f"s3://{bucket}", rest
    if scheme == "gs":
        return f"gs://{bucket}", rest
    raise Doubt(f"files of {scheme}: are read by Hadoop only")


def in_tasks(files: Sequence[DataFile], most: int) -> list[list[Piece]]:
    """Return the files in at most `most` tasks of about equal bytes."""
    total = sum(file.size for file in files)
    count = max(1, min(most, -(-total // TASK_BYTES)))
    borders = [total * i // count for i in range(count + 1)]
    tasks: list[list[Piece]] = [[] for _ in range(count)]
    before = 0
    for file in files:
        if file.size <= WHOLE_BYTES:
            middle = before + file.size // 2
            number = next(i for i in range(count) if middle < borders[i + 1])
            tasks[number].append(Piece(file, 0, file.size))
        else:
            for i, pieces in enumerate(tasks):
                start, end = max(borders[i] - before, 0), min(borders[i + 1] - before, file.size)
                if start < end:
                    pieces.append(Piece(file, start, end))
        before += file.size
    return tasks


# What the footer of a Parquet file shows: the SQL types of its columns as Spark reads them, and its calendar.


_PLAIN = {
    "BOOLEAN": SqlType("boolean"),
    "INT32": SqlType("int"),
    "INT64": SqlType("bigint"),
    "FLOAT": SqlType("float"),
    "DOUBLE": SqlType("double"),
    "BYTE_ARRAY": SqlType("binary"),
    "INT96": SqlType("timestamp"),
}
_INTEGERS = {8: SqlType("tinyint"), 16: SqlType("smallint"), 32: SqlType("int"), 64: SqlType("bigint")}
_DECIMAL_DIGITS = 38
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY, _LEGACY_96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_SINCE, _SINCE_96 = "3.0.0", "3.1.0"
"""The versions of Spark that write today's calendar unless the file says otherwise."""


def column_names(metadata: pq.FileMetaData) -> list[str]:
    """Return the names of a file's columns."""
    paths = [metadata.schema.column(i).path for i in range(len(metadata.schema))]
    return list(dict.fromkeys(path.partition(".")[0] for path in paths))


def holds_signs(footers: Iterable[pq.FileMetaData], name: str) -> bool:
    """Return whether integers of a column have minimum -1 and maximum 1 in every row group of some files."""
    ends = set()
    for footer in footers:
        paths = [footer.schema.column(i).path for i in range(len(footer.schema))]
        if name not in paths or footer.schema.column(paths.index(name)).physical_type not in (
            "INT32",
            "INT64",
        ):
            return False
        for group in range(footer.num_row_groups):
            found = footer.row_group(group).column(paths.index(name)).statistics
            if found is None or not found.has_min_max:
                return False
            try:
                ends |= {found.min, found.max}
            except OverflowError:  # dates beyond Python's calendar
                return False
    return ends == {-1, 1}


def sql_types(metadata: pq.FileMetaData, names: set[str]) -> dict[str, SqlType]:
    """Return the SQL types of some columns of a file, or raise Doubt if one is missing, nested or unsupported."""
    schema, types = metadata.schema, {}
    wanted = {name.lower() for name in names}
    seen: list[str] = []
    for i in range(len(schema)):
        column = schema.column(i)
        top, _, inner = column.path.partition(".")
        if top.lower() not in wanted or (inner and top in seen):
            continue
        seen.append(top)
        kind = None if inner or column.max_repetition_level else _sql_type(column)
        if kind is None:
            raise Doubt(f"column {top!r} is stored as {column.physical_type} ({column.logical_type})")
        types[top] = kind
    if len({name.lower() for name in seen}) < len(seen):
        raise Doubt("a file has columns whose names differ in case only")
    if types.keys() != names:
        raise Doubt(f"a file has no column {min(names - types.keys())!r}")
    return types


def _sql_type(column: pq.ColumnSchema) -> SqlType | None:
    """Return the type that Spark gives a column, None for types that Spark does not read as Arrow does."""
    logical, kind = json.loads(column.logical_type.to_json()), None
    match column.logical_type.type:
        case "NONE":
            kind = _PLAIN.get(column.physical_type)
        case "STRING":
            kind = SqlType("string")
        case "DATE":
            kind = SqlType("date")
        case "INT" if logical["isSigned"]:
            kind = _INTEGERS[logical["bitWidth"]]
        case "DECIMAL" if logical["precision"] <= _DECIMAL_DIGITS:
            kind = SqlType("decimal", logical["precision"], logical["scale"])
        case "TIMESTAMP" if logical["timeUnit"] in ("milliseconds", "microseconds"):
            kind = SqlType("timestamp" if logical["isAdjustedToUTC"] else "timestamp_ntz")
    return kind


def check_calendar(metadata: pq.FileMetaData, names: set[str], *, ours: bool) -> None:
    """Raise Doubt if dates and times of a file may use the calendar that Spark used before 3.0.

    ours: Spark reads files without a calendar in today's calendar; this never holds for times of 96 bits.
    """
    columns = [metadata.schema.column(i) for i in range(len(metadata.schema))]
    read = [column for column in columns if column.path in names]
    logical = metadata.metadata or {}
    version = logical.get(_SPARK_VERSION, b"").decode()
    if any(column.logical_type.type in ("DATE", "TIMESTAMP") for column in read):
        old = version < _SINCE if version else not ours
        if old or _LEGACY in logical:
            raise Doubt("a file may hold dates of the old calendar")
    if any(column.physical_type == "INT96" for column in read) and (
        version < _SINCE_96 or _LEGACY_96 in logical
    ):
        raise Doubt("a file may hold times of 96 bits of the old calendar")


class Filter(msgspec.Struct, frozen=True):
    """Conditions that a row has to meet, all of them.

    columns: the column of the files for each name in the conditions. types: of the names. timezone: in which times
    are compared with texts.
    """

    conjuncts: tuple[str, ...]
    columns: dict[str, str]
    types: dict[str, SqlType]
    timezone: str

    @property
    def schema(self) -> tuple[Column, ...]:
        """The names in the conditions as columns."""
        return tuple(Column(name, kind) for name, kind in self.types.items())

    def passing(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Return which rows pass; columns: of the files, by name. Raise Doubt where a condition fails on a row."""
        table = pa.table(
            {
                name: decoded(pa.chunked_array([columns[of]])).cast(to_arrow(self.types[name]))
                for name, of in self.columns.items()
            }
        )
        passing: pa.ChunkedArray | None = None
        for conjunct in self.conjuncts:
            try:
                met = evaluate(conjunct, table, self.schema, self.timezone)
            except PipelineError:
                raise Doubt(f"the filter {conjunct!r} can only be evaluated by Spark") from None
            passing = met if passing is None else pc.and_(passing, met)
        return pc.fill_null(passing, False).combine_chunks()


def read_filter(written: str, columns: dict[str, str], types: dict[str, SqlType], timezone: str) -> Filter:
    """Return the filter of a condition that Spark wrote, or raise Doubt where Arrow may see it otherwise."""
    conjuncts = read_conjuncts(written)
    named = {name for conjunct in conjuncts or () for name in columns_of(conjunct)}
    if conjuncts is None or not named or named != set(columns):
        raise Doubt(f"the filter {written!r} can only be evaluated by Spark")
    made = Filter(conjuncts, columns, types, timezone)
    made.passing({of: pa.array([], to_arrow(types[name])) for name, of in columns.items()})
    return made
