"""The state: counters that can be updated, combined, stored and queried."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec
import numpy as np
import pyarrow as pa

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate, difference_of
from eddyline.answer.explain import as_text, explain_query, explain_state
from eddyline.answer.groups.change import difference_of_groups
from eddyline.answer.groups.table import Groups
from eddyline.answer.input_check import check_answer
from eddyline.answer.lookups import (
    FrequentKey,
    Sample,
    find_followed,
    find_sample,
    find_sketch,
    frequent_keys,
    key_frequency,
    read_sample,
)
from eddyline.answer.query import Origin, answer, answers_table
from eddyline.answer.statistics import statistics_of
from eddyline.api.durable import save_snapshot
from eddyline.api.notebook import state_html
from eddyline.api.sql import SqlQuestion
from eddyline.errors import CorruptState, EddylineError, PlanError
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.nodes import columns_of
from eddyline.ingest.arrow_path import project_table, read_table, referenced, table_of
from eddyline.ingest.changes import unread_in_table
from eddyline.ingest.sections import from_bytes, to_bytes
from eddyline.ingest.snapshot import PaneSet, Snapshot
from eddyline.ingest.stream_pass import StreamPass, projection_of
from eddyline.plan.decide.coverage import declared, find_planned, key_of_columns
from eddyline.plan.layout import KeptSynopsis, Layout, PlannedQuery
from eddyline.plan.layout_check import plan_that_was_read
from eddyline.plan.size.specs import HIGHEST_CONFIDENCE, checked_confidence
from eddyline.plan.statistics import Statistics
from eddyline.plan.windows import parse_window
from eddyline.sample.packing import process_memory, return_freed
from eddyline.sketch.keys import tuple_key
from eddyline.sql.as_of import PastMoment, mark_moments, moment_of_part, split_moment
from eddyline.sql.parse import contributors_text
from eddyline.sql.query import Query
from eddyline.types import SqlType

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UPDATE_ROWS = 1 << 18
"""Rows that are added at a time: a sample that overflows chooses again which keys to keep after each."""


class State:
    """All counters of a plan at one moment; combine states of one plan with + and -.

    ways: how the rows of each stream were read, if `plan.sketch` made the state. past: returns the state of the same
    store at an epoch or a time; None for a state that is not from a store.
    """

    def __init__(
        self, snapshot: Snapshot, origin: Origin | None = None, ways: Mapping[str, str] | None = None
    ) -> None:
        self.snapshot = snapshot
        self.origin = origin
        self.ways = dict(ways or {})
        self.past: Callable[[int | str], State] | None = None
        self._updating = (
            threading.Lock()
        )  # two threads would both start from the same counters, and lose the rows of one

    def __reduce__(self) -> tuple[type[Self], tuple[Snapshot, Origin | None, dict[str, str]]]:
        return type(self), (self.snapshot, self.origin, self.ways)

    def update(
        self,
        stream: str,
        table: Any,
        weights: np.ndarray | Sequence[int] | None = None,
    ) -> Self:
        """Add rows without Spark and return the state itself; all or nothing if a row is bad.

        table: a pyarrow.Table or RecordBatch, a pandas or polars DataFrame, a dict of columns, or a list of dicts.
        The counters are bit for bit those of `plan.sketch` on the same rows. `weights` are signed integers for
        streams that carry no changes of their own; the default is 1. Threads may add to one state, one at a time.
        """
        with self._updating:
            self.snapshot = self._updated(stream, table, weights)
            self.origin, self.ways = None, {}
        return_freed(self.nbytes)
        return self

    def _updated(self, stream: str, table: Any, weights: np.ndarray | Sequence[int] | None) -> Snapshot:
        layout = self.snapshot.layout
        if stream not in self.snapshot.tallies:
            known = ", ".join(s.name for s in layout.streams)
            raise PlanError(f"the plan has no stream {stream!r}: its streams are {known}.")
        of = layout.stream(stream)
        snapshot, given = self.snapshot, table_of(stream, table)
        read = referenced(projection_of(snapshot.stream_spec(stream), of.event_time))
        rows, counts = read_table(of, given, weights, read)
        unread = unread_in_table(of, given, read, snapshot.tallies[stream]) if weights is None else ()
        added = StreamPass(snapshot.stream_spec(stream), of.event_time)
        for start in range(0, max(rows.num_rows, 1), UPDATE_ROWS):
            part, weight = rows.slice(start, UPDATE_ROWS), counts[start : start + UPDATE_ROWS]
            added.feed(project_table(of, part, weight, added.projection, layout.timezone))
        added.unread = unread
        return snapshot.plus_stream(stream, added)

    def answer(
        self,
        query: str,
        *,
        confidence: float | None = None,
        method: str | None = None,
        simultaneous: bool = False,
        window: str | None = None,
        slide: str | None = None,
    ) -> Any:
        """Return the answer of a query, by its name or as SQL that the state covers.

        It is an `Estimate`; for a query with GROUP BY, or with several aggregates, `Groups`. simultaneous: the
        intervals of all groups hold together at the confidence, not only each by itself. window, slide: for SQL, a
        window that planned queries have. Answers are cached until rows are added.
        """
        if not isinstance(query, str):
            raise PlanError(f"answer() takes the name of a query or a SQL string, not {query!r}.")
        bare, moment = split_moment(query)
        if moment is not None:
            return self._at(moment).answer(
                bare,
                confidence=confidence,
                method=method,
                simultaneous=simultaneous,
                window=window,
                slide=slide,
            )
        return self._described(
            _Asked(self.snapshot, query, self._confidence(confidence), method, simultaneous, window, slide)
        )[0]

    def _described(self, asked: "_Asked") -> tuple[Any, PlannedQuery]:
        """Return an answer with what is known of its origin, and the query that it answers."""
        key = (
            "answer",
            asked.query,
            asked.confidence,
            asked.method,
            asked.simultaneous,
            asked.window,
            asked.slide,
        )
        estimate, planned, layout = self.snapshot.memo.recall(
            key, asked.read_and_free, lambda read: _answer_bytes(asked.query, read[0])
        )
        if self.origin is None:
            return estimate, planned
        is_windowed = layout is not self.snapshot.layout
        origin = Origin(self.origin.freshness) if is_windowed else self.origin
        return origin.describe(estimate, planned, layout, is_windowed=is_windowed), planned

    def sql(
        self,
        text: str,
        *,
        confidence: float | None = None,
        simultaneous: bool = False,
        intervals: bool = True,
    ) -> pa.Table:
        """Return the result of any SQL around aggregates over the streams, as an Arrow table.

        The aggregates over streams are answered as by `answer`; DuckDB computes the rest, such as WITH, subqueries,
        window functions, joins of grouped results: `pip install "eddyline[sql]"`. Planned queries are tables, too.
        intervals: each aggregate, and each monotone function of one, is followed by its ends, `<name>_low` and
        `<name>_high`. The schema's metadata has notes, the confidence, and which columns are exact. For a state of a
        store, `FROM orders VERSION AS OF 12` or `TIMESTAMP AS OF '2026-01-31 12:00'` (UTC) asks an epoch it keeps.
        Aggregates of several moments may stand in one statement, such as the difference of two; the intervals of all
        parts then hold together at the confidence.
        """
        marked, moments = mark_moments(text)
        if moments:
            return self._between(
                marked, moments, self._confidence(confidence), simultaneous, intervals=intervals
            )
        text, moment = split_moment(text)
        if moment is not None:
            return self._at(moment).sql(
                text, confidence=confidence, simultaneous=simultaneous, intervals=intervals
            )
        at = self._confidence(confidence)

        def ask(part: str) -> Any:
            return self.answer(part, confidence=at, simultaneous=simultaneous)

        return SqlQuestion(self.snapshot, ask, at, datetime.now(UTC)).table(text, intervals=intervals)

    def _between(
        self,
        text: str,
        moments: Mapping[str, PastMoment],
        confidence: float,
        simultaneous: bool,
        *,
        intervals: bool,
    ) -> pa.Table:
        """Return the result of SQL whose tables are of several moments. moments: by the suffixes of their names."""
        states = {moment: self._at(moment) for moment in moments.values()}
        earlier = {mark: states[moment].snapshot.layout for mark, moment in moments.items()}

        def ask(part: str) -> Any:
            bare, moment = moment_of_part(part, moments)
            state = self if moment is None else states[moment]
            return state.answer(bare, confidence=each, simultaneous=simultaneous)

        question = SqlQuestion(self.snapshot, ask, confidence, datetime.now(UTC), earlier=earlier)
        each = question.shared_confidence(text)
        return question.table(text, intervals=intervals)

    def _at(self, moment: int | str) -> "State":
        if self.past is None:
            raise PlanError("AS OF needs a store: open it with el.open(store).")
        return self.past(moment)

    def change(self, query: str, since: "State", *, confidence: float | None = None) -> Estimate | Groups:
        """Return how much an answer changed since another state, such as `el.open(store, as_of="2026-01-31")`.

        Its interval is from the ends of both answers, each at half of the allowed error, and so holds at the
        confidence whatever the two states share. It is exact if both answers are. Groups are matched by their values;
        one that only one of the states has, counts from 0, as far as that is known.
        """
        at = self._confidence(confidence)
        _check_same_query(query, self.snapshot.layout, since.snapshot.layout)
        each = min(1 - (1 - at) / 2, HIGHEST_CONFIDENCE)
        now, then = self.answer(query, confidence=each), since.answer(query, confidence=each)
        if isinstance(now, Groups) and isinstance(then, Groups):
            _, planned = self._described(_Asked(self.snapshot, split_moment(query)[0], each))
            if isinstance(planned.query, Query):
                return difference_of_groups(now, then, planned.query, at)
        return difference_of(now, then, at)

    def contributors(
        self, query: str, column: str, *, top: int = 10, confidence: float | None = None
    ) -> Groups:
        """Return the values of a column that contribute most to a query's COUNT, SUM or other aggregate.

        `state.contributors("revenue", "o.customer")`: the query joins on the column or groups by it, or it was
        explored. A value that the join tracks is exact.
        """
        planned = find_planned(self.snapshot.layout, query)
        text = contributors_text(planned.name, planned.query.text, column, top)
        groups: Groups = self.answer(text, confidence=confidence)
        return replace(groups, query=planned.name)

    def frequent(
        self,
        stream: str,
        *columns: str,
        top: int | None = None,
        threshold: float | None = None,
        where: str | None = None,
        confidence: float | None = None,
    ) -> list[FrequentKey]:
        """Return the most frequent keys of a stream's join columns with intervals, the most frequent first.

        By default it returns the keys that are certainly frequent; `top` limits their number, `threshold` their
        frequency. It reads the sketch that a join on the columns (under the same predicates, `where`) keeps. The
        intervals hold for all keys together.
        """
        if top is not None and (not isinstance(top, int) or top < 1):
            raise PlanError(f"top={top!r} is not a number of keys: give a whole number of 1 or more.")
        key, predicates = key_of_columns(declared(self.snapshot.layout), stream, columns, where)
        followed = find_followed(self.snapshot, stream, key, predicates)
        if followed is not None and (followed.all or not self._is_sketched(stream, columns, where)):
            return followed.frequent(top, threshold, self._confidence(confidence))
        kept, snapshot, at = (
            self._sketch_of(stream, columns, where),
            self.snapshot,
            self._confidence(confidence),
        )
        held = followed.frequent(top, threshold, at) if followed is not None and kept.unfollowed else ()
        return list(
            snapshot.memo.recall(
                ("frequent", kept.id, top, threshold, at),
                lambda: frequent_keys(snapshot, kept, top, threshold, at, held),
            )
        )

    def frequency(
        self,
        stream: str,
        values: Mapping[str, object],
        *,
        where: str | None = None,
        confidence: float | None = None,
    ) -> Estimate:
        """Return the frequency of a value of join columns: `state.frequency("orders", {"customer": 7})`."""
        columns = tuple(values)
        found, predicates = key_of_columns(declared(self.snapshot.layout), stream, columns, where)
        given = {name.lower(): value for name, value in values.items()}
        names = [next(iter(columns_of(part.text))).lower() for part in found.columns]
        key, valid = tuple_key(
            [
                _one_value(name, given[name], part.type)
                for name, part in zip(names, found.columns, strict=True)
            ]
        )
        if not valid[0]:
            raise PlanError("a NULL key joins nothing and has no frequency here.")
        followed = find_followed(self.snapshot, stream, found, predicates)
        known = (
            followed.frequency(int(key[0]), self._confidence(confidence)) if followed is not None else None
        )
        if known is not None:
            return known
        kept, snapshot, at = (
            self._sketch_of(stream, columns, where),
            self.snapshot,
            self._confidence(confidence),
        )
        return snapshot.memo.recall(
            ("frequency", kept.id, int(key[0]), at), lambda: key_frequency(snapshot, kept, int(key[0]), at)
        )

    def sample(self, stream: str, *columns: str, where: str | None = None) -> Sample:
        """Return the distinct sample that `w.sample(stream, *columns)` asked for: values, net counts and rate."""
        key, predicates = key_of_columns(declared(self.snapshot.layout), stream, columns, where)
        return read_sample(self.snapshot, find_sample(self.snapshot, stream, key, predicates))

    def statistics(self) -> Statistics:
        """Return statistics from what the state has seen, to plan with: `w.plan(statistics=...)`."""
        with plan_that_was_read(decoded=self.snapshot.decoded):
            return statistics_of(self.snapshot)

    def _is_sketched(self, stream: str, columns: tuple[str, ...], where: str | None) -> bool:
        try:
            self._sketch_of(stream, columns, where)
        except PlanError:
            return False
        return True

    def explain(self, query: str | None = None, *, form: Literal["text", "json"] = "text") -> str:
        """Return how rows were read, how full samples are, which rows they hold and miss, and how sure answers are.

        query: by its name, explain one query instead: what its sketches show at each step to the answer, such as
        thresholds, dense keys and the four sub-joins of a join of two, or the level and the witnesses of a set
        expression. form: "json" for programs, of one query.
        """
        if query is None:
            if form != "text":
                raise PlanError("explain() of a whole state is a text: name a query for JSON.")
            with plan_that_was_read(decoded=self.snapshot.decoded):
                return explain_state(self.snapshot, self._answers(), self.ways)
        planned = next((each for each in self.snapshot.layout.queries if each.name == query), None)
        if planned is None:
            known = ", ".join(each.name for each in self.snapshot.layout.queries) or "none without a window"
            raise PlanError(f"explain() takes the name of a planned query without a window: {known}.")
        confidence = self._confidence(None)
        with plan_that_was_read(decoded=self.snapshot.decoded):
            found = explain_query(self.snapshot, planned, self.answer(query), confidence)
        return as_text(found) if form == "text" else msgspec.json.encode(found).decode()

    def answers(self, *queries: str, confidence: float | None = None) -> pa.Table:
        """Return the answers of all queries of the plan as an Arrow table, including groups.

        A row for each query, and for each aggregate of each group: query, group, aggregate, value, low, high,
        confidence, exact, method, answer (in readable form), notes, and freshness for states from a store (NULL for
        others). A planned query that can no longer be answered is "refused", with the reason in its notes.
        queries: only these, by name or as SQL.
        """
        freshness = None if self.origin is None else self.origin.freshness
        return answers_table(self._answers(*queries, confidence=confidence), freshness)

    def plot(self, query: str | None = None, *, aggregate: str | None = None, top: int = 20) -> "Figure":
        """Return a matplotlib figure of the answers, which a notebook shows: `pip install "eddyline[plot]"`.

        Without a query it shows all of them: points with their intervals, relative to the value. For a GROUP BY
        query, by its name or as SQL, it shows bars with intervals: its first `top` groups, and one `aggregate` or
        all of them.
        """
        from eddyline.api.plots import plot_answers, plot_groups  # noqa: PLC0415 - matplotlib only where it is used

        if query is None:
            return plot_answers(self._answers())
        found = self.answer(query)
        return (
            plot_groups(found, aggregate, top) if isinstance(found, Groups) else plot_answers({query: found})
        )

    def _answers(
        self, *queries: str, confidence: float | None = None
    ) -> dict[str, Estimate | Groups | EddylineError]:
        self._confidence(confidence)  # a wrong one is the caller's error, not a refusal of a query
        asked = queries or self.snapshot.layout.query_names
        return {query: self._answer_or_refusal(query, confidence) for query in asked}

    def _answer_or_refusal(
        self, query: str, confidence: float | None = None
    ) -> Estimate | Groups | EddylineError:
        """Return the answer of a query; for a planned query that what is kept no longer answers, the reason."""
        try:
            return self.answer(query, confidence=confidence)  # type: ignore[no-any-return]  # either of the two: see `answer`
        except EddylineError as error:
            if query not in self.snapshot.layout.query_names:
                raise
            return error

    def _sketch_of(self, stream: str, columns: tuple[str, ...], where: str | None) -> KeptSynopsis:
        key, predicates = key_of_columns(declared(self.snapshot.layout), stream, columns, where)
        return find_sketch(self.snapshot, stream, key, predicates)

    def _confidence(self, confidence: float | None) -> float:
        return checked_confidence(confidence if confidence is not None else self.snapshot.layout.confidence)

    def __add__(self, other: Self) -> Self:
        return type(self)(self.snapshot + other.snapshot) if isinstance(other, State) else NotImplemented

    def __radd__(self, other: object) -> Self:
        """Return the state itself for 0, with which `sum(states)` begins."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.snapshot - other.snapshot) if isinstance(other, State) else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Return whether both states are of one plan and hold equal counters: the same net rows, in any order.

        Hints and tallies are not compared. The hints (which keys may be frequent) depend on the order and the
        batches in which rows came, and the tallies count inserts and deletes that cancelled. So `to_bytes()` of
        equal states may differ, and so may, within their intervals, answers that are skimmed. Exact answers,
        distinct counts and the method "hash" depend on the counters alone.
        """
        return isinstance(other, State) and self.snapshot == other.snapshot

    def __hash__(self) -> int:
        return hash(self.snapshot)

    @property
    def nbytes(self) -> int:
        """Bytes of counters, hints and samples as they are now: at most those of the plan."""
        return self.snapshot.nbytes

    def memory(self) -> dict[str, int]:
        """Return bytes: `resident` and `peak` of this process, `state` (as `nbytes`) and its parts, `answers` cached.

        resident and peak are as the system counts them, and missing where it does not show them (on Linux it does).
        The parts are counters, candidates, labels, samples and windows.
        """
        snapshot = self.snapshot
        return (
            process_memory() | {"state": snapshot.nbytes} | snapshot.parts | {"answers": snapshot.memo.nbytes}
        )

    def to_bytes(self) -> bytes:
        """Return the state, its plan included, as bytes."""
        return to_bytes(self.snapshot)

    def save(self, store: str | os.PathLike[str]) -> int:
        """Write the state to a store, replacing what was saved there before, and return its epoch.

        For states that are updated without Spark: any process reads it with `el.open`, and `eddyline serve` shows
        it.
        """
        if self.origin is not None and self.origin.since:
            raise PlanError(
                "this state lacks rows from before some queries were added: it can be read, not saved."
            )
        return save_snapshot(os.fspath(store), self.snapshot)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the state that `to_bytes` wrote, or raise CorruptState or FormatVersion."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise CorruptState(
                f"a state is read from the bytes that to_bytes() wrote, not from {type(data).__name__}."
            )
        return cls(from_bytes(data))

    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {tally.rows:,}" for name, tally in self.snapshot.tallies.items())
        return f"State(rows: {rows}; {self.nbytes:,} bytes)"

    def _repr_html_(self) -> str:
        fresh = replace(self.origin.freshness, read_at=time.time()) if self.origin is not None else None
        return state_html(self.snapshot, self._answers(), fresh)


def _check_same_query(query: str, now: Layout, then: Layout) -> None:
    """Raise PlanError if a name means another query in another state."""
    texts = [
        {each.name: " ".join(each.query.text.split()) for each in layout.queries}.get(query)
        for layout in (now, then)
    ]
    if texts[0] != texts[1]:
        raise PlanError(
            f"the query {query!r} was {texts[1] or 'not there'} then and is {texts[0] or 'not there'} now: its answers "
            "cannot be compared. Give SQL that both states cover."
        )


_TEXTS_PER_ANSWER = 8
"""How many copies of its SQL an answer holds: as key, in the answer, as query, and as its relations' predicates."""


