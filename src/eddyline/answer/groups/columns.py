"""Columns of a grouped answer: labels, and each aggregate with its interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import inf, isnan
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.moments import Moment
from eddyline.answer.aggregates import aggregate_value, is_decimal, unrounded_value, whole_units
from eddyline.answer.estimate import Estimate, Scalar, may_be_cut_off, open_ends, widened_ends
from eddyline.answer.groups.sampled import GroupIntervals
from eddyline.answer.interval import FloatArray, Interval
from eddyline.expressions.arrow_values import python_values, to_arrow
from eddyline.expressions.times import TIMES
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.packing import BoolArray, IntArray
from eddyline.sketch.keys import values_of_keys
from eddyline.sql.query import Aggregate, Expression, FormulaPart, GroupColumn, Query
from eddyline.types import SqlType

# Columns of an answer's table: an aggregate of every group with its ends, from exact totals or from
# intervals.
#
# There may be hundreds of thousands of groups, so numbers stay in arrays wherever they fit.


Value = tuple[Scalar | None, Scalar | None, Scalar | None]
"""An aggregate of a group: the estimate and its ends. NULL has no ends; an unknown value may be any number."""
Column = tuple[pa.Array, pa.Array, pa.Array]
"""An aggregate of every group: the estimates and their ends."""
_FITS = 2.0**63
_FLOAT_DIGITS = 10**15
"""A float holds every number of at most this many units of its last digit."""


def not_known(*, is_number: bool) -> Value:
    """Return the table's entry for an unknown aggregate: ends without a bound, if its type has infinities."""
    return (None, -inf, inf) if is_number else (None, None, None)


def column_of_values(values: Sequence[Value], kind: SqlType | None = None) -> Column:
    """Return the column of single values; kind: the type of values that are not plain numbers.

    Dates and times are given in days and microseconds since 1970, intervals in microseconds.
    """
    parts = zip(*values, strict=True) if values else ((), (), ())
    value, low, high = (
        column_of_numbers(part) if kind is None else _column_of_type(part, kind) for part in parts
    )
    return value, low, high


def _column_of_type(values: Sequence[Any], kind: SqlType) -> pa.Array:
    if kind.kind not in (*TIMES, "interval"):
        return pa.array(values, to_arrow(kind))
    return pa.array(values, pa.int32() if kind.kind == "date" else pa.int64()).cast(to_arrow(kind))


def column_of_numbers(values: Sequence[Any]) -> pa.Array:
    """Return numbers as integers (of any size) where all are integers, else as floats."""
    if all(value is None or isinstance(value, int) for value in values):
        fits = all(value is None or -(1 << 63) <= value < 1 << 63 for value in values)
        return pa.array(values, pa.int64()) if fits else pa.array(values, pa.decimal256(76, 0))
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def exact_column(aggregate: Aggregate, totals: Mapping[str, np.ndarray], *, rounded: bool = False) -> Column:
    """Return an aggregate of every group from its exact totals, as `exact_estimate` returns it for one."""
    values = _exact_values(aggregate, totals)
    column = values, values, values
    if not rounded:
        return column
    _, low, high = open_ends(aggregate, Interval(0.0, 0.0, 0.0))
    if low < high:
        kept = np.asarray(values.is_null())
        return values, *(pa.array(np.full(len(values), end), mask=kept) for end in (low, high))
    return widened_column(aggregate, column, totals["count"].astype(np.float64))


def widened_column(aggregate: Aggregate, column: Column, rows: FloatArray) -> Column:
    """Return an aggregate of every group with ends that allow for digits cut off; rows: the most of each group."""
    if not may_be_cut_off(aggregate):
        return column
    nothing = np.asarray(column[1].is_null())
    low, high = (each.fill_null(0.0).to_numpy(zero_copy_only=False) for each in column[1:])
    low, high = widened_ends(aggregate, low, high, rows)
    return column[0], pa.array(low, mask=nothing), pa.array(high, mask=nothing)


def unrounded_values(aggregate: Aggregate, totals: Mapping[str, np.ndarray]) -> list[Fraction | None]:
    """Return an aggregate of every group from its exact totals, before it is rounded to a float."""
    return [unrounded_value(aggregate, group) for group in _by_group(totals)]


def _by_group(totals: Mapping[str, np.ndarray]) -> Iterable[dict[str, int]]:
    """Yield the totals of each group."""
    groups = zip(*(each.tolist() for each in totals.values()), strict=True)
    return (dict(zip(totals, group, strict=True)) for group in groups)


def _decimals(values: Sequence[Scalar | None], unit: Fraction) -> pa.Array:
    """Return sums of decimals with all their digits; unit: that of their last digit."""
    numbers = [
        None if each is None else Decimal(repr(each) if isinstance(each, float) else str(each))
        for each in values
    ]
    return pa.array(numbers, pa.decimal256(76, len(str(unit.denominator)) - 1))


