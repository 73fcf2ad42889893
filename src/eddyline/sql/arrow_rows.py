"""Values on some rows of an Arrow table: where an expression is needed, and NULL elsewhere."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.sql.arrow_numbers import Value


def flat(value: Value) -> Value:
    """Return a column in one piece."""
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def of_rows(value: Value, rows: int) -> Value:
    """Return a value as a column of so many rows, in one piece."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else flat(value)


def spread(value: Value, rows: pa.BooleanArray) -> Value:
    """Return values of some rows as a column of all, NULL on the others."""
    if isinstance(value, pa.Scalar):
        return value
    taken = np.asarray(rows)
    return value.take(pa.array(np.cumsum(taken) - 1, mask=~taken))


def all_null(values: Sequence[Value]) -> Value:
    """Return the rows on which all of some values are NULL."""
    return reduce(pc.and_, [pc.is_null(value) for value in values], pa.scalar(True))
