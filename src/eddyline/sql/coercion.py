"""Which types Spark brings together and what comes of it: the coercion rules of its ANSI mode, as tables."""

from collections.abc import Iterable

from sqlglot import exp

from eddyline.errors import SqlError
from eddyline.types import SqlType

BOOLEAN = SqlType("boolean")
INT = SqlType("int")
BIGINT = SqlType("bigint")
FLOAT = SqlType("float")
DOUBLE = SqlType("double")
STRING = SqlType("string")
DATE = SqlType("date")
TIMESTAMP = SqlType("timestamp")
VOID = SqlType("void")
MAX_PRECISION = 38
_WIDTHS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_NUMBERS = (*_WIDTHS, "decimal", "float", "double")
_CAST_SOURCES: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean", *_NUMBERS),
    **dict.fromkeys(_NUMBERS, ("boolean", *_NUMBERS, "timestamp")),
    "binary": ("binary",),
    "date": _TIMES,
    "timestamp": (*_TIMES, *_NUMBERS),
    "timestamp_ntz": _TIMES,
}
_MOST_DIGITS = 19  # of a BIGINT


def can_cast(source: SqlType, target: SqlType) -> bool:
    """Return whether Spark has a cast between two types, whether or not each value survives it."""
    if source.kind in ("void", "string") or target.kind == "string":
        return True
    return source.kind in _CAST_SOURCES.get(target.kind, ())


def widened(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the decimal that holds all values of two, before Spark bounds it to 38 digits; None if it is wider."""
    a, b = left.as_decimal(), right.as_decimal()
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return SqlType("decimal", precision, scale) if precision <= MAX_PRECISION else None


def common_type(left: SqlType, right: SqlType) -> SqlType | None:  # noqa: PLR0911 - one line per rule
    """Return the type in which Spark compares or mixes two types, or None where it refuses to."""
    if left == right or right.kind == "void":
        return left
    if left.kind == "void":
        return right
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    if "string" in (left.kind, right.kind):
        other = right if left.kind == "string" else left
        if other.is_integer:
            return BIGINT
        return DOUBLE if other.is_numeric else other
    if left.kind in _TIMES and right.kind in _TIMES:
        return max(left, right, key=lambda kind: _TIMES.index(kind.kind))
    return None


def _common_number(left: SqlType, right: SqlType) -> SqlType:
    if left.is_float or right.is_float:
        return DOUBLE
    if left.is_integer and right.is_integer:
        return wider_integer(left, right)
    exact = widened(left, right)
    if exact is not None:
        return exact
    # Beyond 38 digits those after the point give way, all of them if need be.
    a, b = left.as_decimal(), right.as_decimal()
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return SqlType("decimal", MAX_PRECISION, max(MAX_PRECISION - whole, 0))


def common_of(kinds: Iterable[SqlType]) -> SqlType | None:
    """Return the common type of several, strings first as Spark has it; None where it refuses."""
    found = VOID
    for kind in sorted(kinds, key=lambda kind: kind.kind != "string"):
        together = common_type(found, kind)
        if together is None:
            return None
        found = together
    return found


def wider_integer(left: SqlType, right: SqlType) -> SqlType:
    """Return the wider of two integer types."""
    return max(left, right, key=lambda kind: _WIDTHS.index(kind.kind))


def number_type(digits: str) -> SqlType:
    """Return the type of a number as written, with or without a minus before it."""
    if "e" in digits.lower():
        return DOUBLE
    whole, _, fraction = digits.lstrip("-").partition(".")
    if "." not in digits and len(whole.lstrip("0")) <= _MOST_DIGITS:
        value = int(digits)
        if -(2**63) <= value < 2**63:
            return INT if -(2**31) <= value < 2**31 else BIGINT
    precision = max(len(whole.lstrip("0")) + len(fraction), 1)
    if precision > MAX_PRECISION:
        raise SqlError(
            f"the number {digits[:20]}... has {precision:,} digits: at most {MAX_PRECISION} are read."
        )
    return SqlType("decimal", precision, len(fraction))


def bounded(precision: int, scale: int) -> SqlType:
    """Return the decimal that Spark's arithmetic settles on: beyond 38 digits the scale gives way, down to 6."""
    if precision > MAX_PRECISION:
        scale = max(MAX_PRECISION - (precision - scale), min(scale, 6))
    return SqlType("decimal", min(precision, MAX_PRECISION), scale)


def decimal_result(operator: type[exp.Expr], left: SqlType, right: SqlType) -> SqlType:
    """Return the type of decimal arithmetic, by the table in Spark's DecimalPrecision."""
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if operator is exp.Mul:
        return bounded(left.precision + right.precision + 1, left.scale + right.scale)
    if operator is exp.Div:
        scale = max(6, left.scale + right.precision + 1)
        return bounded(left.precision - left.scale + right.scale + scale, scale)
    scale = max(left.scale, right.scale)
    if operator is exp.Mod:
        return bounded(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    return bounded(whole + scale + 1, scale)
