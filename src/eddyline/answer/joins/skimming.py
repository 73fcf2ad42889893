"""Skimming: the dense frequencies of a sketched stream, found among candidate keys and shrunk.

The sketch gives the frequency of any key, up to a noise that falls as the dense values are subtracted. Two steps do
that. `without_dense_keys` subtracts what stands out by 4.5 noise levels, by medians, which large neighbors in a bucket
cannot distort. `refit_dense_keys` then gives each candidate its posterior mean under a prior that is fitted to the
candidates themselves: keys that stand out are kept unchanged, doubtful ones in part, and where nothing stands out
the prior and all frequencies collapse to zero.

Paper: skimmed, SKIMDENSE. Deviation: residual threshold, shrinkage, and leave-one-row-out use (`two_way`).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import sqrt
from typing import TypeVar

import numpy as np
import scipy  # its subpackages are loaded where they are touched

from eddyline.answer.interval import FloatArray
from eddyline.errors import SketchError
from eddyline.kernels import skimming as kernel
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.keys import kernel_id, parameters

S = TypeVar("S")
T = TypeVar("T")
UInt64Array = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

STANDS_OUT = 4.5
"""Noise levels above which a value is dense beyond doubt among a few hundred thousand keys."""
LARGEST_SCAN = 1 << 24
_MOST_CANDIDATES = 12_000
_ROUNDS = 10
_SWEEPS = 10
_CHUNK = 1 << 20
_MANY_KEYS = 2_000  # below this, starting threads takes longer than the work
_SCANNED_BY_CHANCE = 1_000  # keys that pass a scan by chance
_NAMED_BY_CHANCE = 100  # keys that pass by chance when a row is left out

_LOWEST, _PER_OCTAVE, _BINS = -6.0, 8.0, 368  # x^2 / noise^2 from 2^-6 to 2^40, bins 9% wide


def _prior_grid() -> tuple[FloatArray, FloatArray]:
    """Return the likelihood of each bin under each component, and each component's shrinkage."""
    variances = np.concatenate([[0.0], 0.25 * 2.0 ** np.arange(23)])
    squares = 2.0 ** (_LOWEST + (np.arange(_BINS) + 0.5) / _PER_OCTAVE)
    logs = -0.5 * squares[:, None] / (1 + variances) - 0.5 * np.log(1 + variances)
    likelihood = np.exp(np.maximum(logs - logs.max(axis=1, keepdims=True), -500.0))
    return likelihood, variances / (1 + variances)


_LIKELIHOOD, _SHRINKAGE = _prior_grid()
_SCALE = np.array([_LOWEST, _PER_OCTAVE])


@dataclass(frozen=True)
class Places:
    """Distinct keys in ascending order, and where each hashes to in each row: buckets and signs (n, depth).

    keys: (n,), or (edges, n) for relations of several keys.
    """

    keys: UInt64Array
    buckets: np.ndarray
    signs: np.ndarray

    def __len__(self) -> int:
        return len(self.buckets)

    def subset(self, index: np.ndarray) -> "Places":
        """Return the places of some of the keys."""
        return Places(self.keys[..., index], self.buckets[index], self.signs[index])


def places(spec: HashSketchSpec, *keys: UInt64Array) -> Places:
    """Return the places of the distinct keys of one or more arrays, each (n,) or each (edges, n)."""
    together = np.concatenate([each.view(np.uint64) for each in keys], axis=-1)
    distinct = _distinct(together)
    buckets, signs = spec.locate(np.ascontiguousarray(np.atleast_2d(distinct)))
    return Places(distinct, np.ascontiguousarray(buckets.T), np.ascontiguousarray(signs.T))


