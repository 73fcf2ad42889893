"""All answers of a state as one table: a row for each query, and for each aggregate of each group."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa

from eddyline.answer.estimate import Estimate, Number, Scalar, show_key
from eddyline.answer.freshness import Freshness
from eddyline.answer.groups.table import Groups
from eddyline.errors import EddylineError, PlanError

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
    """Return answers as a table; a query that what is kept does not answer has the reason among its notes.

    freshness: that of the whole state, which queries without an answer are told with; None if it is from no store.
    """
    rows = [row for query, found in answers.items() for row in _rows(query, found, freshness)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows(
    query: str, found: Estimate | Groups | EddylineError, freshness: Freshness | None
) -> Iterator[dict[str, object]]:
    if isinstance(found, EddylineError):
        told = {"query": query, "exact": False, "known": False, "answer": _REFUSED, "notes": [str(found)]}
        yield {**told, _FRESHNESS: _freshness_cells(freshness)}
        return
    beside = {"notes": list(found.notes), _FRESHNESS: _freshness_cells(found.freshness)}
    if isinstance(found, Estimate):
        yield {"query": query, **_cells(found), **beside}
        return
    for row in found:
        group = {name: show_key(row[name]) for name in found.group_columns}  # type: ignore[arg-type]  # a table's own values
        for name in found.aggregates:
            cells = _cells(found.estimate(row, name))
            yield {"query": query, "group": list(group.items()), "aggregate": name, **cells, **beside}


def groups_table(groups: Groups) -> pa.Table:
    """Return the table of a GROUP BY query with a column `freshness` at its end, or raise PlanError if it has one."""
    if _FRESHNESS in groups.table.column_names:
        raise PlanError(
            f"query {groups.query!r} has a column {_FRESHNESS!r} already: give it another name with AS."
        )
    cells = [_freshness_cells(groups.freshness)] * len(groups)
    return groups.table.append_column(_FRESHNESS, pa.array(cells, FRESHNESS))


def _freshness_cells(freshness: Freshness | None) -> dict[str, object] | None:
    """Return a freshness as a value of the column FRESHNESS; None for states that come from no store."""
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
    """Return a number as the table's columns have it; None for texts, dates and times, which `answer` shows."""
    return float(value) if isinstance(value, Number | Decimal) else None
