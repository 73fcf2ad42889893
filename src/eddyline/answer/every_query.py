"""All answers of a state as one table: a row for each query, and for each aggregate of each group."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

import pyarrow as pa

from eddyline.answer.estimate import Estimate, Number, Scalar, show
from eddyline.answer.groups.table import Groups
from eddyline.errors import PlanError

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
        ("method", pa.string()),
        ("answer", pa.string()),
        ("notes", pa.list_(pa.string())),
    ]
)
_REFUSED = "refused"


def answers_table(answers: Mapping[str, Estimate | Groups | PlanError]) -> pa.Table:
    """Return answers as a table; a query that what is kept does not answer has the reason among its notes."""
    rows = [row for query, found in answers.items() for row in _rows(query, found)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows(query: str, found: Estimate | Groups | PlanError) -> Iterator[dict[str, object]]:
    if isinstance(found, PlanError):
        yield {"query": query, "exact": False, "answer": _REFUSED, "notes": [str(found)]}
    elif isinstance(found, Estimate):
        yield {"query": query, **_cells(found), "notes": list(found.notes)}
    else:
        for row in found:
            group = {name: show(row[name]) for name in found.group_columns}  # type: ignore[arg-type]  # a table's own values
            for name in found.aggregates:
                told = found.estimate(row, name)
                yield {
                    "query": query,
                    "group": list(group.items()),
                    "aggregate": name,
                    **_cells(told),
                    "notes": list(found.notes),
                }


def _cells(estimate: Estimate) -> dict[str, object]:
    return {
        "value": _number(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "confidence": estimate.confidence,
        "exact": estimate.exact,
        "method": estimate.method,
        "answer": str(estimate),
    }


def _number(value: Scalar | None) -> float | None:
    """Return a number as the table's columns have it; None for texts, dates and times, which `answer` shows."""
    return float(value) if isinstance(value, Number | Decimal) else None
