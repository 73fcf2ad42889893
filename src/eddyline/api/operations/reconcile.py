"""Reconciliation: the rows that a source has now, compared with the rows of it that a store has counted.

Counting the rows of a source is cheap compared with a pass, and needs no Spark: Parquet and ORC files have their row
counts in their footers, Delta tables in their log; lines of CSV and JSON are counted, Kafka's brokers know the offsets
of a topic, and PostgreSQL counts a table. The rows that a stream has read, including deletes, are compared with all
rows of its files or topics; the sum of a table's changes is compared with the rows that the table has. A run that is
behind its source shows as a difference, and so do rows that were lost or counted twice. The last comparison is in the
file RECONCILED of the store, from which a server makes its metrics.
"""

import contextlib
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from eddyline.api.operations.brokers import KAFKA, count_records, needs_client
from eddyline.api.operations.part_rows import count_table
from eddyline.api.pipeline import POSTGRES, Pipeline, StreamSource
from eddyline.errors import CorruptState, PipelineError
from eddyline.ingest.changes import change_format
from eddyline.ingest.files import RECURSIVE, is_read, local_path
from eddyline.store import Reader, SourcePosition
from eddyline.store.filesystem import at_most

RECONCILED = "RECONCILED"
_LONGEST = 1 << 20  # bytes of the file of the last comparison: thousands of streams


@dataclass(frozen=True)
class Reconciled:
    """A stream: the rows of its source, or why they are not counted, and those that the store counted of it.

    bad: rows or changes that the run skipped. is_net: the source is a table, which has the sum of all changes; a
    skipped change may have been an insert or a delete.
    """

    stream: str
    source: int | str
    store: int
    bad: int = 0
    is_net: bool = False

    @property
    def difference(self) -> int | None:
        """How many rows the store lacks; negative if it has too many; None if the source is not counted."""
        if isinstance(self.source, str):
            return None
        missing = self.source - self.store
        if not self.is_net:
            return missing - self.bad
        return max(missing - self.bad, 0) + min(missing + self.bad, 0)

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.stream}: not compared; {self.source}"
        counts = f"the source has {self.source:,} rows and the store counted {self.store:,}"
        kind = "changes, which may explain as many rows" if self.is_net else ""
        skipped = f" and skipped {self.bad:,} {kind}".rstrip() if self.bad else ""
        if not self.difference:
            return f"{self.stream}: {counts}{skipped}: they agree"
        kind = "too few: the run is behind, or rows were lost" if self.difference > 0 else "too many"
        return f"{self.stream}: {counts}{skipped}: {abs(self.difference):,} {kind}"


def reconcile(store: str, pipeline: Pipeline) -> list[Reconciled]:
    """Return the rows that the sources of a pipeline have and that its store counted, for each stream."""
    sources = Reader(store).latest().commit.sources
    unknown = sources.keys() - pipeline.streams.keys()
    if unknown:
        raise PipelineError(
            f"the store has a stream {min(unknown)!r}, and the pipeline does not: is it the right file?"
        )
    return [_reconciled(name, source, sources.get(name)) for name, source in pipeline.streams.items()]


class Reconciliation(msgspec.Struct, frozen=True):
    """When sources and a store were compared (seconds since 1970), and how many rows of each stream were missing."""

    time: float
    missing: dict[str, int]


def record(store: str, found: list[Reconciled]) -> bool:
    """Write a comparison into the store, for the metrics of servers; return False if it cannot be written."""
    missing = {each.stream: each.difference for each in found if each.difference is not None}
    try:
        Reader(store).files.replace(RECONCILED, msgspec.json.encode(Reconciliation(time.time(), missing)))
    except OSError:
        return False
    return True


def last_reconciliation(reader: Reader) -> Reconciliation | None:
    """Return the last comparison of a store with its sources, None if there was none that can be read."""
    with contextlib.suppress(OSError, CorruptState, msgspec.DecodeError):
        return msgspec.json.decode(reader.files.read(RECONCILED, at_most(_LONGEST)), type=Reconciliation)
    return None


def _reconciled(name: str, source: StreamSource, at: SourcePosition | None) -> Reconciled:
    rows, deletes, bad = (at.rows, at.deletes, at.bad) if at is not None else (0, 0, 0)
    if source.format in TABLES:
        return Reconciled(name, count_rows(name, source), rows - 2 * deletes, bad, is_net=True)
    if change_format(name, source.changes).form == "debezium":
        return Reconciled(name, "an update is one record of Debezium and two changes", rows)
    return Reconciled(name, count_rows(name, source), rows, bad)


# The rows that a source has now, or why they are not counted.


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
