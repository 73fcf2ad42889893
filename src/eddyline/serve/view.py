"""A view: all answers of a store at one epoch, as the page, the API and the metrics tell them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import Any

import msgspec
import pyarrow as pa

from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness
from eddyline.answer.groups.table import Groups
from eddyline.answer.plain import finite
from eddyline.api.follow import Sighting
from eddyline.api.state import State
from eddyline.errors import EddylineError
from eddyline.plan.layout import Layout
from eddyline.serve.history import Point
from eddyline.sql.query import GroupQuery

SHOWN_GROUPS = 50
"""Groups of an answer that the page and the metrics show; the API gives as many as are asked for."""

_YEARS = re.compile(r"(YEAR|DATE_TRUNC|TRUNC)\(", re.IGNORECASE)
_PARTS = re.compile(r"(QUARTER|MONTH|WEEK|WEEKOFYEAR|DAY|DAYOFMONTH|DAYOFYEAR|HOUR|MINUTE)\(", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}(?!\d)")
Answer = Estimate | Groups
ExactAnswers = Callable[[Freshness], Mapping[str, float]]
"""What knows the exact answers at a moment of the streams, as the demo does."""


@dataclass(frozen=True)
class View:
    """The answers of all queries at an epoch, or why what is kept does not answer one.

    seconds: how long each took to read. exact: the exact answers, where something knows them.
    """

    sighting: Sighting
    answers: Mapping[str, Answer | EddylineError] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    exact: Mapping[str, float] = field(default_factory=dict)

    @property
    def state(self) -> State | None:
        """The state that was answered from, None before the first."""
        return self.sighting.state

    @property
    def freshness(self) -> Freshness | None:
        """How far all streams of the state had come, None before the first."""
        return self.state.origin.freshness if self.state and self.state.origin else None

    def status(self) -> dict[str, object]:
        """Return how the store is doing now: who writes it, what is wrong, how fresh it is."""
        fresh, state = self.freshness, self.state
        return {
            "running": self.sighting.writer is not None,
            "problem": self.sighting.problem,
            "store": self.sighting.store,
            "state_bytes": state.nbytes if state else None,
            "plan": state.snapshot.layout.digest[:12] if state else None,
            "freshness": replace(fresh, read_at=time()).to_dict() if fresh else None,
        }

    def tell(self, query: str, limit: int) -> dict[str, object]:
        """Return the answer of one query as plain values, at most so many of its groups."""
        answer = self.answers[query]
        if isinstance(answer, EddylineError):
            return {"query": query, "refused": str(answer)}
        told = self.with_exact(tell(answer, limit))
        return {**told, "groups_shown": order_of(self.state, query, answer)} if "groups" in told else told

    def with_exact(self, told: dict[str, object]) -> dict[str, object]:
        """Return an answer with the exact one beside it, where something knows it."""
        query = str(told["query"])
        return {**told, "exact_answer": self.exact[query]} if query in self.exact else told

    def tell_all(self, limit: int) -> list[dict[str, object]]:
        """Return the answers of all queries as plain values."""
        return [self.tell(query, limit) for query in self.answers]

    def to_json(self) -> bytes:
        """Return the view as the page's events carry it."""
        told = {**self.status(), "answers": self.tell_all(SHOWN_GROUPS), "points": self.points()}
        return msgspec.json.encode(told)

    def cells(self, limit: int) -> int:
        """Return how many numbers the answers have, at most so many groups of each."""
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
    """Return the SQL of every query by its name, windowed ones last."""
    layouts = [layout, *(group.layout for group in layout.windows)]
    return {
        planned.name: " ".join(planned.query.text.split()) for each in layouts for planned in each.queries
    }


def tell(answer: Answer, limit: int) -> dict[str, object]:
    """Return an answer as plain values with its freshness of now, at most so many of its groups."""
    if answer.freshness is not None:
        answer = replace(answer, freshness=replace(answer.freshness, read_at=time()))
    return answer.to_dict(limit) if isinstance(answer, Groups) else answer.to_dict()


def view_of(sighting: Sighting, exact: ExactAnswers | None = None) -> View:
    """Return the view of a state: every query answered, or the reason why it cannot be."""
    state = sighting.state
    if state is None:
        return View(sighting)
    answers: dict[str, Answer | EddylineError] = {}
    seconds: dict[str, float] = {}
    for name in state.snapshot.layout.query_names:
        start = perf_counter()
        try:
            answers[name] = answered(state, name)
        except EddylineError as error:
            answers[name] = error
        seconds[name] = perf_counter() - start
    return View(sighting, answers, seconds, exact(state.origin.freshness) if exact and state.origin else {})


def answered(state: State, query: str, **settings: Any) -> Answer:
    """Return the answer of a query or text; groups of a planned query without an order: the newest or largest first."""
    answer: Answer = state.answer(query, **settings)
    if not isinstance(answer, Groups) or not answer.group_columns or not answer.aggregates:
        return answer
    planned = _unordered(state.snapshot.layout).get(query)
    if planned is None:
        return answer
    keys = [*_time_columns(planned, answer), answer.aggregates[0]]
    return replace(answer, table=answer.table.sort_by([(name, "descending") for name in keys]))


def order_of(state: State | None, query: str, answer: Answer | EddylineError) -> str:
    """Return which groups of an answer come first: "newest", "largest", or those that are "first" in its own order."""
    planned = _unordered(state.snapshot.layout).get(query) if state is not None else None
    if planned is None or not isinstance(answer, Groups):
        return "first"
    return "newest" if _time_columns(planned, answer) else "largest"


def _unordered(layout: Layout) -> dict[str, GroupQuery]:
    """Return the queries whose groups have no order of their own, by name."""
    planned = [*layout.queries, *(each for group in layout.windows for each in group.layout.queries)]
    return {
        each.name: each.query
        for each in planned
        if isinstance(each.query, GroupQuery) and not each.query.order
    }


def _time_columns(query: GroupQuery, answer: Groups) -> list[str]:
    """Return the group columns that say when: dates and times, texts that begin like dates, years and their parts."""
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
    """Return whether texts are there, and all begin with a year and a month."""
    texts = [value for value in values.to_pylist() if value is not None]
    return bool(texts) and all(_DATE.match(text) for text in texts)
