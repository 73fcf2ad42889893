"""Units and fields of times: the names that date_trunc, trunc, EXTRACT and intervals take, as Spark has them."""

import re
from dataclasses import dataclass

from sqlglot import exp

from eddyline.errors import SqlError
from eddyline.sql.expressions import fragment

TIMES = ("date", "timestamp", "timestamp_ntz")
"""Types that have a year and a day."""
DAYS = ("int", "smallint", "tinyint")
"""Types of a number of days."""
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
    """Return the unit of date_trunc or trunc, or raise SqlError where Spark knows none of that name."""
    known = {unit: _UNITS[unit] for unit in OF_DATES} if isinstance(node, exp.DateTrunc) else _UNITS
    return _named(node, node.args["unit"].name, known, "units")


def extracted_field(node: exp.Expr) -> str:
    """Return the field of EXTRACT, or raise SqlError where Spark knows none of that name."""
    return _named(node, node.this.name, _FIELDS, "fields")


def _named(node: exp.Expr, name: str, known: dict[str, tuple[str, ...]], what: str) -> str:
    for found, names in known.items():
        if name.upper() in names:
            return found
    raise SqlError(f"{fragment(node)!r}: the {what} are {', '.join(names[0] for names in known.values())}.")
