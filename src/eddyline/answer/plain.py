"""Answers as plain values: what `to_dict` returns, and what JSON and CSV can hold.

Numbers keep all their digits: a DECIMAL that no float holds is a text. What JSON has no number for is a text, too:
"NaN", "Infinity", "-Infinity". An end of an interval without a bound is None.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, isfinite, isnan

Plain = bool | int | float | str | None


def plain(value: object) -> Plain:
    """Return a value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return _plain_decimal(value)
    if isinstance(value, float):
        return (
            value if isfinite(value) else "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    return value.hex().upper() if isinstance(value, bytes) else str(value)


def plain_end(end: object) -> Plain:
    """Return an end of an interval as JSON has it, None where it has no bound."""
    return None if isinstance(end, float) and end in (inf, -inf) else plain(end)


def finite(value: object) -> float | None:
    """Return a number as a float that can be drawn, None for all else: texts, dates, BOOLEAN, ends without a bound."""
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def plain_time(seconds: float | None) -> str | None:
    """Return a moment, in seconds since 1970, as ISO 8601 in UTC."""
    return (
        None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    )


def _plain_decimal(value: Decimal) -> Plain:
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)
