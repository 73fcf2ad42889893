"""Times on Arrow as Spark has them: literals, and timestamps as a clock in the plan's zone shows them."""

import datetime as dt
import re

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.sql.arrow_numbers import Value

_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(Z|[+-]\d\d:\d\d)?)?")


def local(value: Value, timezone: str) -> Value:
    """Return timestamps as times without a zone, as a clock in the zone shows them; other values as they are."""
    if not pa.types.is_timestamp(value.type) or value.type.tz is None:
        return value
    return pc.local_timestamp(value.cast(pa.timestamp(value.type.unit, timezone)))


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
    kind = pa.timestamp("us", "UTC")
    if found[1]:
        return pa.scalar(found[0], kind)
    clock = pa.scalar(found[0].replace(tzinfo=None), pa.timestamp("us"))
    try:
        return pc.assume_timezone(clock, timezone, ambiguous="earliest", nonexistent="raise").cast(kind)
    except pa.ArrowInvalid:
        return None
