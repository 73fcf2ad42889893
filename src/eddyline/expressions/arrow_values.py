"""Numbers, strings and types on Arrow with Spark's semantics."""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.typing import number_type
from eddyline.types import SqlType

# SQL types and Arrow types, both ways, and Arrow's values as Python's.
#
# Python's calendar ends with the year 9999 and begins with the year 1; Spark's and Arrow's do not. A date or
# time outside of it is a string in Python, as Spark writes it: `+10000-01-01`.


_TO_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval": pa.duration("us"),
    "void": pa.null(),
}
_FROM_ARROW: dict[pa.DataType, SqlType] = {
    pa.bool_(): SqlType("boolean"),
    pa.int8(): SqlType("tinyint"),
    pa.int16(): SqlType("smallint"),
    pa.uint8(): SqlType("smallint"),
    pa.int32(): SqlType("int"),
    pa.uint16(): SqlType("int"),
    pa.int64(): SqlType("bigint"),
    pa.uint32(): SqlType("bigint"),
    pa.float32(): SqlType("float"),
    pa.float64(): SqlType("double"),
    pa.string(): SqlType("string"),
    pa.large_string(): SqlType("string"),
    pa.string_view(): SqlType("string"),
    pa.binary(): SqlType("binary"),
    pa.large_binary(): SqlType("binary"),
    pa.date32(): SqlType("date"),
}


def to_arrow(kind: SqlType) -> pa.DataType:
    """Return the Arrow type that Spark gives columns of a SQL type."""
    if kind.kind == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _TO_ARROW[kind.kind]


def from_arrow(kind: pa.DataType) -> SqlType | None:
    """Return the SQL type of an Arrow type, or None."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return SqlType("decimal", kind.precision, kind.scale) if kind.precision <= 38 else None
    if pa.types.is_timestamp(kind):
        return SqlType("timestamp" if kind.tz else "timestamp_ntz")
    return _FROM_ARROW.get(kind)


def as_decimals(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Return numbers as a DECIMAL, rounded to its places; a float is the number that it shows.

    Numbers beyond its digits make it a decimal256.
    """
    most = pc.max(pc.abs(values)).as_py() if len(values) > values.null_count else 0
    if not pa.types.is_floating(values.type) or float(most) * 10.0**kind.scale < _SURE:
        return values.cast(kind if most < Decimal(10) ** (kind.precision - kind.scale) else _wider(kind))
    unit = Decimal(1).scaleb(-kind.scale)
    with localcontext(prec=400):
        numbers = [
            Decimal(repr(each)).quantize(unit) if each is not None and isfinite(each) else None
            for each in values.to_pylist()
        ]
    fits = all(each is None or each.adjusted() < kind.precision - kind.scale for each in numbers)
    return pa.array(numbers, kind if fits else _wider(kind))


def _wider(kind: pa.DataType) -> pa.DataType:
    return pa.decimal256(76, kind.scale)


