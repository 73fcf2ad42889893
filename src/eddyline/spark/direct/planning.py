"""Whether a stream can be scanned directly, and what is sent to the tasks if so.

A frame can if it only reads Parquet files: columns selected, renamed and filtered as Arrow can. Importing this module
needs no Spark.
"""

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq

from eddyline.ingest.arrow_path import only_by_spark, referenced
from eddyline.ingest.changes import CORRUPT, change_format, unread_changes
from eddyline.ingest.projection import Projection
from eddyline.plan.layout import Stream
from eddyline.spark.direct.files import (
    READ_ERRORS,
    Doubt,
    Filter,
    Listing,
    Piece,
    check_calendar,
    column_names,
    holds_signs,
    in_tasks,
    list_path,
    listing_of,
    location_of,
    one_line,
    read_filter,
    sql_types,
)
from eddyline.sql.frame_conditions import read_type
from eddyline.types import SqlType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LOOKED_AT = 8
"""The number of files whose footers the driver reads beforehand; tasks check every file that they open."""
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.caseSensitive": "false",
}
"""The settings of a session under which Arrow reads and computes as Spark does."""
_CALENDAR = "spark.sql.parquet.datetimeRebaseModeInRead"


class Scan(msgspec.Struct, frozen=True):
    """A stream's files as the tasks read them.

    columns: the column of the files for each column of the stream that is read. types: of the files' columns.
    our_calendar: files that do not name the calendar of their dates use today's. filters: what rows have to meet to
    belong to the stream. unread: columns that look like a change type, and that nothing reads.
    """

    stream: Stream
    timezone: str | None
    where: str
    columns: dict[str, str]
    types: dict[str, SqlType]
    our_calendar: bool
    tasks: tuple[tuple[Piece, ...], ...] = ()
    filters: tuple[Filter, ...] = ()
    unread: tuple[str, ...] = ()

    def check(self, metadata: pq.FileMetaData) -> None:
        """Raise Doubt unless a file matches what the driver found in the others."""
        found = sql_types(metadata, set(self.types))
        for name, kind in self.types.items():
            if found[name] != kind:
                raise Doubt(f"column {name!r} is {kind} in some files and {found[name]} in others")
        check_calendar(metadata, set(self.types), ours=self.our_calendar)


