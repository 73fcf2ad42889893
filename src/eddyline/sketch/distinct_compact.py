"""Distinct sketches as few bytes: upper levels are nearly empty, and counts are small.

A row of words is stored as the positions of its non-zero cells (a bitmap, or bit-packed indices where those
are fewer), and of each such cell the net count in as many bits as the row needs, the fingerprint lane, and
the check lane unless the cell is pure: then it follows from the fingerprint. Expanding gives back the very
same words.
"""

import numpy as np

from eddyline.kernels.distinct import LANE_PRIME, PURE, distinct_pure_words
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
from eddyline.sketch.distinct import DistinctSpec

_LANE_BITS, _SUM_BITS = 21, 61
_LANE = (1 << _LANE_BITS) - 1


def compact(spec: DistinctSpec, counters: Int64Array) -> bytes:
    """Return the counters in compact form."""
    kinds = spec.cells_of(counters).kinds
    rows = counters[: spec.sums_at].reshape(spec.levels, spec.cells)
    parts = [_compact_row(spec, row, kind == PURE) for row, kind in zip(rows, kinds, strict=True)]
    sums = counters[spec.sums_at : spec.counts_at]
    counts = counters[spec.counts_at :].astype("<i8").view("<i4").astype(np.int64)
    parts += [_compact_numbers(sums, _SUM_BITS), _compact_numbers(zigzag(counts), None)]
    return b"".join(parts)


def expand(spec: DistinctSpec, data: bytes) -> Int64Array:
    """Return the counters that `compact` was given, or raise CorruptState."""
    reader = BitReader(data)
    rows = [_expand_row(spec, reader) for _ in range(spec.levels)]
    table = spec.counts_at - spec.sums_at
    sums, counts = _expand_numbers(reader, table), unzigzag(_expand_numbers(reader, table))
    reader.finish()
    halves = counts.astype("<i4").view("<i8").astype(np.int64)
    return np.concatenate([*rows, sums, halves])


def _compact_row(spec: DistinctSpec, row: Int64Array, pure: np.ndarray) -> bytes:
    at = np.flatnonzero(row)
    words, alone = row[at], pure[at]
    counts = zigzag(_signed(words & _LANE))
    width = bits_of(counts)
    lanes = words >> _LANE_BITS & _LANE
    lanes[alone] = spec.cells_of_words(words[alone]).fingerprints
    checks = words[~alone] >> 2 * _LANE_BITS
    return b"".join(
        (
            HEAD.pack(len(at), width),
            pack_positions(at, len(row)),
            np.packbits(alone).tobytes(),
            pack(counts, width),
            pack(lanes, _LANE_BITS),
            pack(checks, _LANE_BITS),
        )
    )


def _expand_row(spec: DistinctSpec, reader: BitReader) -> Int64Array:
    number, width = reader.head(spec.cells)
    at = unpack_positions(reader, number, spec.cells)
    alone = reader.take_bits(number).astype(np.bool_)
    counts = unzigzag(reader.take_numbers(number, width))
    lanes = reader.take_numbers(number, _LANE_BITS)
    checks = reader.take_numbers(number - int(alone.sum()), _LANE_BITS)
    words = np.empty(number, dtype=np.int64)
    words[~alone] = counts[~alone] % LANE_PRIME | lanes[~alone] << _LANE_BITS | checks << 2 * _LANE_BITS
    lone = np.empty(int(alone.sum()), dtype=np.int64)
    distinct_pure_words(counts[alone], lanes[alone], spec.params, lone)
    words[alone] = lone
    row = np.zeros(spec.cells, dtype=np.int64)
    row[at] = words
    return row


def _compact_numbers(numbers: Int64Array, width: int | None) -> bytes:
    at = np.flatnonzero(numbers)
    bits = bits_of(numbers[at]) if width is None else width
    return b"".join((HEAD.pack(len(at), bits), pack_positions(at, len(numbers)), pack(numbers[at], bits)))


def _expand_numbers(reader: BitReader, size: int) -> Int64Array:
    number, width = reader.head(size)
    at = unpack_positions(reader, number, size)
    out = np.zeros(size, dtype=np.int64)
    out[at] = reader.take_numbers(number, width)
    return out


def _signed(residues: Int64Array) -> Int64Array:
    return np.where(residues > LANE_PRIME // 2, residues - LANE_PRIME, residues)
