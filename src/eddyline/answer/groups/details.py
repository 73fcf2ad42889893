"""Aggregates that need the single values of a group: which reading answers each, and what is told of it."""

from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from eddyline.answer import notes
from eddyline.answer.bounds import row_bound
from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.columns import Value, not_known
from eddyline.answer.groups.distinct import count_distinct
from eddyline.answer.groups.quantiles import extremes, quantiles
from eddyline.answer.groups.tuples import Labels, Tuples, read_tuples
from eddyline.answer.interval import FloatArray
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import PlannedQuery
from eddyline.sql.query import Detail, GroupQuery
from eddyline.sql.time_units import TIMES
from eddyline.types import SqlType


@dataclass(frozen=True)
class DetailColumn:
    """A detail of every group, whether it is exact, and of groups that are not seen.

    negative: how many elements behind it have more deletes than inserts. kind: the type of values that are no plain
    numbers. note: why it is not known of any group, None where it is.
    """

    values: list[Value]
    kind: SqlType | None
    exact: bool
    rest: Estimate
    negative: int
    note: str | None = None


def read_details(
    snapshot: Snapshot,
    planned: PlannedQuery,
    query: GroupQuery,
    labels: Labels,
    confidence: float,
    *,
    whole: bool,
    most_rows: FloatArray | None = None,
    missing: float = 0.0,
) -> dict[str, DetailColumn]:
    """Return the details of a grouped query, by name.

    labels: of the answer's groups. whole: no group is missing. most_rows: how many rows each group has at most, None
    where that is not known. missing: the share of the rows that values may hold that are not followed; these may have
    any value.
    """
    limit = np.full(len(labels), inf) if most_rows is None else most_rows
    limit = np.minimum(limit, row_bound(snapshot, query))
    found = {}
    for part, detail in zip(planned.details, query.details, strict=True):
        tuples = read_tuples(snapshot, part, query, detail, labels)
        values = _values(tuples, detail, limit, missing, confidence)
        note = None if tuples.exact or detail.function not in ("min", "max") else _not_held(detail)
        if missing > notes.MOSTLY_MISSED and not tuples.exact:
            values = [_open_to_missed(detail, *each) for each in zip(values, limit.tolist(), strict=True)]
        rest = _rest(planned.name, detail, confidence, whole=whole)
        found[detail.name] = DetailColumn(values, detail.kind, tuples.exact, rest, tuples.negative, note)
    return found


def _values(
    tuples: Tuples, detail: Detail, most_rows: FloatArray, missing: float, confidence: float
) -> list[Value]:
    if detail.function == "distinct":
        read = count_distinct(tuples, most_rows, confidence)
        return [
            (round(value), int(np.floor(low)), ceil(high) if high < inf else inf)
            for value, low, high in zip(read.values, read.lows, read.highs, strict=True)
        ]
    if detail.function in ("quantile", "percentile"):
        return quantiles(
            tuples,
            detail.share,
            between=detail.function == "percentile",
            is_number=detail.kind is None,
            missing=missing,
            confidence=confidence,
        )
    if not tuples.exact:
        return [not_known(is_number=detail.kind is None)] * tuples.groups
    return extremes(tuples, largest=detail.function == "max", is_number=detail.kind is None)


def _open_to_missed(detail: Detail, value: Value, most: float) -> Value:
    """Return a detail that unfollowed rows may change: more tuples, at most so many, or any quantile."""
    told, low, _ = value
    if told is None:
        return value
    if detail.function == "distinct":
        return told, low, int(most) if most < inf else inf
    return (told, -inf, inf) if detail.kind is None else (told, None, None)


def _not_held(detail: Detail) -> str:
    """Return why MIN or MAX is not known once the rows are sampled, and what to ask instead."""
    return (
        f"{detail.name} is not known: not all rows fit the stream sample any more, and a sample does not know the "
        f"{detail.function.upper()} of what it does not hold: {_instead(detail)}plan with a larger budget."
    )


def _instead(detail: Detail) -> str:
    """Return the quantile to ask in place of MIN or MAX, where the column's type has quantiles."""
    kind = detail.columns[0].expression.type
    if not kind.is_numeric and kind.kind not in TIMES:
        return ""
    return f"ask PERCENTILE_APPROX(..., {'0.001' if detail.function == 'min' else '0.999'}), or "


def _rest(name: str, detail: Detail, confidence: float, *, whole: bool) -> Estimate:
    """Return a detail over the groups that are not seen: of none there is nothing, of others nothing is known."""
    about = f"{name}.{detail.name}"
    if whole:
        return Estimate.exactly(about, 0 if detail.function == "distinct" else None, confidence)
    return Estimate.unknown(about, confidence, "sample", [notes.UNSEEN_DETAIL])
