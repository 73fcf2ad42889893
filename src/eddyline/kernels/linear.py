"""Updates of the linear sketches: counters += the image of (keys, weights)."""

import numpy as np

from eddyline.kernels.hashing import MIX, hash_word
from eddyline.kernels.jit import inlined, kernel

_U = np.uint64
_TOP = _U(63)
_MASK32 = _U((1 << 32) - 1)


@kernel("counters")
def hash_sketch_add(
    counters: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
    params: np.ndarray,
    uses: np.ndarray,
    family: int,
) -> None:
    """Add weighted keys to a hash sketch: H[p, h_p(u)] += v * xi_p(u), one counter per row.

    counters: int64 (depth, width), width a power of two; keys: uint64 (edges, n); weights: int64 (n,);
    params: uint64 (functions, depth, PARAMETERS); uses: uint64 (functions, 3), for each function the key that
    it reads, a mask for the bucket and one for the sign, all ones or zeros. The bucket is the sum of the
    functions' buckets, the sign the product of their signs.
    """
    depth, width = counters.shape
    n = keys.shape[1]
    mask = _U(width - 1)
    for p in range(depth):
        row = counters[p]
        if params.shape[0] == 1:
            row_params = params[0, p]
            for i in range(n):
                word = hash_word(keys[0, i], row_params, family)
                negative = -np.int64(word >> _TOP)
                row[word & mask] += (weights[i] ^ negative) - negative
        else:
            for i in range(n):
                bucket, top = _combined(keys, i, params, p, uses, family)
                negative = -np.int64(top >> _TOP)
                row[bucket & mask] += (weights[i] ^ negative) - negative


@inlined
def _combined(
    keys: np.ndarray, i: int, params: np.ndarray, p: int, uses: np.ndarray, family: int
) -> tuple[np.uint64, np.uint64]:
    """Return (sum of the buckets, word whose top bit is the product of the signs) of a row's keys."""
    bucket = _U(0)
    top = _U(0)
    for f in range(params.shape[0]):
        word = hash_word(keys[uses[f, 0], i], params[f, p], family)
        bucket += word & uses[f, 1]
        top ^= word & uses[f, 2]
    return bucket, top


@kernel("out")
def hash_sketch_places(
    keys: np.ndarray, params: np.ndarray, uses: np.ndarray, family: int, width: int, out: np.ndarray
) -> None:
    """Fill out (uint32, (depth, n)) with each key's place in each row: 2 * bucket + (1 if its sign is -1)."""
    n = keys.shape[1]
    mask = _U(width - 1)
    for p in range(out.shape[0]):
        if params.shape[0] == 1:
            row_params = params[0, p]
            for i in range(n):
                word = hash_word(keys[0, i], row_params, family)
                out[p, i] = np.uint32((word & mask) << _U(1) | word >> _TOP)
        else:
            for i in range(n):
                bucket, top = _combined(keys, i, params, p, uses, family)
                out[p, i] = np.uint32((bucket & mask) << _U(1) | top >> _TOP)


@kernel("counters")
def hash_sketch_add_at(counters: np.ndarray, places: np.ndarray, weights: np.ndarray) -> None:
    """Add weights to a hash sketch at known places: what `hash_sketch_add` does after hashing."""
    for p in range(counters.shape[0]):
        row = counters[p]
        for i in range(places.shape[1]):
            place = places[p, i]
            negative = -np.int64(place & np.uint32(1))
            row[place >> np.uint32(1)] += (weights[i] ^ negative) - negative


@kernel("counters")
def agms_add(
    counters: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
    params: np.ndarray,
    reads: np.ndarray,
    family: int,
) -> None:
    """Add weighted keys to atomic sketches: X[c] += v * product over functions of xi_c(u), for every c.

    counters: int64 (copies,); keys: uint64 (edges, n); params: uint64 (functions, copies, PARAMETERS);
    reads: int64 (functions,), the key that each function reads.
    """
    n = keys.shape[1]
    for c in range(counters.shape[0]):
        total = np.int64(0)
        for i in range(n):
            top = _U(0)
            for f in range(params.shape[0]):
                top ^= hash_word(keys[reads[f], i], params[f, c], family)
            negative = -np.int64(top >> _TOP)
            total += (weights[i] ^ negative) - negative
        counters[c] += total


@kernel()
def absolute_total(weights: np.ndarray) -> float:
    """Return the sum of |weights| as a float, which bounds how far any counter can move."""
    total = 0.0
    for i in range(weights.shape[0]):
        total += abs(float(weights[i]))
    return total


@kernel("out")
def checked_product(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> bool:
    """Fill out with left * right (int64) and return False at the first product that does not fit."""
    for i in range(left.shape[0]):
        if abs(float(left[i]) * float(right[i])) > 9.2e18:
            return False
        out[i] = left[i] * right[i]
    return True


# Updates of 2-level hash sketches.


@inlined
def _lsb(word: np.uint64, most: int) -> int:
    """Return the index of the least significant 1 of a word, at most `most`."""
    index = 0
    while index < most and not word & _U(1):
        word >>= _U(1)
        index += 1
    return index


@inlined
def _add_element(bucket: np.ndarray, key: np.uint64, v: np.int64) -> None:
    bucket[0] += v
    for j in range(1, bucket.shape[0]):  # without branches, so that several counters are added at once
        bucket[j] += v & -np.int64((key >> _U(j - 1)) & _U(1))


@inlined
def _copy_of(word: np.uint64, copies: np.uint64, family: int) -> np.uint64:
    """Return which copy a hash word picks, by its highest 32 random bits: a word of `POLY4` has 61."""
    high = word >> _U(32) if family == MIX else word >> _U(29) & _MASK32
    return high * copies >> _U(32)


@kernel("counters")
def two_level_add(
    counters: np.ndarray, keys: np.ndarray, weights: np.ndarray, params: np.ndarray, family: int, spread: bool
) -> None:
    """Add weighted keys to chi[copy, lsb(h(e))]: a total and one counter for each bit of the key.

    counters: int64 (copies, levels, 1 + key bits). Without `spread`, params is (copies, PARAMETERS) and every
    copy is updated with its own h; with it, params is (2, PARAMETERS): g picks one copy, h the bucket.
    """
    copies, levels, _ = counters.shape
    for i in range(keys.shape[0]):
        if spread:
            copy = _copy_of(hash_word(keys[i], params[0], family), _U(copies), family)
            level = _lsb(hash_word(keys[i], params[1], family), levels - 1)
            _add_element(counters[copy, level], keys[i], weights[i])
            continue
        for r in range(copies):
            level = _lsb(hash_word(keys[i], params[r], family), levels - 1)
            _add_element(counters[r, level], keys[i], weights[i])
