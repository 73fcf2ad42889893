"""SQL's aggregates from their quantities: count, sum and sum of squares, in the fixed point of the measures."""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor, inf, isnan, sqrt

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate
from eddyline.answer.interval import Interval
from eddyline.plan.layout import Measure, PlannedQuery
from eddyline.sql.query import Query

_POWERS = {"count": 0, "sum": 1, "squares": 2}


def whole_digits(query: Query, quantity: str) -> int:
    """Return the decimal digits that the fixed-point measures of a quantity carry together."""
    power = _POWERS[quantity]
    return sum(Measure(factor.expression, power).scale for factor in query.aggregate.factors) if power else 0


def unit_of(query: Query) -> float:
    """Return what one unit of the dictionaries' integers is in the answer."""
    function = query.aggregate.function
    if function == "count":
        return 1.0
    if function.startswith("stddev"):
        return float(10.0 ** (-whole_digits(query, "squares") / 2))
    return float(10.0 ** -whole_digits(query, "squares" if function.startswith("var") else "sum"))


def aggregate_value(query: Query, totals: Mapping[str, int]) -> int | float | None:
    """Return an aggregate from its exact totals, None (NULL) where there is nothing to aggregate."""
    function, count = query.aggregate.function, totals["count"]
    if function == "count":
        return count
    if count == 0 or (function.endswith("_samp") and count == 1):
        return None
    total = Fraction(totals["sum"], 10 ** whole_digits(query, "sum"))
    if function == "sum":
        return total.numerator if whole_digits(query, "sum") == 0 else float(total)
    if function == "avg":
        return float(total / count)
    deviations = Fraction(totals["squares"], 10 ** whole_digits(query, "squares")) - total**2 / count
    spread = float(deviations / (count - 1 if function.endswith("_samp") else count))
    if count > 0:
        spread = max(spread, 0.0)  # squares of FLOAT and DOUBLE are rounded more coarsely than their sum
    return sqrt(max(spread, 0.0)) if function.startswith("stddev") else spread


def told(
    planned: PlannedQuery, query: Query, interval: Interval, confidence: float, method: str, about: list[str]
) -> Estimate:
    """Return the estimate of an aggregate from its interval, within what counting allows."""
    value, low, high = interval
    function = query.aggregate.function
    if isnan(value):
        about = [*about, notes.NO_ROWS_SEEN]
        return Estimate(planned.name, None, None, None, confidence, method, notes=tuple(about))
    if function == "count":
        high = ceil(high) if high < inf else high
        value, low, high = max(round(value), 0), floor(max(low, 0)), max(high, 0)
    if function not in ("sum", "avg"):
        low = max(low, 0)
    about = [*about, *notes.wide_interval(value, low, high)]
    return Estimate(planned.name, value, low, high, confidence, method, notes=tuple(about))
