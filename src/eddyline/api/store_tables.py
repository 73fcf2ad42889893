"""Stores for readers: the newest state as it changes, answers as tables for Spark, and the history of answers."""

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from eddyline.answer.groups.table import Groups
from eddyline.answer.query import SCHEMA, groups_table
from eddyline.api.jobs import is_number, number_of, open_state, seconds_of, state_of
from eddyline.api.state import State
from eddyline.errors import EddylineError, PipelineError, StoreError
from eddyline.expressions.arrow_values import python_rows
from eddyline.ingest.snapshot import Memo
from eddyline.plan.size.specs import checked_confidence
from eddyline.store import Commit, Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Answers of a store as tables: what a Spark frame of format "eddyline" asks, and what it gets.


TableForm = Literal["answers", "groups"]
_OPTIONS = ("path", "query", "confidence", "form")


@dataclass(frozen=True)
class StoreQuestion:
    """A question to a store: all queries of its plan or one, by name or as SQL, at a confidence.

    form: "answers" gives the table of `State.answers`; "groups" that of one GROUP BY query, in its own columns.
    """

    path: str
    query: str | None = None
    confidence: float | None = None
    form: TableForm = "answers"

    def __post_init__(self) -> None:
        if self.form not in ("answers", "groups"):
            raise PipelineError(
                f"option form={self.form!r} of format eddyline is neither answers nor groups."
            )
        if self.form == "groups" and self.query is None:
            raise PipelineError("option form='groups' of format eddyline also needs the option query.")

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Return the question that a frame's options ask, or raise PipelineError."""
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise PipelineError(
                f"format eddyline has no option {unknown[0]!r}: its options are {', '.join(_OPTIONS)}."
            )
        if not options.get("path"):
            raise PipelineError('format eddyline needs the path of a store: give it with .load("state/").')
        form = cast("TableForm", options.get("form", "answers"))
        return cls(options["path"], options.get("query"), _confidence(options.get("confidence")), form)

    def schema(self) -> pa.Schema:
        """Return the columns of the table, after a check that the store and the query can be read."""
        state = open_state(self.path)
        return SCHEMA if self.query is None else self._table_of(state).schema

    def epoch(self) -> int:
        """Return the number of the store's current epoch."""
        return Reader(self.path).current()

    def table(self) -> pa.Table:
        """Return the answers at the store's current epoch."""
        return self._table_of(open_state(self.path))

    def table_at(self, epoch: int) -> pa.Table | None:
        """Return the answers at one epoch, None if the store has collected it."""
        reader = Reader(self.path)
        try:
            found = reader.at(epoch)
        except StoreError:
            if epoch == reader.current() or epoch in reader.epochs():
                raise
            return None
        return self._table_of(state_of(found))

    def _table_of(self, state: State) -> pa.Table:
        if self.form == "answers":
            queries = () if self.query is None else (self.query,)
            return state.answers(*queries, confidence=self.confidence)
        answer = state.answer(cast("str", self.query), confidence=self.confidence)
        if not isinstance(answer, Groups):
            raise PipelineError(f"query {self.query!r} has no groups: leave out the option form='groups'.")
        return groups_table(answer)


