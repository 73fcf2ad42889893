"""The values of group columns: from the numbers of groups back to what the rows held."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.sorting import IntArray
from eddyline.sketch.keys import values_of_keys
from eddyline.sql.arrow_types import python_values, to_arrow
from eddyline.sql.query import Expression, GroupColumn, GroupQuery

Places = Mapping[tuple[int, Expression], int]
"""For each column that elements hold for a query, by relation and expression, which of its relation's it is."""


def places_of(query: GroupQuery) -> Places:
    """Return where the columns of a query stand among the group columns of their relations."""
    found: dict[tuple[int, Expression], int] = {}
    for column in query.held:
        found[column.relation, column.expression] = sum(relation == column.relation for relation, _ in found)
    return found


def labels_of(grouped: GroupedJoin, query: GroupQuery, groups: IntArray) -> dict[GroupColumn, pa.Array]:
    """Return for each group column of a query its values in some groups, in its own type."""
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
    """Return the values of each of so many groups as a tuple."""
    if not columns:
        return [()] * number
    return list(zip(*map(python_values, columns), strict=True))
