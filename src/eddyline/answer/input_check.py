"""The input check: notes about rows that look wrong, and about deletes of unseen rows."""

import time
from collections.abc import Iterator

import numpy as np

from eddyline.answer import notes
from eddyline.expressions.nodes import names_in
from eddyline.ingest.changes import Tally, spelling_of
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Demand, PlannedQuery
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.state import HASH_STEP, SampleState

# Deletes of unseen rows: they occur when a stream is followed from the middle of a table's life.
#
# No table has a net count below zero. The dictionaries of stream samples show such elements; those that are not
# followed are estimated from those that are. Deletes on keys with as many inserts of other rows are not detected.


_COUNT = -1  # where a dictionary has net counts


def noted_deletes(snapshot: Snapshot, stream: str) -> str | None:
    """Return the note on a stream with deletes of unseen rows; it is computed once."""
    return snapshot.memo.recall(("unseen deletes", stream), lambda: note_on_deletes(snapshot, stream))


def note_on_deletes(snapshot: Snapshot, stream: str) -> str | None:
    """Return the note on a stream with deletes of unseen rows, None where no such deletes show."""
    rows = next(k for k in snapshot.layout.kept_for(stream) if k.demand == Demand(stream, "total"))
    net = snapshot.total(rows.id)
    if net < 0:
        return notes.negative_stream(stream, net)
    found, exact = 0.0, True
    for planned in snapshot.layout.samples:
        state = snapshot.samples[planned.id]
        held = planned.kept if state.grouped else planned.exact
        for place, (elements, dictionary) in enumerate(zip(held, state.dictionaries, strict=True)):
            nulls = state.nulls(place).base if state.grouped else 1.0
            missing = _missing(dictionary, state, nulls) if elements.stream == stream else 0.0
            if missing > found:
                found, exact = missing, state.follows_all
    return notes.unseen_deletes(stream, round(found), exact=exact) if found >= 1 else None


def _missing(dictionary: Dictionary, state: SampleState, nulls: float) -> float:
    """Return how far net counts are below zero in total; elements that are not followed are estimated.

    nulls: the rate of elements with a NULL link.
    """
    below = np.minimum(dictionary.total(_COUNT), 0)
    if not below.any():
        return 0.0
    elements = dictionary.where(below < 0)
    rates = np.where(elements.null_links(), max(nulls, HASH_STEP), 1.0)
    for key, link in enumerate(elements.spec.classes):
        if link >= 0 and not state.rosters[link].follows_all:
            values, places = elements.index(key)
            own = state.rosters[link].rates_of_held(values)[places]
            rates *= np.where(elements.is_null(key), 1.0, own)
    return float(-(elements.total(_COUNT) / rates).sum())


# Every answer that depends on a stream has notes on what looks wrong in its rows.
#
# The check reads the tallies of all rows so far: columns that never had a value, unread columns that seem to hold
# the change type of a row, implausible event times, deletes of unseen rows, and a stream without rows while others
# have some.


_DAY = 86_400_000_000
_YEAR_1990 = 631_152_000_000_000


def check_stream(snapshot: Snapshot, stream: str) -> list[str]:
    """Return a sentence for each thing that looks wrong in the rows of a stream."""
    found = [*_rows(snapshot, stream), *_columns(snapshot, stream, None), *_times(snapshot, stream)]
    unseen = snapshot.memo.recall(("unseen deletes", stream), lambda: note_on_deletes(snapshot, stream))
    return [*found, *([unseen] if unseen is not None else [])]


def check_answer(snapshot: Snapshot, planned: PlannedQuery, *, windowed: bool) -> tuple[str, ...]:
    """Return a sentence for each thing that looks wrong in the rows behind an answer, except deletes."""
    found: list[str] = []
    for stream in planned.streams:
        found += _rows(snapshot, stream)
        found += _columns(snapshot, stream, names_in(planned.query.text))
        found += _times(snapshot, stream) if windowed else ()
    return tuple(found)


def _rows(snapshot: Snapshot, stream: str) -> Iterator[str]:
    tally = snapshot.tallies[stream]
    if not tally.rows and any(each.rows for each in snapshot.tallies.values()):
        yield notes.no_row(stream)
    yield from (notes.unread_change(stream, column, spelling_of(column)) for column in tally.unread)


def _columns(snapshot: Snapshot, stream: str, read: frozenset[str] | None) -> Iterator[str]:
    """Yield notes on columns that never had a value; read: only these columns, in lower case."""
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
