"""A view: all answers of a store at one epoch, and the history of each estimate."""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, time
from typing import Any

import msgspec
import pyarrow as pa

from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness, finite
from eddyline.answer.groups.rows import held_columns
from eddyline.answer.groups.table import Groups
from eddyline.api.sql import is_nested, may_ask_for_rows, result_to_dict
from eddyline.api.state import State
from eddyline.api.store_tables import Sighting
from eddyline.errors import EddylineError, SqlError
from eddyline.plan.layout import Layout
from eddyline.sql.query import Query

# The history of estimates: a bounded series of points for each query, which survives a restart of the server.
#
# A full series drops every second point and from then on takes only every second epoch, and so on:
# it always spans the whole time, in less detail the longer it is. It always has its newest point.


MOST_POINTS = 480
MOST_QUERIES = 1_000
MOST_CACHED_BYTES = 128 << 20
"""The most bytes of a history file: 1,000 queries of 480 points of at most 150 bytes are 72 MB, plus their SQL."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """An estimate at an epoch; `time` is when its last batch was committed, in seconds since 1970.

    exact: the exact answer, if it is known, as in the demo.
    """

    epoch: int
    time: float
    value: float | None
    low: float | None
    high: float | None
    exact: float | None = None


class Series(msgspec.Struct):
    """The points of one query in the order of their epochs; one in `stride` points is kept."""

    sql: str
    points: list[Point] = []
    stride: int = 1
    taken: int = 0

    def add(self, point: Point) -> None:
        """Take the next point; it replaces the newest one if that was only kept as the newest."""
        if self.points and (self.taken - 1) % self.stride:
            self.points.pop()
        self.points.append(point)
        self.taken += 1
        if len(self.points) > MOST_POINTS:
            self.points = [*self.points[:-1][::2], self.points[-1]]
            self.stride *= 2


class History(msgspec.Struct):
    """The series of all queries of a store."""

    series: dict[str, Series] = {}

    @property
    def epoch(self) -> int:
        """The newest epoch that has a point, -1 before the first."""
        return max((each.points[-1].epoch for each in self.series.values() if each.points), default=-1)

    def start_over(self) -> None:
        """Clear the history: another store replaced the one that it belongs to."""
        self.series = {}

    def add(self, texts: Mapping[str, str], points: Mapping[str, Point]) -> None:
        """Take the points of an epoch; `texts` are the queries that the plan has now, by name.

        A query that is gone, or has other SQL, loses its series; if epochs go back, all series start again.
        """
        newest = max((point.epoch for point in points.values()), default=self.epoch)
        if newest < self.epoch:
            self.start_over()
        kept = {name: each for name, each in self.series.items() if texts.get(name) == each.sql}
        for name in list(points)[:MOST_QUERIES]:
            kept.setdefault(name, Series(texts[name])).add(points[name])
        self.series = kept


class HistoryFile:
    """The file that keeps a history between restarts; without a path it is not kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self) -> History:
        """Return the history in the file; an empty one if the file is missing or cannot be read."""
        if self._path is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
                if self._path.is_file() and self._path.stat().st_size <= MOST_CACHED_BYTES:
                    return msgspec.json.decode(self._path.read_bytes(), type=History)
        return History()

    def save(self, history: History) -> None:
        """Write the history atomically; raise OSError if that fails."""
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        half = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            half.unlink(missing_ok=True)
            with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
                file.write(msgspec.json.encode(history))
            half.replace(self._path)
        finally:
            half.unlink(missing_ok=True)


