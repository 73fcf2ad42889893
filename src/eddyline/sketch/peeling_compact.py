"""Peeling tables as few bytes: upper levels are nearly empty, and counts are small.

Of each level, the positions of the cells that are not zero, then their counts in as many bits as the level
needs, then both sums. Expanding gives back the very same words.
"""

import numpy as np

from eddyline.sketch.bit_packing import (
    HEAD,
    BitReader,
    bits_of,
    pack,
    pack_positions,
    unpack_positions,
    unzigzag,
    zigzag,
)
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.peeling import PeelingSpec

_CHECK_BITS, _KEY_BITS = 31, 61


def compact(spec: PeelingSpec, counters: Int64Array) -> bytes:
    """Return the counters in compact form."""
    rows = counters.reshape(spec.levels, spec.cells, 2)
    return b"".join(_compact_level(row) for row in rows)


def expand(spec: PeelingSpec, data: bytes) -> Int64Array:
    """Return the counters that `compact` was given, or raise CorruptState."""
    reader = BitReader(data)
    rows = [_expand_level(reader, spec.cells) for _ in range(spec.levels)]
    reader.finish()
    return np.concatenate(rows)


def _compact_level(row: Int64Array) -> bytes:
    at = np.flatnonzero(row.any(axis=1))
    counts = zigzag((row[at, 0] & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64))
    width = bits_of(counts)
    return b"".join(
        (
            HEAD.pack(len(at), width),
            pack_positions(at, len(row)),
            pack(counts, width),
            pack(row[at, 0] >> 32, _CHECK_BITS),
            pack(row[at, 1], _KEY_BITS),
        )
    )


def _expand_level(reader: BitReader, cells: int) -> Int64Array:
    number, width = reader.head(cells)
    at = unpack_positions(reader, number, cells)
    counts = unzigzag(reader.take_numbers(number, width)) & 0xFFFFFFFF
    row = np.zeros((cells, 2), dtype=np.int64)
    row[at, 0] = counts | reader.take_numbers(number, _CHECK_BITS) << 32
    row[at, 1] = reader.take_numbers(number, _KEY_BITS)
    return row.reshape(-1)
