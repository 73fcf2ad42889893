"""A draft of a stream from its files: columns from Parquet footers, or from the first lines of CSV and JSON."""

import csv
import io
import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa

from eddyline.api.drafts.pipeline_text import CHANGE_COLUMNS, SAMPLED_ROWS, StreamDraft, stream_name
from eddyline.errors import PipelineError
from eddyline.expressions.arrow_values import from_arrow
from eddyline.ingest.files import is_read
from eddyline.types import Column, SqlType

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_LOOKED_AT = 1 << 20
"""Bytes of a text file whose lines determine the types of its columns."""
_SEARCHED = 64 << 20
"""Bytes of a CSV file that are searched for quotes within quotes."""
_GUESSED = "types come from the first lines: widen those that later lines do not fit"


def draft_of_files(path: Path, taken: Collection[str]) -> StreamDraft:
    """Return the draft of a stream from a file, or from a folder of files of one format, or raise PipelineError."""
    file = _first_file(path)
    form = _format(file)
    _check_one_format(path, form)
    if form is None:
        raise PipelineError(
            f"{str(file)!r} is not a Parquet, CSV or JSON file by its name: give files that end in "
            f"{', '.join(_FORMATS)}, or a PostgreSQL DSN."
        )
    try:
        table, options = {"parquet": _parquet, "csv": _csv, "json": _json}[form](file)
    except (OSError, ValueError, csv.Error, pa.ArrowException) as error:
        raise PipelineError(
            f"{str(file)!r} cannot be read as {form}: {str(error).splitlines()[0]}."
        ) from error
    return _draft(stream_name(path.name.split(".")[0], taken), path, form, table, options)


def _first_file(path: Path) -> Path:
    if not path.exists():
        raise PipelineError(
            f"there is no file or folder {str(path)!r}: give Parquet, CSV or JSON, or a PostgreSQL DSN."
        )
    if path.is_file():
        return path
    if (path / "_delta_log").is_dir():
        raise PipelineError(
            f"{str(path)!r} is a Delta table, whose files alone do not say which rows it has: write a stream of "
            'format = "delta" by hand (docs/how-to/delta.md).'
        )
    first = next((file for file in _files(path) if _format(file) is not None), None)
    if first is None:
        raise PipelineError(f"the folder {str(path)!r} has no Parquet, CSV or JSON file.")
    return first


def _files(path: Path) -> list[Path]:
    """Return the files of a folder, including its subfolders, that Spark would read."""
    return [file for file in sorted(path.rglob("*")) if is_read(file, path)]


def _check_one_format(path: Path, form: str | None) -> None:
    """Raise PipelineError if a folder has files of another format, which would be read as the first one's."""
    other = next((file for file in _files(path) if _format(file) != form), None)
    if other is not None:
        raise PipelineError(
            f"the folder {str(path)!r} has {form} files and {other.name!r}, which would be read as {form}, too: move "
            "it elsewhere, or name files one by one."
        )


def _format(file: Path) -> str | None:
    plain = file.with_suffix("") if file.suffix in (".gz", ".bz2", ".zst") else file
    return _FORMATS.get(plain.suffix.lower())


def _draft(name: str, path: Path, form: str, table: pa.Table, options: dict[str, str]) -> StreamDraft:
    """Return a draft with the supported columns; CSV keeps all of them, because it is read by position."""
    schema, table = table.schema, table.slice(0, SAMPLED_ROWS)
    changes = next((spelling for column, spelling in CHANGE_COLUMNS.items() if column in schema.names), None)
    if {"op", "before", "after"} <= set(schema.names) and pa.types.is_struct(schema.field("after").type):
        after = table.column("after").combine_chunks()
        parts = after.flatten() if len(after) else [pa.nulls(0, each.type) for each in after.type]
        changes, table = "debezium", pa.table(parts, schema=pa.schema(list(after.type)))
        schema = table.schema
    columns, left_out = [], []
    for field in schema:
        kind = from_arrow(field.type)
        if form != "parquet" and kind in (SqlType("void"), SqlType("timestamp_ntz")):
            kind = SqlType("string" if kind == SqlType("void") else "timestamp")
        if form != "csv" and field.name in CHANGE_COLUMNS:
            continue
        if kind is None and form != "csv":
            left_out.append(field.name)
            continue
        columns.append(Column(field.name, kind or SqlType("string")))
    if not columns:
        raise PipelineError(f"{str(path)!r} has no column of a type that is read.")
    _check_once(path, schema.names)
    remarks = () if form == "parquet" else (_GUESSED,)
    return StreamDraft(
        name,
        tuple(columns),
        form,
        str(path),
        options,
        changes,
        path.is_file(),
        tuple(left_out),
        remarks,
        rows={column.name: table.column(column.name).to_pylist() for column in columns},
    )


