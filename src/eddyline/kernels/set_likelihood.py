"""The joint likelihood of what the cells of k streams show, and its gradient.

Elements are classed by the set T of streams that hold them (a bit mask, 1 .. 2^k - 1). In a cell of one
level their numbers are independent Poisson variables of rates lambda_T. A cell shows, for each stream,
nothing, one element (streams with the same element form a group G) or many; the pattern is a base-8 number,
one digit a stream: 0 empty, 1 .. 6 the number of its group, 7 many.

    P(pattern) = exp(-sum of lambda_T over T not within M) * sum over R_1 .. R_g within M of
                 product of lambda_{G_i | R_i} * Q_M(n),    n_j = max(0, 2 - #{i : j in R_i})

M the streams with many, Q_M(n) the chance that the elements within M alone give each stream j at least n_j.
Q is computed by adding one class after the other to the distribution of counts capped at two: sums of
positive terms, where inclusion and exclusion would cancel. Its derivative is Poisson's:
dQ_M(n)/dlambda_T = Q_M(max(0, n - 1_T)) - Q_M(n).
"""

import math

import numpy as np
from numba import njit

MANY_DIGIT = 7
_TINY = 1e-290


@njit(cache=True, nogil=True)
def cell_patterns(kinds: np.ndarray, fingerprints: np.ndarray, out: np.ndarray) -> None:
    """Fill out (int64 (n,)) with the pattern of each cell, from kinds and fingerprints (streams, n)."""
    streams, n = kinds.shape
    for i in range(n):
        groups = 0
        code = 0
        for j in range(streams):
            digit = 0
            if kinds[j, i] == 2:
                digit = MANY_DIGIT
            elif kinds[j, i] == 1:
                for other in range(j):
                    if kinds[other, i] == 1 and fingerprints[other, i] == fingerprints[j, i]:
                        digit = code >> 3 * other & 7
                        break
                if digit == 0:
                    groups += 1
                    digit = groups
            code |= digit << 3 * j
        out[i] = code


@njit(cache=True, nogil=True)
def state_moves(streams: int, up: np.ndarray, full: np.ndarray, down: np.ndarray) -> None:
    """Fill the moves of capped counts (base-3 numbers, one digit a stream) for every class T: one more
    element (up), two or more (full), one less to ask for (down); each int64 (2^k, 3^k).
    """  # noqa: D205
    for mask in range(1 << streams):
        for state in range(3**streams):
            place, rest = 1, state
            up[mask, state] = full[mask, state] = down[mask, state] = state
            for j in range(streams):
                digit = rest % 3
                rest //= 3
                if mask >> j & 1:
                    up[mask, state] += place * (min(2, digit + 1) - digit)
                    full[mask, state] += place * (2 - digit)
                    down[mask, state] -= place * min(1, digit)
                place *= 3


@njit(cache=True)
def _at_least(
    streams: int, many: int, rates: np.ndarray, up: np.ndarray, full: np.ndarray, q: np.ndarray
) -> None:
    """Fill q (3^k,) with Q_M(n) for the streams M = many and every n that asks nothing of the others."""
    states = q.shape[0]
    q[:] = 0.0
    q[0] = 1.0
    moved = np.empty(states)
    for t in range(1, 1 << streams):
        rate = rates[t]
        if t & ~many or rate <= 0.0:
            continue
        none = math.exp(-rate)
        one = rate * none
        more = 0.5 * rate * rate * (1.0 - rate / 1.5) if rate < 1e-4 else 1.0 - none - one
        moved[:] = 0.0
        for s in range(states):
            if q[s] > 0.0:
                moved[s] += q[s] * none
                moved[up[t, s]] += q[s] * one
                moved[full[t, s]] += q[s] * more
        q[:] = moved
    place = 1
    for j in range(streams):  # from "exactly" to "at least", one stream after the other
        if many >> j & 1:
            for s in range(states):
                if s // place % 3 == 0:
                    q[s + place] += q[s + 2 * place]
                    q[s] += q[s + place]
        place *= 3