def _distinct(keys: UInt64Array) -> UInt64Array:
    """Return distinct keys in ascending order: (n,) or (edges, n), sorted by the first edge first."""
    if keys.ndim == 1:  # numpy's own `unique` hashes integers, which takes longer
        ordered = np.sort(keys, kind="stable")
        different: BoolArray = np.ones(len(ordered), dtype=np.bool_)
        different[1:] = ordered[1:] != ordered[:-1]
        return np.compress(different, ordered)
    ordered = keys[:, np.lexsort(keys[::-1])]
    first = np.ones(ordered.shape[1], dtype=np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return ordered[:, first]


@dataclass(frozen=True)
class Skimmed:
    """A skimmed sketch: the subtracted dense frequencies (n,), and the residual counters (depth, width)."""

    dense: FloatArray
    residual: FloatArray


def without_dense_keys(rows: FloatArray, at: Places, left_out: int = -1) -> Skimmed:
    """Return the sketch without the frequencies that stand out, found without reading one of the rows.

    Paper: skimmed, SKIMDENSE.
    """
    dense, residual = np.zeros(len(at)), rows.copy()
    kernel.skim_dense(residual, at.buckets, at.signs, left_out, STANDS_OUT, _ROUNDS, dense)
    return Skimmed(dense, residual)


def named(skimmed: Skimmed, at: Places, own: BoolArray, population: int, left_out: int = -1) -> BoolArray:
    """Return which keys a stream names, bool (n,): its own, and all that were subtracted.

    Own keys from a scan count only if most rows put them beyond the noise. The scan read every row; choosing again,
    more strictly, keeps the noise of the row left out from influencing the choice.
    """
    taken: BoolArray = skimmed.dense != 0
    if population <= np.count_nonzero(own):
        return own | taken
    depth = len(skimmed.residual)
    bar = _bar(depth, depth - (left_out >= 0), _NAMED_BY_CHANCE / population)
    threshold = bar * kernel.noise_level(skimmed.residual, left_out)
    flags: BoolArray = np.empty(len(at), dtype=np.bool_)
    kernel.agreeing(skimmed.residual, at.buckets, at.signs, left_out, threshold, flags)
    return (own & flags) | taken


def _bar(depth: int, rows: int, chance: float) -> float:
    """Return how many noise levels most of `depth` rows exceed with a given chance, if `rows` of them are used."""
    need = depth // 2 + 1
    one_row = scipy.special.betaincinv(need, rows - need + 1, min(0.5 * chance, 0.5))
    return float(-scipy.special.ndtri(one_row)) * sqrt(rows)


def refit_dense_keys(
    skimmed: Skimmed, at: Places, support: BoolArray, own: BoolArray, population: int, left_out: int = -1
) -> Skimmed:
    """Return the posterior means of the frequencies on the support, and the residual that they leave.

    support, own: bool (n,), the keys to fit (including all that were subtracted) and those that the stream itself
    named; the others, which only the other stream named, have a separate prior. population: the number of keys
    among which a scan chose.
    """
    index = np.nonzero(support)[0]
    part, values, residual = at.subset(index), skimmed.dense[index], skimmed.residual.copy()
    passed_over = np.array([0.0, max(population - np.count_nonzero(own), 0)])
    kernel.refit_shrunk(
        residual,
        part.buckets,
        part.signs,
        left_out,
        own[index].astype(np.uint8),
        passed_over,
        _LIKELIHOOD,
        _SHRINKAGE,
        _SCALE,
        _SWEEPS,
        values,
    )
    dense = np.zeros(len(at))
    dense[index] = values
    return Skimmed(dense, residual)


def in_threads(work: Callable[[S], T], items: Sequence[S], keys: int) -> list[T]:
    """Return the result of `work` for each item, in several threads where there are many keys.

    Rows and relations do not depend on each other, and kernels release the GIL.
    """
    if keys < _MANY_KEYS:
        return [work(item) for item in items]
    with ThreadPoolExecutor(max(1, min(len(items), os.cpu_count() or 1))) as threads:
        return list(threads.map(work, items))


def point_estimates(rows: FloatArray, at: Places) -> FloatArray:
    """Return the median over rows of each key's frequency estimate. Paper: skimmed, SKIMDENSE lines 4-5."""
    out = np.empty(len(at))
    kernel.median_estimates(rows, at.buckets, at.signs, -1, out)
    return out


def noise_of(skimmed: Skimmed) -> float:
    """Return the noise level of point estimates in what is left of a sketch."""
    return float(kernel.noise_level(skimmed.residual, -1))


def standing_out(skimmed: Skimmed) -> int:
    """Return how many dense frequencies stand out from the noise that is left."""
    noise = noise_of(skimmed)
    return int(np.count_nonzero(np.abs(skimmed.dense) > STANDS_OUT * noise))


def strongest(at: Places, *sides: FloatArray) -> Places:
    """Return the places of at most 12,000 keys: those that stand out most from any side's noise."""
    if len(at) <= _MOST_CANDIDATES:
        return at
    score = np.zeros(len(at))
    for rows in sides:
        skimmed = without_dense_keys(rows, at)
        noise = kernel.noise_level(skimmed.residual, -1) or 1.0
        score = np.maximum(score, np.abs(skimmed.dense + point_estimates(skimmed.residual, at)) / noise)
    chosen = np.argsort(-score, kind="stable")[:_MOST_CANDIDATES]
    return at.subset(np.sort(chosen))


def dense_in_range(spec: HashSketchSpec, counters: Int64Array, low: int, high: int) -> UInt64Array:
    """Return the keys of [low, high], as signed integers, whose frequency may stand out from the noise.

    A domain scan: no memory is kept for it, and 2^24 keys take a few seconds. Pass high - low + 1 as the
    `population` of the side that uses the keys. Deviation from SKIMDENSE: the scan is repeated as the
    noise falls, each time with a threshold that lets some 1,000 keys pass by chance.
    """
    population = high - low + 1
    if population > LARGEST_SCAN:
        raise SketchError(f"a range of {population} keys is too wide to scan: keep a candidate table for it.")
    if population <= _SCANNED_BY_CHANCE:
        return np.arange(low, high + 1, dtype=np.int64).view(np.uint64)
    rows = spec.rows(counters).astype(np.float64)
    residual, found = rows, np.empty(0, dtype=np.uint64)
    bar = _bar(spec.depth, spec.depth, _SCANNED_BY_CHANCE / population)
    for _ in range(_ROUNDS):
        noise = kernel.noise_level(residual, -1)
        found = np.union1d(found, scan(spec, residual, low, high, bar * noise))
        residual = without_dense_keys(rows, places(spec, found)).residual
        if kernel.noise_level(residual, -1) >= 0.8 * noise:
            break
    return found


def scan(spec: HashSketchSpec, residual: FloatArray, low: int, high: int, threshold: float) -> UInt64Array:
    """Return the keys of [low, high] that most rows put at or beyond the threshold, on one side of zero."""
    if threshold == 0.0:
        return np.empty(0, dtype=np.uint64)
    params = parameters(spec.hash, spec.seeds, spec.depth)[0]
    found = []
    for start in range(low, high + 1, _CHUNK):
        flags = np.zeros(min(_CHUNK, high + 1 - start), dtype=np.bool_)
        kernel.scan_range(residual, np.int64(start), params, kernel_id(spec.hash), threshold, flags)
        found.append((np.nonzero(flags)[0] + start).astype(np.int64).view(np.uint64))
    return np.concatenate(found)
