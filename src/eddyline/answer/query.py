"""From a snapshot and a planned query to an estimate; all queries of a state as one table."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa

from eddyline.answer import notes
from eddyline.answer.ad_hoc import with_derived
from eddyline.answer.aggregates import exact_estimate, row_bound, within_rows
from eddyline.answer.distinct_joins.query import answer_distinct_join
from eddyline.answer.estimate import Estimate, Number, Scalar, show_key
from eddyline.answer.freshness import Freshness
from eddyline.answer.groups.query import answer_groups
from eddyline.answer.groups.table import Groups
from eddyline.answer.input_check import noted_deletes
from eddyline.answer.joins.query import answer_join
from eddyline.answer.joins.sampled import in_second_stage
from eddyline.answer.sets.query import answer_set
from eddyline.errors import EddylineError, PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.layout import Layout, PlannedQuery
from eddyline.sql.clauses import double_quoted_columns, quoted_column_note
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery

# Each kind of query has a folder next to this file.


def answer(
    snapshot: Snapshot, planned: PlannedQuery, confidence: float, *, simultaneous: bool = False
) -> Estimate | Groups:
    """Return the estimate of a planned query at a confidence, or the groups of a GROUP BY query."""
    about = [*_double_quotes(snapshot, planned), *_unseen_deletes(snapshot, planned)]
    if isinstance(planned, AdHocQuery):
        about = [notes.NOT_PLANNED, *about]
    query = planned.query
    if isinstance(query, Query) and query.is_table:
        groups = answer_groups(snapshot, planned, query, confidence, about, simultaneous=simultaneous)
        single = not query.groups and len(query.selected) == 1
        return groups.only_estimate() if single else groups
    estimate = _estimate(with_derived(snapshot, planned), planned, confidence, about)
    if query.is_count and not estimate.exact:
        estimate = within_rows(estimate, row_bound(snapshot, query))
    if isinstance(planned, AdHocQuery) and _is_sampled_variance(planned, estimate):
        estimate = replace(estimate, notes=(*estimate.notes, notes.FEW_LARGE_VALUES))
    wanted = snapshot.layout.error
    if wanted is None or estimate.value is None or estimate.relative_error <= wanted:
        return estimate
    return replace(estimate, notes=(*estimate.notes, notes.error_not_reached(wanted)))


def _is_sampled_variance(planned: PlannedQuery, estimate: Estimate) -> bool:
    query = planned.query
    return (
        isinstance(query, Query)
        and not estimate.exact
        and notes.HEAVY_TAIL not in estimate.notes
        and query.aggregate.moment.degree > 1
    )


def _estimate(snapshot: Snapshot, planned: PlannedQuery, confidence: float, about: list[str]) -> Estimate:
    query = planned.query
    if planned.sample is None:
        snapshot = _with_sketches(snapshot, planned)
    if isinstance(query, SetQuery):
        return answer_set(snapshot, planned, query, confidence, about)
    if isinstance(query, JoinDistinctQuery):
        return answer_distinct_join(snapshot, planned, query, confidence, about)
    if query.links or planned.sample is not None:
        return answer_join(snapshot, planned, query, confidence, about)
    return _one_stream(snapshot, planned, query, confidence, about)


def _with_sketches(snapshot: Snapshot, planned: PlannedQuery) -> Snapshot:
    """Return the snapshot with the sketches that a query reads; those alongside an exact sample are built."""
    for sample in snapshot.layout.samples:
        if any(kept.id in planned.ids for kept in sample.sketches):
            snapshot = in_second_stage(snapshot, sample.id)
    return snapshot


def _one_stream(
    snapshot: Snapshot, planned: PlannedQuery, query: Query, confidence: float, about: list[str]
) -> Estimate:
    """Return an aggregate over one stream, which exact counters hold."""
    ids = {name: quantity.sketches[0][0] for name, quantity in planned.quantities.items()}
    totals = {name: snapshot.total(each) for name, each in ids.items()}
    rounded = any(map(snapshot.is_rounded, ids.values()))
    return exact_estimate(planned.name, query.aggregate, totals, confidence, about, rounded=rounded)


def _double_quotes(snapshot: Snapshot, planned: PlannedQuery) -> list[str]:
    """Return a note for each column whose name the query has in double quotes, which makes it a literal."""
    columns = [each for stream in planned.streams for each in snapshot.layout.stream(stream).columns]
    return [quoted_column_note(name) for name in double_quoted_columns(planned.query.text, columns)]


def _unseen_deletes(snapshot: Snapshot, planned: PlannedQuery) -> list[str]:
    """Return a note for each stream with deletes of unseen rows."""
    return [note for stream in planned.streams if (note := noted_deletes(snapshot, stream)) is not None]


# All answers of a state as one table: a row for each query, and for each aggregate of each group.


_FRESHNESS = "freshness"
FRESHNESS = pa.struct(
    [
        ("epoch", pa.int64()),
        ("rows", pa.int64()),
        ("deletes", pa.int64()),
        ("bad", pa.int64()),
        ("late", pa.int64()),
        ("last_batch_time", pa.timestamp("us", "UTC")),
        ("lag", pa.float64()),
    ]
)
"""How far the streams behind an answer have come, as a column; lag in seconds."""
SCHEMA = pa.schema(
    [
        ("query", pa.string()),
        ("group", pa.map_(pa.string(), pa.string())),
        ("aggregate", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("confidence", pa.float64()),
        ("exact", pa.bool_()),
        ("known", pa.bool_()),
        ("method", pa.string()),
        ("answer", pa.string()),
        ("notes", pa.list_(pa.string())),
        (_FRESHNESS, FRESHNESS),
    ]
)
_REFUSED = "refused"


def answers_table(
    answers: Mapping[str, Estimate | Groups | EddylineError], freshness: Freshness | None = None
) -> pa.Table:
    """Return answers as a table; a query without an answer has the reason among its notes.

    freshness: that of the whole state, used for queries without an answer; None if the state is not from a store.
    """
    rows = [row for query, found in answers.items() for row in _rows(query, found, freshness)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows(
    query: str, found: Estimate | Groups | EddylineError, freshness: Freshness | None
) -> Iterator[dict[str, object]]:
    if isinstance(found, EddylineError):
        entry = {"query": query, "exact": False, "known": False, "answer": _REFUSED, "notes": [str(found)]}
        yield {**entry, _FRESHNESS: _freshness_cells(freshness)}
        return
    common = {"notes": list(found.notes), _FRESHNESS: _freshness_cells(found.freshness)}
    if isinstance(found, Estimate):
        yield {"query": query, **_cells(found), **common}
        return
    for row in found:
        group = {name: show_key(row[name]) for name in found.group_columns}  # type: ignore[arg-type]  # a table's own values
        for name in found.aggregates:
            cells = _cells(found.estimate(row, name))
            yield {"query": query, "group": list(group.items()), "aggregate": name, **cells, **common}


def groups_table(groups: Groups) -> pa.Table:
    """Return the table of a GROUP BY query plus a column `freshness`, or raise PlanError if it already has one."""
    if _FRESHNESS in groups.table.column_names:
        raise PlanError(
            f"query {groups.query!r} has a column {_FRESHNESS!r} already: give it another name with AS."
        )
    cells = [_freshness_cells(groups.freshness)] * len(groups)
    return groups.table.append_column(_FRESHNESS, pa.array(cells, FRESHNESS))


def _freshness_cells(freshness: Freshness | None) -> dict[str, object] | None:
    """Return a freshness as a value of the column FRESHNESS; None for states that are not from a store."""
    if freshness is None:
        return None
    last = freshness.last_batch_time
    return {
        "epoch": freshness.epoch,
        "rows": freshness.rows,
        "deletes": freshness.deletes,
        "bad": freshness.bad,
        "late": freshness.late,
        "last_batch_time": None if last is None else datetime.fromtimestamp(last, UTC),
        "lag": freshness.lag,
    }


def _cells(estimate: Estimate) -> dict[str, object]:
    return {
        "value": _number(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "confidence": estimate.confidence,
        "exact": estimate.exact,
        "known": estimate.known,
        "method": estimate.method,
        "answer": str(estimate),
    }


def _number(value: Scalar | None) -> float | None:
    """Return a number as the table's columns hold it; None for strings, dates and times, which `answer` shows."""
    return float(value) if isinstance(value, Number | Decimal) else None


