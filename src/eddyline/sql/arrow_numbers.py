"""Numbers on Arrow as Spark has them: casts between number types, and comparisons in which NaN is a value."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.coercion import number_type

Value = Any  # an Arrow array, chunked array or scalar: pyarrow has no types of its own to say so
_EXACT_INTEGERS = 2**53
_EXACT_SCALE = 22
"""Powers of ten up to this one are doubles themselves."""


def number_scalar(digits: str) -> pa.Scalar:
    """Return a number as it is written in SQL, in the type that Spark gives it."""
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
    return np.float32(str(number))  # rounded once: by way of a double it would be rounded twice


def check_divisor(left: Value, right: Value) -> None:
    """Raise ZeroDivisionError where a number is divided by zero; NULL is not, whatever it is divided by."""
    if holds_any(pc.and_(pc.is_valid(left), pc.equal(right, _constant(0, right.type)))):
        raise ZeroDivisionError("division by zero")


def _constant(number: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(number) if pa.types.is_decimal(kind) else number, kind)


def remainder(left: Value, right: Value) -> Value:
    """Return what is left over by a division of numbers of one kind, with the sign of what is divided."""
    check_divisor(left, right)
    decimal = pa.types.is_decimal(left.type)
    kind = pa.decimal128(38, max(left.type.scale, right.type.scale)) if decimal else left.type
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return remainder(pa.array([left.as_py()], left.type), right)[0]
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    sides = [pc.fill_null(side, _constant(0, side.type)) for side in (left, right)]
    values = [np.asarray(side.as_py() if isinstance(side, pa.Scalar) else side) for side in sides]
    with localcontext(prec=100):  # decimals are Python's here, whose remainder has this sign, too
        found = np.where(values[1] == 0, 1, values[1])
        found = values[0] % found if decimal else np.fmod(values[0], found)
    return pa.array(found, kind, mask=~np.asarray(valid))


def whole_quotient(left: Value, right: Value) -> Value:
    """Return a division of integers without what is left over."""
    check_divisor(left, right)
    divisor = pc.if_else(pc.equal(right, 0), pa.scalar(None, right.type), right)
    return pc.divide_checked(left, divisor)


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
