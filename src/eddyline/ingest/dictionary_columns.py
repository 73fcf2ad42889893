"""Columns that come as dictionaries: what depends on nothing else is computed once for each value, not for each row."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

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
    """Return a key made of one column, as a dictionary again where it is NULL for NULL only: it is hashed by values."""
    indices, values = _parts(column, evaluate)
    if values.null_count != 1 or values[-1].is_valid:
        return by_values(column, evaluate)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, values[:-1])])


def _parts(column: pa.ChunkedArray, evaluate: Evaluate) -> tuple[pa.Array, pa.Array]:
    """Return (index of each row, results for the dictionary's values with that for NULL behind them)."""
    array = column.chunk(0)
    inputs = pa.chunked_array([pa.concat_arrays([array.dictionary, pa.nulls(1, array.dictionary.type)])])
    return array.indices, evaluate(inputs).combine_chunks()
