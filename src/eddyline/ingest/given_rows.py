"""Rows as people have them, made an Arrow table: pyarrow, pandas, polars, NumPy columns, dicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from eddyline.errors import PipelineError

_WHAT = (
    "give a pyarrow.Table or RecordBatch, a pandas or polars DataFrame, a dict of columns of one length, or a list of "
    "dicts"
)


def table_of(stream: str, rows: Any) -> pa.Table:
    """Return rows as a table, or raise PipelineError where they are none."""
    if isinstance(rows, pa.Table):
        return rows
    try:
        return _converted(rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise PipelineError(f"the rows of stream {stream!r} are no table: {_WHAT} ({error}).") from error


def _converted(rows: Any) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, Mapping):
        return pa.table(dict(rows))
    if (
        isinstance(rows, Sequence)
        and not isinstance(rows, str | bytes)
        and all(isinstance(r, Mapping) for r in rows)
    ):
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: [row.get(name) for row in rows] for name in names})
    raise TypeError(f"they are of type {type(rows).__name__}")