# The origin of a state that was read from a store, reported with each of its answers.


@dataclass(frozen=True)
class Since:
    """Where a synopsis that was added to a running store began: it lacks earlier rows of its stream."""

    epoch: int
    rows: int


@dataclass(frozen=True)
class Origin:
    """How fresh the store was, and what holds only part of its stream: synopses by id, samples by id/stream.

    about: notes for every answer, on the sites that were merged.
    """

    freshness: Freshness
    since: Mapping[str, Since] = field(default_factory=dict)
    about: tuple[str, ...] = ()

    def describe(
        self, estimate: Estimate | Groups, planned: PlannedQuery, layout: Layout, *, is_windowed: bool = False
    ) -> Estimate | Groups:
        """Return an answer with its freshness, and notes on rows that are missing from what it was read from."""
        freshness = self.freshness.of(set(planned.streams), time.time())
        repeated = {notes.no_row(each.stream) for each in freshness.streams if each.batch is None}
        about = [
            *(note for note in estimate.notes if note not in repeated),
            *freshness.notes(is_windowed=is_windowed),
            *self.about,
        ]
        read = {name: layout.by_id[name].stream for name in planned.ids}
        read |= {f"{planned.sample}/{stream}": stream for stream in planned.streams}
        since = {stream: self.since[name] for name, stream in read.items() if name in self.since}
        for stream, each in since.items():
            about.append(notes.counted_since(stream, each.epoch, each.rows))
        answer = replace(estimate, notes=tuple(about), freshness=freshness)
        return _only_since(answer, max(each.epoch for each in since.values())) if since else answer


def _only_since(answer: Estimate | Groups, epoch: int) -> Estimate | Groups:
    """Return an answer that lacks earlier rows: no number is exact, and its method says since when it counts."""
    method = f"{answer.method} since epoch {epoch}"
    if isinstance(answer, Estimate):
        return replace(answer, method=method, exact=False)
    return replace(answer.inexact(), method=method)
