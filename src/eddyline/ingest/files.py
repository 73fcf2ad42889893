"""Local source files before Spark starts: whether there are any, and which fields their JSON records have."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.errors import PipelineError

# The header of CSV files.


def separator_advice(names: Iterable[str]) -> str:
    """Return the end of a sentence about a column that a header lacks: which separator its names seem to have."""
    separator = next((each for each in ";\t|" if each in "".join(names)), None)
    return f"; add sep = {json.dumps(separator)} to the options of the stream." if separator else "."


# The first lines of JSON files: which fields their records have, and what a reader would silently misread.


_MILLISECONDS = 100_000_000_000
"""From this number on, a time is not in seconds: it would be after the year 5138."""


def json_fields(
    stream: str, path: str, lines: Sequence[str], options: Mapping[str, str], wanted: Mapping[str, str]
) -> list[str]:
    """Return the fields of the first records, each once, or raise PipelineError where records would be misread.

    options: the reader's, in lower case. wanted: the declared columns with their types. No field is known of
    records that span lines.
    """
    records = [record for line in lines if isinstance(record := _parsed(line), dict)]
    if options.get("multiline", "").lower() == "true":
        if len(records) > 1:
            raise PipelineError(
                f"stream {stream!r}: {path!r} has a record a line, and with multiLine only the first of each file is "
                "read: take multiLine out of the options of the stream."
            )
        return []
    first = next((line.strip() for line in lines if line.strip()), "")
    if first in ("{", "["):
        raise PipelineError(
            f"stream {stream!r}: the records of {path!r} span lines: add "
            'multiLine = "true" to the options of the stream.'
        )
    _check_times(stream, records, wanted)
    return _spelled_once(stream, path, records)


def _parsed(line: str) -> Any:
    """Return the value of a line of JSON, None where it cannot be read."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _check_times(stream: str, records: Sequence[Mapping[str, Any]], wanted: Mapping[str, str]) -> None:
    """Raise PipelineError where a TIMESTAMP is a number of milliseconds, which Spark reads as seconds."""
    times = {name.lower() for name, kind in wanted.items() if kind == "TIMESTAMP"}
    for record in records:
        for name, value in record.items():
            if name.lower() in times and isinstance(value, int) and abs(value) >= _MILLISECONDS:
                raise PipelineError(
                    f"stream {stream!r}: column {name!r} is declared TIMESTAMP and holds {value}, which Spark reads as "
                    f"seconds: declare it BIGINT, and write timestamp_millis({name}) in queries."
                )


def _spelled_once(stream: str, path: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields of records, or raise PipelineError where one has two spellings: Spark reads only one."""
    fields: dict[str, str] = {}
    for record in records:
        for name in record:
            if fields.setdefault(name.lower(), name) != name:
                raise PipelineError(
                    f"stream {stream!r}: the records of {path!r} have {fields[name.lower()]!r} and {name!r}, of which "
                    "only one would be read: write them alike."
                )
    return list(fields.values())


# Whether a source has files on the local disk, before Spark starts to read them.


FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Formats that Spark reads from files in folders."""
RECURSIVE = "recursiveFileLookup"


def lacks_files(form: str, path: str | None, options: Mapping[str, str]) -> bool:
    """Return whether a source certainly has no file; False for patterns and other systems, which Spark reads.

    In a folder Spark reads folders of partitions, such as `day=2026-01-31`, and all folders if an option is set.
    """
    where = local_path(form, path)
    if where is None or where.is_file():
        return False
    deep = any(
        name.lower() == RECURSIVE.lower() and value.lower() == "true" for name, value in options.items()
    )
    files = (file for file in where.rglob("*") if is_read(file, where))
    return not any(deep or all("=" in name for name in file.relative_to(where).parts[:-1]) for file in files)


def local_path(form: str, path: str | None) -> Path | None:
    """Return where the files of a source are on the local disk, None where that is not known."""
    if path is None or form not in FILE_FORMATS or "://" in path or any(sign in path for sign in "*?[{"):
        return None
    return Path(path)


def is_read(file: Path, folder: Path) -> bool:
    """Return whether Spark reads a file of a folder: no part of its path begins like an unfinished file's name."""
    names = file.relative_to(folder).parts
    hidden = any(name[0] == "." or (name[0] == "_" and "=" not in name) for name in names)
    return not hidden and file.is_file()


# The columns that files name themselves.


_PLAIN_HEADER = {"header", "sep", "delimiter", "escape", "multiline", "maxfilespertrigger", RECURSIVE.lower()}
"""Options of CSV, in lower case, with which a header is read here as Spark reads it."""


def reader_of_names(form: str, given: Mapping[str, str]) -> Callable[[Path], list[str]] | None:
    """Return what reads the names of a file's columns, None where the file has none, or only Spark can read them."""
    options = {name.lower(): value for name, value in given.items()}
    if form == "parquet":
        return lambda file: list(pq.read_schema(file).names)
    if form == "csv" and options.get("header") == "true" and options.keys() <= _PLAIN_HEADER:
        separator = options.get("sep", options.get("delimiter", ","))
        return (lambda file: _header(file, separator)) if len(separator) == 1 else None
    return None


def _header(file: Path, separator: str) -> list[str]:
    """Return the names in the first line of a CSV file that is not blank."""
    with pa.input_stream(str(file)) as data, io.TextIOWrapper(data, encoding="utf-8-sig", newline="") as text:
        return next((line for line in csv.reader(text, delimiter=separator) if "".join(line).strip()), [])
