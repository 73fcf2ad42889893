"""Equi-depth histograms of key columns: what the planner knows of the streams before they flow.

Bucket bounds are values: integers, floats (decimals too) or strings (dates and timestamps in ISO form, which
sorts right). Ranges are half-open, so a bucket ends where the next begins; the last ends at the greatest value.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import numpy as np

from eddyline.errors import PlanError

Value = int | float | str


class Histogram(msgspec.Struct, frozen=True):
    """Buckets of one key column: the least value of each, the greatest of all, rows and distinct values.

    `squares`, where known, has the sum of squared frequencies of each bucket; without it the rows of a bucket
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
    """Return a histogram of at most so many buckets that hold about equally many rows each.

    values: distinct, in any order; numbers, strings or datetimes. A value with more rows than a bucket's share
    takes the place of several buckets, which are then missing.
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
    """Return two histograms on common buckets: both sides of a join link. A bucket that is cut is cut evenly.

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
        bounds[-1] += 1.0  # the range of integers that ends with the greatest, as a half-open one
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
    """Return a number for each value, in the same order, by which ranges of values are cut."""
    texts = sorted({value for value in values if isinstance(value, str)})
    if texts:
        return dict(zip(texts, _instants(texts) or _fractions(texts), strict=True))
    numbers = [value for value in values if not isinstance(value, str)]
    least = min(numbers)  # taken off first: large integers then keep their differences as floats
    return {value: float(value - least) for value in numbers}


def _instants(texts: list[str]) -> list[float] | None:
    """Return the seconds of ISO dates and timestamps, or None where the texts are none that sort right."""
    try:
        seconds = [datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in texts]
    except ValueError:
        return None
    return seconds if seconds == sorted(seconds) else None


def _fractions(texts: list[str]) -> list[float]:
    """Return where each text lies between the first and the last, as numbers in base 256."""
    length = max(len(text.encode()) for text in texts)
    numbers = [int.from_bytes(text.encode().ljust(length, b"\0"), "big") for text in texts]
    return [(number - numbers[0]) / max(numbers[-1] - numbers[0], 1) for number in numbers]