def _check_once(path: Path, names: Sequence[str]) -> None:
    """Raise PipelineError if two columns have the same name, ignoring case."""
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise PipelineError(
            f"{str(path)!r} has column {twice!r} more than once, in upper or lower case: rename one of them."
        )


def _parquet(file: Path) -> tuple[pa.Table, dict[str, str]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - loads pandas where it is installed

    with pq.ParquetFile(file) as opened:
        first = next(opened.iter_batches(SAMPLED_ROWS), None)
        return pa.Table.from_batches([] if first is None else [first], opened.schema_arrow), {}


def _head(file: Path) -> bytes:
    """Return the first complete lines of a file; if it is one long line, all of it."""
    with pa.input_stream(str(file)) as stream:
        head = bytes(stream.read(_LOOKED_AT))
        if len(head) < _LOOKED_AT:
            return head
        whole = head[: head.rfind(b"\n") + 1]
        return whole or head + bytes(stream.read())


def _csv(file: Path) -> tuple[pa.Table, dict[str, str]]:
    from pyarrow import csv as pc  # noqa: PLC0415 - loads pandas where it is installed

    head = _head(file)
    text = _decoded(head)
    first = text.split("\n", 1)[0].rstrip("\r")
    separator = max(",;\t|", key=first.count)
    names = next(csv.reader([first], delimiter=separator), [])
    header = bool(names) and all(name and not _is_number(name) for name in names)
    if header:
        _check_once(file, names)
    given = names if header else [f"c{number}" for number in range(1, len(names) + 1)]
    reading = pc.ReadOptions(column_names=given, skip_rows=int(header))
    body = head.removeprefix("\ufeff".encode())
    options = {"header": "true"} if header else {}
    options |= {"sep": separator} if separator != "," else {}
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    options |= {"multiLine": "true"} if any("\n" in cell for row in rows for cell in row) else {}
    options |= {"escape": '"'} if _doubles_quotes(file, separator) else {}
    if len(body.strip().splitlines()) <= int(header):
        return pa.schema([(name, pa.string()) for name in given]).empty_table(), options
    parsing = pc.ParseOptions(delimiter=separator, newlines_in_values="multiLine" in options)
    return pc.read_csv(io.BytesIO(body), reading, parsing), options


def _doubles_quotes(file: Path, separator: str) -> bool:
    """Return whether a quote within quotes is doubled, as in spreadsheets; Spark expects a backslash before it.

    Two quotes alone between separators are an empty string.
    """
    plain = f'[^{re.escape(separator)}\r\n"]'.encode()
    doubled = re.compile(b'"{3,}|(?<=%b)""|""(?=%b)' % (plain, plain))
    twice = escaped = looked_at = 0
    with pa.input_stream(str(file)) as stream:
        while looked_at < _SEARCHED and (part := bytes(stream.read(_LOOKED_AT))):
            looked_at += len(part)
            escaped += part.count(b'\\"')
            twice += len(doubled.findall(part))
    return twice > escaped


def _decoded(head: bytes) -> str:
    try:
        return head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8: write it as UTF-8") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _json(file: Path) -> tuple[pa.Table, dict[str, str]]:
    from pyarrow import json as pj  # noqa: PLC0415 - loads pandas where it is installed

    head = _head(file)
    if head.lstrip()[:1] == b"[":
        with pa.input_stream(str(file)) as stream:
            rows = json.loads(bytes(stream.read()))
        records = [row for row in rows if isinstance(row, dict)]
        names = dict.fromkeys(name for row in records for name in row)
        return pa.table({name: [row.get(name) for row in records] for name in names}), {"multiLine": "true"}
    if _decoded(head).lstrip().split("\n", 1)[0].strip() == "{":
        return pj.read_json(io.BytesIO(head)), {"multiLine": "true"}
    return pj.read_json(io.BytesIO(head)), {}
