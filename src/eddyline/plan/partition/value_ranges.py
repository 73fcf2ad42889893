"""Ranges of key values, and the SQL predicate that a row's key lies in some of them."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from eddyline.plan.partition.histograms import Value
from eddyline.sql.compose import operand_text

LiteralType = Literal["", "DATE", "TIMESTAMP"]


class ValueRange(msgspec.Struct, frozen=True):
    """The values from `low` up to but not including `high`; None where it is open-ended."""

    low: Value | None
    high: Value | None

    def predicate(self, column: str, typed: LiteralType = "") -> str:
        """Return the Spark SQL condition that a column's (or an expression's) value is in the range, and not NULL."""
        column = operand_text(column)
        bounds = [
            f"{column} {sign} {literal(bound, typed)}"
            for sign, bound in ((">=", self.low), ("<", self.high))
            if bound is not None
        ]
        return " AND ".join(bounds) or f"{column} IS NOT NULL"


def bucket_ranges(lows: Sequence[Value], buckets: Iterable[int]) -> tuple[ValueRange, ...]:
    """Return the ranges of some buckets, neighbours merged.

    The first bucket has no low end and the last no high one, so that all buckets together hold every value, also
    those that were not there when the histogram was made.
    """
    starts: list[int] = []
    ends: list[int] = []
    for bucket in sorted(buckets):
        if ends and ends[-1] == bucket:
            ends[-1] = bucket + 1
        else:
            starts.append(bucket)
            ends.append(bucket + 1)
    return tuple(
        ValueRange(lows[start] if start else None, lows[end] if end < len(lows) else None)
        for start, end in zip(starts, ends, strict=True)
    )


def ranges_predicate(ranges: Sequence[ValueRange], column: str, typed: LiteralType = "") -> str:
    """Return the Spark SQL condition that a column's value is in one of the ranges, and not NULL.

    typed: the word before the literals of a column of dates or timestamps. Spark does without, other readers do not.

    >>> ranges_predicate((ValueRange(None, 10), ValueRange(20, 30)), "x")
    '(x < 10) OR (x >= 20 AND x < 30)'
    """
    if len(ranges) == 1:
        return ranges[0].predicate(column, typed)
    return " OR ".join(f"({each.predicate(column, typed)})" for each in ranges)


def literal(value: Value, typed: LiteralType = "") -> str:
    """Return a value as Spark SQL writes it: in strings, backslashes and quotes are escaped."""
    if isinstance(value, str):
        return f"{typed} '".lstrip() + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)
