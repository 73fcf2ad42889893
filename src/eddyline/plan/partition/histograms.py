"""Equi-depth histograms of key columns, and ranges of key values as SQL predicates."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from eddyline.errors import PlanError
from eddyline.expressions.nodes import operand_text

# Histograms contain what the planner knows about the streams before they flow.
#
# Bucket bounds are values: integers, floats (decimals too) or strings (dates and timestamps in ISO form,
# which sorts correctly). Ranges are half-open, so a bucket ends where the next begins; the last ends at the
# greatest value.


Value = int | float | str


class Histogram(msgspec.Struct, frozen=True):
    """Buckets of one key column: the least value of each, the greatest of all, rows and distinct values.

    `squares`, if known, has the sum of squared frequencies of each bucket; without it the rows of a bucket
    count as spread evenly over its distinct values.
    """

    lows: tuple[Value, ...]
    high: Value
    rows: tuple[float, ...]
    distinct: tuple[float, ...]
    squares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.lows), len(self.rows), len(self.distinct), len(self.squares or self.rows)}
        if len(sizes) > 1 or not self.lows:
            raise PlanError(
                "a histogram has one low bound, row count and distinct count for each of its buckets."
            )
        if len({isinstance(value, str) for value in (*self.lows, self.high)}) > 1:
            raise PlanError("the bounds of a histogram are all strings or all numbers.")
        ends = (*self.lows, self.high)
        if any(low >= high for low, high in pairwise(self.lows)) or ends[-2] > ends[-1]:  # type: ignore[operator]
            raise PlanError("the bounds of a histogram ascend.")

    def self_joins(self) -> np.ndarray:
        """Return the sum of squared frequencies of each bucket, as far as it is known."""
        if self.squares is not None:
            return np.array(self.squares, dtype=np.float64)
        pairs = zip(self.rows, self.distinct, strict=True)
        return np.array([rows**2 / distinct if distinct else 0.0 for rows, distinct in pairs])


def equi_depth(values: np.ndarray, counts: np.ndarray, buckets: int) -> Histogram:
    """Return a histogram of at most `buckets` buckets that hold about equally many rows each.

    values: distinct, in any order; numbers, strings or datetimes. A value with more rows than a bucket's share
    replaces several buckets, so there are fewer in all.
    """
    if not len(values) or buckets < 1:
        raise PlanError(
            "a histogram needs at least one value and one bucket: leave out columns without values."
        )
    values = np.asarray(values)
    if values.dtype.kind in "Mm":
        values = np.datetime_as_string(values)
    order = np.argsort(values, kind="stable")
    values, counts = values[order], np.asarray(counts, dtype=np.float64)[order]
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise PlanError(
            "a histogram holds finite values only: leave infinities and NaN out of the statistics."
        )
    upto = np.cumsum(counts)
    bucket = ((upto - counts) * buckets / upto[-1]).astype(np.int64)
    starts = np.flatnonzero(np.diff(bucket, prepend=-1))
    return Histogram(
        lows=tuple(values[starts].tolist()),
        high=values.tolist()[-1],
        rows=tuple(np.add.reduceat(counts, starts).tolist()),
        distinct=tuple(np.diff(starts, append=len(values)).tolist()),
        squares=tuple(np.add.reduceat(counts**2, starts).tolist()),
    )


def aligned(left: Histogram, right: Histogram) -> tuple[Histogram, Histogram]:
    """Return two histograms on common buckets: both sides of a join link. A split bucket is divided evenly.

    A side has no rows in the buckets outside its own range of values.
    """
    if isinstance(left.high, str) != isinstance(right.high, str):
        raise PlanError(
            f"the histograms of the two sides of a join hold {left.high!r} and {right.high!r}: give both as numbers "
            "or both as strings."
        )
    lows = tuple(sorted({*left.lows, *right.lows}))
    high = max(left.high, right.high)
    scale = _positions((*lows, left.high, right.high))
    return _recut(left, lows, high, scale), _recut(right, lows, high, scale)


def _recut(
    histogram: Histogram, lows: tuple[Value, ...], high: Value, scale: dict[Value, float]
) -> Histogram:
    """Return the histogram on finer buckets, the last of which ends at `high`."""
    bounds = [scale[low] for low in histogram.lows] + [scale[histogram.high]]
    if isinstance(histogram.high, int):
        bounds[-1] += 1.0  # makes the range of integers that ends with the greatest half-open
    starts = np.array([scale[low] for low in lows])
    share = np.zeros((len(lows), len(histogram.lows)))
    for bucket, (low, end) in enumerate(pairwise(bounds)):
        covered = np.clip(np.append(starts[1:], np.inf), low, end) - np.clip(starts, low, end)
        if end > low:
            share[:, bucket] = covered / (end - low)
        else:
            share[lows.index(histogram.lows[bucket]), bucket] = 1.0
    columns = [histogram.rows, histogram.distinct, histogram.squares]
    cut = [None if column is None else tuple((share @ np.array(column)).tolist()) for column in columns]
    return Histogram(lows, high, cut[0] or (), cut[1] or (), cut[2])


def _positions(values: Sequence[Value]) -> dict[Value, float]:
    """Return a number for each value, in the same order, by which ranges of values are divided."""
    texts = sorted({value for value in values if isinstance(value, str)})
    if texts:
        return dict(zip(texts, _instants(texts) or _fractions(texts), strict=True))
    numbers = [value for value in values if not isinstance(value, str)]
    least = min(numbers)  # subtracted first: large integers then keep their differences as floats
    return {value: float(value - least) for value in numbers}


def _instants(texts: list[str]) -> list[float] | None:
    """Return the seconds of ISO dates and timestamps, or None if the strings are not such that sort correctly."""
    try:
        seconds = [datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in texts]
    except ValueError:
        return None
    return seconds if seconds == sorted(seconds) else None


def _fractions(texts: list[str]) -> list[float]:
    """Return where each string lies between the first and the last, as numbers in base 256."""
    length = max(len(text.encode()) for text in texts)
    numbers = [int.from_bytes(text.encode().ljust(length, b"\0"), "big") for text in texts]
    return [(number - numbers[0]) / max(numbers[-1] - numbers[0], 1) for number in numbers]


# Ranges of key values, and the SQL predicate that a row's key lies in some of them.


LiteralType = Literal["", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"]


class ValueRange(msgspec.Struct, frozen=True):
    """The values from `low` up to but not including `high`; None means open-ended."""

    low: Value | None
    high: Value | None

    def predicate(self, column: str, typed: LiteralType = "") -> str:
        """Return the Spark SQL condition that a column (or an expression) is in the range, and not NULL."""
        column = operand_text(column)
        bounds = [
            f"{column} {sign} {sql_literal(bound, typed)}"
            for sign, bound in ((">=", self.low), ("<", self.high))
            if bound is not None
        ]
        return " AND ".join(bounds) or f"{column} IS NOT NULL"


def bucket_ranges(lows: Sequence[Value], buckets: Iterable[int]) -> tuple[ValueRange, ...]:
    """Return the ranges of some buckets, with neighbors merged.

    The first bucket has no low end and the last no high one, so that all buckets together hold every value,
    including those that did not exist when the histogram was made.
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

    typed: the word before the literals of a date or timestamp column. Spark does not need it, other readers do.

    >>> ranges_predicate((ValueRange(None, 10), ValueRange(20, 30)), "x")
    '(x < 10) OR (x >= 20 AND x < 30)'
    """
    if len(ranges) == 1:
        return ranges[0].predicate(column, typed)
    return " OR ".join(f"({each.predicate(column, typed)})" for each in ranges)


def sql_literal(value: Value, typed: LiteralType = "") -> str:
    """Return a value as Spark SQL writes it: in strings, backslashes and quotes are escaped.

    A bound of a TIMESTAMP column is in UTC if it names no zone: it then does not depend on a session's time zone.
    """
    if isinstance(value, str):
        if typed == "TIMESTAMP" and datetime.fromisoformat(value).tzinfo is None:
            value += "Z"
        return f"{typed} '".lstrip() + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)
