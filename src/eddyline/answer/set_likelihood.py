"""Joint maximum likelihood: how many elements are in exactly which streams, from all cells of all levels.

Guarantee: asymptotically the smallest error that any unbiased reading of these cells can have; the
curvature at the maximum says how large it is.
Deviation from set expressions, AtomicDiffEstimator: cells that hold many elements in some stream count too,
and so do all levels, where the document reads union-singletons of a single level.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np

from eddyline.answer.reading import FloatArray
from eddyline.errors import SketchError
from eddyline.kernels.set_likelihood import cell_patterns, log_likelihood, state_moves
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.distinct import DistinctSpec

FEWEST_EMPTY = 0.05  # share of cells of the last level that must be empty: below it capacity is exceeded
_FEWEST = 1e-3  # the least number of elements of a class
_MOST_STEPS, _LONGEST_STEP = 200, 1.5
_CONVERGED = 1e-7  # a gain of the log likelihood that is not worth another step


@dataclass(frozen=True)
class Observation:
    """How often each level shows each pattern, levels ascending; and the union-singletons of each class."""

    streams: int
    level_rates: FloatArray
    levels: Int64Array
    patterns: Int64Array
    counts: FloatArray
    singletons: Int64Array
    crude_union: float


@dataclass(frozen=True)
class Fit:
    """The most likely number of elements of each class, and the covariance of their logarithms."""

    numbers: FloatArray
    covariance: FloatArray

    def total(self, wanted: tuple[bool, ...]) -> float:
        """Return the number of elements in the wanted classes."""
        return float(self.numbers[1:][np.array(wanted[1:])].sum())

    def relative_variance(self, wanted: tuple[bool, ...]) -> float:
        """Return the relative variance of that number: g' H^-1 g, g_T = N_T / E on the wanted classes."""
        share = np.where(wanted, self.numbers, 0.0)
        share[0] = 0.0
        share /= share.sum()
        return float(share @ self.covariance @ share)


def element_rates(spec: DistinctSpec) -> FloatArray:
    """Return, for each level, the chance that an element falls into one given cell of it."""
    share = 0.5 ** np.arange(1, spec.levels + 1)
    share[-1] = 0.5 ** (spec.levels - 1)
    return np.asarray(share / spec.cells)


def observe(spec: DistinctSpec, counters: tuple[Int64Array, ...]) -> Observation:
    """Return what the cells of these streams show together, or raise where capacity is exceeded."""
    read = [spec.cells_of(words) for words in counters]
    kinds = np.stack([cells.kinds.reshape(-1) for cells in read])
    fingerprints = np.stack([cells.fingerprints.reshape(-1) for cells in read])
    codes = np.empty(kinds.shape[1], dtype=np.int64)
    cell_patterns(kinds, fingerprints, codes)
    empty = (codes.reshape(spec.levels, spec.cells) == 0).mean(axis=1)
    if empty[-1] < FEWEST_EMPTY:
        raise SketchError(
            f"these streams hold more distinct elements than a distinct sketch of {spec.levels} levels can "
            "count (capacity exceeded): plan with a larger max_distinct."
        )
    streams, rates = len(counters), element_rates(spec)
    level_of = np.repeat(np.arange(spec.levels), spec.cells)
    keyed, counts = np.unique(level_of << 3 * streams | codes, return_counts=True)
    levels, patterns = keyed >> 3 * streams, keyed & ((1 << 3 * streams) - 1)
    return Observation(
        streams,
        rates,
        levels,
        patterns,
        counts.astype(np.float64),
        _union_singletons(patterns, counts, streams),
        _crude_union(empty, rates),
    )


def _union_singletons(patterns: Int64Array, counts: Int64Array, streams: int) -> Int64Array:
    """Return how many cells hold a single element of the union, by the class of that element."""
    out = np.zeros(1 << streams, dtype=np.int64)
    for mask in range(1, 1 << streams):
        pattern = sum(1 << 3 * j for j in range(streams) if mask >> j & 1)
        out[mask] = counts[patterns == pattern].sum()
    return out


