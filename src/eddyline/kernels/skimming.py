"""Estimating frequencies from a hash sketch: point estimates, skimming, and the shrunk refit.

Arrays that all functions share: `residual` float64 (depth, width), the sketch minus the image of the
dense frequencies; `buckets` int32 and `signs` int8, both (n, depth), where each candidate key goes;
`dense` float64 (n,), the frequencies removed so far; `left_out`, the row that must not be read,
or -1. Paper symbols: H[p, q] = residual, h_p(u) = buckets[u, p], xi_p(u) = signs[u, p], f^ = dense.
"""

from typing import SupportsIndex

import numpy as np

from eddyline.kernels.hashing import hash_word
from eddyline.kernels.jit import helper, inlined, kernel

_U = np.uint64
_TOP = _U(63)
_FEW_MORE = 20
"""Skimming ends when fewer than one in this many of the dense values were found last: the refit does the rest."""
_SETTLED = 0.004
"""Refitting ends when a sweep moved values by less than 6% of the noise, as their root mean square; squared here.

Further sweeps would make the variance, as estimated from the left-out row's residual, 0.2% smaller."""


@helper
def _median(values: np.ndarray, n: int) -> float:
    """Return the median of the first n values, which it sorts in place."""
    for i in range(1, n):
        value = values[i]
        j = i - 1
        while j >= 0 and values[j] > value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value
    half = n // 2
    return float(values[half] if n % 2 else 0.5 * (values[half - 1] + values[half]))


@helper
def _estimate_median(
    residual: np.ndarray,
    buckets: np.ndarray,
    signs: np.ndarray,
    u: SupportsIndex,
    left_out: int,
    scratch: np.ndarray,
) -> float:
    n = 0
    for p in range(residual.shape[0]):
        if p != left_out:
            scratch[n] = residual[p, buckets[u, p]] * signs[u, p]
            n += 1
    return _median(scratch, n)


@helper
def _estimate_sum(
    residual: np.ndarray, buckets: np.ndarray, signs: np.ndarray, u: SupportsIndex, left_out: int
) -> float:
    total = 0.0
    for p in range(residual.shape[0]):
        if p != left_out:
            total += residual[p, buckets[u, p]] * signs[u, p]
    return total


@helper
def _take_off(
    residual: np.ndarray, buckets: np.ndarray, signs: np.ndarray, u: SupportsIndex, amount: float
) -> None:
    for p in range(residual.shape[0]):
        residual[p, buckets[u, p]] -= signs[u, p] * amount


@helper
def _row_powers(residual: np.ndarray, left_out: int) -> np.ndarray:
    """Return sum_q H[p, q]^2, which estimates F2, for every row in use."""
    depth, width = residual.shape
    powers = np.empty(depth if left_out < 0 else depth - 1)
    n = 0
    for p in range(depth):
        if p != left_out:
            power = 0.0
            for q in range(width):
                power += residual[p, q] * residual[p, q]
            powers[n] = power
            n += 1
    return powers


@kernel()
def noise_level(residual: np.ndarray, left_out: int) -> float:
    """Return sqrt(F2 / (width * rows)): the standard error of the mean point estimate of a frequency."""
    powers = _row_powers(residual, left_out)
    rows = powers.shape[0]
    return float(np.sqrt(_median(powers, rows) / (residual.shape[1] * rows)))


@kernel("out")
def median_estimates(
    residual: np.ndarray, buckets: np.ndarray, signs: np.ndarray, left_out: int, out: np.ndarray
) -> None:
    """Fill out (n,) with the median over rows of H[p, h_p(u)] * xi_p(u)."""
    scratch = np.empty(residual.shape[0])
    for u in range(buckets.shape[0]):
        out[u] = _estimate_median(residual, buckets, signs, u, left_out, scratch)


@kernel("flags")
def scan_range(
    residual: np.ndarray, low: np.int64, params: np.ndarray, family: int, threshold: float, flags: np.ndarray
) -> None:
    """Set flags[i] if most rows put key low + i beyond the threshold, on one side of zero.

    Paper: skimmed, SKIMDENSE lines 3-6, with every domain value tested; params: uint64 (depth, PARAMETERS).
    """
    depth, width = residual.shape
    mask = _U(width - 1)
    need = depth // 2 + 1
    for i in range(flags.shape[0]):
        above = 0
        below = 0
        for p in range(depth):
            word = hash_word(_U(low + i), params[p], family)
            value = residual[p, word & mask]
            if word >> _TOP:
                value = -value
            above += value >= threshold
            below += value <= -threshold
            if max(above, below) + depth - p <= need:
                break
        flags[i] = above >= need or below >= need


