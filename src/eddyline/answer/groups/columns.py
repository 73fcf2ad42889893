"""Columns of an answer's table: an aggregate of every group with its ends, from exact totals or from intervals.

There may be hundreds of thousands of groups, so that numbers stay in arrays wherever they fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import inf, isnan
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.answer.aggregates import spread_of, unrounded_value, whole_unit
from eddyline.answer.estimate import Scalar
from eddyline.answer.groups.sampled import GroupIntervals
from eddyline.answer.interval import FloatArray
from eddyline.answer.rounding import may_be_cut_off, widened_ends
from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.query import Query
from eddyline.sql.time_units import TIMES
from eddyline.types import SqlType

Value = tuple[Scalar | None, Scalar | None, Scalar | None]
"""An aggregate of a group: the estimate and its ends. NULL has none; what is not known may be any number."""
Column = tuple[pa.Array, pa.Array, pa.Array]
"""An aggregate of every group: the estimates and their ends."""
_FITS = 2.0**63


def not_known(*, is_number: bool) -> Value:
    """Return what a table has of an aggregate that is not known: ends without a bound, as far as its type has them."""
    return (None, -inf, inf) if is_number else (None, None, None)


def column_of_values(values: Sequence[Value], kind: SqlType | None = None) -> Column:
    """Return the column of single values; kind: the type of what is no plain number.

    Dates and times are given in days and microseconds since 1970.
    """
    parts = zip(*values, strict=True) if values else ((), (), ())
    value, low, high = (
        column_of_numbers(part) if kind is None else _column_of_type(part, kind) for part in parts
    )
    return value, low, high


def _column_of_type(values: Sequence[Any], kind: SqlType) -> pa.Array:
    if kind.kind not in TIMES:
        return pa.array(values, to_arrow(kind))
    return pa.array(values, pa.int32() if kind.kind == "date" else pa.int64()).cast(to_arrow(kind))


def column_of_numbers(values: Sequence[Any]) -> pa.Array:
    """Return numbers as integers where all are, however large, else as floats."""
    if all(value is None or isinstance(value, int) for value in values):
        fits = all(value is None or -(1 << 63) <= value < 1 << 63 for value in values)
        return pa.array(values, pa.int64()) if fits else pa.array(values, pa.decimal256(76, 0))
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def exact_column(query: Query, totals: Mapping[str, np.ndarray], *, rounded: bool = False) -> Column:
    """Return an aggregate of every group from its exact totals, as `told_exactly` has it of one."""
    values = _exact_values(query, totals)
    column = values, values, values
    return widened_column(query, column, totals["count"].astype(np.float64)) if rounded else column


def widened_column(query: Query, column: Column, rows: FloatArray) -> Column:
    """Return an aggregate of every group, of so many rows at most, whose ends allow for digits cut off."""
    if not may_be_cut_off(query):
        return column
    nothing = np.asarray(column[1].is_null())
    low, high = (each.fill_null(0.0).to_numpy(zero_copy_only=False) for each in column[1:])
    low, high = widened_ends(query, low, high, rows)
    return column[0], pa.array(low, mask=nothing), pa.array(high, mask=nothing)


def unrounded_values(query: Query, totals: Mapping[str, np.ndarray]) -> list[Fraction | None]:
    """Return an aggregate of every group from its exact totals, before it is rounded to a float."""
    groups = zip(*(each.tolist() for each in totals.values()), strict=True)
    return [unrounded_value(query, dict(zip(totals, group, strict=True))) for group in groups]


def _exact_values(query: Query, totals: Mapping[str, np.ndarray]) -> pa.Array:
    function, count = query.aggregate.function, totals["count"]
    if function == "count":
        return _integers(count)
    nothing = np.asarray(count == 0, dtype=np.bool_)
    if function.endswith("_samp"):
        nothing |= np.asarray(count == 1, dtype=np.bool_)
    unit = whole_unit(query)
    if function == "sum" and unit == 1:
        return _integers(totals["sum"], nothing)
    counts, sums = np.where(nothing, 2, count).tolist(), totals["sum"].tolist()
    if function in ("sum", "avg"):
        # a quotient of Python's integers is the nearest float to the true one
        by = unit.denominator
        divisors = [by] * len(counts) if function == "sum" else [by * each for each in counts]
        return _floats((one / other for one, other in zip(sums, divisors, strict=True)), nothing)
    each = zip(counts, sums, totals["squares"].tolist(), strict=True)
    return _floats((spread_of(function, *one, unit) for one in each), nothing)


def _integers(values: np.ndarray, nothing: np.ndarray | None = None) -> pa.Array:
    """Return integers, however large, with NULL where there is nothing."""
    if values.dtype == np.int64:
        return pa.array(values, mask=nothing)
    missing = np.zeros(len(values), dtype=np.bool_) if nothing is None else nothing
    return column_of_numbers(
        [None if none else int(value) for value, none in zip(values, missing.tolist(), strict=True)]
    )


def _floats(values: Iterable[float], nothing: np.ndarray) -> pa.Array:
    found = np.fromiter(values, dtype=np.float64, count=len(nothing))
    return pa.array(found, mask=nothing)


def sampled_column(
    read: GroupIntervals, function: str, unit: float, shown: np.ndarray, none: np.ndarray
) -> Column:
    """Return an aggregate of the groups that are shown; no value where no sampled row counts.

    Rows that are not followed may count, so that such a value is not known rather than NULL; of a SUM the ends say how
    large it may be.
    """
    value, low, high = (each[shown] * unit for each in (read.values, read.lows, read.highs))
    nothing = none[shown] | np.isnan(value)
    if function == "sum":
        return pa.array(value, mask=nothing), pa.array(low), pa.array(high)
    if function == "count":
        value, low, high = np.maximum(np.rint(value), 0.0), np.maximum(np.floor(low), 0.0), np.ceil(high)
        return _counts(value, nothing), _counts(low, nothing), _counts(high, nothing)
    low, high = np.where(nothing, -inf, low), np.where(nothing, inf, high)
    return pa.array(value, mask=nothing), pa.array(low), pa.array(high)


def _counts(values: FloatArray, nothing: np.ndarray) -> pa.Array:
    """Return whole numbers as integers, if there is no infinity among them."""
    there = values[~nothing]
    if not np.all(np.isfinite(there)):
        return pa.array(values, mask=nothing)
    if np.all(np.abs(there) < _FITS):
        return pa.array(np.where(nothing, 0.0, values).astype(np.int64), mask=nothing)
    return column_of_numbers([None if isnan(value) else int(value) for value in values.tolist()])