def _exact_values(aggregate: Aggregate, totals: Mapping[str, np.ndarray]) -> pa.Array:
    moment, units = aggregate.moment, whole_units(aggregate)
    nothing = np.asarray(moment.is_null(totals), dtype=np.bool_)
    if moment.is_sum and moment.unit(units) == 1:
        return _integers(totals[moment.name], None if moment.is_count else nothing)
    if moment.is_sum and is_decimal(aggregate) and np.abs(totals[moment.name]).max(initial=0) > _FLOAT_DIGITS:
        values = [aggregate_value(aggregate, group) for group in _by_group(totals)]
        if any(isinstance(value, Decimal) for value in values):
            return _decimals(values, moment.unit(units))
    return pa.array(moment.exact_floats(totals, units, nothing), mask=nothing)


def _integers(values: np.ndarray, nothing: np.ndarray | None = None) -> pa.Array:
    """Return integers (of any size), with NULL where there is nothing."""
    if values.dtype == np.int64:
        return pa.array(values, mask=nothing)
    missing = np.zeros(len(values), dtype=np.bool_) if nothing is None else nothing
    return column_of_numbers(
        [None if none else int(value) for value, none in zip(values, missing.tolist(), strict=True)]
    )


def sampled_column(
    read: GroupIntervals, moment: Moment, unit: float, shown: np.ndarray, none: np.ndarray
) -> Column:
    """Return an aggregate of the shown groups; no value where no sampled row counts.

    Unfollowed rows may count, so such a value is unknown rather than NULL; the ends of a SUM show how large it may
    be.
    """
    value, low, high = (each[shown] * unit for each in (read.values, read.lows, read.highs))
    nothing = none[shown] | np.isnan(value)
    if moment.is_sum and not moment.is_count:
        return pa.array(value, mask=nothing), pa.array(low), pa.array(high)
    if moment.is_count:
        value, low, high = np.maximum(np.rint(value), 0.0), np.maximum(np.floor(low), 0.0), np.ceil(high)
        return _counts(value, nothing), _counts(low, nothing), _counts(high, nothing)
    low, high = np.where(nothing, -inf, low), np.where(nothing, inf, high)
    return pa.array(value, mask=nothing), pa.array(low), pa.array(high)


def _counts(values: FloatArray, nothing: np.ndarray) -> pa.Array:
    """Return whole numbers as integers, if none of them is infinite."""
    there = values[~nothing]
    if not np.all(np.isfinite(there)):
        return pa.array(values, mask=nothing)
    if np.all(np.abs(there) < _FITS):
        return pa.array(np.where(nothing, 0.0, values).astype(np.int64), mask=nothing)
    return column_of_numbers([None if isnan(value) else int(value) for value in values.tolist()])


# What is known about the groups of a query, before labels, HAVING and LIMIT.


@dataclass(frozen=True)
class Answered:
    """What is known about each group: its number, a column of values for each aggregate, and what is missing.

    most_rows: how many rows each group has at most, where the number is not known. missing: the share of the join's
    rows that unfollowed values may hold. averages: parts of formulas that are averages, where they are not exact.
    unrounded: parts of formulas by name, where they are exact. exact_rows: which groups are exact although not all
    are. found: the labels of groups after the numbered ones, which sketches show and dictionaries do not hold.
    """

    groups: IntArray
    columns: tuple[Column, ...]
    exact: bool
    whole: bool
    rest: Mapping[str, Estimate]
    method: str
    notes: tuple[str, ...] = ()
    most_rows: FloatArray | None = None
    missing: float = 0.0
    averages: Mapping[FormulaPart, Column] = field(default_factory=dict)
    unrounded: Mapping[str, Sequence[Fraction | None]] = field(default_factory=dict)
    exact_rows: BoolArray | None = None
    found: Mapping[GroupColumn, pa.Array] = field(default_factory=dict)


# The values of group columns: converts the numbers of groups back to the values of the rows.


Places = Mapping[tuple[int, Expression], int]
"""The position of each column that elements hold for a query among its relation's, by (relation, expression)."""


def places_of(query: Query) -> Places:
    """Return the positions of the columns of a query among the group columns of their relations."""
    found: dict[tuple[int, Expression], int] = {}
    for column in query.held:
        found[column.relation, column.expression] = sum(relation == column.relation for relation, _ in found)
    return found


def labels_of(grouped: GroupedJoin, query: Query, groups: IntArray) -> dict[GroupColumn, pa.Array]:
    """Return the values of each group column of a query in some groups, in its own type."""
    places = places_of(query)
    return {
        column: values_of(grouped, column, places, grouped.part(column.relation, groups))
        for column in query.groups
    }


def values_of(grouped: GroupedJoin, column: GroupColumn, places: Places, groups: IntArray) -> pa.Array:
    """Return the values of a column in some groups of its relation, in its own type."""
    labels = grouped.labels(column.relation, places[column.relation, column.expression], groups)
    kind = to_arrow(column.expression.type)
    if not pa.types.is_int64(labels.type) or pa.types.is_int64(kind):
        return labels.cast(kind)
    valid = np.asarray(labels.is_valid())
    return values_of_keys(labels.fill_null(0).to_numpy(zero_copy_only=False), valid, kind)


def rows_of(columns: list[pa.Array], number: int) -> list[tuple[object, ...]]:
    """Return the values of each of `number` groups as a tuple."""
    if not columns:
        return [()] * number
    return list(zip(*map(python_values, columns), strict=True))