def check_settings(spark: "SparkSession", source: "DataFrame | str") -> bool:
    """Return whether files that name no calendar use today's for dates; raise Doubt if Spark reads otherwise."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only where there is a session

    from eddyline.spark.causes import SPARK_ERRORS  # noqa: PLC0415

    if not isinstance(spark, SparkSession):
        raise Doubt("over Spark Connect the files are the server's")
    try:
        found = {setting: spark.conf.get(setting) for setting in (*_SETTINGS, _CALENDAR)}
        hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - no other public API
        default = str(hadoop.get("fs.defaultFS"))
    except SPARK_ERRORS:
        raise Doubt("this Spark does not show how it reads Parquet") from None
    for setting, value in _SETTINGS.items():
        if found[setting] != value:
            raise Doubt(f"{setting} is {found[setting]}")
    if isinstance(source, str) and "://" not in source and not default.startswith("file:"):
        raise Doubt(f"a path without a scheme is one of {default}")
    return found[_CALENDAR] == "CORRECTED"


def scan_of(
    stream: Stream,
    projection: Projection,
    timezone: str | None,
    source: "DataFrame | str",
    most: int,
    *,
    our_calendar: bool,
) -> Scan:
    """Return the scan of a stream from a path or a plain frame in at most `most` tasks, or raise Doubt."""
    change = change_format(stream.name, stream.changes).column
    names = referenced(projection)
    names += [change] if change and change not in names else []
    filters: tuple[Filter, ...] = ()
    if isinstance(source, str):
        listing = list_path(stream.name, source)
        footers = _footers(listing)
        given = {name: name for name in column_names(footers[0])}
        columns = _found(names, given, change)
        types = sql_types(footers[0], set(columns.values()))
        by_name = {name: types[of] for name, of in columns.items()}
    else:
        read = plain_read(source)
        listing, filters = read.listing, read.filters
        given = read.columns
        found = _found(names, given, change)
        by_name = {name: _frame_type(source, found[name]) for name in names}
        columns = {name: given[found[name]] for name in names}
        types = {columns[name]: kind for name, kind in by_name.items()}
        types |= {of: each.types[name] for each in filters for name, of in each.columns.items()}
        footers = _footers(listing)
    gap = only_by_spark(stream, projection, timezone)
    if gap is not None:
        raise Doubt(gap)
    _check_declared(stream, by_name)
    if len(footers) == len(listing.files):
        most = min(most, max(sum(footer.num_row_groups for footer in footers), 1))
    tasks = tuple(tuple(pieces) for pieces in in_tasks(listing.files, most))
    unread = unread_changes(stream, given, names)
    if stream.changes is None:
        unread += tuple(name for name, of in given.items() if name not in names and holds_signs(footers, of))
    scan = Scan(stream, timezone, listing.where, columns, types, our_calendar, tasks, filters, unread)
    for footer in footers:
        scan.check(footer)
    return scan


def _found(names: list[str], given: Iterable[str], change: str) -> dict[str, str]:
    """Return the column of each name, ignoring case except for the change column, or raise Doubt."""
    by_lower = {name.lower(): name for name in given}
    missing = [name for name in names if name.lower() not in by_lower]
    if missing or CORRUPT in by_lower:
        raise Doubt(f"there is no column {missing[0]!r}" if missing else f"there is a column {CORRUPT}")
    found = {name: by_lower[name.lower()] for name in names}
    if change and found[change] != change:
        raise Doubt(f"the column {change!r} is written {found[change]!r}")
    return found


def _frame_type(frame: "DataFrame", name: str) -> SqlType:
    from eddyline.spark.changes import from_spark  # noqa: PLC0415 - only where there is a frame

    kind = from_spark(frame.schema[name].dataType)
    if kind is None:
        raise Doubt(f"column {name!r} is {frame.schema[name].dataType.simpleString()}")
    return kind


def _check_declared(stream: Stream, types: Mapping[str, SqlType]) -> None:
    """Raise Doubt unless columns have the declared types, and the change column a type that can name a change."""
    form = change_format(stream.name, stream.changes)
    for column in stream.columns:
        kind = types.get(column.name)
        if kind is not None and not kind.widens_to(column.type):
            raise Doubt(f"column {column.name!r} is declared {column.type} and is {kind}")
    if form.form == "words" and types[form.column].kind != "string":
        raise Doubt(f"column {form.column!r} is {types[form.column]}")
    if form.form == "weight" and not types[form.column].is_integer:
        raise Doubt(f"column {form.column!r} is {types[form.column]}")


def _footers(listing: Listing) -> list[pq.FileMetaData]:
    """Return the footers of a few files, including the first and the last, or raise Doubt."""
    if not listing.files:
        raise Doubt("there are no files")
    place, last = location_of(listing.where), len(listing.files) - 1
    chosen = sorted({last * i // (_LOOKED_AT - 1) for i in range(_LOOKED_AT)})

    def read(number: int) -> pq.FileMetaData:
        path = listing.files[number].path
        try:
            return pq.read_metadata(path, filesystem=place.filesystem)
        except READ_ERRORS as error:
            raise Doubt(f"{path} cannot be read by Arrow ({one_line(error)})") from None

    with ThreadPoolExecutor(_LOOKED_AT) as pool:
        return list(pool.map(read, chosen))


# Frames that are nothing but a read of Parquet files: columns of a relation, selected, renamed and
# filtered.


_PACKAGE = "org.apache.spark.sql."
_RELATION = "execution.datasources.LogicalRelation"
_HADOOP = "execution.datasources.HadoopFsRelation"
_PARQUET = "execution.datasources.parquet.ParquetFileFormat"
_INDEX = "execution.datasources.InMemoryFileIndex"
_PROJECT = "catalyst.plans.logical.Project"
_FILTER = "catalyst.plans.logical.Filter"
_NAMED = ("catalyst.plans.logical.SubqueryAlias", "catalyst.plans.logical.View")
_ATTRIBUTE = "catalyst.expressions.AttributeReference"
_ALIAS = "catalyst.expressions.Alias"
_FILE = re.compile(r"path=(.+?); isDirectory=false; length=(\d+);")
_OPTIONS = {"path"}


@dataclass(frozen=True)
class PlainRead:
    """The files that a frame reads, the column of the files for each of the frame's columns, and its filters."""

    listing: Listing
    columns: dict[str, str]
    filters: tuple[Filter, ...]


@dataclass
class _Condition:
    """A filter on the way down to the relation: its text, and Spark's ids of the columns in it, by name."""

    text: str
    columns: dict[str, int]


