"""XXH64 as Spark's `xxhash64` computes it, so that the JVM and the Arrow path give equal keys."""

import numpy as np

from eddyline.kernels.jit import helper, inlined, kernel

_U = np.uint64
_P1 = _U(0x9E3779B185EBCA87)
_P2 = _U(0xC2B2AE3D27D4EB4F)
_P3 = _U(0x165667B19E3779F9)
_P4 = _U(0x85EBCA77C2B2AE63)
_P5 = _U(0x27D4EB2F165667C5)
SPARK_SEED = _U(42)


@inlined
def _rotl(x: np.uint64, r: np.uint64) -> np.uint64:
    return (x << r) | (x >> (_U(64) - r))


@inlined
def _final(h: np.uint64) -> np.uint64:
    h ^= h >> _U(33)
    h *= _P2
    h ^= h >> _U(29)
    h *= _P3
    return h ^ (h >> _U(32))


@inlined
def _read(data: np.ndarray, at: int, size: int) -> np.uint64:
    word = _U(0)
    for i in range(size):
        word |= _U(data[at + i]) << _U(8 * i)
    return word


@inlined
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotl(lane + word * _P2, _U(31)) * _P1


@helper
def hash_long(value: np.uint64, seed: np.uint64) -> np.uint64:
    """Return XXH64 of one 8-byte integer."""
    h = seed + _P5 + _U(8)
    h ^= _round(_U(0), value)
    h = _rotl(h, _U(27)) * _P1 + _P4
    return _final(h)


@helper
def hash_bytes(data: np.ndarray, start: int, stop: int, seed: np.uint64) -> np.uint64:
    """Return XXH64 of data[start:stop] (uint8)."""
    length = stop - start
    at = start
    if length >= 32:
        v1, v2, v3, v4 = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at <= stop - 32:
            v1 = _round(v1, _read(data, at, 8))
            v2 = _round(v2, _read(data, at + 8, 8))
            v3 = _round(v3, _read(data, at + 16, 8))
            v4 = _round(v4, _read(data, at + 24, 8))
            at += 32
        h = _rotl(v1, _U(1)) + _rotl(v2, _U(7)) + _rotl(v3, _U(12)) + _rotl(v4, _U(18))
        for lane in (v1, v2, v3, v4):
            h = (h ^ _round(_U(0), lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += _U(length)
    while at <= stop - 8:
        h = _rotl(h ^ _round(_U(0), _read(data, at, 8)), _U(27)) * _P1 + _P4
        at += 8
    if at <= stop - 4:
        h = _rotl(h ^ (_read(data, at, 4) * _P1), _U(23)) * _P2 + _P3
        at += 4
    while at < stop:
        h = _rotl(h ^ (_U(data[at]) * _P5), _U(11)) * _P1
        at += 1
    return _final(h)


@kernel("out")
def hash_strings(data: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Fill out (uint64) with Spark's xxhash64 of each byte string data[offsets[i]:offsets[i + 1]]."""
    for i in range(out.shape[0]):
        out[i] = hash_bytes(data, offsets[i], offsets[i + 1], SPARK_SEED)


@kernel("out")
def chain_longs(keys: np.ndarray, out: np.ndarray) -> None:
    """Fill out with Spark's xxhash64(k1, k2, ...) of the columns keys (uint64, (columns, n))."""
    for i in range(out.shape[0]):
        h = SPARK_SEED
        for c in range(keys.shape[0]):
            h = hash_long(keys[c, i], h)
        out[i] = h
