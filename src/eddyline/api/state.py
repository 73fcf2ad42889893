"""The state: counters that can be updated, combined, stored and asked."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate
from eddyline.answer.every_query import answers_table
from eddyline.answer.explain import explain_state
from eddyline.answer.groups.table import Groups
from eddyline.answer.input_check import check_answer
from eddyline.answer.lookups.distinct_values import Sample, find_sample, read_sample
from eddyline.answer.lookups.followed_keys import find_followed
from eddyline.answer.lookups.frequent_keys import FrequentKey, find_sketch, frequent_keys, key_frequency
from eddyline.answer.origin import Origin
from eddyline.answer.query import answer
from eddyline.answer.statistics import statistics_of
from eddyline.api.notebook import state_html
from eddyline.errors import CorruptState, EddylineError, PlanError
from eddyline.ingest.arrow_path import project_table, read_table, referenced
from eddyline.ingest.change_columns import unread_in_table
from eddyline.ingest.given_rows import table_of
from eddyline.ingest.pane_set import PaneSet
from eddyline.ingest.sections import from_bytes, to_bytes
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import StreamPass, projection_of
from eddyline.plan.decide.coverage import declared, find_planned, key_of_columns
from eddyline.plan.layout import KeptSynopsis, Layout, PlannedQuery
from eddyline.plan.size.shapes import checked_confidence
from eddyline.plan.statistics import Statistics
from eddyline.plan.windows.window import parse_window
from eddyline.sketch.keys import tuple_key
from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.columns import columns_of
from eddyline.sql.contributors import contributors_text
from eddyline.types import SqlType

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UPDATE_ROWS = 1 << 18
"""Rows that are added at a time: a sample that overflows chooses anew whom to follow after each."""


class State:
    """All counters of a plan at one moment; combine states of one plan with + and -.

    ways: how the rows of each stream came, where `plan.sketch` made the state.
    """

    def __init__(
        self, snapshot: Snapshot, origin: Origin | None = None, ways: Mapping[str, str] | None = None
    ) -> None:
        self.snapshot = snapshot
        self.origin = origin
        self.ways = dict(ways or {})
        self._updating = (
            threading.Lock()
        )  # two threads would both begin at the same counters, and lose rows of one

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
        The counters are bit for bit those of `plan.sketch` on the same rows. `weights` are signed integers
        for streams that carry no changes of their own; the default is 1. Threads may add to one state, one at a time.
        """
        with self._updating:
            self.snapshot = self._updated(stream, table, weights)
            self.origin, self.ways = None, {}
        return self

    def _updated(self, stream: str, table: Any, weights: np.ndarray | Sequence[int] | None) -> Snapshot:
        layout = self.snapshot.layout
        if stream not in self.snapshot.tallies:
            known = ", ".join(s.name for s in layout.streams)
            raise PlanError(f"the plan has no stream {stream!r}: its streams are {known}.")
        of = layout.stream(stream)
        snapshot, given = self.snapshot, table_of(stream, table)
        rows, counts = read_table(of, given, weights)
        read = referenced(projection_of(snapshot.stream_spec(stream), of.event_time))
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
        """Return the answer of a query, by its name or as any SQL text that what is kept covers.

        It is an `Estimate`; for a query with GROUP BY, or with several aggregates, `Groups`. simultaneous: the
        intervals of all groups hold together at the confidence, not only each by itself. window, slide: of a text, that
        it is asked over a window that planned queries have. An answer is read once and then remembered, until rows
        are added.
        """
        if not isinstance(query, str):
            raise PlanError(f"answer() takes the name of a query or an SQL text, not {query!r}.")
        snapshot, at = self.snapshot, self._confidence(confidence)
        estimate, planned, layout = snapshot.memo.recall(
            ("answer", query, at, method, simultaneous, window, slide),
            lambda: _Asked(snapshot, query, at, method, simultaneous, window, slide).read(),
        )
        if self.origin is None:
            return estimate
        is_windowed = layout is not snapshot.layout
        origin = Origin(self.origin.freshness) if is_windowed else self.origin
        return origin.told(estimate, planned, layout, is_windowed=is_windowed)

    def contributors(
        self, query: str, column: str, *, top: int = 10, confidence: float | None = None
    ) -> Groups:
        """Return the values of a column that contribute most to a query's COUNT, SUM or other aggregate.

        `state.contributors("revenue", "o.customer")`: the column is one that the query joins on, groups by or that was
        explored. A value that the join follows is known whole, and exact.
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

        By default those that are certainly there; `top` so many, or from `threshold` on. It reads the sketch
        that a join on the columns (under the same predicates, `where`) keeps. The intervals hold for all keys together.
        """
        if top is not None and (not isinstance(top, int) or top < 1):
            raise PlanError(f"top={top!r} is not a number of keys: give a whole number from 1 on.")
        key, predicates = key_of_columns(declared(self.snapshot.layout), stream, columns, where)
        followed = find_followed(self.snapshot, stream, key, predicates)
        if followed is not None and (followed.all or not self._is_sketched(stream, columns, where)):
            return followed.frequent(top, threshold, self._confidence(confidence))
        kept, snapshot, at = (
            self._sketch_of(stream, columns, where),
            self.snapshot,
            self._confidence(confidence),
        )
        return list(
            snapshot.memo.recall(
                ("frequent", kept.id, top, threshold, at),
                lambda: frequent_keys(snapshot, kept, top, threshold, at),
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
        """Return how often a value of join columns occurs in a stream: `state.frequency("orders", {"customer": 7})`."""
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
        """Return what the state tells about streams and queries, to plan with: `w.plan(statistics=...)`."""
        return statistics_of(self.snapshot)

    def _is_sketched(self, stream: str, columns: tuple[str, ...], where: str | None) -> bool:
        try:
            self._sketch_of(stream, columns, where)
        except PlanError:
            return False
        return True

    def explain(self) -> str:
        """Return how rows came, how full samples are, at which rates they follow values, and how sure answers are."""
        return explain_state(self.snapshot, self._answers(), self.ways)

    def answers(self, *queries: str, confidence: float | None = None) -> pa.Table:
        """Return the answers of all queries of the plan as an Arrow table, groups among them.

        A row for each query, and for each aggregate of each group: query, group, aggregate, value, low, high,
        confidence, exact, method, answer (as people read it), notes, and freshness for states from a store (NULL for
        others). A query of the plan that what is kept does not answer any more is "refused", with the reason among its
        notes. queries: only these, by name or as SQL text.
        """
        freshness = None if self.origin is None else self.origin.freshness
        return answers_table(self._answers(*queries, confidence=confidence), freshness)

    def plot(self, query: str | None = None, *, aggregate: str | None = None, top: int = 20) -> "Figure":
        """Return a matplotlib figure of the answers, which a notebook shows: `pip install "eddyline[plot]"`.

        Without a query all of them: points with their intervals, relative to the value. Of a GROUP BY query, by its
        name or as SQL, bars with intervals: its first `top` groups, and one `aggregate` or all of them.
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
        self._confidence(confidence)  # a wrong one is the caller's error, and no query's refusal
        asked = queries or self.snapshot.layout.query_names
        return {query: self._answer_or_refusal(query, confidence) for query in asked}

    def _answer_or_refusal(
        self, query: str, confidence: float | None = None
    ) -> Estimate | Groups | EddylineError:
        """Return the answer of a query, or why what is kept does not answer it any more if it is one of the plan's."""
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
        """Return the state itself after 0, with which `sum(states)` begins."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.snapshot - other.snapshot) if isinstance(other, State) else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Return whether both states are of one plan and hold equal counters: the same net rows, in any order.

        Hints and tallies are not compared. The hints (which keys may be frequent) depend on the order and the batches
        in which rows came, and the tallies count inserts and deletes that cancelled. So `to_bytes()` of equal states
        may differ, and so may, within their intervals, answers that are skimmed. Exact answers, distinct counts and
        the method "hash" depend on the counters alone.
        """
        return isinstance(other, State) and self.snapshot == other.snapshot

    def __hash__(self) -> int:
        return hash(self.snapshot)

    @property
    def nbytes(self) -> int:
        """Bytes of counters, hints and samples as they are now: at most those of the plan."""
        return self.snapshot.nbytes

    def to_bytes(self) -> bytes:
        """Return the state, its plan included, as bytes."""
        return to_bytes(self.snapshot)

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


def _one_value(column: str, value: object, kind: SqlType) -> pa.Array:
    """Return a value as a column of one row, or raise PlanError where the column cannot hold it."""
    wrong = f"{value!r} is no value of column {column!r}, which is {kind}"
    if kind.is_integer and not isinstance(value, int | np.integer | None):
        raise PlanError(f"{wrong}: give a whole number.")
    try:
        return pa.array([value], to_arrow(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise PlanError(f"{wrong}: {error}.") from error


@dataclass(frozen=True)
class _Asked:
    """A question to a snapshot, as `State.answer` takes it."""

    snapshot: Snapshot
    query: str
    confidence: float
    method: str | None
    simultaneous: bool
    window: str | None
    slide: str | None

    def read(self) -> tuple[Estimate | Groups, PlannedQuery, Layout]:
        """Return the answer, how the query was planned, and in which layout: the state's, or its window's."""
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
        """Return the panes of the window that is asked for, and the query as they cover it."""
        layout = self.snapshot.layout
        if self.window is None or self.query in layout.query_names:
            raise PlanError(
                "answer() takes window=, with slide= or without, beside an SQL text: a planned query has its own "
                "window."
            )
        wanted = parse_window(self.window, self.slide)
        groups = [panes for panes in self.snapshot.windows.values() if panes.group.window == wanted]
        refused: EddylineError = PlanError(
            f"no planned query has a window of {self.window}, moving on by {self.slide or self.window}: panes are kept "
            "for windows of planned queries alone."
        )
        for panes in groups:
            try:
                return panes, find_planned(panes.group.layout, self.query, self.method, layout.timezone)
            except EddylineError as error:
                refused = error
        raise refused
