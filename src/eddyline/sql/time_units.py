"""Units and fields of times: the names that date_trunc, trunc and EXTRACT take, as Spark has them."""

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