@kernel("flags")
def agreeing(
    residual: np.ndarray,
    buckets: np.ndarray,
    signs: np.ndarray,
    left_out: int,
    threshold: float,
    flags: np.ndarray,
) -> None:
    """Set flags[u] if more than half of all rows, without the left-out one, agree as in `scan_range`."""
    need = residual.shape[0] // 2 + 1
    for u in range(flags.shape[0]):
        flags[u] = _agree(residual, buckets, signs, u, left_out, threshold, need)


@helper
def _agree(
    residual: np.ndarray,
    buckets: np.ndarray,
    signs: np.ndarray,
    u: SupportsIndex,
    left_out: int,
    threshold: float,
    need: int,
) -> bool:
    """Return whether `need` rows put a key at or beyond the threshold, on one side of zero."""
    above = 0
    below = 0
    depth = residual.shape[0]
    for p in range(depth):
        if p != left_out:
            value = residual[p, buckets[u, p]] * signs[u, p]
            above += value >= threshold
            below += value <= -threshold
        if max(above, below) + depth - p <= need:
            return False
    return max(above, below) >= need


@helper
def _sort_descending(keys: np.ndarray, sizes: np.ndarray, n: int) -> None:
    """Sort the first n keys by size, the largest first and equal ones by the lowest key: a shell sort."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key, size, j = keys[i], sizes[i], i
            while j >= gap and (sizes[j - gap] < size or (sizes[j - gap] == size and keys[j - gap] > key)):
                keys[j], sizes[j] = keys[j - gap], sizes[j - gap]
                j -= gap
            keys[j], sizes[j] = key, size
        gap //= 3


@helper
def _accept_dense(
    residual: np.ndarray,
    buckets: np.ndarray,
    signs: np.ndarray,
    left_out: int,
    threshold: float,
    dense: np.ndarray,
) -> int:
    """Remove, in descending order, every candidate still at or above the threshold; return how many."""
    depth = residual.shape[0]
    half = (depth + 1) // 2 if left_out < 0 else depth // 2  # rows that a median beyond the threshold needs
    scratch = np.empty(depth)
    found, sizes, n = np.empty(buckets.shape[0], dtype=np.int64), np.empty(buckets.shape[0]), 0
    for u in range(buckets.shape[0]):
        if dense[u] == 0.0 and _agree(residual, buckets, signs, u, left_out, threshold, half):
            size = abs(_estimate_median(residual, buckets, signs, u, left_out, scratch))
            if size >= threshold and size > 0.0:
                found[n], sizes[n] = u, size
                n += 1
    _sort_descending(found, sizes, n)
    accepted = 0
    for i in range(n):
        u = found[i]
        estimate = _estimate_median(residual, buckets, signs, u, left_out, scratch)
        if abs(estimate) >= threshold:
            dense[u] = estimate
            _take_off(residual, buckets, signs, u, estimate)
            accepted += 1
    return accepted


@kernel("residual", "dense")
def skim_dense(
    residual: np.ndarray,
    buckets: np.ndarray,
    signs: np.ndarray,
    left_out: int,
    multiple: float,
    rounds: int,
    dense: np.ndarray,
) -> None:
    """Move every candidate frequency above `multiple` noise levels from residual to dense, in place.

    The noise falls as dense values are removed, so the threshold is lowered with it; each round refits what was
    accepted (two passes of medians) and puts back what fell below the new threshold.
    Paper: skimmed, SKIMDENSE. Deviation: the threshold is the residual's noise rather than n / s1, and
    absolute values are compared, because a SUM may be negative.
    """
    scratch, taken = np.empty(residual.shape[0]), np.empty(dense.shape[0], dtype=np.int64)
    for _ in range(rounds):
        threshold = multiple * noise_level(residual, left_out)
        accepted = _accept_dense(residual, buckets, signs, left_out, threshold, dense)
        if threshold == 0.0 or accepted == 0:
            break
        n = 0
        for u in range(dense.shape[0]):
            if dense[u] != 0.0:
                taken[n] = u
                n += 1
        for _sweep in range(2):
            for i in range(n):
                u = taken[i]
                change = _estimate_median(residual, buckets, signs, u, left_out, scratch)
                dense[u] += change
                _take_off(residual, buckets, signs, u, change)
        threshold = multiple * noise_level(residual, left_out)
        for i in range(n):
            u = taken[i]
            if abs(dense[u]) < threshold:
                _take_off(residual, buckets, signs, u, -dense[u])
                dense[u] = 0.0
        if accepted * _FEW_MORE < n:
            break


@helper
def fit_prior(counts: np.ndarray, likelihood: np.ndarray, prior: np.ndarray, rounds: int) -> None:
    """Move the prior (k,) to the mixture that best explains the counts (bins,), by EM, in place."""
    bins, k = likelihood.shape
    expected = np.empty(k)
    for _ in range(rounds):
        for j in range(k):
            expected[j] = 0.0
        expected[0] = 1.0  # one pseudo-count of the null, so that it never vanishes
        for i in range(bins):
            if counts[i] > 0.0:
                total = 0.0
                for j in range(k):
                    total += prior[j] * likelihood[i, j]
                for j in range(k):
                    expected[j] += prior[j] * likelihood[i, j] * (counts[i] / total)
        total = 0.0
        for j in range(k):
            total += expected[j]
        for j in range(k):
            prior[j] = expected[j] / total


@helper
def _fill(table: np.ndarray, value: float) -> None:
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            table[i, j] = value


@helper
def _sum(values: np.ndarray) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return total


@helper
def _fit_factors(
    counts: np.ndarray,
    unseen: np.ndarray,
    likelihood: np.ndarray,
    shrinkage: np.ndarray,
    prior: np.ndarray,
    factor: np.ndarray,
) -> None:
    """Fit the prior of each group to its counts, and fill factor (groups, bins) with E[f | x] / x under it."""
    bins, k = likelihood.shape
    for group in range(unseen.shape[0]):
        counts[group, 0] += unseen[group]
        fit_prior(counts[group], likelihood, prior[group], 5)
        for i in range(bins):
            total = 0.0
            shrunk = 0.0
            for j in range(k):
                weight = prior[group, j] * likelihood[i, j]
                total += weight
                shrunk += weight * shrinkage[j]
            factor[group, i] = shrunk / total


@inlined
def _bin(ratio: float, lowest: float, per_octave: float, bins: int) -> int:
    """Return the bin of a squared ratio of estimate to noise, on a logarithmic scale."""
    if ratio <= 0.0:
        return 0
    i = int((np.log2(ratio) - lowest) * per_octave)
    return min(max(i, 0), bins - 1)


@kernel("residual", "dense")
def refit_shrunk(
    residual: np.ndarray,
    buckets: np.ndarray,
    signs: np.ndarray,
    left_out: int,
    groups: np.ndarray,
    unseen: np.ndarray,
    likelihood: np.ndarray,
    shrinkage: np.ndarray,
    scale: np.ndarray,
    sweeps: int,
    dense: np.ndarray,
) -> None:
    """Refit every candidate to its posterior mean, one after the other, in place.

    The estimate x = f + noise of a key is shrunk by the factor E[f | x] / x under a prior fitted to all
    candidates of its group: a mixture over k of f ~ N(0, r_k noise^2). groups uint8 (n,); unseen (groups,):
    how many keys were skipped when the candidates were chosen, all assumed to be null; likelihood (bins, k):
    that of each bin of x^2 / noise^2 under each component; shrinkage (k,): r_k / (1 + r_k); scale: (lowest
    exponent, bins per octave).
    """
    depth, width = residual.shape
    rows = depth if left_out < 0 else depth - 1
    bins, k = likelihood.shape
    prior, factor = np.empty((unseen.shape[0], k)), np.empty((unseen.shape[0], bins))
    counts = np.empty((unseen.shape[0], bins))
    _fill(prior, 1.0 / k)
    effective = 0.0
    for u in range(dense.shape[0]):
        effective += dense[u] != 0.0
    cells = float(rows * width)
    for sweep in range(-1, sweeps):  # the first pass only reads
        noise2 = _sum(_row_powers(residual, left_out)) / (rows * max(cells - effective, 0.2 * cells))
        if noise2 <= 0.0:
            break
        _fill(counts, 0.0)
        kept = 0.0
        moved = 0.0
        for u in range(buckets.shape[0]):
            x = dense[u] + _estimate_sum(residual, buckets, signs, u, left_out) / rows
            i = _bin(x * x / noise2, scale[0], scale[1], bins)
            counts[groups[u], i] += 1.0
            if sweep >= 0:
                kept += factor[groups[u], i]
                change = factor[groups[u], i] * x - dense[u]
                if change * change > 1e-4 * noise2:  # a smaller change is not worth writing
                    _take_off(residual, buckets, signs, u, change)
                    dense[u] += change
                    moved += change * change
        effective = effective if sweep < 0 else kept
        if sweep >= 0 and moved <= _SETTLED * noise2 * buckets.shape[0]:
            break
        _fit_factors(counts, unseen, likelihood, shrinkage, prior, factor)
