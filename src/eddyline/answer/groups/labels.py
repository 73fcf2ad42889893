"""The values of group columns: from the numbers of groups back to what the rows held."""

import numpy as np
import pyarrow as pa

from eddyline.sample.grouped_messages import GroupedJoin
from eddyline.sample.sorting import IntArray
from eddyline.sketch.keys import values_of_keys
from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.query import GroupColumn, GroupQuery
from eddyline.types import SqlType


def labels_of(grouped: GroupedJoin, query: GroupQuery, groups: IntArray) -> dict[GroupColumn, pa.Array]:
    """Return for each group column of a query its values in some groups, in its own type."""
    by_relation = [
        column for k in range(len(query.relations)) for column in query.held if column.relation == k
    ]
    found = {
        column: typed_labels(labels, column.expression.type)
        for column, labels in zip(by_relation, grouped.labels(groups), strict=True)
    }
    return {column: found[column] for column in query.groups}


def typed_labels(labels: pa.Array, sql_type: SqlType) -> pa.Array:
    """Return the labels of a group column in its type; codes that are values become values."""
    kind = to_arrow(sql_type)
    if not pa.types.is_int64(labels.type) or pa.types.is_int64(kind):
        return labels.cast(kind)
    valid = np.asarray(labels.is_valid())
    return values_of_keys(labels.fill_null(0).to_numpy(zero_copy_only=False), valid, kind)


def rows_of(columns: list[pa.Array], number: int) -> list[tuple[object, ...]]:
    """Return the values of each of so many groups as a tuple."""
    if not columns:
        return [()] * number
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