def plain_read(frame: "DataFrame") -> PlainRead:
    """Return what a frame reads that is a plain read, or raise Doubt."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only where there is a frame

    from eddyline.spark.causes import SPARK_ERRORS  # noqa: PLC0415

    if not isinstance(frame.sparkSession, SparkSession):
        raise Doubt("over Spark Connect frames do not show their files")
    try:
        return _read(frame)
    except SPARK_ERRORS:
        raise Doubt("Spark does not show how the frame is made") from None


def _read(frame: "DataFrame") -> PlainRead:
    plan: Any = frame._jdf.queryExecution().withCachedData()  # noqa: SLF001 - the plan has no other public API
    names = frame.columns
    if len({name.lower() for name in names}) < len(names):
        raise Doubt("two columns of the frame have one name")
    selected: list[int] | None = None
    conditions: list[_Condition] = []
    while _kind(plan) != _RELATION:
        if _kind(plan) == _PROJECT:
            below = _below(plan)
            selected = list(below.values()) if selected is None else [below[each] for each in selected]
            for each in conditions:
                each.columns = {name: below[identity] for name, identity in each.columns.items()}
        elif _kind(plan) == _FILTER:
            conditions.append(_condition(plan.condition()))
        elif _kind(plan) not in _NAMED:
            raise Doubt("the frame is more than a read of files")
        plan = plan.child()
    _check(plan.relation())
    output = _each(plan.output())
    stored = [str(each.name()) for each in output]
    partitions = {str(field) for field in plan.relation().partitionSchema().fieldNames()}
    columns = dict(zip(names, stored if selected is None else _named(selected, output), strict=True))
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    filters = tuple(_filter(each, output, partitions, zone) for each in conditions)
    readable = {name: of for name, of in columns.items() if of not in partitions}
    return PlainRead(_files(plan.relation()), readable, filters)


def _below(project: Any) -> dict[int, int]:
    """Return the column below a projection that each of its columns is, by Spark's ids, or raise Doubt."""
    ids: dict[int, int] = {}
    for each in _each(project.projectList()):
        inner = each.child() if _kind(each) == _ALIAS else each
        if _kind(inner) != _ATTRIBUTE:
            raise Doubt("the frame computes columns")
        ids[_identity(each)] = _identity(inner)
    return ids


def _named(identities: list[int], output: list[Any]) -> list[str]:
    """Return the names of a relation's columns by Spark's ids, or raise Doubt."""
    names = {_identity(each): str(each.name()) for each in output}
    if not names.keys() >= set(identities):
        raise Doubt("the frame does not show where its columns come from")
    return [names[identity] for identity in identities]


def _condition(condition: Any) -> _Condition:
    read = _each(condition.references().toSeq())
    columns = {str(each.name()): _identity(each) for each in read}
    if len(columns) < len(read) or not condition.deterministic():
        raise Doubt("the frame's filter is not a condition on the columns of a row")
    return _Condition(str(condition.sql()), columns)


def _filter(condition: _Condition, output: list[Any], partitions: set[str], zone: str) -> Filter:
    """Return a condition as a filter of the files' columns, or raise Doubt."""
    stored = _named(list(condition.columns.values()), output)
    columns = dict(zip(condition.columns, stored, strict=True))
    if not partitions.isdisjoint(stored):
        raise Doubt("the frame's filter reads a column of its folders' names")
    types_of = {str(each.name()): read_type(str(each.dataType().sql())) for each in output}
    types = {name: kind for name, of in columns.items() if (kind := types_of[of]) is not None}
    if types.keys() != columns.keys():
        raise Doubt(f"the filter {condition.text!r} can only be evaluated by Spark")
    return read_filter(condition.text, columns, types, zone)


def _check(relation: Any) -> None:
    """Raise Doubt unless a relation is files of Parquet as Spark reads them by default."""
    if _kind(relation) != _HADOOP or _kind(relation.fileFormat()) != _PARQUET:
        raise Doubt("the frame does not read files of Parquet")
    if _kind(relation.location()) != _INDEX or relation.bucketSpec().isDefined():
        raise Doubt("a catalog decides which files the frame reads")
    options = {str(option) for option in _each(relation.options().keys().toSeq())}
    if not options <= _OPTIONS:
        raise Doubt(f"the frame was read with the option {min(options - _OPTIONS)}")


def _files(relation: Any) -> Listing:
    """Return the files of a relation, as one text: a call for each file would take longer than reading it."""
    files = relation.location().allFiles()
    found = [(path, int(size)) for path, size in _FILE.findall(files.mkString("\n"))]
    if len(found) != files.size():
        raise Doubt("Spark does not show the sizes of the files")
    return listing_of(found)


def _kind(thing: Any) -> str:
    return str(thing.getClass().getName()).removeprefix(_PACKAGE)


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _identity(attribute: Any) -> int:
    return int(attribute.exprId().id())
