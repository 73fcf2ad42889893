"""The input check: what is striking about the rows of a stream, told with every answer that it touches.

It looks at what tallies remember of all rows so far: columns that never had a value, columns that seem to say what a
row changes and that nothing reads, event times that cannot be meant, deletes of rows that never came, and a stream
without a row beside others that have some.
"""

import time
from collections.abc import Iterator

from eddyline.answer import notes
from eddyline.answer.unseen_deletes import unseen_deletes
from eddyline.ingest.change_columns import spelling_of
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.tally import Tally
from eddyline.plan.layout import PlannedQuery
from eddyline.sql.columns import names_in

_DAY = 86_400_000_000
_YEAR_1990 = 631_152_000_000_000


def check_stream(snapshot: Snapshot, stream: str) -> list[str]:
    """Return a sentence for each thing that is striking about the rows of a stream."""
    told = [*_rows(snapshot, stream), *_columns(snapshot, stream, None), *_times(snapshot, stream)]
    unseen = snapshot.memo.recall(("unseen deletes", stream), lambda: unseen_deletes(snapshot, stream))
    return [*told, *([unseen] if unseen is not None else [])]


def check_answer(snapshot: Snapshot, planned: PlannedQuery, *, windowed: bool) -> tuple[str, ...]:
    """Return a sentence for each thing that is striking about the rows behind an answer, deletes apart."""
    told: list[str] = []
    for stream in planned.streams:
        told += _rows(snapshot, stream)
        told += _columns(snapshot, stream, names_in(planned.query.text))
        told += _times(snapshot, stream) if windowed else ()
    return tuple(told)


def _rows(snapshot: Snapshot, stream: str) -> Iterator[str]:
    tally = snapshot.tallies[stream]
    if not tally.rows and any(each.rows for each in snapshot.tallies.values()):
        yield notes.no_row(stream)
    yield from (notes.unread_change(stream, column, spelling_of(column)) for column in tally.unread)


def _columns(snapshot: Snapshot, stream: str, read: frozenset[str] | None) -> Iterator[str]:
    """Yield what is told of columns that never had a value; read: only of these, in lower case."""
    tally = snapshot.tallies[stream]
    for column in tally.empty if tally.rows else ():
        if read is None or column.lower() in read:
            yield notes.never_a_value(stream, column, tally.rows, tally.similar)


def _times(snapshot: Snapshot, stream: str) -> Iterator[str]:
    tally, column = snapshot.tallies[stream], snapshot.layout.stream(stream).event_time
    if column is None or not tally.rows or not _is_windowed(snapshot, stream):
        return
    if tally.earliest is None or tally.latest is None:
        yield from _untimed(tally, stream, column)
        return
    if tally.latest > time.time() * 1e6 + _DAY:
        yield notes.times_ahead(stream, tally.latest)
    if tally.earliest < _YEAR_1990:
        yield notes.times_long_ago(stream, tally.earliest)


def _untimed(tally: Tally, stream: str, column: str) -> Iterator[str]:
    if column not in tally.empty and tally.timed:
        yield notes.never_a_value(stream, column, tally.timed, tally.similar)


def _is_windowed(snapshot: Snapshot, stream: str) -> bool:
    return any(
        each.name == stream for panes in snapshot.windows.values() for each in panes.group.layout.streams
    )
