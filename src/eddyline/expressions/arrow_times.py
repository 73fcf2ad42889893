"""Times on Arrow with Spark's semantics: literals, fields, and local times in the plan's zone for all years."""

import datetime as dt
import re
from calendar import isleap
from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.arrow_values import Value, holds_any
from eddyline.expressions.times import OF_DATES

# Conversion between timestamps and local times, for all years: Arrow has no daylight saving time after 2037.
#
# A later year is read as one before 2038 that begins on the same day of the week and has the same length, so
# that the zone's latest rules apply on the same days.


_FIRST_LATE = 2038
_CYCLE = 400
"""Years after which days of the week repeat."""
_DAY = 86_400_000_000
_CLOCK = pa.timestamp("us")
_TIMESTAMP = pa.timestamp("us", "UTC")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")


def time_text(times: Value, timezone: str) -> Value:
    """Return timestamps as local times in the zone, without a zone."""
    if (offset := _offset(timezone)) is not None:
        return _plus(times.cast(_TIMESTAMP).cast(_CLOCK), offset)
    early, later = _early(times.cast(_TIMESTAMP))
    return _plus(pc.local_timestamp(early.cast(pa.timestamp("us", timezone))), later)


def at(clock: Value, timezone: str, *, nonexistent: str) -> Value:
    """Return the timestamps of local times in the zone, the first where there are two; nonexistent: as in Arrow."""
    if (offset := _offset(timezone)) is not None:
        return _plus(clock.cast(_CLOCK), -offset).cast(_TIMESTAMP)
    early, later = _early(clock.cast(_CLOCK))
    found = pc.assume_timezone(early, timezone, ambiguous="earliest", nonexistent=nonexistent)
    return _plus(found.cast(_TIMESTAMP), later)


def _offset(timezone: str) -> int | None:
    """Return the microseconds of a fixed offset, None for a zone by name; older releases of Arrow know only those."""
    if (found := _OFFSET.fullmatch(timezone)) is None:
        return None
    sign, hours, minutes = found.groups()
    return int(f"{sign}1") * (int(hours) * 60 + int(minutes)) * 60_000_000


def _early(times: Value) -> tuple[Value, Value | None]:
    """Return (times before 2038, how many microseconds later the given times are, None if none is later)."""
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


def _plus(times: Value, micros: Value | int | None) -> Value:
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
    """Return how much later each year of a cycle begins; computed on demand: pyarrow loads pandas for it."""
    return pa.array([_days_later(year) for year in range(2000, 2000 + _CYCLE)], pa.int64())


# Literals, fields, and timestamps as local times in the plan's zone.


_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(Z|[+-]\d\d:\d\d)?)?")
_MICROS = {"second": 1_000_000, "millisecond": 1_000, "microsecond": 1}


def local(value: Value, timezone: str) -> Value:
    """Return timestamps as local times in the zone, without a zone; other values as they are."""
    if not pa.types.is_timestamp(value.type) or value.type.tz is None:
        return value
    return time_text(value, timezone)


FIELDS: dict[str, Callable[[Value], Value]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "doy": pc.day_of_year,
    "dow": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=7),
    "dow_iso": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=1),
    "weekday": pc.day_of_week,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
"""The fields of a date or of a local time, by their names in EXTRACT."""


def as_date(value: Value, timezone: str) -> Value:
    """Return dates and timestamps as dates, the latter in the zone."""
    return local(value, timezone).cast(pa.date32(), safe=False)


def as_timestamp(value: Value, timezone: str) -> Value:
    """Return dates and times without a zone as timestamps, read as local times in the zone.

    A time that the clocks skip is moved later by the size of the skip. A date begins when its first existing hour
    does.
    """
    if pa.types.is_date(value.type):
        return at(value, timezone, nonexistent="latest")
    if value.type.tz is not None:
        return value
    return _ahead(value, at(value, timezone, nonexistent="earliest"), timezone)


def _ahead(clock: Value, of: Value, timezone: str) -> Value:
    """Return the timestamps of local times, with the UTC offsets that other timestamps have."""
    moments = of.cast(pa.int64())
    shown = local(of, timezone).cast(pa.int64())
    return pc.add(clock.cast(pa.int64()), pc.subtract(moments, shown)).cast(_TIMESTAMP)