def default_path(store: str) -> Path:
    """Return where the history of a store is kept: with the user's other state, not in the store."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    where = store if "://" in store else str(Path(store).resolve())
    return (
        Path(home)
        / "eddyline"
        / "serve"
        / f"{hashlib.blake2b(where.encode(), digest_size=12).hexdigest()}.json"
    )


# A view: all answers of a store at one epoch, as the page, the API and the metrics show them.


SHOWN_GROUPS = 50
"""Groups of an answer that the page and the metrics show; the API returns as many as requested."""

_YEARS = re.compile(r"(YEAR|DATE_TRUNC|TRUNC)\(", re.IGNORECASE)
_PARTS = re.compile(r"(QUARTER|MONTH|WEEK|WEEKOFYEAR|DAY|DAYOFMONTH|DAYOFYEAR|HOUR|MINUTE)\(", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}(?!\d)")
AnswerView = Estimate | Groups
ExactAnswers = Callable[[Freshness], Mapping[str, float]]
"""A source of exact answers at a moment of the streams, as in the demo."""


@dataclass(frozen=True)
class AnswersView:
    """The answers of all queries at an epoch, or why a query cannot be answered from what is kept.

    seconds: how long each took to read. exact: the exact answers, if they are known.
    """

    sighting: Sighting
    answers: Mapping[str, AnswerView | EddylineError] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    exact: Mapping[str, float] = field(default_factory=dict)

    @property
    def state(self) -> State | None:
        """The state that the answers are from, None before the first."""
        return self.sighting.state

    @property
    def freshness(self) -> Freshness | None:
        """How far all streams of the state had come, None before the first."""
        return self.state.origin.freshness if self.state and self.state.origin else None

    def status(self) -> dict[str, object]:
        """Return the status of the store: who writes it, what is wrong, how fresh it is."""
        fresh, state = self.freshness, self.state
        return {
            "running": self.sighting.writer is not None,
            "problem": self.sighting.problem,
            "store": self.sighting.store,
            "state_bytes": state.nbytes if state else None,
            "plan": state.snapshot.layout.digest[:12] if state else None,
            "freshness": replace(fresh, read_at=time()).to_dict() if fresh else None,
        }

    def content(self, query: str, limit: int) -> dict[str, object]:
        """Return the answer of one query as plain values, with at most `limit` of its groups."""
        answer = self.answers[query]
        if isinstance(answer, EddylineError):
            return {"query": query, "refused": str(answer)}
        entry = self.with_exact(content_of(answer, limit))
        return (
            {**entry, "groups_shown": first_groups(self.state, query, answer)} if "groups" in entry else entry
        )

    def with_exact(self, entry: dict[str, object]) -> dict[str, object]:
        """Return an answer with the exact one next to it, if it is known."""
        query = str(entry["query"])
        return {**entry, "exact_answer": self.exact[query]} if query in self.exact else entry

    def all_contents(self, limit: int) -> list[dict[str, object]]:
        """Return the answers of all queries as plain values."""
        return [self.content(query, limit) for query in self.answers]

    def to_json(self) -> bytes:
        """Return the view as sent in the page's events."""
        entry = {**self.status(), "answers": self.all_contents(SHOWN_GROUPS), "points": self.points()}
        return msgspec.json.encode(entry)

    def cells(self, limit: int) -> int:
        """Return how many numbers the answers have, with at most `limit` groups of each."""
        groups = [answer for answer in self.answers.values() if isinstance(answer, Groups)]
        return len(self.answers) + sum(min(len(each), limit) * len(each.aggregates) for each in groups)

    def points(self) -> dict[str, Point]:
        """Return a point for each answer that is one number."""
        found, fresh = {}, self.freshness
        for query, answer in self.answers.items() if fresh else ():
            assert fresh is not None
            if isinstance(answer, Estimate):
                value, low, high = map(finite, (answer.value, answer.low, answer.high))
                moment = fresh.last_batch_time or fresh.read_at
                if value is not None:
                    found[query] = Point(fresh.epoch, moment, value, low, high, self.exact.get(query))
        return found


def query_texts(layout: Layout) -> dict[str, str]:
    """Return the SQL of every query by its name; those with windows come last."""
    layouts = [layout, *(group.layout for group in layout.windows)]
    return {
        planned.name: " ".join(planned.query.text.split()) for each in layouts for planned in each.queries
    }


def content_of(answer: AnswerView, limit: int) -> dict[str, object]:
    """Return an answer as plain values with its current freshness, with at most `limit` of its groups."""
    if answer.freshness is not None:
        answer = replace(answer, freshness=replace(answer.freshness, read_at=time()))
    return answer.to_dict(limit) if isinstance(answer, Groups) else answer.to_dict()


