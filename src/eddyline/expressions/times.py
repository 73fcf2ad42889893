"""Units, fields and time zones of dates and timestamps, by Spark's names."""

import os
import re
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import sqlglot
from sqlglot import exp

from eddyline.errors import PlanError, SqlError
from eddyline.expressions.nodes import fragment
from eddyline.expressions.schema import sql_type
from eddyline.types import Column

# Units and fields of times: the names that Spark accepts in date_trunc, trunc, EXTRACT and intervals.


TIMES = ("date", "timestamp", "timestamp_ntz")
"""Types that have a year and a day."""
DAYS = ("int", "smallint", "tinyint")
"""Types for a number of days."""
OF_DATES = ("year", "quarter", "month", "week")
"""Units that are whole days."""
_UNITS = {
    "year": ("YEAR", "YYYY", "YY"),
    "quarter": ("QUARTER",),
    "month": ("MONTH", "MM", "MON"),
    "week": ("WEEK",),
    "day": ("DAY", "DD"),
    "hour": ("HOUR",),
    "minute": ("MINUTE",),
    "second": ("SECOND",),
    "millisecond": ("MILLISECOND",),
    "microsecond": ("MICROSECOND",),
}
_FIELDS = {
    "year": ("YEAR", "Y", "YEARS", "YR", "YRS"),
    "quarter": ("QUARTER", "QTR"),
    "month": ("MONTH", "MON", "MONS", "MONTHS"),
    "week": ("WEEK", "W", "WEEKS"),
    "day": ("DAY", "D", "DAYS"),
    "dow": ("DAYOFWEEK", "DOW"),
    "dow_iso": ("DAYOFWEEK_ISO", "DOW_ISO"),
    "doy": ("DOY",),
    "hour": ("HOUR", "H", "HOURS", "HR", "HRS"),
    "minute": ("MINUTE", "M", "MIN", "MINS", "MINUTES"),
    "second": ("SECOND", "S", "SEC", "SECONDS", "SECS"),
}

_DAY = 86_400_000_000
_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": _DAY,
    "WEEK": 7 * _DAY,
}
_WHOLE = re.compile(r"-?\d{1,12}")


@dataclass(frozen=True)
class Shift:
    """A time and the interval that is added to it: microseconds, or None for months and years.

    whole_days: the interval leaves a DATE a DATE.
    """

    time: exp.Expr
    micros: int | None
    whole_days: bool


def shift_of(node: exp.Expr) -> Shift | None:
    """Return a time plus or minus an interval of one unit, None for any other expression."""
    left, right = node.args.get("this"), node.args.get("expression")
    if isinstance(node, exp.Add) and isinstance(left, exp.Interval):
        left, right = right, left
    if not isinstance(node, exp.Add | exp.Sub) or not isinstance(right, exp.Interval) or left is None:
        return None
    number, unit = right.this, right.args.get("unit")
    if (
        not isinstance(number, exp.Literal)
        or not isinstance(unit, exp.Var)
        or not _WHOLE.fullmatch(number.name)
    ):
        return None
    name = unit.name.upper().removesuffix("S")
    if name in ("MONTH", "YEAR"):
        return Shift(left, None, whole_days=True)
    if name not in _MICROS:
        return None
    micros = int(number.name) * _MICROS[name] * (-1 if isinstance(node, exp.Sub) else 1)
    return Shift(left, micros, whole_days=name in ("DAY", "WEEK"))


def truncation_unit(node: exp.Expr) -> str:
    """Return the unit of date_trunc or trunc, or raise SqlError where Spark does not know its name."""
    known = {unit: _UNITS[unit] for unit in OF_DATES} if isinstance(node, exp.DateTrunc) else _UNITS
    return _named(node, node.args["unit"].name, known, "units")


def extracted_field(node: exp.Expr) -> str:
    """Return the field of EXTRACT, or raise SqlError where Spark does not know its name."""
    return _named(node, node.this.name, _FIELDS, "fields")


def _named(node: exp.Expr, name: str, known: dict[str, tuple[str, ...]], what: str) -> str:
    for found, names in known.items():
        if name.upper() in names:
            return found
    raise SqlError(f"{fragment(node)!r}: the {what} are {', '.join(names[0] for names in known.values())}.")


