"""The history of a store's answers: those of every epoch that it keeps, groups among them, as one table."""

import io
import json
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from eddyline.api.jobs import is_number, seconds_of, state_of
from eddyline.errors import StoreError
from eddyline.sql.arrow_values import python_rows
from eddyline.store import Commit, Reader

Moment = int | str | datetime


def history(
    store: str | os.PathLike[str],
    *queries: str,
    since: Moment | None = None,
    until: Moment | None = None,
    confidence: float | None = None,
) -> pa.Table:
    """Return the answers of all epochs that a store keeps, the oldest first: the rows of `state.answers()` of each.

    epoch and time (of its last batch, UTC) come first. queries: only these, by name or as SQL; an epoch whose plan does
    not have one of them has no row for it. since, until: times (UTC), or epochs by their numbers, both included.
    """
    return history_of(Reader(store), queries, since, until, confidence)


def history_of(
    reader: Reader,
    queries: tuple[str, ...] = (),
    since: Moment | None = None,
    until: Moment | None = None,
    confidence: float | None = None,
    most: int | None = None,
) -> pa.Table:
    """Return the history that a reader sees. most: epochs; StoreError if there are more."""
    newest = reader.latest()
    numbers = list(_chosen(reader, newest.commit, since, until))
    if most is not None and len(numbers) > most:
        raise StoreError(
            f"the store keeps {len(numbers):,} epochs of that time, and at most {most:,} are read: give since."
        )
    tables = []
    for number in numbers:
        try:
            epoch = newest if number == newest.number else reader.at(number)
            state = state_of(epoch)
        except StoreError:
            if number in reader.epochs():
                raise
            continue  # it was removed since it was listed
        known = state.snapshot.layout.query_names
        asked = [each for each in queries if each in known or " " in each.strip()]
        if queries and not asked:
            continue
        answers = state.answers(*asked, confidence=confidence).drop_columns(["freshness"])
        moment = round(epoch.time * 1e6)
        about = [pa.repeat(pa.scalar(number, pa.int64()), len(answers))]
        about.append(pa.repeat(pa.scalar(moment, pa.timestamp("us", "UTC")), len(answers)))
        tables.append(pa.table([*about, *answers.columns], names=["epoch", "time", *answers.column_names]))
    if not tables:
        raise StoreError(f"the store {reader.where} keeps no epoch of that time with these queries.")
    return pa.concat_tables(tables)


def _chosen(reader: Reader, newest: Commit, since: Moment | None, until: Moment | None) -> Iterator[int]:
    """Yield the numbers of the kept epochs between two moments."""
    times = {each.number: each.time for each in newest.kept} | {newest.epoch: newest.time}
    first, last = (None if each is None else _place(each) for each in (since, until))
    for number in sorted(reader.epochs()):
        time = times[number] if number in times else reader.at(number).time
        places = {True: number, False: time}
        is_older = first is not None and places[first[0]] < first[1]
        is_newer = last is not None and places[last[0]] > last[1]
        if not is_older and not is_newer:
            yield number


def _place(moment: Moment) -> tuple[bool, float]:
    """Return whether a moment is the number of an epoch, and that number or the time in seconds."""
    return (True, int(moment)) if is_number(moment) else (False, seconds_of(moment))


def as_parquet(table: pa.Table) -> bytes:
    """Return a history as a file of Parquet."""
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def as_csv(table: pa.Table) -> bytes:
    """Return a history as CSV: a group is a JSON object, notes are one text."""
    rows = python_rows(table.select(["group", "notes"]))
    groups = [
        None if row["group"] is None else json.dumps(dict(row["group"]), ensure_ascii=False) for row in rows
    ]
    notes = [" ".join(row["notes"] or ()) for row in rows]
    for name, values in (("group", groups), ("notes", notes)):
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
    time: Any = pc.strftime(table["time"], "%Y-%m-%dT%H:%M:%SZ")
    written = io.BytesIO()
    pa.csv.write_csv(table.set_column(table.column_names.index("time"), "time", time), written)
    return written.getvalue()