_SURE = 1e15
"""Arrow rounds a float to a DECIMAL in floating point, which is right up to here in units of its last place."""
_DAY = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The years and days after which the calendar repeats."""
_BEFORE_1970 = dt.date(1970, 1, 1).toordinal()


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column in Python; dates and times outside of Python's calendar as strings."""
    kind = column.type
    if not pa.types.is_date32(kind) and kind not in (_TO_ARROW["timestamp"], _TO_ARROW["timestamp_ntz"]):
        return list(column.to_pylist())
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # pyarrow raises either
        numbers = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).to_pylist()
        return [None if number is None else _python_time(number, kind) for number in numbers]


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table in Python, with values as in `python_values`."""
    columns = [python_values(column) for column in table.columns]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def date_of(day: int) -> dt.date | str:
    """Return a date, given in days since 1970; a string where Python has no such date.

    >>> date_of(2932896), date_of(2932897), date_of(-719529)
    (datetime.date(9999, 12, 31), '+10000-01-01', '-0001-12-31')
    """
    cycles, of_cycle = divmod(day + _BEFORE_1970 - 1, _CYCLE_DAYS)
    date = dt.date.fromordinal(of_cycle + 1)
    year = date.year + cycles * _CYCLE_YEARS
    if dt.MINYEAR <= year <= dt.MAXYEAR:
        return date.replace(year=year)
    sign = "+" if year > 0 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}{date.isoformat()[4:]}"


def _python_time(number: int, kind: pa.DataType) -> dt.date | str:
    """Return a date or time, given in days or microseconds since 1970."""
    if pa.types.is_date32(kind):
        return date_of(number)
    day, micros = divmod(number, _DAY)
    date, zone = date_of(day), None if kind.tz is None else dt.UTC
    time = (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)).time()
    if isinstance(date, str):
        return f"{date} {time.isoformat()}{'' if zone is None else '+00:00'}"
    return dt.datetime.combine(date, time, zone)


# Numbers: casts between number types, and comparisons in which NaN is a value.


Value = Any  # an Arrow array, chunked array or scalar: pyarrow has no type annotations
_EXACT_INTEGERS = 2**53
_EXACT_SCALE = 22
"""Powers of ten up to this exponent are exact doubles."""


def number_scalar(digits: str) -> pa.Scalar:
    """Return a SQL number literal, in the type that Spark gives it."""
    kind = number_type(digits)
    value = float(digits) if kind.is_float else Decimal(digits)
    return pa.scalar(int(value) if kind.is_integer else value, to_arrow(kind))


def as_number(value: Value, kind: pa.DataType) -> Value:
    """Return numbers in a wider number type, or in the nearest DOUBLE or FLOAT as Java rounds it."""
    if value.type == kind:
        return value
    if pa.types.is_floating(kind) and pa.types.is_decimal(value.type):
        return decimal_to_float(value, kind)
    if pa.types.is_floating(kind) and pa.types.is_integer(value.type):
        return value.cast(kind, safe=False)
    return value.cast(kind)


def decimal_to_float(value: Value, kind: pa.DataType) -> Value:
    """Return decimals as the nearest floats; Arrow's own cast is off by one unit in the last place."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(_nearest(value.as_py(), kind), kind)
    chunks = value.chunks if isinstance(value, pa.ChunkedArray) else [value]
    return pa.chunked_array([_array_to_float(chunk, kind) for chunk in chunks], kind)


