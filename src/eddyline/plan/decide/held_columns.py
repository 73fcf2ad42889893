"""Columns as elements hold them: in which expression, and whether its code tells the value.

Codes of numbers and times are their values. That of a text is a hash, and so is that of a DECIMAL with digits after the
point: dictionaries keep the values of such columns as labels. A DECIMAL of money has too many values for that; it is
held times a power of ten, as a whole number, whose code is its value again.
"""

import re

from eddyline.sketch.keys import code_is_value
from eddyline.sql.query import Expression, Key
from eddyline.types import Column, SqlType

_MOST_DIGITS, _MOST_SCALE = 18, 6
_SCALED_UP = re.compile(r"`\w+` \* (10+)")


def column_expression(column: Column) -> Expression:
    """Return a column as an expression, in the spelling of parsed queries."""
    return Expression(f"`{column.name}`", column.type)


def held_expression(column: Column) -> Expression:
    """Return an explored column as elements hold it: itself, or a DECIMAL of up to 18 digits as a whole number."""
    kind = column.type
    if kind.kind != "decimal" or not 0 < kind.scale <= _MOST_SCALE or kind.precision > _MOST_DIGITS:
        return column_expression(column)
    return Expression(
        f"`{column.name}` * {10**kind.scale}",
        SqlType("decimal", kind.precision + kind.scale + 2, kind.scale),
    )


def code_tells(key: Key) -> bool:
    """Return whether the code of a key of one column tells its value."""
    (part,) = key.columns
    scaled = _SCALED_UP.fullmatch(part.text)
    whole = part.type.kind == "decimal" and scaled is not None and int(scaled[1]) == 10**part.type.scale
    return code_is_value(part.type) or (whole and part.type.precision <= _MOST_DIGITS + part.type.scale + 2)
