"""Bounds on an answer from the exact numbers of rows of its streams: no interval goes beyond them."""

from dataclasses import replace
from math import inf, prod

from eddyline.answer.estimate import Estimate, Number
from eddyline.answer.input_check import noted_deletes
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Demand
from eddyline.sql.query import (
    AnyQuery,
    GroupQuery,
    JoinDistinctQuery,
    Query,
    SetExpression,
    SetLeaf,
    SetQuery,
)

_DECIDING = {"semi", "anti", "not in"}


def row_bound(snapshot: Snapshot, query: AnyQuery) -> float:
    """Return how many rows or distinct values a query can count at most; infinite after deletes of unseen rows."""
    members = query.members if isinstance(query, SetQuery) else query.relations
    streams = {each.stream for each in members}
    if any(noted_deletes(snapshot, stream) is not None for stream in streams):
        return inf
    rows = {stream: _rows(snapshot, stream) for stream in streams}
    if isinstance(query, SetQuery):
        return _most_values(query.expression, [rows[member.stream] for member in query.members])
    if isinstance(query, JoinDistinctQuery) and query.form == "semi":
        return rows[query.relations[0].stream]
    roles: list[set[str]] = [set() for _ in query.relations]
    for link in () if isinstance(query, JoinDistinctQuery) else query.links:
        for member in link.members:
            roles[member.relation].add(member.role)
    most = prod(_most(rows[each.stream], mine) for each, mine in zip(query.relations, roles, strict=True))
    return (
        most - 1.0 if all("full" in mine for mine in roles) else most
    )  # no row lacks a match in every relation


def _rows(snapshot: Snapshot, stream: str) -> float:
    counted = next(k for k in snapshot.layout.kept_for(stream) if k.demand == Demand(stream, "total"))
    return float(snapshot.total(counted.id))


def _most(rows: float, roles: set[str]) -> float:
    """Return how often a row of the other relations counts at most, given the rows of one relation."""
    if roles & _DECIDING:
        return 1.0
    if "full" in roles:
        return rows + 1.0
    return max(rows, 1.0) if "outer" in roles else rows


def _most_values(expression: SetExpression, rows: list[float]) -> float:
    if isinstance(expression, SetLeaf):
        return rows[expression.member]
    left, right = _most_values(expression.left, rows), _most_values(expression.right, rows)
    return {"union": left + right, "intersect": min(left, right), "except": left}[expression.operator]


def within_rows(query: AnyQuery, estimate: Estimate, most: float) -> Estimate:
    """Return an estimate limited to `most` if it counts rows or values; most: as `row_bound` returns it."""
    counts = isinstance(query, SetQuery | JoinDistinctQuery) or (
        isinstance(query, Query) and query.aggregate.moment.is_count
    )
    if (
        not counts
        or estimate.exact
        or not isinstance(estimate.value, Number)
        or isinstance(query, GroupQuery)
    ):
        return estimate
    if not isinstance(estimate.high, Number) or estimate.high <= most:
        return estimate
    rows = int(most)
    low = min(estimate.low, rows) if isinstance(estimate.low, Number) else estimate.low
    return replace(estimate, value=min(estimate.value, rows), low=low, high=rows)
