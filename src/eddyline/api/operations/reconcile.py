"""Reconciliation: the rows that a source has now, compared with the rows of it that a store has counted.

`source_rows` counts the rows of a source, which is cheap compared with a pass. The rows that a stream has read,
including deletes, are compared with all rows of its files or topics; the sum of a table's changes is compared with the
rows that the table has. A run that is behind its source shows as a difference, and so do rows that were lost or counted
twice. The last comparison is in the file RECONCILED of the store, from which a server makes its metrics.
"""

import contextlib
import time
from dataclasses import dataclass

import msgspec

from eddyline.api.operations.source_rows import TABLES, count_rows
from eddyline.api.pipeline import Pipeline, StreamSource
from eddyline.errors import CorruptState, PipelineError
from eddyline.ingest.changes import change_format
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
    if source.format in TABLES:
        return Reconciled(name, count_rows(name, source), rows - 2 * deletes, bad, is_net=True)
    if change_format(name, source.changes).form == "debezium":
        return Reconciled(name, "an update is one record of Debezium and two changes", rows)
    return Reconciled(name, count_rows(name, source), rows, bad)