def _crude_union(empty: FloatArray, rates: FloatArray) -> float:
    """Return the union by linear counting at the level whose share of empty cells is nearest to 1/2."""
    level = int(np.abs(empty - 0.5).argmin())
    return max(-log(min(max(empty[level], 1e-6), 1 - 1e-6)) / float(rates[level]), 1.0)


@lru_cache(maxsize=8)
def _moves(streams: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = (1 << streams, 3**streams)
    up, full, down = (np.empty(shape, dtype=np.int64) for _ in range(3))
    state_moves(streams, up, full, down)
    return up, full, down


@dataclass(frozen=True)
class _Point:
    """The likelihood at the logarithms of the class numbers: value, gradient, outer-product information."""

    logs: FloatArray
    value: float
    gradient: FloatArray
    information: FloatArray


def _likelihood_at(logs: FloatArray, seen: Observation) -> _Point:
    numbers = np.concatenate([[0.0], np.exp(logs)])
    gradient, information = np.empty(len(numbers)), np.empty((len(numbers), len(numbers)))
    value = log_likelihood(
        numbers,
        seen.level_rates,
        seen.levels,
        seen.patterns,
        seen.counts,
        seen.streams,
        *_moves(seen.streams),
        gradient,
        information,
    )
    return _Point(logs, float(value), gradient[1:], information[1:, 1:])


def fit(seen: Observation) -> Fit:
    """Return the most likely class numbers, by damped scoring from the shares of the union-singletons."""
    shares = (seen.singletons[1:] + 0.5) / (seen.singletons.sum() + 0.5 * len(seen.singletons))
    point = _likelihood_at(np.log(np.maximum(shares * seen.crude_union, 2 * _FEWEST)), seen)
    damping = 1e-3
    for _ in range(_MOST_STEPS):
        step, gain = _scoring_step(point, damping)
        if gain < _CONVERGED:
            break
        ahead = _likelihood_at(np.maximum(point.logs + step, log(_FEWEST)), seen)
        better = ahead.value > point.value
        point = ahead if better else point
        damping = max(damping / 5, 1e-6) if better else damping * 8
    return Fit(np.concatenate([[0.0], np.exp(point.logs)]), _covariance(point.logs, seen))


def _scoring_step(point: _Point, damping: float) -> tuple[FloatArray, float]:
    """Return the next step and the gain it promises; classes at the bottom of their range stay there."""
    free = np.flatnonzero((point.logs > log(_FEWEST)) | (point.gradient > 0))
    step = np.zeros(len(point.logs))
    if len(free) == 0:
        return step, 0.0
    curvature = point.information[np.ix_(free, free)]
    damped = curvature + np.diag(damping * np.diag(curvature) + 1e-9)
    step[free] = np.clip(np.linalg.solve(damped, point.gradient[free]), -_LONGEST_STEP, _LONGEST_STEP)
    return step, float(abs(point.gradient @ step))


def _covariance(logs: FloatArray, seen: Observation, step: float = 1e-3) -> FloatArray:
    """Return the inverse of the curvature, over the classes that are not at the bottom of their range."""
    free = np.flatnonzero(logs > log(10 * _FEWEST))
    hessian = np.empty((len(free), len(free)))
    for row, index in enumerate(free):
        shift = np.zeros(len(logs))
        shift[index] = step
        ahead, behind = _likelihood_at(logs + shift, seen), _likelihood_at(logs - shift, seen)
        hessian[row] = (behind.gradient - ahead.gradient)[free] / (2 * step)
    out = np.zeros((len(logs) + 1, len(logs) + 1))
    inverse = np.linalg.pinv(0.5 * (hessian + hessian.T), rcond=1e-10, hermitian=True)
    out[np.ix_(free + 1, free + 1)] = inverse
    return out
