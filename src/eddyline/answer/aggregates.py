"""SQL's aggregates from their quantities: count, sum and sum of squares, as integers in units of the measures."""

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, inf, isnan, prod

from eddyline.aggregates.moments import Units
from eddyline.answer import notes
from eddyline.answer.estimate import Estimate, open_ends, widened
from eddyline.answer.interval import Interval
from eddyline.plan.layout import Measure, PlannedQuery
from eddyline.sql.query import Query


def whole_units(query: Query) -> Units:
    """Return the unit of the exact sum of each argument of a query's aggregate; squares have the squared unit."""
    return tuple(
        prod((Measure(factor.expression, 1).unit for factor in factors), start=Fraction(1))
        for factors in query.aggregate.arguments
    )


def _weighed_units(query: Query) -> Units:
    """Return the units as joins weigh rows: there, FLOAT and DOUBLE keep their own numbers."""
    return tuple(
        prod(
            (Measure(f.expression, 1).unit for f in factors if not f.expression.type.is_float),
            start=Fraction(1),
        )
        for factors in query.aggregate.arguments
    )


def weighed_unit(query: Query, quantity: str) -> float:
    """Return the unit of a quantity as joins weigh rows."""
    powers = query.aggregate.moment.sums[quantity]
    units = zip(_weighed_units(query), powers, strict=True)
    return float(prod((unit**power for unit, power in units), start=Fraction(1)))


def _is_decimal(query: Query) -> bool:
    """Return whether a query's measure is made of decimals and integers alone."""
    return not any(factor.expression.type.is_float for factor in query.aggregate.factors)


def unit_of(query: Query) -> float:
    """Return the unit of an aggregate as joins weigh rows."""
    return float(query.aggregate.moment.unit(_weighed_units(query)))


def exact_number(value: Fraction) -> int | float | Decimal:
    """Return a sum of decimals with all its digits: a float where a float holds them, else a Decimal."""
    near = float(value)
    with localcontext(prec=100):
        whole = Decimal(value.numerator) / Decimal(value.denominator)
    return near if Decimal(repr(near)) == whole else whole


def aggregate_value(query: Query, totals: Mapping[str, int]) -> int | float | Decimal | None:
    """Return an aggregate from its exact totals, None (NULL) where there is nothing to aggregate.

    Everything is computed in integers, and rounded to a float once, at the end.
    """
    moment, value = query.aggregate.moment, unrounded_value(query, totals)
    if value is None:
        return None
    if moment.is_sum and moment.unit(whole_units(query)) == 1:
        return int(value)
    return exact_number(value) if moment.is_sum and _is_decimal(query) else float(value)


def unrounded_value(query: Query, totals: Mapping[str, int]) -> Fraction | None:
    """Return an aggregate from its exact totals before rounding to a float; deviations have a rounded root."""
    return query.aggregate.moment.exact(totals, whole_units(query))


def exact_estimate(
    name: str,
    query: Query,
    totals: Mapping[str, int],
    confidence: float,
    about: Sequence[str] = (),
    *,
    rounded: bool,
) -> Estimate:
    """Return an aggregate from its exact totals; rounded: some numbers have smaller digits than those held."""
    value = aggregate_value(query, totals)
    one_row = query.aggregate.moment.of_one_row
    if value is None and totals["count"] == 1 and one_row is not None:
        about = [*about, one_row]
    if value is None or not rounded:
        return Estimate.exactly(name, value, confidence, about)
    middle = float(value)
    interval = open_ends(query, Interval(middle, middle, middle))
    _, low, high = widened(query, interval, totals["count"])
    return Estimate(name, value, low, high, confidence, ROUNDED, notes=(*about, notes.TINY_VALUES))


ROUNDED = "rounded"
"""The method of an answer that would be exact if digits of its numbers had not been cut off."""


def estimate_of(
    planned: PlannedQuery, query: Query, interval: Interval, confidence: float, method: str, about: list[str]
) -> Estimate:
    """Return the estimate of an aggregate from its interval, within what the row counts allow."""
    value, low, high = interval
    moment = query.aggregate.moment
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
