"""Cells of several streams together: what they show about each element, and their joint likelihood."""

import math

import numpy as np

from eddyline.kernels.distinct import LANE_PRIME, MANY, PURE, check_lane
from eddyline.kernels.jit import helper, kernel

# What corresponding cells of several streams show together, element by element.
#
# A stream with a single element in the cell makes that element known. A stream with two elements, one of
# which is known, is resolved: removing the known one leaves a single element, which is known from then on.
# This is repeated until nothing more is learned; the remaining streams hold many.
#
# A pattern is one integer: the mask of the streams that hold many in the lowest k bits, then, in descending
# order, for each known element the mask of the streams known to hold it, k bits each.


MOST_COUNT = 32  # the largest net count with which a known element is searched next to another one

_U = np.uint64
_P = _U(LANE_PRIME)
_LANE = _U((1 << 21) - 1)


def small_inverses() -> np.ndarray:
    """Return 1/c modulo P for c = 0 .. MOST_COUNT (0 for 0)."""
    return np.array([0, *(pow(c, -1, LANE_PRIME) for c in range(1, MOST_COUNT + 1))], dtype=np.uint64)


@helper
def _beside(word: np.uint64, f: np.uint64, params: np.ndarray, inverses: np.ndarray) -> int:
    """Return the fingerprint of the other element of a cell that holds two, one with fingerprint f, or -1."""
    c, s, t = int(word & _LANE), word >> _U(21) & _LANE, word >> _U(42)
    if c > 2 * MOST_COUNT:
        return -1
    g = check_lane(f, params)
    for m in range(max(1, c - MOST_COUNT), min(MOST_COUNT, c - 1) + 1):
        rest = (s + (_P - f) * _U(m)) % _P * inverses[c - m] % _P
        if (_U(c - m) * check_lane(rest, params) + _U(m) * g) % _P == t:
            return int(rest)
    return -1


@helper
def _join(fingerprint: int, j: int, known: np.ndarray, masks: np.ndarray, g: int) -> int:
    """Record that stream j holds an element; return the number of known elements."""
    for i in range(g):
        if known[i] == fingerprint:
            masks[i] |= 1 << j
            return g
    known[g], masks[g] = fingerprint, 1 << j
    return g + 1


@helper
def _resolve(
    words: np.ndarray,
    many: int,
    params: np.ndarray,
    inverses: np.ndarray,
    known: np.ndarray,
    masks: np.ndarray,
    g: int,
) -> tuple[int, int]:
    """Resolve one stream of `many` with a known element; return (its index or -1, number of known elements)."""
    for j in range(words.shape[0]):
        if many >> j & 1:
            for i in range(g):
                rest = _beside(_U(words[j]), _U(known[i]), params, inverses)
                if rest >= 0:
                    masks[i] |= 1 << j
                    return j, _join(rest, j, known, masks, g)
    return -1, g


@kernel("out")
def cell_patterns(
    words: np.ndarray,
    kinds: np.ndarray,
    fingerprints: np.ndarray,
    resolvable: int,
    params: np.ndarray,
    inverses: np.ndarray,
    out: np.ndarray,
) -> None:
    """Fill out (int64 (n,)) with the pattern of each cell.

    words, kinds, fingerprints: (n, streams), as cells are classified; resolvable: mask of the streams in
    which known elements are searched next to another one.
    """
    n, streams = kinds.shape
    known, masks = np.empty(streams + 1, dtype=np.int64), np.empty(streams + 1, dtype=np.int64)
    for cell in range(n):
        many, g = 0, 0
        for j in range(streams):
            if kinds[cell, j] == MANY:
                many |= 1 << j
            elif kinds[cell, j] == PURE:
                g = _join(int(fingerprints[cell, j]), j, known, masks, g)
        while g and many & resolvable:
            j, g = _resolve(words[cell], many & resolvable, params, inverses, known, masks, g)
            if j < 0:
                break
            many ^= 1 << j
        code = many
        for i in range(g):
            place = 1  # in descending order: one position later for each mask before it
            for j in range(g):
                place += masks[j] > masks[i] or (masks[j] == masks[i] and j < i)
            code |= masks[i] << streams * place
        out[cell] = code


# The joint likelihood of what the cells of k streams show, and its gradient.
#
# Elements are classified by the set T of streams that hold them (a bit mask, 1 .. 2^k - 1). In a cell of one
# level their numbers are independent Poisson variables of rates lambda_T. A cell shows, for each stream,
# that it is empty, or that all its elements are known, or that it holds many; each known element is in a
# set G of streams (see `cell_patterns` in kernels/sets.py, which also defines how patterns are written).
#
# P(pattern) = exp(-sum of lambda_T over T not within M) * sum over R_1 .. R_g within M of product of
# lambda_{G_i | R_i} * Q_M(n)
#
# M is the set of streams with many, and Q_M(n) the probability that the elements within M alone give each
# stream j at least n_j. With r_j = #{i : j in R_i} known elements, a stream holds many if it has two elements
# or more: n_j = max(0, 2 - r_j). If two elements, one of which is known, are also recognized, many means
# three or more, or two unknown ones: n_j = 2, 2, 1, 0, ... for r_j = 0, 1, 2, 3, ...
#
# Q is computed by adding one class after the other to the distribution of counts capped at two: these are sums
# of positive terms, where inclusion and exclusion would cancel. Its derivative is that of Poisson:
# dQ_M(n)/dlambda_T = Q_M(max(0, n - 1_T)) - Q_M(n).


