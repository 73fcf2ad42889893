"""Exact answers, and bounds by exact numbers of rows.

Exact answers are computed from integer quantities: count, sum and sum of squares, in units of the measures. Where an
answer is an estimate, the exact numbers of rows of its streams bound it: no interval goes beyond them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, inf, isnan, prod

from eddyline.aggregates.moments import Units
from eddyline.answer import notes
from eddyline.answer.estimate import Estimate, Number, open_ends, widened
from eddyline.answer.input_check import noted_deletes
from eddyline.answer.interval import Interval
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Demand, Measure, PlannedQuery
from eddyline.sql.query import (
    Aggregate,
    AnyQuery,
    JoinDistinctQuery,
    SetExpression,
    SetLeaf,
    SetQuery,
)


def whole_units(aggregate: Aggregate) -> Units:
    """Return the unit of the exact sum of each argument of an aggregate; squares have the squared unit."""
    return tuple(
        prod((Measure(factor.expression, 1).unit for factor in factors), start=Fraction(1))
        for factors in aggregate.arguments
    )


def _weighed_units(aggregate: Aggregate) -> Units:
    """Return the units as joins weigh rows: there, FLOAT and DOUBLE keep their own numbers."""
    return tuple(
        prod(
            (Measure(f.expression, 1).unit for f in factors if not f.expression.type.is_float),
            start=Fraction(1),
        )
        for factors in aggregate.arguments
    )


def weighed_unit(aggregate: Aggregate, quantity: str) -> float:
    """Return the unit of a quantity as joins weigh rows."""
    powers = aggregate.moment.sums[quantity]
    units = zip(_weighed_units(aggregate), powers, strict=True)
    return float(prod((unit**power for unit, power in units), start=Fraction(1)))


def is_decimal(aggregate: Aggregate) -> bool:
    """Return whether a measure is made of decimals and integers alone."""
    return not any(factor.expression.type.is_float for factor in aggregate.factors)


def unit_of(aggregate: Aggregate) -> float:
    """Return the unit of an aggregate as joins weigh rows."""
    return float(aggregate.moment.unit(_weighed_units(aggregate)))


def exact_number(value: Fraction) -> int | float | Decimal:
    """Return a sum of decimals with all its digits: a float where a float holds them, else a Decimal."""
    near = float(value)
    with localcontext(prec=100):
        whole = Decimal(value.numerator) / Decimal(value.denominator)
    return near if Decimal(repr(near)) == whole else whole


def aggregate_value(aggregate: Aggregate, totals: Mapping[str, int]) -> int | float | Decimal | None:
    """Return an aggregate from its exact totals, None (NULL) where there is nothing to aggregate.

    Everything is computed in integers, and rounded to a float once, at the end.
    """
    moment, value = aggregate.moment, unrounded_value(aggregate, totals)
    if value is None:
        return None
    if moment.is_sum and moment.unit(whole_units(aggregate)) == 1:
        return int(value)
    return exact_number(value) if moment.is_sum and is_decimal(aggregate) else float(value)


def unrounded_value(aggregate: Aggregate, totals: Mapping[str, int]) -> Fraction | None:
    """Return an aggregate from its exact totals before rounding to a float; deviations have a rounded root."""
    return aggregate.moment.exact(totals, whole_units(aggregate))


def exact_estimate(
    name: str,
    aggregate: Aggregate,
    totals: Mapping[str, int],
    confidence: float,
    about: Sequence[str] = (),
    *,
    rounded: bool,
) -> Estimate:
    """Return an aggregate from its exact totals; rounded: some numbers have smaller digits than those held."""
    value = aggregate_value(aggregate, totals)
    one_row = aggregate.moment.of_one_row
    if value is None and totals["count"] == 1 and one_row is not None:
        about = [*about, one_row]
    if value is None or not rounded:
        return Estimate.exactly(name, value, confidence, about)
    middle = float(value)
    interval = open_ends(aggregate, Interval(middle, middle, middle))
    _, low, high = widened(aggregate, interval, totals["count"])
    return Estimate(name, value, low, high, confidence, ROUNDED, notes=(*about, notes.TINY_VALUES))


ROUNDED = "rounded"
"""The method of an answer that would be exact if digits of its numbers had not been cut off."""


def estimate_of(
    planned: PlannedQuery,
    aggregate: Aggregate,
    interval: Interval,
    confidence: float,
    method: str,
    about: list[str],
) -> Estimate:
    """Return the estimate of an aggregate from its interval, within what the row counts allow."""
    value, low, high = interval
    moment = aggregate.moment
    if isnan(value):
        about = [*about, moment.of_too_few or notes.NO_ROWS_SEEN]
        return Estimate.unknown(planned.name, confidence, method, about)
    if moment.is_count:
        high = ceil(high) if high < inf else high
        value, low, high = max(round(value), 0), floor(max(low, 0)), max(high, 0)
    if moment.least > -inf:
        low = max(low, moment.least)
    high = min(high, moment.most)
    if notes.HEAVY_TAIL not in about:
        about = [*about, *notes.wide_interval(value, low, high)]
    return Estimate(planned.name, value, low, high, confidence, method, notes=tuple(about))


_DECIDING = {"semi", "anti", "not in"}


def row_bound(snapshot: Snapshot, query: AnyQuery) -> float:
    """Return how many rows or distinct values a query can count at most; infinite after deletes of unseen rows."""
    streams = set(query.streams)
    if any(noted_deletes(snapshot, stream) is not None for stream in streams):
        return inf
    rows = {stream: _rows(snapshot, stream) for stream in streams}
    if isinstance(query, SetQuery):
        return _most_values(query.expression, [rows[member.stream] for member in query.members])
    if isinstance(query, JoinDistinctQuery) and query.form == "semi":
        return rows[query.relations[0].stream]
    roles: list[set[str]] = [set() for _ in query.relations]
    for link in query.links:
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


def within_rows(estimate: Estimate, most: float) -> Estimate:
    """Return a number of rows or values limited to `most`, as `row_bound` returns it."""
    if estimate.exact or not isinstance(estimate.value, Number):
        return estimate
    if not isinstance(estimate.high, Number) or estimate.high <= most:
        return estimate
    rows = int(most)
    low = min(estimate.low, rows) if isinstance(estimate.low, Number) else estimate.low
    return replace(estimate, value=min(estimate.value, rows), low=low, high=rows)
