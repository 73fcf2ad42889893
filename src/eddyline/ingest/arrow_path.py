"""The path without Spark: rows of any form as Arrow tables, checked against the schema and projected."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import PipelineError, RowFailure, SketchError
from eddyline.expressions.arrow_eval import evaluate, spread
from eddyline.expressions.arrow_values import from_arrow, to_arrow
from eddyline.expressions.nodes import columns_of, may_fail, safe_first
from eddyline.expressions.times import UTC
from eddyline.ingest.changes import change_format, rows_and_weights
from eddyline.ingest.projection import TIME, WEIGHT, Projection, any_of, watched_name
from eddyline.plan.layout import Stream
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.keys import BoolArray
from eddyline.types import Column

# Rows of any form as an Arrow table: pyarrow, pandas, polars, NumPy columns, dicts.


_WHAT = (
    "give a pyarrow.Table or RecordBatch, a pandas or polars DataFrame, a dict of columns of one length, or a list of "
    "dicts"
)


def table_of(stream: str, rows: Any) -> pa.Table:
    """Return rows as a table, or raise PipelineError where they are not rows."""
    if isinstance(rows, pa.Table):
        return rows
    try:
        return _converted(rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise PipelineError(f"the rows of stream {stream!r} are not a table: {_WHAT} ({error}).") from error


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


# Dictionary-encoded columns: an expression that reads only one is computed once for each value, not for each
# row.


Evaluate = Callable[[pa.ChunkedArray], pa.ChunkedArray]


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without its dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def saves_work(column: pa.ChunkedArray) -> bool:
    """Return whether a column is a dictionary with far fewer values than rows."""
    if not pa.types.is_dictionary(column.type) or column.num_chunks != 1:
        return False
    dictionary = column.chunk(0).dictionary
    return bool(2 * len(dictionary) < len(column) and dictionary.null_count == 0)


def by_values(column: pa.ChunkedArray, evaluate: Evaluate) -> pa.ChunkedArray:
    """Return an expression of one column, evaluated on the values of its dictionary and on NULL."""
    indices, values = _parts(column, evaluate)
    return pa.chunked_array([values.take(pc.fill_null(indices, len(values) - 1))])


def key_by_values(column: pa.ChunkedArray, evaluate: Evaluate) -> pa.ChunkedArray:
    """Return a key of one column, as a dictionary again where only NULL gives NULL: it is hashed by values."""
    indices, values = _parts(column, evaluate)
    if values.null_count != 1 or values[-1].is_valid:
        return by_values(column, evaluate)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, values[:-1])])


def _parts(column: pa.ChunkedArray, evaluate: Evaluate) -> tuple[pa.Array, pa.Array]:
    """Return (index of each row, results for the dictionary's values followed by the result for NULL)."""
    array = column.chunk(0)
    inputs = pa.chunked_array([pa.concat_arrays([array.dictionary, pa.nulls(1, array.dictionary.type)])])
    return array.indices, evaluate(inputs).combine_chunks()


# Arrow tables, checked against the declared schema and projected.


DIRECTLY = "directly from Parquet files"
"""How rows are read where Spark is not needed."""
ByValues = Callable[[pa.ChunkedArray, Evaluate], pa.ChunkedArray]


def read_table(
    stream: Stream,
    table: pa.Table,
    weights: np.ndarray | Sequence[int] | None,
    read: Sequence[str] | None = None,
) -> tuple[pa.Table, Int64Array]:
    """Return (rows, weights) of a table, by its stream's change format or by the weights given.

    read: the columns that queries read, by default all of the stream.
    """
    if weights is None:
        names = [column.name for column in stream.columns] if read is None else read
        return rows_and_weights(stream.name, table, change_format(stream.name, stream.changes), names)
    if change_format(stream.name, stream.changes).form != "insert":
        raise PipelineError(
            f"stream {stream.name!r} carries its changes ({stream.changes}): leave weights out."
        )
    array = np.asarray(weights) if len(weights) else np.empty(0, np.int64)  # NumPy reads [] as floats
    if array.shape != (table.num_rows,) or array.dtype.kind not in "iu":
        raise SketchError(
            f"weights must be {table.num_rows} integers, not {array.dtype} of shape {array.shape}."
        )
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise SketchError(f"weights must fit in 64 bits with a sign, and {int(array.max())} does not.")
    return table, np.ascontiguousarray(array, dtype=np.int64)


def project_table(
    stream: Stream,
    rows: pa.Table,
    weights: Int64Array,
    projection: Projection,
    timezone: str | None = None,
    known: Mapping[tuple[str, ...], BoolArray] | None = None,
) -> pa.Table:
    """Return the projected batch of a table, as Spark would compute it in a session of that time zone.

    known: the truth of predicates that guards need and the projection does not evaluate.
    """
    table = _as_declared(stream, rows, referenced(projection))
    values = _Values(table, stream, timezone or UTC)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {WEIGHT: pa.array(weights)}
    truths = dict(known or {})
    for i, predicate in enumerate(projection.predicates):
        truths[predicate] = values.all_of(predicate)
        columns[f"f{i}"] = pa.array(truths[predicate])

    def guarded(text: str, through: ByValues = by_values) -> pa.ChunkedArray:
        return values.of(text, through, any_of(projection.guards.get(text, ()), truths))

    for i, key in enumerate(projection.keys):
        for j, part in enumerate(key.columns):
            columns[f"k{i}_{j}"] = guarded(part.text, key_by_values)
    for name, number in projection.numbers.items():
        columns[name] = guarded(number.text).cast(to_arrow(number.type))
    for i, part in enumerate(projection.presence):
        columns[f"p{i}"] = pc.is_valid(guarded(part.text))
    if projection.event_time is not None:
        columns[TIME] = table.column(projection.event_time).cast(pa.int64())
    columns |= {watched_name(i): pc.is_valid(table.column(each)) for i, each in enumerate(projection.watched)}
    return pa.table(columns)


class _Values:
    """The values of expressions on a table; for a dictionary-encoded column they come from the dictionary."""

    def __init__(self, table: pa.Table, stream: Stream, timezone: str) -> None:
        self._table = table
        self._stream = stream
        self._timezone = timezone
        self._decoded: pa.Table | None = None

    def of(self, text: str, through: ByValues = by_values, rows: BoolArray | None = None) -> pa.ChunkedArray:
        """Return the values of an expression.

        through: how the dictionary of its only column is used, if it has one; it is not used where the expression
        can fail, because a dictionary may have values that no row has. rows: those on which it is evaluated;
        elsewhere it is NULL.
        """
        names = columns_of(text)
        if rows is not None and names:
            needed = self._without_dictionaries().select(sorted(names)).filter(pa.array(rows))
            return spread(self._evaluated(text, needed), pa.array(rows))
        if len(names) == 1 and not may_fail(text):
            (name,) = names
            if saves_work(self._table.column(name)):
                return through(
                    self._table.column(name), lambda values: self._evaluated(text, pa.table({name: values}))
                )
        return self._evaluated(text, self._without_dictionaries())

    def all_of(self, conjuncts: tuple[str, ...]) -> BoolArray:
        """Return the rows where all predicates are TRUE; one that can fail is evaluated on the remaining rows."""
        passed: BoolArray | None = None
        for text in safe_first(conjuncts):
            rows = passed if passed is not None and may_fail(text) and not passed.all() else None
            truth = pc.fill_null(self.of(text, rows=rows).cast(pa.bool_()), False)
            own = np.asarray(truth.combine_chunks())
            passed = own if passed is None else passed & own
        assert passed is not None
        return passed

    def _without_dictionaries(self) -> pa.Table:
        if self._decoded is None:
            self._decoded = self._table
            for i, name in enumerate(self._table.column_names):
                self._decoded = self._decoded.set_column(i, name, decoded(self._table.column(name)))
        return self._decoded

    def _evaluated(self, text: str, table: pa.Table) -> pa.ChunkedArray:
        try:
            return evaluate(text, table, self._stream.columns, self._timezone)
        except RowFailure as error:
            raise RowFailure(f"stream {self._stream.name!r}: {error}") from error


def only_by_spark(stream: Stream, projection: Projection, timezone: str | None = None) -> str | None:
    """Return why only Spark can project a stream's rows, None where Arrow computes the same."""
    if change_format(stream.name, stream.changes).form == "debezium":
        return "Debezium envelopes are opened by Spark"
    types = {column.name: column.type for column in stream.columns}
    if projection.event_time is not None and types[projection.event_time].kind != "timestamp":
        return f"the event time {projection.event_time} has no zone"
    empty = pa.table({name: pa.array([], to_arrow(kind)) for name, kind in types.items()})
    for text in projection.texts:
        try:
            evaluate(text, empty, stream.columns, timezone or UTC)
        except PipelineError:
            return f"{text!r} can only be evaluated by Spark"
    return None


def referenced(projection: Projection) -> list[str]:
    """Return the names of the columns that a projection reads, sorted."""
    times = {projection.event_time} if projection.event_time is not None else set()
    return sorted(projection.columns | times)


def _as_declared(stream: Stream, table: pa.Table, names: list[str]) -> pa.Table:
    """Return the referenced columns in their declared types, or raise PipelineError."""
    declared = {column.name: column for column in stream.columns}
    columns: dict[str, pa.ChunkedArray] = {}
    for name in names:
        found = [i for i, other in enumerate(table.column_names) if other.lower() == name.lower()]
        if len(found) != 1:
            number = f"{len(found)} columns" if found else "no column"
            raise PipelineError(
                f"stream {stream.name!r}: the table has {number} {name!r}, in upper or lower case; it has "
                f"{', '.join(table.column_names) or 'no columns at all'}."
            )
        columns[name] = _cast(stream.name, declared[name], table.column(found[0]))
    return pa.table(columns) if columns else table.select([])


def _is_looked_at(column: Column, given: pa.DataType) -> bool:
    """Return whether a cast checks every value: between integers, and between them and DOUBLE without loss.

    pandas converts integers with a NULL among them to doubles.
    """
    if column.type.is_integer:
        return bool(pa.types.is_integer(given) or pa.types.is_float64(given))
    return column.type.kind == "double" and bool(pa.types.is_integer(given))


def _cast(stream: str, column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = from_arrow(values.type)
    if not (
        pa.types.is_null(values.type)
        or _is_looked_at(column, values.type)
        or (kind is not None and kind.widens_to(column.type))
    ):
        raise PipelineError(
            f"stream {stream!r}: column {column.name!r} is declared {column.type} and the table has {values.type}: "
            "cast it in the table or declare it as it is."
        )
    target = to_arrow(column.type)
    if pa.types.is_dictionary(values.type) and values.type.value_type == target:
        return values
    try:
        return values.cast(target)
    except pa.ArrowInvalid as error:
        raise PipelineError(
            f"stream {stream!r}: column {column.name!r} is declared {column.type} and the table's {values.type} holds "
            f"values that it cannot: {error}. Cast it in the table."
        ) from error