_TINY = 1e-290


@kernel("up", "full", "down")
def state_moves(streams: int, up: np.ndarray, full: np.ndarray, down: np.ndarray) -> None:
    """Fill the moves of capped counts (base-3 numbers, one digit per stream) for every class T.

    The moves are one more element (up), two or more (full), one less to require (down); each int64 (2^k, 3^k).
    """
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


@helper
def _at_least(  # noqa: C901 - one class after the other
    streams: int, many: int, rates: np.ndarray, up: np.ndarray, full: np.ndarray, q: np.ndarray
) -> None:
    """Fill q (3^k,) with Q_M(n) for the streams M = many and every n that requires nothing of the others."""
    states = q.shape[0]
    moved = np.empty(states)
    for s in range(states):
        q[s] = 0.0
    q[0] = 1.0
    for t in range(1, 1 << streams):
        rate = rates[t]
        if t & ~many or rate <= 0.0:
            continue
        none = math.exp(-rate)
        one = rate * none
        more = 0.5 * rate * rate * (1.0 - rate / 1.5) if rate < 1e-4 else 1.0 - none - one
        for s in range(states):
            moved[s] = 0.0
        for s in range(states):
            if q[s] > 0.0:
                moved[s] += q[s] * none
                moved[up[t, s]] += q[s] * one
                moved[full[t, s]] += q[s] * more
        for s in range(states):
            q[s] = moved[s]
    place = 1
    for j in range(streams):  # from "exactly" to "at least", one stream after the other
        if many >> j & 1:
            for s in range(states):
                if s // place % 3 == 0:
                    q[s + place] += q[s + 2 * place]
                    q[s] += q[s + place]
        place *= 3


@helper
def _spread(index: int, many: int, streams: int) -> int:
    """Return the subset of `many` whose members are the set bits of index, counted within many."""
    subset = 0
    for j in range(streams):
        if many >> j & 1:
            subset |= (index & 1) << j
            index >>= 1
    return subset


@helper
def _wanted(classes: np.ndarray, many: int, resolvable: int, streams: int) -> int:
    """Return n (a base-3 number): what each stream of many must have besides the known elements."""
    wanted, place = 0, 1
    for j in range(streams):
        if many >> j & 1:
            known = 0
            for mask in classes:
                known += mask >> j & 1
            if resolvable >> j & 1 and known:
                known -= 1
            wanted += place * max(0, 2 - known)
        place *= 3
    return wanted


@helper
def _pattern_term(
    streams: int,
    groups: np.ndarray,
    many: int,
    resolvable: int,
    rates: np.ndarray,
    q: np.ndarray,
    down: np.ndarray,
    slope: np.ndarray,
) -> float:
    """Return the sum over R_1 .. R_g of a pattern, and fill slope (2^k,) with its derivatives."""
    for t in range(slope.shape[0]):
        slope[t] = 0.0
    g = groups.shape[0]
    size = 0
    for j in range(streams):
        size += many >> j & 1
    total = 0.0
    classes = np.empty(g, dtype=np.int64)
    for choice in range(1 << size * g):
        product = 1.0
        for i in range(g):
            classes[i] = groups[i] | _spread(choice >> size * i & ((1 << size) - 1), many, streams)
            product *= rates[classes[i]]
        wanted = _wanted(classes, many, resolvable, streams)
        chance = q[wanted]
        total += product * chance
        for i in range(g):
            slope[classes[i]] += product / rates[classes[i]] * chance
        t = many
        while t:
            slope[t] += product * (q[down[t, wanted]] - chance)
            t = (t - 1) & many
    return total


@kernel("gradient", "information")
def log_likelihood(  # noqa: C901 - one pass over the cells
    numbers: np.ndarray,
    level_rates: np.ndarray,
    levels: np.ndarray,
    patterns: np.ndarray,
    counts: np.ndarray,
    streams: int,
    resolvable: int,
    up: np.ndarray,
    full: np.ndarray,
    down: np.ndarray,
    gradient: np.ndarray,
    information: np.ndarray,
) -> float:
    """Return the log likelihood of cells, and fill its derivatives by ln N_T.

    gradient (2^k,): the derivatives; information (2^k, 2^k): the sum over cells of the outer product of each cell's
    own gradient. numbers: N_T, float64 (2^k,), entry 0 unused; level_rates: the probability that an element falls
    into one given cell of a level; levels (ascending), patterns, counts: how often a level shows a pattern;
    resolvable: mask of the streams in which a known element next to another one is recognized.
    """
    classes = 1 << streams
    for t in range(classes):
        gradient[t] = 0.0
        for other in range(classes):
            information[t, other] = 0.0
    rates, slope = np.empty(classes), np.empty(classes)
    q = np.empty((classes, 3**streams))
    known = np.empty(classes, dtype=np.bool_)
    groups = np.empty(streams, dtype=np.int64)
    total, current = 0.0, -1
    for i in range(levels.shape[0]):
        if levels[i] != current:
            current = levels[i]
            for t in range(classes):
                known[t] = False
                rates[t] = numbers[t] * level_rates[current]
        many = patterns[i] & (classes - 1)
        rest, g = patterns[i] >> streams, 0
        while rest:
            groups[g] = rest & (classes - 1)
            rest >>= streams
            g += 1
        if not known[many]:
            _at_least(streams, many, rates, up, full, q[many])
            known[many] = True
        inside = max(_pattern_term(streams, groups[:g], many, resolvable, rates, q[many], down, slope), _TINY)
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