def truncated(value: Value, unit: str, timezone: str) -> Value:
    """Return the beginning of the year, week, hour, ... of timestamps, in the zone's local time."""
    begin = pc.floor_temporal(local(value, timezone), unit=unit)
    if unit in OF_DATES:
        return as_timestamp(as_date(begin, timezone), timezone)
    same = _ahead(begin, value, timezone)  # if an hour occurs twice, the one that contains the time
    return pc.if_else(pc.equal(local(same, timezone), begin), same, as_timestamp(begin, timezone))


def truncated_date(value: Value, unit: str) -> Value:
    """Return the first day of the year, quarter, month or week of dates."""
    return pc.floor_temporal(value, unit=unit)


def last_day(value: Value) -> Value:
    """Return the last day of the month of dates."""
    following = pc.ceil_temporal(value, unit="month", ceil_is_strictly_greater=True)
    return plus_days(following, pa.scalar(-1, pa.int32()))


def plus_days(value: Value, days: Value) -> Value:
    """Return dates plus a number of days."""
    return pc.add_checked(value.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


def plus_micros(value: Value, micros: int, timezone: str) -> Value:
    """Return dates and times plus a number of microseconds, dates plus whole days.

    As in Spark, whole days of a TIMESTAMP are days of local time, and 24 hours are such a day.
    """
    days = abs(micros) // _DAY * (-1 if micros < 0 else 1)
    if pa.types.is_date(value.type):
        return plus_days(value, pa.scalar(days, pa.int32()))
    rest = micros - days * _DAY
    if value.type.tz is None or not days:
        return _later(value, micros)
    clock = _later(local(value, timezone), days * _DAY)
    same = _ahead(clock, value, timezone)  # if an hour occurs twice, the one with the same UTC offset
    moved = pc.if_else(pc.equal(local(same, timezone), clock), same, as_timestamp(clock, timezone))
    return _later(moved, rest)


def _later(value: Value, micros: int) -> Value:
    return pc.add_checked(value.cast(pa.int64()), pa.scalar(micros, pa.int64())).cast(value.type)


def days_between(end: Value, start: Value) -> Value:
    """Return the number of days from start dates to end dates."""
    return pc.subtract_checked(end.cast(pa.int32()), start.cast(pa.int32()))


def epoch(value: Value, unit: str) -> Value:
    """Return timestamps as whole seconds, milliseconds or microseconds since 1970, rounded down."""
    begin = pc.floor_temporal(value.cast(pa.timestamp("us")), unit=unit)
    return pc.divide(begin.cast(pa.int64()), _MICROS[unit])


def from_epoch_units(value: Value, unit: str) -> Value:
    """Return the timestamps of whole seconds, milliseconds or microseconds since 1970."""
    return pc.multiply_checked(value.cast(pa.int64()), _MICROS[unit]).cast(_TIMESTAMP)


def time_literal(text: str, kind: str, timezone: str) -> pa.Scalar | None:
    """Return the DATE, TIMESTAMP or TIMESTAMP_NTZ in a string, or None where only Spark can read it."""
    if kind == "date":
        return _date(text)
    if kind == "timestamp":
        return _timestamp(text, timezone)
    return _local_time(text) if kind == "timestamp_ntz" else None


def _date(text: str) -> pa.Scalar | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return pa.scalar(dt.date(*(int(part) for part in text.split("-"))), pa.date32())
    except ValueError:
        return None


def _parsed(text: str) -> tuple[dt.datetime, bool] | None:
    """Return (time, whether a zone was written) of a string; with a zone, the time is in UTC."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        time = dt.datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[3] or '+00:00'}")
    except ValueError:
        return None
    return time.astimezone(dt.UTC), match[3] is not None


def _local_time(text: str) -> pa.Scalar | None:
    found = _parsed(text)
    return None if found is None or found[1] else pa.scalar(found[0].replace(tzinfo=None), pa.timestamp("us"))


def _timestamp(text: str, timezone: str) -> pa.Scalar | None:
    """Return a timestamp; None for times that the zone's clocks skip, which Spark moves in its own way."""
    found = _parsed(text)
    if found is None:
        return None
    if found[1]:
        return pa.scalar(found[0], _TIMESTAMP)
    clock = pa.scalar(found[0].replace(tzinfo=None), pa.timestamp("us"))
    try:
        return at(clock, timezone, nonexistent="raise")
    except pa.ArrowInvalid:
        return None
