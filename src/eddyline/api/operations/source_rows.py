"""How many rows the source of a stream has now, without Spark, or why they are not counted.

Parquet and ORC files store their row counts in their footers, Delta tables in their log; lines of CSV and JSON are
counted, Kafka's brokers know the offsets of a topic, and PostgreSQL counts a table.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from eddyline.api.operations.brokers import KAFKA, count_records, needs_client
from eddyline.api.operations.part_rows import count_table
from eddyline.api.pipeline import POSTGRES, StreamSource
from eddyline.errors import PipelineError
from eddyline.ingest.files import RECURSIVE, is_read, local_path

TABLES = (POSTGRES, "delta")
"""Formats of tables, of which changes are counted; all others have rows that stay."""
_SPACE = "".join(map(chr, range(33)))
"""What Spark's readers take for a blank at both ends of a line."""
_FREE = {
    RECURSIVE.lower(),
    "maxfilespertrigger",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxbytespertrigger",
}
"""Options, in lower case, that do not change which rows a stream reads."""
_OF_FORMAT: dict[str, set[str]] = {
    "csv": {"header", "sep", "escape"},
    KAFKA: {"subscribe", "subscribepattern", "assign"},
    "delta": set(),
}


def count_rows(stream: str, source: StreamSource) -> int | str:
    """Return how many rows a source has now, or why they are not counted; PipelineError if they cannot be read."""
    if source.format == POSTGRES:
        return count_table(stream, source)
    options = {name.lower(): value for name, value in source.options.items()}
    known = _FREE | _OF_FORMAT.get(source.format, set())
    other = [name for name in source.options if name.lower() not in known and not name.startswith("kafka.")]
    if other:
        return f"its option {other[0]} may change which rows are read"
    if source.format == KAFKA:
        return _records(stream, source)
    if source.format == "delta" and source.path is not None:
        return _rows_of_delta(stream, source.path)
    where = local_path(source.format, source.path)
    if where is None or source.format not in _COUNT:
        return "its rows are not counted here: that takes Parquet, ORC, CSV or JSON files, or Delta, on the local disk"
    deep = options.get(RECURSIVE.lower(), "false").lower() == "true"
    return _read(
        stream, lambda: sum(_COUNT[source.format](file, options) for file in _files(where, deep=deep))
    )


def _read(stream: str, count: Callable[[], int]) -> int:
    try:
        return count()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise PipelineError(
            f"stream {stream!r}: its rows cannot be counted: {str(error).splitlines()[0]}."
        ) from error


def _files(where: Path, *, deep: bool) -> list[Path]:
    if where.is_file():
        return [where]
    found = [file for file in sorted(where.rglob("*")) if is_read(file, where)]
    return [file for file in found if deep or all("=" in part for part in file.relative_to(where).parts[:-1])]


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file that are not blank, decompressed if its name says so."""
    with pa.input_stream(str(file)) as data, io.TextIOWrapper(data, encoding="latin-1") as text:
        yield from (line for line in text if line.strip(_SPACE))


def _rows_of_csv(file: Path, options: Mapping[str, str]) -> int:
    has_header = options.get("header", "false").lower() == "true"
    return max(sum(1 for _ in _lines(file)) - has_header, 0)


def _rows_of_json(file: Path, _options: Mapping[str, str]) -> int:
    rows = 0
    for line in _lines(file):
        is_array = line.lstrip(_SPACE)[:1] == "["  # Spark makes a row of each of its objects
        rows += len(json.loads(line)) if is_array else 1
    return rows


_COUNT: dict[str, Callable[[Path, Mapping[str, str]], int]] = {
    "parquet": lambda file, _: int(pq.read_metadata(file).num_rows),
    "orc": lambda file, _: int(orc.ORCFile(file).nrows),
    "csv": _rows_of_csv,
    "json": _rows_of_json,
}


def _records(stream: str, source: StreamSource) -> int | str:
    reason = needs_client(source.options)
    if reason is not None:
        return reason
    dropped, records = count_records(stream, source.options)
    if dropped:
        return f"its topics have dropped {dropped:,} records, of which the store may have counted some"
    return records


# A Delta table's log: the files that were added and not removed, each with the number of its rows.


def _rows_of_delta(stream: str, path: str) -> int | str:
    log = Path(path) / "_delta_log"
    if "://" in path or not log.is_dir():
        return "its rows are not counted here: it is not a Delta table on the local disk"
    versions = {int(file.stem): file for file in log.glob("*.json") if file.stem.isdigit()}
    saved = {int(file.name[:20]): file for file in log.glob("*.checkpoint.parquet")}
    first = max(saved) if saved and 0 not in versions else -1
    if first < 0 and 0 not in versions:
        return "the beginning of its log is gone, and its checkpoints are not in one file"

    def count() -> int:
        live = dict[tuple[object, ...], Mapping[str, Any]]()
        if first >= 0:
            added = pq.read_table(saved[first], columns=["add"]).column("add").to_pylist()
            live |= {_file(add): add for add in added if add is not None}
        for version in sorted(each for each in versions if each > first):
            with versions[version].open(encoding="utf-8") as lines:
                actions = [json.loads(line) for line in lines]
            for gone in (action["remove"] for action in actions if "remove" in action):
                live.pop(_file(gone), None)
            live |= {_file(action["add"]): action["add"] for action in actions if "add" in action}
        return sum(_rows_of_file(Path(path), add) for add in live.values())

    return _read(stream, count)


def _file(action: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what identifies a file: its path, and which of its rows are deleted."""
    deleted = action.get("deletionVector") or {}
    return action["path"], deleted.get("pathOrInlineDv"), deleted.get("offset")


def _rows_of_file(table: Path, add: Mapping[str, Any]) -> int:
    """Return the rows of a file of a Delta table that are not deleted, by its statistics or its footer."""
    rows = json.loads(add.get("stats") or "{}").get("numRecords")
    if rows is None:
        rows = pq.read_metadata(table / unquote(add["path"])).num_rows
    return int(rows) - int((add.get("deletionVector") or {}).get("cardinality", 0))
