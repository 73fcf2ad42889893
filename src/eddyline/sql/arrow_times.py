"""Times on Arrow as Spark has them: literals, fields, and timestamps as a clock in the plan's zone shows them."""

import datetime as dt
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.sql import arrow_zones
from eddyline.sql.arrow_numbers import Value
from eddyline.sql.time_units import OF_DATES

_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(Z|[+-]\d\d:\d\d)?)?")
_TIMESTAMP = pa.timestamp("us", "UTC")
_DAY = 86_400_000_000
_MICROS = {"second": 1_000_000, "millisecond": 1_000, "microsecond": 1}


def local(value: Value, timezone: str) -> Value:
    """Return timestamps as times without a zone, as a clock in the zone shows them; other values as they are."""
    if not pa.types.is_timestamp(value.type) or value.type.tz is None:
        return value
    return arrow_zones.shown(value, timezone)


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
"""The fields of a date or of a time as a clock shows it, by the name that EXTRACT has for them."""


def as_date(value: Value, timezone: str) -> Value:
    """Return dates and timestamps as dates, the latter in the zone."""
    return local(value, timezone).cast(pa.date32(), safe=False)


def as_timestamp(value: Value, timezone: str) -> Value:
    """Return dates and times without a zone as timestamps: what a clock in the zone shows then.

    A time that the clocks skip is as much later as they were put forward, a date begins when its first hour does.
    """
    if pa.types.is_date(value.type):
        return arrow_zones.at(value, timezone, nonexistent="latest")
    if value.type.tz is not None:
        return value
    return _ahead(value, arrow_zones.at(value, timezone, nonexistent="earliest"), timezone)


def _ahead(clock: Value, of: Value, timezone: str) -> Value:
    """Return the timestamps at which clocks show a time that are as far from UTC as they are at other timestamps."""
    moments = of.cast(pa.int64())
    shown = local(of, timezone).cast(pa.int64())
    return pc.add(clock.cast(pa.int64()), pc.subtract(moments, shown)).cast(_TIMESTAMP)


def truncated(value: Value, unit: str, timezone: str) -> Value:
    """Return the beginning of the year, week, hour, ... of timestamps, on the zone's clocks."""
    begin = pc.floor_temporal(local(value, timezone), unit=unit)
    if unit in OF_DATES:
        return as_timestamp(as_date(begin, timezone), timezone)
    same = _ahead(begin, value, timezone)  # of an hour that comes twice the one that the time is in
    return pc.if_else(pc.equal(local(same, timezone), begin), same, as_timestamp(begin, timezone))


def truncated_date(value: Value, unit: str) -> Value:
    """Return the first day of the year, quarter, month or week of dates."""
    return pc.floor_temporal(value, unit=unit)


def last_day(value: Value) -> Value:
    """Return the last day of the month of dates."""
    following = pc.ceil_temporal(value, unit="month", ceil_is_strictly_greater=True)
    return plus_days(following, pa.scalar(-1, pa.int32()))


def plus_days(value: Value, days: Value) -> Value:
    """Return dates so many days later."""
    return pc.add_checked(value.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


def plus_micros(value: Value, micros: int, timezone: str) -> Value:
    """Return dates and times so much later, dates by whole days.

    As in Spark, whole days of a TIMESTAMP are days on the zone's clocks, and 24 hours are such a day.
    """
    days = abs(micros) // _DAY * (-1 if micros < 0 else 1)
    if pa.types.is_date(value.type):
        return plus_days(value, pa.scalar(days, pa.int32()))
    rest = micros - days * _DAY
    if value.type.tz is None or not days:
        return _later(value, micros)
    clock = _later(local(value, timezone), days * _DAY)
    same = _ahead(clock, value, timezone)  # of an hour that comes twice the one that is as far from UTC
    moved = pc.if_else(pc.equal(local(same, timezone), clock), same, as_timestamp(clock, timezone))
    return _later(moved, rest)


def _later(value: Value, micros: int) -> Value:
    return pc.add_checked(value.cast(pa.int64()), pa.scalar(micros, pa.int64())).cast(value.type)


def days_between(end: Value, start: Value) -> Value:
    """Return how many days dates are after others."""
    return pc.subtract_checked(end.cast(pa.int32()), start.cast(pa.int32()))


def epoch(value: Value, unit: str) -> Value:
    """Return timestamps as whole seconds, milliseconds or microseconds since 1970, rounded down."""
    begin = pc.floor_temporal(value.cast(pa.timestamp("us")), unit=unit)
    return pc.divide(begin.cast(pa.int64()), _MICROS[unit])


def from_epoch(value: Value, unit: str) -> Value:
    """Return the timestamps of whole seconds, milliseconds or microseconds since 1970."""
    return pc.multiply_checked(value.cast(pa.int64()), _MICROS[unit]).cast(_TIMESTAMP)


def literal(text: str, kind: str, timezone: str) -> pa.Scalar | None:
    """Return the DATE, TIMESTAMP or TIMESTAMP_NTZ that a text names, or None where only Spark can tell."""
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
    """Return (time, whether a zone was written) of a text, the time in UTC if so."""
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
        return arrow_zones.at(clock, timezone, nonexistent="raise")
    except pa.ArrowInvalid:
        return None
