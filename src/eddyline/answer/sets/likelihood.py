"""Joint maximum likelihood: how many elements are in exactly which streams, from all cells of all levels.

Guarantee: asymptotically the smallest error that any unbiased reading of these cells can have; the curvature at the
maximum gives its size. Deviation from set expressions, AtomicDiffEstimator: cells with several elements count too,
and so do all levels, where the document reads union-singletons of a single level.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.errors import SketchError
from eddyline.kernels.distinct import PURE
from eddyline.kernels.sets import MOST_COUNT, cell_patterns, log_likelihood, small_inverses, state_moves
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.distinct import Cells, DistinctSpec

FEWEST_EMPTY = 0.05  # share of cells of the last level that must be empty: below it capacity is exceeded
_SMALL_COUNTS = 0.995  # share of net counts that must be small before known elements are searched
_FEWEST = 1e-3  # the least number of elements of a class
_MOST_STEPS, _LONGEST_STEP = 200, 1.5
_CONVERGED = 1e-7  # a gain of the log likelihood that is not worth another step


@dataclass(frozen=True)
class Observation:
    """How often each level shows each pattern, levels ascending.

    `singletons`: cells with a single element of the union, by the class of that element; `witnesses`: all elements
    whose class is known, by their class; `resolvable`: the streams (a mask) in which a known element is recognized
    next to another one.
    """

    streams: int
    level_rates: FloatArray
    levels: Int64Array
    patterns: Int64Array
    counts: FloatArray
    singletons: Int64Array
    witnesses: Int64Array
    resolvable: int
    crude_union: float


@dataclass(frozen=True)
class Fit:
    """The most likely number of elements of each class, and the covariance of their logarithms.

    Classes without any seen element have no covariance; `unseen` is how many elements of such a class cost one unit
    of log likelihood, and 0 for the other classes.
    """

    numbers: FloatArray
    covariance: FloatArray
    unseen: FloatArray

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


def observed_cells(spec: DistinctSpec, counters: tuple[Int64Array, ...]) -> Observation:
    """Return what the cells of these streams show together, or raise where capacity is exceeded."""
    streams, rates = len(counters), element_rates(spec)
    read = [spec.cells_of_words(words[: spec.sums_at]) for words in counters]
    resolvable = sum(1 << j for j, cells in enumerate(read) if _counts_are_small(cells))
    codes = np.empty(spec.sums_at, dtype=np.int64)
    cell_patterns(
        np.stack([words[: spec.sums_at] for words in counters], axis=1),
        np.stack([cells.kinds for cells in read], axis=1),
        np.stack([cells.fingerprints for cells in read], axis=1),
        resolvable,
        spec.params,
        small_inverses(),
        codes,
    )
    empty = (codes.reshape(spec.levels, spec.cells) == 0).mean(axis=1)
    if empty[-1] < FEWEST_EMPTY:
        raise SketchError(
            f"these streams hold more distinct elements than a distinct sketch of {spec.levels} levels can "
            "count (capacity exceeded): plan with a larger max_distinct."
        )
    bits = streams * (streams + 1)
    keyed, counts = np.unique(
        np.repeat(np.arange(spec.levels), spec.cells) << bits | codes, return_counts=True
    )
    levels, patterns = keyed >> bits, keyed & ((1 << bits) - 1)
    singletons, witnesses = _known_elements(patterns, counts, streams)
    crude = _crude_union(empty, rates)
    return Observation(
        streams, rates, levels, patterns, counts.astype(np.float64), singletons, witnesses, resolvable, crude
    )


def _counts_are_small(cells: Cells) -> bool:
    """Return whether practically all elements seen alone have net counts of 1 .. MOST_COUNT."""
    counts = cells.counts[cells.kinds == PURE]
    return bool(((counts >= 1) & (counts <= MOST_COUNT)).sum() >= _SMALL_COUNTS * len(counts))


def _known_elements(patterns: Int64Array, counts: Int64Array, streams: int) -> tuple[Int64Array, Int64Array]:
    """Return, by class, the elements alone in their cell, and all elements of cells without unknown ones."""
    singletons, witnesses = np.zeros(1 << streams, dtype=np.int64), np.zeros(1 << streams, dtype=np.int64)
    mask = (1 << streams) - 1
    complete = (patterns & mask == 0) & (patterns != 0)
    for pattern, count in zip(
        (patterns[complete] >> streams).tolist(), counts[complete].tolist(), strict=True
    ):
        if pattern <= mask:
            singletons[pattern] += count
        rest = pattern
        while rest:
            witnesses[rest & mask] += count
            rest >>= streams
    return singletons, witnesses


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
        seen.resolvable,
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
    numbers = np.exp(point.logs)
    bottom = (point.logs <= log(10 * _FEWEST)) & (point.gradient < 0)
    unseen = np.divide(-numbers, point.gradient, out=np.zeros(len(numbers)), where=bottom)
    first = np.zeros(1)
    return Fit(
        np.concatenate([first, numbers]), _covariance(point.logs, seen), np.concatenate([first, unseen])
    )


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
