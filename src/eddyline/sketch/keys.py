"""From Arrow columns to 64-bit keys, and the seeded hash families that sketches use."""

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import SketchError
from eddyline.kernels.hashing import (
    MIX,
    PARAMETERS,
    POLY4,
    PRIME61,
    chain_longs,
    decimal_keys,
    hash_strings,
    narrow_decimals,
)
from eddyline.sketch.counters import Int64Array
from eddyline.types import SqlType

# Keys of Arrow columns are the same on every path, process and platform.
#
# | SQL type | key |
# | --- | --- |
# | TINYINT ... BIGINT, BOOLEAN | the value |
# | DATE, TIMESTAMP | days, microseconds since 1970-01-01 (UTC) |
# | FLOAT, DOUBLE | the bits of the DOUBLE, one NaN and no -0.0: held with elements, and never joined on |
# | DECIMAL | the value if it is whole and fits in 64 bits, else a hash of digits and scale |
# | STRING, BINARY | Spark's xxhash64 of the bytes |
# | several columns | Spark's xxhash64 of the columns' keys in order |
#
# NULL is kept separately, as a mask of valid rows: a NULL key joins nothing. In sets it is a value:
# `set_key`.


BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
_DECIMAL = pa.types.is_decimal128

_DIGITS_OF_64_BITS = 19
_WHOLE_DIGITS = 18
"""The number of digits of a decimal that always fits 64 bits."""

NULL_KEY = -0x2B0B1E55_0DD5_1DE5
"""The key of NULL if NULL is a value; an integer column would have to hold exactly this number to clash."""


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def validity(array: pa.Array | pa.ChunkedArray) -> BoolArray:
    """Return which rows are not NULL."""
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    return np.asarray(_one_array(pc.is_valid(array)))


def _integers(array: pa.Array) -> Int64Array:
    """Return a fixed-width Arrow column as int64; NULL rows hold 0. For FLOAT and DOUBLE, the bits."""
    if pa.types.is_floating(array.type):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # SQL has one NaN and one zero
        return np.ascontiguousarray(values).view(np.int64)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    return np.asarray(array)