def view_of(sighting: Sighting, exact: ExactAnswers | None = None) -> AnswersView:
    """Return the view of a state: every query answered, or the reason why it cannot be."""
    state = sighting.state
    if state is None:
        return AnswersView(sighting)
    answers: dict[str, AnswerView | EddylineError] = {}
    seconds: dict[str, float] = {}
    for name in state.snapshot.layout.query_names:
        start = perf_counter()
        try:
            answers[name] = answered(state, name)
        except EddylineError as error:
            answers[name] = error
        seconds[name] = perf_counter() - start
    return AnswersView(
        sighting, answers, seconds, exact(state.origin.freshness) if exact and state.origin else {}
    )


def answered(state: State, query: str, **settings: Any) -> AnswerView:
    """Return the answer of a query or SQL; unordered groups of a planned query: the newest or largest first."""
    answer: AnswerView = state.answer(query, **settings)
    if not isinstance(answer, Groups) or not answer.group_columns or not answer.aggregates:
        return answer
    planned = _unordered(state.snapshot.layout).get(query)
    if planned is None:
        return answer
    keys = [*_time_columns(planned, answer), answer.aggregates[0]]
    return replace(answer, table=answer.table.sort_by([(name, "descending") for name in keys]))


def answer_or_table(
    state: State,
    sql: str,
    limit: int,
    *,
    confidence: float | None = None,
    simultaneous: bool = False,
    **over: str,
) -> dict[str, object]:
    """Return the answer of a query that we support directly, else the table of the SQL around such queries.

    over: the window and its slide. Both forms are plain values, with at most `limit` groups or rows.
    """
    try:
        found = answered(state, sql, confidence=confidence, simultaneous=simultaneous, **over)
    except SqlError as error:
        if over:
            raise
        try:
            table = state.sql(sql, confidence=confidence, simultaneous=simultaneous)
        except EddylineError as refusal:
            raise (refusal if is_nested(sql) or may_ask_for_rows(sql) else error) from refusal
        return result_to_dict(sql, table, limit)
    return content_of(found, limit)


def first_groups(state: State | None, query: str, answer: AnswerView | EddylineError) -> str:
    """Return which groups of an answer come first: "newest", "largest", or "first" for those of its own order."""
    planned = _unordered(state.snapshot.layout).get(query) if state is not None else None
    if planned is None or not isinstance(answer, Groups):
        return "first"
    return "newest" if _time_columns(planned, answer) else "largest"


def stream_columns(layout: Layout) -> list[dict[str, object]]:
    """Return the streams with their columns; held: ad hoc SQL may read the column."""
    held = held_columns(layout)
    return [
        {
            "name": stream.name,
            "changes": stream.changes,
            "columns": [
                {
                    "name": each.name,
                    "type": str(each.type),
                    "held": any(each.name in together for together in held.get(stream.name, ())),
                }
                for each in stream.every_column
            ],
        }
        for stream in layout.streams
    ]


def _unordered(layout: Layout) -> dict[str, Query]:
    """Return the queries whose groups have no order of their own, by name."""
    planned = [*layout.queries, *(each for group in layout.windows for each in group.layout.queries)]
    return {
        each.name: each.query
        for each in planned
        if isinstance(each.query, Query) and each.query.is_table and not each.query.order
    }


def _time_columns(query: Query, answer: Groups) -> list[str]:
    """Return the group columns that hold a time: dates, times, strings that begin like dates, years, year parts."""
    found: list[str] = []
    for column in query.groups:
        if column.name not in answer.group_columns:
            continue
        text, kind = column.expression.text, column.expression.type.kind
        is_time = kind in ("date", "timestamp", "timestamp_ntz") or bool(_YEARS.match(text))
        is_part = bool(found) and bool(_PARTS.match(text))
        if is_time or is_part or (kind == "string" and _are_dates(answer.table.column(column.name))):
            found.append(column.name)
    return found


def _are_dates(values: pa.ChunkedArray) -> bool:
    """Return whether there are strings, and all begin with a year and a month."""
    texts = [value for value in values.to_pylist() if value is not None]
    return bool(texts) and all(_DATE.match(text) for text in texts)
