"""SQL's aggregates from their quantities: count, sum and sum of squares, as integers in units of the measures."""

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, inf, isnan, isqrt, prod

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate
from eddyline.answer.interval import Interval
from eddyline.answer.rounding import widened
from eddyline.plan.layout import Measure, PlannedQuery
from eddyline.sql.query import Query

_POWERS = {"count": 0, "sum": 1, "squares": 2}
_ROOT_BITS = 128


def whole_unit(query: Query) -> Fraction:
    """Return what 1 of the exact sum of a query's measure is; of its squares 1 is the square of that."""
    return prod((Measure(factor.expression).unit for factor in query.aggregate.factors), start=Fraction(1))


def weighed_unit(query: Query, quantity: str) -> float:
    """Return what 1 of a quantity is as joins weigh rows: measures of several words are in their own numbers there."""
    narrow = [m for factor in query.aggregate.factors if not (m := Measure(factor.expression)).is_wide]
    return float(prod((measure.unit for measure in narrow), start=Fraction(1)) ** _POWERS[quantity])


def _is_decimal(query: Query) -> bool:
    """Return whether a query's measure is made of decimals and integers alone."""
    return not any(Measure(factor.expression).is_wide for factor in query.aggregate.factors)


def unit_of(query: Query) -> float:
    """Return what 1 of an aggregate is as joins weigh rows."""
    function = query.aggregate.function
    if function == "count":
        return 1.0
    return weighed_unit(query, "squares" if function.startswith("var") else "sum")


def exact_number(value: Fraction) -> int | float | Decimal:
    """Return a sum of decimals with all its digits: a float where it has them, else a Decimal."""
    near = float(value)
    with localcontext(prec=100):
        whole = Decimal(value.numerator) / Decimal(value.denominator)
    return near if Decimal(repr(near)) == whole else whole


def aggregate_value(query: Query, totals: Mapping[str, int]) -> int | float | Decimal | None:
    """Return an aggregate from its exact totals, None (NULL) where there is nothing to aggregate.

    All is computed in integers, and rounded to a float once, at the end.
    """
    function, value = query.aggregate.function, unrounded_value(query, totals)
    if value is None:
        return None
    if function == "count" or (function == "sum" and whole_unit(query) == 1):
        return int(value)
    return exact_number(value) if function == "sum" and _is_decimal(query) else float(value)


def unrounded_value(query: Query, totals: Mapping[str, int]) -> Fraction | None:
    """Return an aggregate from its exact totals, before it is rounded to a float; of deviations only the root is."""
    function, count = query.aggregate.function, totals["count"]
    if function == "count":
        return Fraction(count)
    if count == 0 or (function.endswith("_samp") and count == 1):
        return None
    unit = whole_unit(query)
    if function in ("sum", "avg"):
        return totals["sum"] * unit / (count if function == "avg" else 1)
    deviations, by = _deviations(function, count, totals["sum"], totals["squares"], unit)
    return Fraction(root_of(deviations, by)) if function.startswith("stddev") else Fraction(deviations, by)


def spread_of(function: str, count: int, total: int, squares: int, unit: Fraction) -> float:
    """Return a variance or standard deviation from exact totals; count: not 0, and not 1 of a sample."""
    deviations, by = _deviations(function, count, total, squares, unit)
    return root_of(deviations, by) if function.startswith("stddev") else deviations / by


def _deviations(function: str, count: int, total: int, squares: int, unit: Fraction) -> tuple[int, int]:
    """Return the numerator and the denominator of a variance."""
    deviations = (squares * count - total * total) * unit.numerator**2
    by = count * (count - 1 if function.endswith("_samp") else count) * unit.denominator**2
    if count > 0:
        deviations = max(deviations, 0)  # below 0 only where some rows were deleted that never came
    return deviations, by


def root_of(numerator: int, denominator: int) -> float:
    """Return the float that is nearest to the square root of a quotient, 0 where there is none."""
    if numerator <= 0 or denominator <= 0:
        return 0.0
    shift = max(_ROOT_BITS - numerator.bit_length() + denominator.bit_length(), 0)
    shift += shift % 2
    quotient, rest = divmod(numerator << shift, denominator)
    root = isqrt(quotient)
    inexact = rest != 0 or root * root != quotient
    return (2 * root + inexact) / (1 << shift // 2 + 1)


def told_exactly(
    name: str,
    query: Query,
    totals: Mapping[str, int],
    confidence: float,
    about: Sequence[str] = (),
    *,
    rounded: bool,
) -> Estimate:
    """Return an aggregate from its exact totals; rounded: of numbers smaller than what is held of them."""
    value = aggregate_value(query, totals)
    if value is None and totals["count"] == 1:
        about = [*about, notes.ONE_ROW]
    if value is None or not rounded:
        return Estimate.exactly(name, value, confidence, about)
    middle = float(value)
    _, low, high = widened(query, Interval(middle, middle, middle), totals["count"])
    return Estimate(name, value, low, high, confidence, ROUNDED, notes=(*about, notes.TINY_VALUES))


ROUNDED = "rounded"
"""The method of an answer that would be exact, had its numbers not been cut off."""


def told(
    planned: PlannedQuery, query: Query, interval: Interval, confidence: float, method: str, about: list[str]
) -> Estimate:
    """Return the estimate of an aggregate from its interval, within what counting allows."""
    value, low, high = interval
    function = query.aggregate.function
    if isnan(value):
        about = [*about, notes.TOO_FEW_ROWS_SEEN if function.endswith("_samp") else notes.NO_ROWS_SEEN]
        return Estimate.unknown(planned.name, confidence, method, about)
    if function == "count":
        high = ceil(high) if high < inf else high
        value, low, high = max(round(value), 0), floor(max(low, 0)), max(high, 0)
    if function not in ("sum", "avg"):
        low = max(low, 0)
    if notes.HEAVY_TAIL not in about:
        about = [*about, *notes.wide_interval(value, low, high)]
    return Estimate(planned.name, value, low, high, confidence, method, notes=tuple(about))
