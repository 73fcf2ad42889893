"""Between timestamps and what clocks in a zone show, for all years: Arrow knows no summer time after 2037.

A later year is read as one before 2038 that begins on the same day of the week and is as long, so that the rules which
a zone has by then fall on the same days.
"""

import datetime as dt
from calendar import isleap
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.sql.arrow_numbers import Value, holds_any

_FIRST_LATE = 2038
_CYCLE = 400
"""Years after which days of the week repeat."""
_DAY = 86_400_000_000
_CLOCK = pa.timestamp("us")


def shown(times: Value, timezone: str) -> Value:
    """Return timestamps as times without a zone, as a clock in the zone shows them."""
    early, later = _early(times.cast(pa.timestamp("us", "UTC")))
    return _plus(pc.local_timestamp(early.cast(pa.timestamp("us", timezone))), later)


def at(clock: Value, timezone: str, *, nonexistent: str) -> Value:
    """Return the timestamps at which clocks in the zone show some times, the first of two; nonexistent: as in Arrow."""
    early, later = _early(clock.cast(_CLOCK))
    found = pc.assume_timezone(early, timezone, ambiguous="earliest", nonexistent=nonexistent)
    return _plus(found.cast(pa.timestamp("us", "UTC")), later)


def _early(times: Value) -> tuple[Value, Value | None]:
    """Return (times before 2038, how many microseconds later the given ones are, None if none is)."""
    years = pc.year(times.cast(_CLOCK))
    if not holds_any(pc.greater_equal(years, _FIRST_LATE)):
        return times, None
    if isinstance(times, pa.Scalar):
        moved, by = _early(pa.array([times]))
        return moved[0], None if by is None else by[0]
    number = pc.max_element_wise(pc.subtract(years, 2000), 0)
    cycles = pc.divide(number, _CYCLE)
    days = pc.take(_cycle(), pc.subtract(number, pc.multiply(cycles, _CYCLE)))
    later = pc.multiply(pc.add(days, pc.multiply(cycles, _days(2000 + _CYCLE, 2000))), _DAY)
    return _plus(times, pc.negate(later)), later


def _plus(times: Value, micros: Value | None) -> Value:
    return times if micros is None else pc.add(times.cast(pa.int64()), micros).cast(times.type)


def _days(year: int, other: int) -> int:
    return (dt.date(year, 1, 1) - dt.date(other, 1, 1)).days


def _days_later(year: int) -> int:
    """Return how many days later a year begins than the last one before 2038 with the same days of the week."""
    if year < _FIRST_LATE:
        return 0
    same = (
        y for y in range(_FIRST_LATE - 1, 2000, -1) if isleap(y) == isleap(year) and _days(year, y) % 7 == 0
    )
    return _days(year, next(same))


@cache
def _cycle() -> pa.Array:
    """Return how much later each year of a cycle begins; made when asked for, because pyarrow loads pandas for it."""
    return pa.array([_days_later(year) for year in range(2000, 2000 + _CYCLE)], pa.int64())
