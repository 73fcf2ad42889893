"""Grouped queries over a stream sample, with their conditions between relations evaluated on the values of groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer.groups.labels import Places, places_of, values_of
from eddyline.errors import PipelineError, PlanError
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.conditioned_messages import ConditionedJoin
from eddyline.sample.cross_conditions import Compared, GroupCondition
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.join import Join
from eddyline.sample.sorting import BoolArray, IntArray
from eddyline.sql.arrow_eval import evaluate
from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.coercion import common_type
from eddyline.sql.query import CrossCondition, GroupColumn, GroupQuery
from eddyline.types import Column


def grouped_join(join: Join, planned: PlannedQuery, query: GroupQuery) -> GroupedJoin:
    """Return the groups of a query over its sample; those that do not meet its conditions are not there."""
    assert planned.shape is not None
    quantities = list(planned.shape.quantities.values())
    if not query.conditions:
        return GroupedJoin(join, quantities)
    places = places_of(query)
    kept = [
        {places[group.relation, group.expression] for group in query.groups if group.relation == k}
        for k in range(len(query.relations))
    ]
    return ConditionedJoin(
        join,
        quantities,
        kept,
        lambda grouped: [_condition(each, places, grouped) for each in query.conditions],
    )


def _condition(condition: CrossCondition, places: Places, grouped: GroupedJoin) -> GroupCondition:
    columns: dict[int, tuple[int, ...]] = {}
    for column in condition.columns:
        columns[column.relation] = (
            *columns.get(column.relation, ()),
            places[column.relation, column.expression],
        )
    if condition.comparison == "=":
        return GroupCondition(columns, _equality(condition, columns, grouped))
    values = {
        column: values_of(grouped, column, places, np.arange(len(grouped.codes[column.relation])))
        for column in condition.columns
    }
    if condition.comparison is not None:
        return GroupCondition(columns, _comparison(condition, list(values.values())))
    return GroupCondition(columns, _Evaluated(condition, tuple(columns), values))


def _equality(
    condition: CrossCondition, columns: Mapping[int, tuple[int, ...]], grouped: GroupedJoin
) -> Compared:
    """Return the equality of two columns by their codes, as joins have it."""
    sides = [
        (grouped.codes[column.relation].codes[place], grouped.codes[column.relation].nulls[place])
        for column in condition.columns
        for place in columns[column.relation]
    ]
    codes, nulls = (np.concatenate(each) for each in zip(*sides, strict=True))
    values, ranks = np.unique(codes, return_inverse=True)
    return _compared(condition, np.where(nulls, -1, ranks), len(sides[0][0]), len(values))


def _comparison(condition: CrossCondition, sides: Sequence[pa.Array]) -> Compared:
    """Return a comparison of two columns by the ranks of their values."""
    left, right = (column.expression.type for column in condition.columns)
    kind = common_type(left, right)
    assert kind is not None
    values = pa.concat_arrays([side.cast(to_arrow(kind)) for side in sides])
    ranks = pc.rank(values, tiebreaker="dense").to_numpy() - 1
    known = np.asarray(values.is_valid())
    return _compared(condition, np.where(known, ranks.astype(np.int64), -1), len(sides[0]), len(values))


def _compared(condition: CrossCondition, ranks: IntArray, ours: int, size: int) -> Compared:
    """Return a comparison by the ranks of the first relation's groups, so many, and then of the second's."""
    left, right = (column.relation for column in condition.columns)
    assert condition.comparison is not None
    return Compared(
        condition.comparison, left, right, {left: ranks[:ours], right: ranks[ours:]}, max(size, 1)
    )


@dataclass(frozen=True)
class _Evaluated:
    """A condition that is evaluated on the groups of its relations; values: of each column, by group."""

    condition: CrossCondition
    relations: tuple[int, ...]
    values: Mapping[GroupColumn, pa.Array]

    def __call__(self, groups: Sequence[IntArray]) -> BoolArray:
        of_relation = dict(zip(self.relations, groups, strict=True))
        table = pa.table(
            {
                column.name: values.take(pa.array(of_relation[column.relation]))
                for column, values in self.values.items()
            }
        )
        columns = tuple(Column(column.name, column.expression.type) for column in self.values)
        try:
            found = evaluate(self.condition.text, table, columns)
        except PipelineError as error:
            raise PlanError(
                f"the condition {self.condition.written!r} fails on joined rows: {error}"
            ) from error
        return np.asarray(found.fill_null(fill_value=False).to_numpy(), dtype=np.bool_)
