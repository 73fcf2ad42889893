"""Time zones: their names in one spelling, this machine's zone, and which expressions depend on a zone."""

import os
import re
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import sqlglot
from sqlglot import exp

from eddyline.errors import PlanError
from eddyline.sql.schema import sql_type
from eddyline.types import Column

UTC = "UTC"
_UTC_NAMES = frozenset(
    "utc z gmt ut uct zulu universal greenwich gmt0 etc/utc etc/gmt etc/uct etc/zulu etc/universal etc/gmt0".split()  # noqa: SIM905
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?(\d\d))?")
_OF_INSTANTS = (
    exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.TimestampTrunc, exp.DateTrunc, exp.StrToUnix,
)  # fmt: skip
_OF_CLOCKS = (exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.DateTrunc)
"""Of those, what a DATE or TIMESTAMP_NTZ shows in every zone."""
_COMPARING = (
    exp.Column, exp.Identifier, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or, exp.Not, exp.Is, exp.In,
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.Coalesce,
)  # fmt: skip


def normal_zone(name: str) -> str:
    """Return a zone as plans name it: a region of the tz database, an offset such as +05:30, or UTC.

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
            f"timezone={name!r} is no time zone: give a region such as Europe/Berlin, an offset such as +05:30, or UTC."
        ) from error
    return name


def zone_info(name: str) -> tzinfo:
    """Return the zone that a plan names, for times of Python.

    >>> zone_info("+05:30").utcoffset(None)
    datetime.timedelta(seconds=19800)
    """
    offset = datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo if name[0] in "+-" else None
    return offset or ZoneInfo(name)


def machine_zone() -> str:
    """Return the zone of this machine, which a Spark session takes by default: TZ, else /etc/localtime, else UTC."""
    named = os.environ.get("TZ", "").lstrip(":")
    linked = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
    for name in (named, linked):
        try:
            return normal_zone(name)
        except PlanError:
            continue
    return UTC


def depends_on_zone(text: str, columns: tuple[Column, ...]) -> bool:
    """Return whether an expression may mean something else in another zone; in doubt it does."""
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
    """Return whether an expression reads times without a zone only as their clock shows them, the same in every zone.

    Plans record a zone in doubt; a later query that certainly needs none is answered without it.

    >>> from eddyline.sql.schema import parse_schema
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