@njit(cache=True)
def _spread(index: int, many: int, streams: int) -> int:
    """Return the subset of `many` whose members are the set bits of index, counted within many."""
    subset = 0
    for j in range(streams):
        if many >> j & 1:
            subset |= (index & 1) << j
            index >>= 1
    return subset


@njit(cache=True)
def _pattern_term(
    streams: int,
    groups: np.ndarray,
    g: int,
    many: int,
    rates: np.ndarray,
    q: np.ndarray,
    down: np.ndarray,
    slope: np.ndarray,
) -> float:
    """Return the sum over R_1 .. R_g of a pattern, and fill slope (2^k,) with its derivatives."""
    slope[:] = 0.0
    size = 0
    for j in range(streams):
        size += many >> j & 1
    wanted_all = 0
    place = 1
    for j in range(streams):
        wanted_all += 2 * place * (many >> j & 1)
        place *= 3
    total = 0.0
    classes = np.empty(g, dtype=np.int64)
    for choice in range(1 << size * g):
        wanted = wanted_all
        product = 1.0
        for i in range(g):
            extra = _spread(choice >> size * i & ((1 << size) - 1), many, streams)
            classes[i] = groups[i] | extra
            wanted = down[extra, wanted]
            product *= rates[classes[i]]
        chance = q[wanted]
        total += product * chance
        for i in range(g):
            slope[classes[i]] += product / rates[classes[i]] * chance
        t = many
        while t:
            slope[t] += product * (q[down[t, wanted]] - chance)
            t = (t - 1) & many
    return total


@njit(cache=True, nogil=True)
def log_likelihood(
    numbers: np.ndarray,
    level_rates: np.ndarray,
    levels: np.ndarray,
    patterns: np.ndarray,
    counts: np.ndarray,
    streams: int,
    up: np.ndarray,
    full: np.ndarray,
    down: np.ndarray,
    gradient: np.ndarray,
    information: np.ndarray,
) -> float:
    """Return the log likelihood of cells, and fill its derivatives by ln N_T: gradient (2^k,), and in
    information (2^k, 2^k) the sum over cells of the outer product of each cell's own gradient.

    numbers: N_T, float64 (2^k,), entry 0 unused; level_rates: the chance of an element to fall into one given
    cell of a level; levels (ascending), patterns, counts: how often a level shows a pattern.
    """  # noqa: D205
    classes = 1 << streams
    gradient[:] = 0.0
    information[:] = 0.0
    rates, slope = np.empty(classes), np.empty(classes)
    q = np.empty((classes, 3**streams))
    known = np.zeros(classes, dtype=np.bool_)
    groups = np.zeros(streams, dtype=np.int64)
    total, current = 0.0, -1
    for i in range(levels.shape[0]):
        if levels[i] != current:
            current = levels[i]
            known[:] = False
            rates[:] = numbers * level_rates[current]
        many, g = 0, 0
        groups[:] = 0
        for j in range(streams):
            digit = patterns[i] >> 3 * j & 7
            if digit == MANY_DIGIT:
                many |= 1 << j
            elif digit > 0:
                groups[digit - 1] |= 1 << j
                g = max(g, digit)
        if not known[many]:
            _at_least(streams, many, rates, up, full, q[many])
            known[many] = True
        inside = max(_pattern_term(streams, groups, g, many, rates, q[many], down, slope), _TINY)
        total += counts[i] * math.log(inside)
        for t in range(1, classes):
            outside = 1.0 if t & ~many else 0.0
            total -= counts[i] * outside * rates[t]
            slope[t] = rates[t] * (slope[t] / inside - outside)
            gradient[t] += counts[i] * slope[t]
        for t in range(1, classes):
            for other in range(1, classes):
                information[t, other] += counts[i] * slope[t] * slope[other]
    return total