def _confidence(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        return checked_confidence(float(given))
    except ValueError:
        raise PipelineError(
            f"option confidence={given!r} of format eddyline is not a number between 0.5 and 1, such as 0.95."
        ) from None


def register(spark: "SparkSession") -> None:
    """Let a Spark session read stores as tables: `spark.read.format("eddyline").load("state/")`.

    Sessions whose Python has eddyline installed find the format by themselves, and need no call.
    """
    from pyspark_eddyline import DefaultSource  # noqa: PLC0415 - Spark only where it is used

    spark.dataSource.register(DefaultSource)


# A store followed as it changes: its newest state, who writes it, and what is wrong with it, if anything.


@dataclass(frozen=True)
class Sighting:
    """What was seen of a store: the newest state that could be read, None before the first.

    stamp: distinguishes this epoch from that of another store at the same place. store: the number of stores seen
    there before this one. writer: who writes to it, None if a reader knows of no writer.
    problem: why the store could not be read just now; the state is then the last one that could be read.
    """

    state: State | None = None
    stamp: str = ""
    store: int = 0
    writer: str | None = None
    problem: str | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch of the state."""
        return self.state.origin.freshness.epoch if self.state and self.state.origin else None

    def is_news_after(self, other: "Sighting") -> bool:
        """Return whether a reader who saw the other sighting has something new to see here."""
        return (self.stamp, self.writer, self.problem) != (other.stamp, other.writer, other.problem)


_MOST_EARLIER, _EARLIER_BYTES = 64, 512 << 20
"""Earlier states that a follower keeps, and their bytes together: chosen; one of more than an eighth is not kept."""


class Follower:
    """A reader that repeatedly reads a store. It never writes and never raises for a store with a problem."""

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self.reader = Reader(store)
        self._seen = Sighting()
        self._newest: Commit | None = None
        self._earlier = Memo(_MOST_EARLIER, _EARLIER_BYTES)
        self._was_gone = False

    def look(self) -> Sighting:
        """Return the current sighting; an epoch that was read before is not read again."""
        before = self._seen
        try:
            number, file = self.reader.stamp()
            stamp = f"{number} {file}"
            if stamp == before.stamp:
                self._seen = replace(before, writer=self._writer(), problem=None)
            elif (state := self._state_at(number)) is not None:
                is_another = before.state is not None and self._is_another_store(before, number)
                self._seen = Sighting(state, stamp, before.store + is_another, self._writer())
            self._was_gone = False
        except (EddylineError, OSError) as error:
            self._was_gone = self._was_gone or self._is_gone()
            self._seen = replace(before, writer=None, problem=str(error))
        return self._seen

    def _state_at(self, number: int) -> State | None:
        """Return the state of an epoch, None if it was collected meanwhile: the next read finds a newer one."""
        try:
            epoch = self.reader.at(number)
            state = state_of(epoch)
        except EddylineError:
            if self.reader.current() == number:
                raise
            return None
        self._newest, state.past = epoch.commit, self._past
        return state

    def _past(self, moment: int | str) -> State:
        """Return the state at a moment, read once; errors name the store without its folders."""
        try:
            newest = self._newest or self.reader.latest().commit
            number = number_of(self.reader, moment, newest)
            key = (number, self.reader.file_stamp(number))
            return self._earlier.recall(
                key, lambda: state_of(self.reader.at(number)), lambda state: state.nbytes
            )
        except EddylineError as error:
            raise type(error)(self.without_path(str(error))) from error

    def _is_another_store(self, before: Sighting, number: int) -> bool:
        """Return whether a store whose files changed is another store, not a later epoch of the one seen before."""
        return self._was_gone or before.epoch is None or number <= before.epoch

    def _is_gone(self) -> bool:
        try:
            return not self.reader.exists()
        except (EddylineError, OSError):
            return False

    def without_path(self, text: str) -> str:
        """Return a string that names the store without its folders."""
        where = self.reader.where
        return text.replace(where, where.rstrip("/").rsplit("/", 1)[-1])

    def older(self, after: int, most: int) -> list[State]:
        """Return states of epochs that the store still keeps, newer than `after` and older than the newest seen."""
        newest = self._seen.epoch
        if newest is None:
            return []
        states = []
        for number in self.reader.epochs()[: most + 1]:
            if after < number < newest:
                try:
                    states.append(state_of(self.reader.at(number)))
                except EddylineError:  # collected, or damaged: it cannot be recovered
                    continue
        return states[::-1]

    def _writer(self) -> str | None:
        holder = self.reader.writer()
        return str(holder) if holder else None


EpochOrTime = int | str | datetime


def history(
    store: str | os.PathLike[str],
    *queries: str,
    since: EpochOrTime | None = None,
    until: EpochOrTime | None = None,
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
    since: EpochOrTime | None = None,
    until: EpochOrTime | None = None,
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


def _chosen(
    reader: Reader, newest: Commit, since: EpochOrTime | None, until: EpochOrTime | None
) -> Iterator[int]:
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


def _place(moment: EpochOrTime) -> tuple[bool, float]:
    """Return whether a moment is the number of an epoch, and that number or the time in seconds."""
    return (True, int(moment)) if is_number(moment) else (False, seconds_of(moment))


def as_parquet(table: pa.Table) -> bytes:
    """Return a history as a file of Parquet."""
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def as_csv(table: pa.Table) -> bytes:
    """Return a history as CSV: a group is a JSON object, notes are one string."""
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
