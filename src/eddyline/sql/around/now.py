"""The time of the answer in a query: now() and current_date as constants, and what is computed from them folded.

A condition on the last days is then a comparison with a constant, which is evaluated wherever the rows are.
"""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, TypeVar

from sqlglot import exp

from eddyline.errors import SqlError
from eddyline.expressions.nodes import unparenthesised
from eddyline.expressions.times import UTC as UTC_ZONE
from eddyline.expressions.times import truncation_unit, zone_info
from eddyline.types import Column

_Query = TypeVar("_Query", bound=exp.Query)
_NOW = (exp.CurrentTimestamp, exp.CurrentDatetime, exp.Localtimestamp)
_NAMED_NOW = {"now", "current_timestamp", "localtimestamp"}
_NAMED_TODAY = {"current_date", "curdate"}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_NTZ = exp.DataType.Type.TIMESTAMPNTZ
_CLOCKS = (_NTZ, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)


def with_times(
    query: _Query, columns: Mapping[str, tuple[Column, ...]], now: datetime, timezone: str | None
) -> _Query:
    """Return a query with the time of the answer for now() and current_date, and with constants in place of sums.

    columns: those of each stream.
    """
    here = now.astimezone(zone_info(timezone or UTC_ZONE))
    kinds = {column.name.lower(): column.type.kind for each in columns.values() for column in each}

    def place(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.CurrentDate) or _is_named(node, _NAMED_TODAY):
            return _date(here.date())
        if isinstance(node, _NOW) or _is_named(node, _NAMED_NOW):
            local = isinstance(node, exp.Localtimestamp) or _meets(node, kinds, "timestamp_ntz")
            return _clock(here, local=local)
        return node

    made: _Query = query.transform(place)  # type: ignore[assignment]
    for node in reversed(list(made.walk())):  # inner nodes come first
        folded = _folded(node)
        if folded is not node:
            node.replace(folded)
    return made


def reads_now(query: exp.Expr) -> bool:
    """Return whether a query reads the time at which it is asked."""
    return any(
        isinstance(node, (exp.CurrentDate, *_NOW)) or _is_named(node, _NAMED_NOW | _NAMED_TODAY)
        for node in query.walk()
    )


def _is_named(node: exp.Expr, names: set[str]) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in names and not node.expressions


def _meets(node: exp.Expr, kinds: Mapping[str, str], kind: str) -> bool:
    """Return whether a value is compared with a column of this kind."""
    around = node.find_ancestor(exp.Predicate)
    columns = list(around.find_all(exp.Column)) if around is not None else []
    return bool(columns) and all(kinds.get(column.name.lower()) == kind for column in columns)


def _date(day: date) -> exp.Expr:
    return exp.cast(exp.Literal.string(day.isoformat()), "DATE", dialect="spark")


def _clock(moment: datetime, *, local: bool) -> exp.Expr:
    written = moment.replace(tzinfo=None).isoformat(" ")
    return exp.cast(exp.Literal.string(written), "TIMESTAMP_NTZ" if local else "TIMESTAMP", dialect="spark")


def _folded(node: exp.Expr) -> exp.Expr:
    """Return a date or time literal that is moved, truncated or cast as one literal."""
    if isinstance(node, exp.Cast | exp.TimestampTrunc):
        return _cast_or_truncated(node) or node
    if isinstance(node, exp.TsOrDsAdd | exp.DateAdd | exp.DateSub):
        interval, unit = _whole_number(node.expression), (node.text("unit") or "day").lower()
        sign = -1 if isinstance(node, exp.DateSub) else 1
    elif isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        written = node.expression
        interval, unit = _whole_number(written.this), written.text("unit").lower().rstrip("s")
        sign = -1 if isinstance(node, exp.Sub) else 1
    else:
        return node
    start = unparenthesised(node.this)
    while isinstance(start, exp.TsOrDsToDate):
        start = unparenthesised(start.this)
    if interval is None or not isinstance(start, exp.Cast) or not isinstance(start.this, exp.Literal):
        return node
    return _moved(start, sign * interval, unit) or node


def _cast_or_truncated(node: exp.Expr) -> exp.Expr | None:
    """Return a time literal that is cast or truncated; its clock is that of the plan's zone, with or without a zone."""
    start = unparenthesised(node.this)
    of_time = (
        isinstance(start, exp.Cast)
        and start.args["to"].this in _CLOCKS
        and isinstance(start.this, exp.Literal)
    )
    if not of_time:
        return None
    try:
        written = datetime.fromisoformat(start.this.name)
    except ValueError:
        return None
    kind = node.args["to"].this if isinstance(node, exp.Cast) else None
    if written.tzinfo is not None or (kind not in (None, exp.DataType.Type.DATE, *_CLOCKS)):
        return None
    if kind is not None:
        is_date = kind == exp.DataType.Type.DATE
        return _date(written.date()) if is_date else _clock(written, local=kind == _NTZ)
    try:
        unit = truncation_unit(node)
    except SqlError:
        return None
    cut = _truncated(written, unit)
    local = start.args["to"].this == _NTZ
    return None if cut is None else _clock(cut, local=local)


def _truncated(moment: datetime, unit: str) -> datetime | None:
    """Return the beginning of the year, month, ... of a time."""
    day = datetime.combine(moment.date(), time())
    if unit == "week":
        return day - timedelta(days=day.weekday())
    begun: dict[str, dict[str, Any]] = {
        "year": {"month": 1, "day": 1},
        "quarter": {"month": (day.month - 1) // 3 * 3 + 1, "day": 1},
        "month": {"day": 1},
        "day": {},
        "hour": {"hour": moment.hour},
        "minute": {"hour": moment.hour, "minute": moment.minute},
        "second": {"hour": moment.hour, "minute": moment.minute, "second": moment.second},
    }
    return day.replace(**begun[unit]) if unit in begun else None


def _whole_number(node: exp.Expr | None) -> int | None:
    """Return a whole number as it is written, also a negative one or a product of two."""
    node = unparenthesised(node) if node is not None else None
    if isinstance(node, exp.Neg):
        inner = _whole_number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Mul):
        left, right = _whole_number(node.left), _whole_number(node.right)
        return None if left is None or right is None else left * right
    try:
        return int(node.name) if isinstance(node, exp.Literal) else None
    except ValueError:
        return None


def _moved(start: exp.Cast, number: int, unit: str) -> exp.Expr | None:
    """Return a literal moved by a number of units; None where its kind is not folded."""
    kind = start.to.this
    try:
        if kind == exp.DataType.Type.DATE:
            day = date.fromisoformat(start.this.name)
            if unit in _DAYS:
                return _date(day + timedelta(days=number * _DAYS[unit]))
            return _date(_months_later(day, number * _MONTHS[unit])) if unit in _MONTHS else None
        written = datetime.fromisoformat(start.this.name)
    except (ValueError, OverflowError):
        return None
    if written.tzinfo is not None:
        return None
    if unit in _SECONDS and kind == _NTZ:
        moved = written + timedelta(seconds=number * _SECONDS[unit])
    elif unit in _DAYS:
        moved = written + timedelta(days=number * _DAYS[unit])
    elif unit in _MONTHS:
        moved = datetime.combine(_months_later(written.date(), number * _MONTHS[unit]), written.time())
    else:
        return None
    made = start.copy()
    made.set("this", exp.Literal.string(moved.isoformat(" ")))
    return made


def _months_later(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of that month, as Spark does."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    following = date(year + month // 11, (month + 1) % 12 + 1, 1)
    return date(year, month + 1, min(day.day, (following - timedelta(days=1)).day))
