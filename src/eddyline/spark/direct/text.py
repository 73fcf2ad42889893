"""CSV and JSON files read by Arrow, in this process, where every value is certain to mean the same to Spark.

The rules are strict. A file is checked byte by byte for what the two parsers read differently, and each value of each
declared column must have the plain form of its type. Anything else is a Doubt: then Spark reads the files.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.json as pj

from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.times import UTC
from eddyline.ingest.arrow_path import only_by_spark, project_table, referenced
from eddyline.ingest.changes import CORRUPT, change_format, rows_and_weights, similar_columns, unread_changes
from eddyline.ingest.files import json_fields
from eddyline.ingest.projection import StreamSpec
from eddyline.ingest.stream_pass import StreamPass
from eddyline.plan.layout import Stream
from eddyline.spark.direct.files import READ_ERRORS, Doubt, list_path, location_of, one_line
from eddyline.types import Column, SqlType

TEXT_FORMATS = ("csv", "json")
MOST_TEXT = 64 << 20
"""The most bytes of CSV and JSON files to read in this process: one core reads about 20 MB a second."""
_SUFFIXES = {"", ".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson"}
"""The ends of file names for which Spark decompresses nothing."""
_OPTIONS = {
    "csv": {"header", "sep", "delimiter", "escape", "maxfilespertrigger"},
    "json": {"maxfilespertrigger"},
}
"""The options, in lower case, that are known here."""
_LOOKED_AT = 200
"""The number of records of JSON files that determine the fields, as in spark/sources/files.py."""
_ROWS = 1 << 18  # that are projected at a time
_BLOCK = 64 << 20  # bytes: a file is parsed in one block, so that no record is longer than a block


def scan_text(
    spec: StreamSpec, stream: Stream, timezone: str | None, form: str, path: str, options: Mapping[str, Any]
) -> StreamPass:
    """Return the pass over all rows of CSV or JSON files, or raise Doubt where Spark may read them differently."""
    added = StreamPass(spec, stream.event_time)
    gap = only_by_spark(stream, added.projection, timezone)
    if gap is not None:
        raise Doubt(gap)
    read = referenced(added.projection)
    tables, names = rows_of_text(stream, timezone, form, path, options, read)
    added.unread = unread_changes(stream, names, read)
    changes = change_format(stream.name, stream.changes)
    try:
        for table in tables:
            rows, weights = rows_and_weights(stream.name, table, changes)
            for start in range(0, max(rows.num_rows, 1), _ROWS):
                part, weight = rows.slice(start, _ROWS), weights[start : start + _ROWS]
                added.feed(project_table(stream, part, weight, added.projection, timezone))
    except READ_ERRORS as error:
        raise Doubt(f"Arrow cannot read a value ({one_line(error)})") from None
    added.similar = similar_columns(stream, names, added.tally.empty)
    return added


def rows_of_text(
    stream: Stream,
    timezone: str | None,
    form: str,
    path: str,
    options: Mapping[str, Any],
    read: Collection[str],
) -> tuple[Iterator[pa.Table], list[str]]:
    """Return (the declared columns and the change column of each file, the names of all columns), or raise Doubt.

    read: the columns whose values matter; of all others, values must only be valid, and times may be in another zone.
    """
    given = {name.lower(): str(value) for name, value in options.items()}
    if not given.keys() <= _OPTIONS[form]:
        raise Doubt(f"an option is {min(given.keys() - _OPTIONS[form])}")
    contents, wanted = _contents(stream.name, path), _wanted(stream)
    if form == "csv":
        tables, names = _csv(contents, given, wanted)
    else:
        tables, names = _json(stream.name, path, contents, given, wanted)
    zones = [timezone if each.name in read else UTC for each in wanted]
    return (_typed(table, wanted, zones) for table in tables), names


def _contents(stream: str, path: str) -> list[bytes]:
    """Return the bytes of all files of a path."""
    listing = list_path(stream, path)
    if sum(file.size for file in listing.files) > MOST_TEXT:
        raise Doubt("its files are large")
    if not listing.files:
        raise Doubt("it has no files")
    filesystem, contents = location_of(listing.where).filesystem, []
    for file in listing.files:
        if PurePosixPath(file.path).suffix.lower() not in _SUFFIXES:
            raise Doubt(f"{file.path} may be compressed")
        try:
            with filesystem.open_input_file(file.path) as handle:
                contents.append(handle.read())
        except READ_ERRORS as error:
            raise Doubt(f"{file.path} cannot be read ({one_line(error)})") from None
        _check_bytes(contents[-1])
    return contents


def _wanted(stream: Stream) -> tuple[Column, ...]:
    """Return the declared columns, and the change column if it is not declared."""
    form = change_format(stream.name, stream.changes)
    columns = stream.columns
    if form.column and form.column.lower() not in {column.name.lower() for column in columns}:
        columns = (*columns, Column(form.column, SqlType("bigint" if form.form == "weight" else "string")))
    return columns


Tables = Iterator[pa.Table]

_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\r(?!\n)|^[ \t]+\r?$", re.MULTILINE)
"""Bytes that a parser may drop, lines that end in CR alone, and lines of blanks: Spark skips these."""
_BOM = b"\xef\xbb\xbf"


def _check_bytes(content: bytes) -> None:
    """Raise Doubt if a file has bytes that parsers treat differently, wherever they are."""
    if content.startswith(_BOM) or _CONTROLS.search(content):
        raise Doubt("a file has a byte order mark, control characters or blank lines")
    try:
        content.decode()
    except UnicodeDecodeError:
        raise Doubt("a file is not UTF-8") from None


# CSV: cells are read as strings.


def _csv(
    contents: Sequence[bytes], options: Mapping[str, str], wanted: Sequence[Column]
) -> tuple[Tables, list[str]]:
    """Return (the wanted columns of each file as strings, the names of all columns)."""
    separator, header = options.get("sep", options.get("delimiter", ",")), options.get("header", "").lower()
    escape = options.get("escape", "\\")
    if {"sep", "delimiter"} <= options.keys() or not re.fullmatch(r"[,;|\t:]", separator):
        raise Doubt("its separator is unusual")
    if escape not in ("\\", '"'):
        raise Doubt("its escape is unusual")
    if header not in ("", "true", "false"):
        raise Doubt(f"its header is {header}")
    for content in contents:
        _check_quotes(content, separator, doubled=escape == '"')
    first = [_cells(content, separator) for content in contents]
    if any(cells != first[0] for cells in first) and header == "true":
        raise Doubt("its files have different headers")
    lower = [name.strip().lower() for name in first[0]]
    if header == "true":
        if len(set(lower)) < len(lower) or "" in lower or CORRUPT in lower:
            raise Doubt("its header has a name twice, or an empty one")
        names = [name.strip() for name in first[0]]
        places = [lower.index(each.name.lower()) if each.name.lower() in lower else -1 for each in wanted]
    else:
        if {each.name.lower() for each in wanted} <= set(lower) and not header:
            raise Doubt("its first line looks like a header")
        names = [each.name for each in wanted] + [f"_c{i}" for i in range(len(wanted), len(lower))]
        places = list(range(len(wanted)))
    if -1 in places or len(places) > len(lower):
        raise Doubt("it lacks a column")
    columns = [f"f{place}" for place in places]
    return (
        _csv_table(c, separator, escape == '"', header == "true", len(lower), columns) for c in contents
    ), names


def _cells(content: bytes, separator: str) -> list[str]:
    """Return the cells of the first line that is not empty."""
    line = content.lstrip(b"\r\n").partition(b"\n")[0].rstrip(b"\r")
    if not line or b'"' in line:
        raise Doubt("a first line is missing or has quotes")
    return line.decode().split(separator)


def _check_quotes(content: bytes, separator: str, *, doubled: bool) -> None:
    """Raise Doubt unless each quote begins or ends a whole cell, which is not empty; no backslash may escape one."""
    if b"\\" in content:
        raise Doubt("a file has backslashes")
    if b'"' not in content:
        return
    inner = rb'(?:[^"\r\n]|"")+' if doubled else rb'[^"\r\n]+'
    mark = re.escape(separator.encode())
    cells = re.compile(rb'(?:^|(?<=%s))"%s"(?=%s|\r?$)' % (mark, inner, mark), re.MULTILINE)
    # A line that has only whole cells in quotes has no quote left after they are taken out.
    if b'"' in cells.sub(b"", content):
        raise Doubt("a file has quotes inside cells, or empty strings in quotes")


def _csv_table(
    content: bytes, separator: str, doubled: bool, header: bool, width: int, columns: list[str]
) -> pa.Table:
    names = [f"f{place}" for place in range(width)]
    try:
        return pv.read_csv(
            pa.BufferReader(content.lstrip(b"\r\n")),
            read_options=pv.ReadOptions(
                column_names=names, skip_rows_after_names=int(header), block_size=_BLOCK
            ),
            parse_options=pv.ParseOptions(
                delimiter=separator, double_quote=doubled, escape_char=False, newlines_in_values=False
            ),
            convert_options=pv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=list(dict.fromkeys(columns)),
                null_values=[""],
                strings_can_be_null=True,
            ),
        ).select(columns)
    except READ_ERRORS as error:
        raise Doubt(f"Arrow cannot read a file ({one_line(error)})") from None


# JSON: a record is an object on a line of its own.


def _json(
    stream: str, path: str, contents: Sequence[bytes], options: Mapping[str, str], wanted: Sequence[Column]
) -> tuple[Tables, list[str]]:
    """Return (the wanted columns of each file, times and dates as strings; the names of all columns)."""
    heads: list[str] = []
    for content in contents:
        lines = content.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
        heads += [line.decode() for line in lines if line.strip()]
    kinds = {each.name: str(each.type) for each in wanted}
    written = json_fields(stream, path, heads[:_LOOKED_AT], options, kinds)
    stripped = {name.strip().lower(): name for name in written}
    if CORRUPT in stripped or len(stripped) < len(written):
        raise Doubt("two of its fields have nearly the same name")
    fields = [stripped.get(each.name.lower(), each.name) for each in wanted]
    types = {field: _json_type(each.type) for field, each in zip(fields, wanted, strict=True)}
    names = [name.strip() for name in written] + [name for name in kinds if name.lower() not in stripped]
    return (_json_table(content, types) for content in contents), names


_DIGITS = 36  # of a DECIMAL: a value of JSON that has more than 38 overflows in Arrow's parser


def _json_type(kind: SqlType) -> pa.DataType:
    if kind.is_integer:
        return pa.int64()
    if kind.kind == "decimal" and kind.precision <= _DIGITS:
        return pa.decimal128(
            38, kind.scale
        )  # the cast to fewer digits checks that the value fits; the parser does not
    if kind.kind in ("double", "boolean"):
        return to_arrow(kind)
    if kind.kind in ("string", "date", "timestamp", "timestamp_ntz"):
        return pa.string()
    raise Doubt(f"a column is {kind}")


def _json_table(content: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    lines = [line.strip() for line in content.split(b"\n")]
    records = [line for line in lines if line]
    if not all(line.startswith(b"{") and line.endswith(b"}") for line in records):
        raise Doubt("a record is not an object on a line of its own")
    if not records:
        return pa.table({f"f{i}": pa.array([], kind) for i, kind in enumerate(types.values())})
    try:
        table = pj.read_json(
            pa.BufferReader(content),
            read_options=pj.ReadOptions(block_size=max(len(content) + 1, 1 << 16)),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
            ),
        )
    except READ_ERRORS as error:
        raise Doubt(f"Arrow cannot read a file ({one_line(error)})") from None
    # A line that ends in `}` before one that begins with `{` ends a record: equal numbers mean one on each line.
    if table.num_rows != len(records):
        raise Doubt("a line has several records")
    return pa.table({f"f{i}": table.column(name) for i, name in enumerate(types)})


# Values: strings of a plain form become values of their type.


_DATE = r"(?:[12]\d{3}|9999)-\d\d-\d\d"
_TIME = _DATE + r"[T ]\d\d:\d\d:\d\d(\.\d{1,6})?"
_FORMS = {
    "boolean": "(?i)true|false",
    "float": r"-?\d{1,30}(\.\d{1,30})?([eE][-+]?\d{1,2})?",
    "double": r"-?\d{1,30}(\.\d{1,30})?([eE][-+]?\d{1,2})?",
    "date": _DATE,
    "timestamp_ntz": _TIME,
    "string": "",
}


def _typed(table: pa.Table, wanted: Sequence[Column], zones: Sequence[str | None]) -> pa.Table:
    """Return the columns under their names and in their types, or raise Doubt or an error of Arrow."""
    columns = [_column(table.column(i), each.type, zones[i]) for i, each in enumerate(wanted)]
    return pa.table({each.name: column for each, column in zip(wanted, columns, strict=True)})


def _column(values: pa.ChunkedArray, kind: SqlType, timezone: str | None) -> pa.ChunkedArray:
    if pa.types.is_string(values.type):
        values = _plain(values, kind, timezone)
    found = values.cast(to_arrow(kind))
    if kind.is_float and pc.all(pc.is_finite(found)).as_py() is False:
        raise Doubt("a number is not finite")
    return found


def _plain(values: pa.ChunkedArray, kind: SqlType, timezone: str | None) -> pa.ChunkedArray:
    """Return strings of the plain form of a type, as they can be cast to it, or raise Doubt."""
    if kind.kind == "timestamp":
        return _times(values, timezone)
    if kind.is_integer:
        form = r"-?\d{1,18}"
    elif kind.kind == "decimal":
        form = rf"-?\d{{1,{max(kind.precision - kind.scale, 1)}}}"
        form += rf"(\.\d{{1,{kind.scale}}})?" if kind.scale else ""
    elif kind.kind in _FORMS:
        form = _FORMS[kind.kind]
    else:
        raise Doubt(f"a column is {kind}")
    if form and not _all_match(values, form):
        raise Doubt(f"a value is not a plain {kind}")
    return pc.equal(pc.utf8_lower(values), "true") if kind.kind == "boolean" else values


def _times(values: pa.ChunkedArray, timezone: str | None) -> pa.ChunkedArray:
    """Return times: in UTC where all end in Z, and in the plan's zone where none does."""
    if _all_match(values, _TIME + "Z"):
        return values.cast(pa.timestamp("us", "UTC"))
    if timezone is None or not _all_match(values, _TIME):
        raise Doubt("a value is not a plain TIMESTAMP")
    local = values.cast(pa.timestamp("us"))
    years = pc.min_max(pc.year(local)).as_py()
    if (
        timezone != UTC
        and years["min"] is not None
        and not _FIRST_YEAR <= years["min"] <= years["max"] <= _LAST_YEAR
    ):
        raise Doubt("the rules of its time zone are not known for all years")
    return pc.assume_timezone(local, timezone).cast(pa.timestamp("us", "UTC"))


_FIRST_YEAR, _LAST_YEAR = 1971, 2030
"""The years for which the time zones of Java and of Arrow agree, whatever their version. Chosen."""


def _all_match(values: pa.ChunkedArray, form: str) -> bool:
    return pc.all(pc.match_substring_regex(values, f"^(?:{form})$")).as_py() is not False
