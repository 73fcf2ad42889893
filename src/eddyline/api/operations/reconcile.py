"""Reconciliation: the rows that a source has now, compared with the rows of it that a store has counted.

Parquet files store their row counts in their footers, and PostgreSQL counts a table; both are cheap compared with a
pass. The rows that a stream of files has read, including deletes, are compared with all rows of its files; the sum
of a table's changes is compared with the rows that the table has. A run that is behind its source shows as a
difference, and so do rows that were lost or counted twice. The last comparison is in the file RECONCILED of the store,
from which a server makes its metrics.
"""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

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
    """A stream: the rows of its source, None if they are not counted here, and those that the store counted of it.

    bad: rows that the run skipped, which the source counts.
    """

    stream: str
    source: int | None
    store: int
    bad: int = 0

    @property
    def difference(self) -> int | None:
        """How many rows the store lacks; negative if it has too many; None if the source is not counted."""
        return None if self.source is None else self.source - self.store - self.bad

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.stream}: not compared; its source is not counted here"
        counts = f"the source has {self.source:,} rows and the store counted {self.store:,}"
        skipped = f" and skipped {self.bad:,}" if self.bad else ""
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


class Comparison(msgspec.Struct, frozen=True):
    """When sources and a store were compared (seconds since 1970), and how many rows of each stream were missing."""

    time: float
    missing: dict[str, int]


def record(store: str, found: list[Reconciled]) -> bool:
    """Write a comparison into the store, whose servers have it as a metric; return False if it cannot be written."""
    missing = {each.stream: each.difference for each in found if each.difference is not None}
    try:
        Reader(store).files.replace(RECONCILED, msgspec.json.encode(Comparison(time.time(), missing)))
    except OSError:
        return False
    return True


def last_comparison(reader: Reader) -> Comparison | None:
    """Return the last comparison of a store with its sources, None if there was none that can be read."""
    with contextlib.suppress(OSError, CorruptState, msgspec.DecodeError):
        return msgspec.json.decode(reader.files.read(RECONCILED, at_most(_LONGEST)), type=Comparison)
    return None


def _reconciled(name: str, source: StreamSource, at: SourcePosition | None) -> Reconciled:
    rows, deletes, bad = (at.rows, at.deletes, at.bad) if at is not None else (0, 0, 0)
    if source.format == POSTGRES:
        return Reconciled(name, count_table(name, source), rows - 2 * deletes)
    if change_format(name, source.changes).form == "debezium":
        return Reconciled(name, None, rows)  # an update is one row of the source and two changes
    return Reconciled(name, _rows_of_files(name, source), rows, bad)


def _rows_of_files(name: str, source: StreamSource) -> int | None:
    """Return the number of rows in the footers of Parquet files on the local disk, None for other sources."""
    where = local_path(source.format, source.path)
    options = {option.lower() for option in source.options}
    if (
        where is None
        or source.format != "parquet"
        or not options <= {RECURSIVE.lower(), "maxfilespertrigger"}
    ):
        return None
    deep = str(source.options.get(RECURSIVE, "false")).lower() == "true"
    try:
        return sum(int(pq.read_metadata(file).num_rows) for file in _files(where, deep=deep))
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"stream {name!r}: its files cannot be counted: {str(error).splitlines()[0]}."
        ) from error


def _files(where: Path, *, deep: bool) -> list[Path]:
    if where.is_file():
        return [where]
    found = [file for file in sorted(where.rglob("*")) if is_read(file, where)]
    return [file for file in found if deep or all("=" in part for part in file.relative_to(where).parts[:-1])]
