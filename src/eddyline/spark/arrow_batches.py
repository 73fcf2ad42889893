"""How rows leave the JVM: in Arrow batches that are limited by their rows and not measured in bytes.

Before every row Spark asks each column of the batch for its bytes, to end it before `maxBytesPerBatch`. Of a pass
through the JVM that takes more than half of the time (benchmarks/pass.py), unless the limit is the largest
integer, for which Spark does not ask.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import types as st

_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = str((1 << 31) - 1)
BATCH_ROWS = 4096
"""Rows of a batch; from 1,000 to a million they take the same time. A piece of a state is a row of up to 64 KB."""
_NARROW = (st.NumericType, st.BooleanType, st.DatetimeType)


@contextmanager
def unmeasured_batches(rows: DataFrame) -> Iterator[None]:
    """Limit the batches of a frame's session by rows alone while something runs, where the frame is all of numbers.

    A row with a text may be of any size: there the session's own limits stay. So they do where they have no bytes in
    them, because another pass of the session is under way or its user has said so.
    """
    conf = rows.sparkSession.conf
    before = {name: str(conf.get(name)) for name in (_ROWS, _BYTES)}
    narrow = all(isinstance(field.dataType, _NARROW) for field in rows.schema.fields)
    if not narrow or before[_BYTES].removesuffix("b") == _NO_LIMIT:
        yield
        return
    try:
        conf.set(_ROWS, str(BATCH_ROWS))
        conf.set(_BYTES, _NO_LIMIT)
        yield
    finally:
        for name, value in before.items():
            conf.set(name, value)