def _array_to_float(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array of decimals as floats: one division where both sides are exact, digit by digit elsewhere."""
    scale = array.type.scale
    words = np.frombuffer(array.cast(pa.decimal128(38, scale)).buffers()[1] or b"", dtype="<i8").reshape(
        -1, 2
    )
    words = words[array.offset : array.offset + len(array)] if len(words) != len(array) else words
    low, high = words[:, 0], words[:, 1]
    valid = np.asarray(pc.is_valid(array))
    exact = (high == low >> 63) & (low > -_EXACT_INTEGERS) & (low < _EXACT_INTEGERS)
    if scale > _EXACT_SCALE or kind != pa.float64():
        exact[:] = False
    numbers = np.where(exact & valid, low, 0) / float(f"1e{min(scale, _EXACT_SCALE)}")
    numbers = numbers.astype(kind.to_pandas_dtype(), copy=False)
    for index in np.flatnonzero(valid & ~exact).tolist():
        numbers[index] = _nearest(array[index].as_py(), kind)
    return pa.array(numbers, kind, mask=~valid)


def _nearest(number: Any, kind: pa.DataType) -> Any:
    if number is None or kind == pa.float64():
        return None if number is None else float(number)
    return np.float32(str(number))  # rounded once: through a double it would be rounded twice


def check_divisor(left: Value, right: Value) -> None:
    """Raise ZeroDivisionError where a number is divided by zero; a NULL may be divided by anything."""
    if holds_any(pc.and_(pc.is_valid(left), pc.equal(right, _constant(0, right.type)))):
        raise ZeroDivisionError("division by zero")


def _constant(number: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(number) if pa.types.is_decimal(kind) else number, kind)


def remainder(left: Value, right: Value) -> Value:
    """Return the remainder of a division of numbers of one kind, with the sign of the dividend."""
    check_divisor(left, right)
    decimal = pa.types.is_decimal(left.type)
    kind = pa.decimal128(38, max(left.type.scale, right.type.scale)) if decimal else left.type
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return remainder(pa.array([left.as_py()], left.type), right)[0]
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    sides = [pc.fill_null(side, _constant(0, side.type)) for side in (left, right)]
    values = [np.asarray(side.as_py() if isinstance(side, pa.Scalar) else side) for side in sides]
    with localcontext(prec=100):  # Python's decimals, whose remainder also has the sign of the dividend
        found = np.where(values[1] == 0, 1, values[1])
        found = values[0] % found if decimal else np.fmod(values[0], found)
    return pa.array(found, kind, mask=~np.asarray(valid))


def whole_quotient(left: Value, right: Value) -> Value:
    """Return the quotient of integers without the remainder."""
    check_divisor(left, right)
    divisor = pc.if_else(pc.equal(right, 0), pa.scalar(None, right.type), right)
    return pc.divide_checked(left, divisor)


def whole_near(value: Value, kind: pa.DataType, rounded: Callable[..., Value]) -> Value:
    """Return numbers rounded by floor or ceil, in a type; as in Spark, a DOUBLE beyond BIGINT is its end, NaN is 0."""
    if pa.types.is_integer(value.type):
        return value.cast(kind)
    if pa.types.is_decimal(value.type):
        return rounded(value.cast(pa.decimal256(76, value.type.scale))).cast(kind)
    low, high = -(2.0**63), 2.0**63
    number = pc.if_else(pc.is_nan(value), 0.0, rounded(value.cast(pa.float64())))
    inside = pc.and_(pc.greater_equal(number, low), pc.less(number, high))
    end = pc.if_else(pc.less(number, low), pa.scalar(-(1 << 63)), pa.scalar((1 << 63) - 1))
    return pc.if_else(inside, pc.if_else(inside, number, 0.0).cast(pa.int64()), end)


def compare_floats(operator: Callable[..., Value], left: Value, right: Value) -> Value:
    """Return a comparison in which NaN equals NaN and is greater than every other number."""
    plain = operator(left, right)
    if not (holds_any(pc.is_nan(left)) or holds_any(pc.is_nan(right))):
        return plain
    order = [pc.if_else(pc.is_nan(side), 1, 0) for side in (left, right)]
    either = pc.or_(pc.equal(order[0], 1), pc.equal(order[1], 1))
    return pc.if_else(either, operator(order[0], order[1]), plain)


def holds_any(value: Value) -> bool:
    """Return whether a value is TRUE anywhere."""
    return (value if isinstance(value, pa.Scalar) else pc.any(value)).as_py() is True


# Strings: LIKE, parts of strings, and upper and lower case in every alphabet.


def upper(value: Value) -> Value:
    """Return strings in upper case."""
    return _cased(value, pc.utf8_upper, str.upper)


def lower(value: Value) -> Value:
    """Return strings in lower case."""
    return _cased(value, pc.utf8_lower, str.lower)


def _cased(value: Value, ascii_only: Callable[..., Value], of_any: Callable[[str], str]) -> Value:
    """Return strings in another case; Arrow does not handle letters that become two, such as the German sharp s."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(None if value.as_py() is None else of_any(value.as_py()), pa.string())
    if not holds_any(pc.invert(pc.string_is_ascii(value))):
        return ascii_only(value)
    return pa.chunked_array(
        [[None if text is None else of_any(text) for text in value.to_pylist()]], type=pa.string()
    )


def part_of(value: Value, start: int, length: int | None) -> Value:
    """Return substring(text, start, length): positions count from 1, 0 is the first, negative ones from the end."""
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(value, start=0, stop=0)
    begin = start - 1 if start > 0 else start
    stop = None if length is None or (begin < 0 <= begin + length) else begin + length
    return pc.utf8_slice_codeunits(value, start=begin, stop=stop)


def joined(values: Sequence[Value]) -> Value:
    """Return the concatenation of strings, NULL where one is NULL."""
    return pc.binary_join_element_wise(*values, "", null_handling="emit_null")


def like(value: Value, pattern: str) -> Value:
    """Return whether strings match a LIKE pattern that `is_like_pattern` accepts."""
    return pc.match_substring_regex(value, _regular_expression(pattern))


def is_like_pattern(pattern: str) -> bool:
    r"""Return whether Spark accepts a LIKE pattern: backslashes are only allowed before %, _ or a backslash."""
    return "\x00" not in pattern and re.fullmatch(r"(?s)([^\\]|\\[%_\\])*", pattern) is not None


def _regular_expression(pattern: str) -> str:
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"(?s)\\.|.", pattern)
    return "(?s)^" + "".join(wild.get(part) or _quoted(part[-1]) for part in parts) + "$"


def _quoted(char: str) -> str:
    return f"[{char}]" if char in ".*+?()[{}|$" else rf"\{char}" if char in r"]\^" else char