def _answer_bytes(query: str, answer: Estimate | Groups) -> int:
    """Return about how many bytes a cached answer takes."""
    held = answer.table.nbytes if isinstance(answer, Groups) else 0
    return _TEXTS_PER_ANSWER * len(query) + held


def _one_value(column: str, value: object, kind: SqlType) -> pa.Array:
    """Return a value as a column of one row, or raise PlanError if the column cannot hold it."""
    wrong = f"{value!r} is not a valid {kind} for column {column!r}"
    if kind.is_integer and not isinstance(value, int | np.integer | None):
        raise PlanError(f"{wrong}: give a whole number.")
    try:
        return pa.array([value], to_arrow(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise PlanError(f"{wrong}: {error}.") from error


@dataclass(frozen=True)
class _Asked:
    """A question to a snapshot, with the arguments of `State.answer`."""

    snapshot: Snapshot
    query: str
    confidence: float
    method: str | None = None
    simultaneous: bool = False
    window: str | None = None
    slide: str | None = None

    def read_and_free(self) -> tuple[Estimate | Groups, PlannedQuery, Layout]:
        """Return the result of `read`, and release the memory that it used."""
        with plan_that_was_read(decoded=self.snapshot.decoded):
            found = self.read()
        return_freed(self.snapshot.nbytes)
        return found

    def read(self) -> tuple[Estimate | Groups, PlannedQuery, Layout]:
        """Return the answer, the planned query, and its layout: the state's, or its window's."""
        layout = self.snapshot.layout
        panes = self.snapshot.panes_of(self.query)
        if self.window is not None or self.slide is not None:
            panes, planned = self._in_window()
        elif panes is not None:
            planned = find_planned(panes.group.layout, self.query, self.method, layout.timezone)
        else:
            planned = find_planned(layout, self.query, self.method)
        if panes is None:
            return self._answered(self.snapshot, planned, windowed=False), planned, layout
        group, filled = panes.group, panes
        whole = self.snapshot.memo.recall(
            ("window", group.id), lambda: filled.summed(Snapshot.empty(group.layout))
        )
        estimate = self._answered(whole, planned, windowed=True)
        return replace(estimate, notes=(notes.window(panes.bounds), *estimate.notes)), planned, group.layout

    def _answered(self, snapshot: Snapshot, planned: PlannedQuery, *, windowed: bool) -> Estimate | Groups:
        found = answer(snapshot, planned, self.confidence, simultaneous=self.simultaneous)
        return replace(found, notes=(*check_answer(self.snapshot, planned, windowed=windowed), *found.notes))

    def _in_window(self) -> tuple[PaneSet, PlannedQuery]:
        """Return the panes of the requested window, and the query as they cover it."""
        layout = self.snapshot.layout
        if self.window is None or self.query in layout.query_names:
            raise PlanError(
                "answer() takes window=, with slide= or without, with a SQL string: a planned query has its own "
                "window."
            )
        wanted = parse_window(self.window, self.slide)
        groups = [panes for panes in self.snapshot.windows.values() if panes.group.window == wanted]
        refused: EddylineError = PlanError(
            f"no planned query has a window of {self.window}, with a slide of {self.slide or self.window}: only "
            "windows of planned queries can be asked for."
        )
        for panes in groups:
            try:
                return panes, find_planned(panes.group.layout, self.query, self.method, layout.timezone)
            except EddylineError as error:
                refused = error
        raise refused