# Time zones: their names in one spelling, this machine's zone, and which expressions depend on a zone.


UTC = "UTC"
_UTC_NAMES = frozenset(
    "utc z gmt ut uct zulu universal greenwich gmt0 etc/utc etc/gmt etc/uct etc/zulu etc/universal etc/gmt0".split()  # noqa: SIM905
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?(\d\d))?")
_OF_INSTANTS = (
    exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.TimestampTrunc, exp.DateTrunc, exp.StrToUnix,
)  # fmt: skip
_OF_CLOCKS = (exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.DateTrunc)
"""Those that return the same for a DATE or TIMESTAMP_NTZ in every zone."""
_COMPARING = (
    exp.Column, exp.Identifier, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or, exp.Not, exp.Is, exp.In,
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.Coalesce,
)  # fmt: skip


def normal_zone(name: str) -> str:
    """Return a zone by its name in plans: a region of the tz database, an offset such as +05:30, or UTC.

    >>> normal_zone("Etc/UTC"), normal_zone("GMT+1"), normal_zone("Europe/Berlin")
    ('UTC', '+01:00', 'Europe/Berlin')
    """
    if name.lower() in _UTC_NAMES:
        return UTC
    match = _OFFSET.fullmatch(name)
    if match:
        sign, hours, minutes = match[1], int(match[2]), int(match[3] or 0)
        if hours <= 18 and minutes < 60:
            return UTC if hours == minutes == 0 else f"{sign}{hours:02}:{minutes:02}"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PlanError(
            f"timezone={name!r} is not a time zone: give a region such as Europe/Berlin, an offset such as +05:30, or "
            "UTC."
        ) from error
    return name


def zone_info(name: str) -> tzinfo:
    """Return the zone of a plan, for Python's times.

    >>> zone_info("+05:30").utcoffset(None)
    datetime.timedelta(seconds=19800)
    """
    offset = datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo if name[0] in "+-" else None
    return offset or ZoneInfo(name)


def machine_zone() -> str:
    """Return the zone of this machine, the default of a Spark session: TZ, else /etc/localtime, else UTC."""
    named = os.environ.get("TZ", "").lstrip(":")
    linked = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
    for name in (named, linked):
        try:
            return normal_zone(name)
        except PlanError:
            continue
    return UTC


def depends_on_zone(text: str, columns: tuple[Column, ...]) -> bool:
    """Return whether an expression may have another value in another zone; True in doubt."""
    tree = sqlglot.parse_one(text, dialect="spark")
    kinds = {column.name: column.type.kind for column in columns}
    read = {kinds.get(column.name) for column in tree.find_all(exp.Column)}
    casts = {target.kind for cast in tree.find_all(exp.Cast) if (target := sql_type(cast.to)) is not None}
    instants = "timestamp" in read | casts or any(tree.find_all(*_OF_INSTANTS, exp.Anonymous))
    if not instants:
        return False
    compared = read <= {"timestamp", "boolean"} and all(isinstance(node, _COMPARING) for node in tree.walk())
    return not compared


def reads_clocks_alone(text: str, columns: tuple[Column, ...]) -> bool:
    """Return whether an expression reads times without a zone only as local times, the same in every zone.

    Plans record a zone in doubt; a later query that certainly does not need it is answered without one.

    >>> from eddyline.expressions.schema import parse_schema
    >>> columns = parse_schema("s", "n TIMESTAMP_NTZ, t TIMESTAMP")
    >>> [reads_clocks_alone(text, columns) for text in ("hour(n)", "hour(t)", "date_trunc('DAY', n)")]
    [True, False, False]
    """
    tree = sqlglot.parse_one(text, dialect="spark")
    kinds = {column.name: column.type.kind for column in columns}
    read = {kinds.get(column.name) for column in tree.find_all(exp.Column)}
    casts = {getattr(sql_type(cast.to), "kind", None) for cast in tree.find_all(exp.Cast)}
    doubtful = any(
        node.name.lower() != "weekday"
        if isinstance(node, exp.Anonymous)
        else not isinstance(node, _OF_CLOCKS)
        for node in tree.find_all(*_OF_INSTANTS, exp.Anonymous)
    )
    return not doubtful and not (read | casts) & {"timestamp", "string", None}