def _decimal_words(array: pa.Array) -> np.ndarray:
    words = np.frombuffer(array.buffers()[1], dtype=np.uint64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def _hashed_bytes(array: pa.Array) -> Int64Array:
    array = array.cast(pa.large_binary())
    out = np.empty(len(array), dtype=np.uint64)
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    hash_strings(content, starts, out)
    return out.view(np.int64)


def column_key(column: pa.Array | pa.ChunkedArray) -> tuple[Int64Array, BoolArray]:
    """Return (keys, valid) of one column; for a dictionary column from the keys of its values."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        if 0 < len(array.dictionary) <= len(array) and array.dictionary.null_count == 0:
            keys, _ = column_key(array.dictionary)
            return keys[np.asarray(array.indices.fill_null(0))], validity(array)
        array = array.dictionary_decode()
    kind = array.type
    valid = validity(array)
    if len(array) == 0 or pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.int64), valid
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _hashed_bytes(array), valid
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hashed_bytes(array), valid
    if _DECIMAL(kind):
        out = np.empty(len(array), dtype=np.uint64)
        decimal_keys(_decimal_words(array), kind.scale, out)
        return out.view(np.int64), valid
    fixed = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_temporal, pa.types.is_floating)
    if any(is_kind(kind) for is_kind in fixed):
        return _integers(array), valid
    raise SketchError(f"a column of Arrow type {kind} cannot be a join key: cast it to an exact type.")


def code_is_value(kind: SqlType) -> bool:
    """Return whether the key of a value is the value itself, as for numbers and times."""
    whole = kind.kind == "decimal" and kind.scale == 0 and kind.precision <= _WHOLE_DIGITS
    exact = kind.is_integer or whole or kind.is_float
    return exact or kind.kind in ("boolean", "date", "timestamp", "timestamp_ntz")


def values_of_keys(keys: Int64Array, valid: BoolArray, kind: pa.DataType) -> pa.Array:
    """Return the values whose keys are the values themselves, as a column of their type."""
    if pa.types.is_floating(kind):
        return pa.array(keys.view(np.float64), mask=~valid, from_pandas=False).cast(kind)
    array = pa.array(keys, mask=~valid)
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).cast(kind)
    if _DECIMAL(kind):
        return array.cast(pa.decimal128(_DIGITS_OF_64_BITS, 0)).cast(kind)
    return array.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else array.cast(kind)


def tuple_key(columns: list[pa.Array | pa.ChunkedArray]) -> tuple[Int64Array, BoolArray]:
    """Return (keys, valid) of a composite key; a row with any NULL is not valid."""
    if len(columns) == 1:
        return column_key(columns[0])
    parts = [column_key(column) for column in columns]
    valid = np.logical_and.reduce([part[1] for part in parts])
    return chain([part[0] for part in parts]), valid


def set_key(columns: list[pa.Array | pa.ChunkedArray]) -> tuple[Int64Array, BoolArray]:
    """Return (keys, valid) of an element of a set, where NULL is a value like any other.

    A tuple with a NULL has 0 for it and one more word, which shows which of its columns are NULL: so no value is
    mistaken for NULL. A single column has only its 64 bits, and NULL_KEY is one of their values.
    """
    parts = [column_key(column) for column in columns]
    everything = np.ones(len(parts[0][0]), dtype=np.bool_)
    if len(parts) == 1:
        return np.where(parts[0][1], parts[0][0], NULL_KEY), everything
    nulls = np.zeros(len(everything), dtype=np.int64)
    for place, (_, valid) in enumerate(parts):
        nulls |= np.where(valid, 0, 1 << place)
    if not nulls.any():
        return chain([part for part, _ in parts]), everything
    filled = [np.where(valid, part, 0) for part, valid in parts]
    return np.where(nulls == 0, chain(filled), chain([*filled, nulls])), everything


def chain(keys: list[Int64Array]) -> Int64Array:
    """Return the key of several columns from the keys of each."""
    out = np.empty(len(keys[0]), dtype=np.uint64)
    chain_longs(np.stack([key.view(np.uint64) for key in keys]), out)
    return out.view(np.int64)


def unscaled(array: pa.Array) -> Int64Array:
    """Return the unscaled 64-bit values of a decimal column; NULL rows hold 0."""
    array = _one_array(array)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    out = np.empty(len(array), dtype=np.int64)
    if len(array) and not narrow_decimals(_decimal_words(array), out):
        raise SketchError(
            f"a measure of type {array.type} holds a value beyond 64 bits: cast it to a DECIMAL of at most "
            "18 digits."
        )
    return out


# Hash families, seeded by the plan: from a seed to the parameters that the kernels take.


HashFamily = Literal["mix", "poly4"]
HASH_FAMILIES: tuple[HashFamily, ...] = get_args(HashFamily)
_KERNEL_ID: dict[HashFamily, int] = {"mix": MIX, "poly4": POLY4}
_MASK64 = (1 << 64) - 1


def kernel_id(family: HashFamily) -> int:
    """Return the number that identifies a family in the kernels."""
    if family not in _KERNEL_ID:
        raise SketchError(f"unknown hash family {family!r}: use one of {', '.join(HASH_FAMILIES)}.")
    return _KERNEL_ID[family]


def splitmix64(state: int) -> int:
    """Return the output of the splitmix64 generator at a state: how seeds are derived from seeds."""
    z = (state + 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def derive_seed(seed: int, *labels: str | int) -> int:
    """Return a seed for a named purpose: the same on every platform, different for different labels."""
    state = splitmix64(seed & _MASK64)
    for label in labels:
        data = label.encode() if isinstance(label, str) else label.to_bytes(8, "little")
        for byte in data:
            state = splitmix64(state ^ byte)
        state = splitmix64(state ^ len(data) ^ 0xEDD1)
    return state


@lru_cache(maxsize=1024)
def parameters(family: HashFamily, seeds: tuple[int, ...], functions: int) -> np.ndarray:
    """Return read-only parameters of hash functions, uint64 (len(seeds), functions, PARAMETERS).

    There is one independent hash function for each edge seed and each row (or copy) of the sketch.
    """
    kernel_id(family)
    out = np.empty((len(seeds), functions, PARAMETERS), dtype=np.uint64)
    for edge, seed in enumerate(seeds):
        for index in range(functions):
            base = derive_seed(seed, index)
            words = [splitmix64(base + j) for j in range(PARAMETERS)]
            if family == "poly4":
                words = [word % int(PRIME61) for word in words]
            else:
                words = [words[0], *(word | 1 for word in words[1:])]
            out[edge, index] = words
    out.setflags(write=False)
    return out
