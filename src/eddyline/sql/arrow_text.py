"""Strings on Arrow as Spark has them: LIKE, and upper and lower case in every alphabet."""

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.sql.arrow_numbers import Value, holds_any


def upper(value: Value) -> Value:
    """Return strings in upper case."""
    return _cased(value, pc.utf8_upper, str.upper)


def lower(value: Value) -> Value:
    """Return strings in lower case."""
    return _cased(value, pc.utf8_lower, str.lower)


def _cased(value: Value, ascii_only: Callable[..., Value], of_any: Callable[[str], str]) -> Value:
    """Return strings in another case; Arrow knows no letters that become two, such as the German sharp s."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(None if value.as_py() is None else of_any(value.as_py()), pa.string())
    if not holds_any(pc.invert(pc.string_is_ascii(value))):
        return ascii_only(value)
    return pa.chunked_array(
        [[None if text is None else of_any(text) for text in value.to_pylist()]], type=pa.string()
    )


def like(value: Value, pattern: str) -> Value:
    """Return whether strings match a LIKE pattern that `is_like_pattern` takes."""
    return pc.match_substring_regex(value, _regular_expression(pattern))


def is_like_pattern(pattern: str) -> bool:
    r"""Return whether Spark takes a LIKE pattern: a backslash stands before %, _ or another backslash only."""
    return "\x00" not in pattern and re.fullmatch(r"(?s)([^\\]|\\[%_\\])*", pattern) is not None


def _regular_expression(pattern: str) -> str:
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"(?s)\\.|.", pattern)
    return "(?s)^" + "".join(wild.get(part) or _quoted(part[-1]) for part in parts) + "$"


def _quoted(char: str) -> str:
    return f"[{char}]" if char in ".*+?()[{}|$" else rf"\{char}" if char in r"]\^" else char
