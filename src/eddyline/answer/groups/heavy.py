"""Groups of one stream that the sample does not follow and that sketches show to be heavy.

A followed group is exact. For the other groups the exact total is known, and the sketches of unfollowed keys show
which of them are heavy, so the largest groups are found no matter when they grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pyarrow as pa

from eddyline.answer import notes
from eddyline.answer.aggregates import unit_of
from eddyline.answer.estimate import Estimate, Number
from eddyline.answer.groups.columns import Answered, Column, sampled_column, widened_column
from eddyline.answer.groups.sampled import GroupIntervals, rest_estimate
from eddyline.answer.heavy_keys import HeavyKeys, KeyFrequencies, heavy_keys
from eddyline.answer.interval import Interval, half_width_of_key
from eddyline.answer.joins.late import BOTH
from eddyline.expressions.arrow_values import to_arrow
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.facets import ROWS, quantity_of_group
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.packing import BoolArray, IntArray
from eddyline.sketch.keys import values_of_keys
from eddyline.sql.query import Expression, GroupColumn, Query


def with_heavy_groups(
    made: Answered,
    snapshot: Snapshot,
    planned: PlannedQuery,
    query: Query,
    left: Mapping[str, int],
    confidence: float,
) -> Answered:
    """Return the groups of one stream, followed by heavy groups that are not followed.

    left: the exact totals of all groups that are not followed, by quantity.
    """
    if not planned.rest_sketches:
        return made
    found = heavy_keys(snapshot, list(planned.rest_sketches.values()))
    columns, known = _values_of_groups(snapshot, planned, query, found.keys)
    if not known.any():
        return made
    heavy = _Heavy(found, known, planned.rest_sketches, left, confidence)
    rows = heavy.sums(ROWS, least=1.0)
    made_columns = [
        _appended(column, heavy.column(query, place, rows)) for place, column in enumerate(made.columns)
    ]
    rest = {
        each.name: heavy.rest(query, place, made.rest[each.name])
        for place, each in enumerate(query.aggregates)
    }
    exact_rows = np.full(len(made.groups), made.exact) if made.exact_rows is None else made.exact_rows
    assert made.most_rows is not None
    return replace(
        made,
        columns=tuple(made_columns),
        exact=False,
        rest=rest,
        method=BOTH,
        notes=(*made.notes, notes.heavy_groups(len(rows.values))),
        most_rows=np.concatenate([made.most_rows, rows.highs]),
        unrounded={},
        exact_rows=np.concatenate([exact_rows, np.zeros(len(rows.values), dtype=np.bool_)]),
        found=columns,
    )


def _values_of_groups(
    snapshot: Snapshot, planned: PlannedQuery, query: Query, keys: IntArray
) -> tuple[dict[GroupColumn, pa.Array], BoolArray]:
    """Return (the group columns of the keys with known values, which keys these are)."""
    kept = snapshot.layout.by_id[planned.rest_sketches[ROWS]]
    parts = kept.demand.keys[0].columns
    known = np.ones(len(keys), dtype=np.bool_)
    if kept.has_labels:
        known = ~snapshot.labels[kept.id].lacks(keys)
        values: Sequence[pa.Array] = snapshot.labels[kept.id].decoded(keys[known])
    else:
        values = [pa.array(keys)]
    found: dict[Expression, pa.Array] = dict(zip(parts, values, strict=False))
    return {
        column: _typed(found[column.expression], column.expression)
        for column in query.groups
        if column.expression in found
    }, known


def _typed(values: pa.Array, expression: Expression) -> pa.Array:
    """Return values, or codes that represent them, in the type of their expression."""
    kind = to_arrow(expression.type)
    if not pa.types.is_int64(values.type) or pa.types.is_int64(kind):
        return values.cast(kind)
    valid = np.asarray(values.is_valid())
    return values_of_keys(values.fill_null(0).to_numpy(zero_copy_only=False), valid, kind)


class _Heavy:
    """The heavy groups that are shown, with estimates of their sums; left: exact totals of all unfollowed."""

    def __init__(
        self,
        found: HeavyKeys,
        shown: BoolArray,
        sketches: Mapping[str, str],
        left: Mapping[str, int],
        confidence: float,
    ) -> None:
        self._found, self._shown, self._sketches = found, shown, sketches
        self._left, self._confidence = left, confidence

    def _read(self, quantity: str) -> KeyFrequencies:
        return self._found.frequencies[self._sketches[quantity]].only(self._shown)

    def sums(self, quantity: str, least: float = -inf) -> GroupIntervals:
        """Return a COUNT or SUM of each group; least: the lower bound of a group's COUNT."""
        read = self._read(quantity)
        most = max(float(self._left[quantity]), least) if least > -inf else inf
        ends = (read.values, *read.ends(self._confidence))
        return GroupIntervals(*(np.clip(each, least, most) for each in ends))

    def _average(self, place: int) -> GroupIntervals:
        """Return an AVG of each group: the quotient of two estimates, unknown where few rows count."""
        total, count = (self._read(quantity_of_group(place, name)) for name in ("sum", "count"))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = total.values / count.values
            errors = np.sqrt(total.errors**2 + (values * count.errors) ** 2) / count.values
        half = half_width_of_key(errors, self._confidence)
        few = ~count.stand_out | (count.values < 0.0)
        return GroupIntervals(
            np.where(few, np.nan, values),
            np.where(few, -inf, values - half),
            np.where(few, inf, values + half),
        )

    def column(self, query: Query, place: int, rows: GroupIntervals) -> Column:
        """Return an aggregate of each group."""
        aggregate = query.aggregates[place].aggregate
        moment = aggregate.moment
        number = len(rows.values)
        none = np.zeros(number, dtype=np.bool_)
        sketched = all(quantity_of_group(place, name) in self._sketches for name in moment.sums)
        if moment.is_count and not sketched:
            read = GroupIntervals(np.full(number, np.nan), np.zeros(number), rows.highs)
        elif moment.is_count:
            read = self.sums(quantity_of_group(place, "count"), least=0.0)
        elif moment.is_sum and sketched:
            read = self.sums(quantity_of_group(place, "sum"))
            none = self._read(quantity_of_group(place, "count")).values < 1.0
        elif sketched:  # higher moments lack one of their sums
            read = self._average(place)
        else:
            ends = (np.full(number, each) for each in (np.nan, moment.least, moment.most))
            read = GroupIntervals(*ends)
        shown = np.ones(number, dtype=np.bool_)
        column = sampled_column(read, moment, unit_of(aggregate), shown, none)
        return widened_column(aggregate, column, rows.highs)

    def rest(self, query: Query, place: int, before: Estimate) -> Estimate:
        """Return an aggregate over the groups still not shown, given the one over all unfollowed groups."""
        aggregate = query.aggregates[place].aggregate
        function, (value, low, high) = aggregate.function, (before.value, before.low, before.high)
        if (
            quantity_of_group(place, function) not in self._sketches
            or not isinstance(value, Number)
            or not isinstance(low, Number)
            or not isinstance(high, Number)
        ):
            return Estimate.unknown(before.query, self._confidence, "sample", [notes.UNSEEN_AVERAGE])
        read, unit = self._read(quantity_of_group(place, function)), unit_of(aggregate)
        shown, least, most = (unit * each for each in read.sum(self._confidence))
        ends = Interval(value - shown, low - most, high - least)
        most = max(float(high), 0.0) if aggregate.moment.is_count else inf
        return rest_estimate(before.query, ends, function, self._confidence, most)


def _appended(column: Column, more: Column) -> Column:
    """Return a column with more groups appended, as floats where the types differ."""
    value, low, high = (_concatenated(mine, other) for mine, other in zip(column, more, strict=True))
    return value, low, high


def _concatenated(mine: pa.Array, other: pa.Array) -> pa.Array:
    kind = mine.type if mine.type == other.type else pa.float64()
    return pa.concat_arrays([mine.cast(kind), other.cast(kind)])
