"""Reductions: what one costs a query, and the factors of values and elements, without a column for each step."""

import numpy as np

from eddyline.kernels.elements import unit_hash
from eddyline.kernels.jit import kernel

LEFT, VARIANCE, SQUARES, COSTS = 0, 1, 2, 3
"""Places of sums: what is left of the answer, the variance that is added, its squares; others come after them."""
_BLOCK = 1 << 10
"""Values whose sums are added up by themselves, so that rounding stays small in long columns."""


@kernel("sums", "part")
def add_costs(  # noqa: C901, PLR0912 - one loop over values
    values: np.ndarray,
    rates: np.ndarray,
    seed: np.uint64,
    base: float,
    entered: np.ndarray,
    entered_rates: np.ndarray,
    shares: np.ndarray,
    known: np.ndarray,
    slopes: np.ndarray,
    explained: bool,
    part: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add up what a reduction to a roster costs a query at the values (ascending) of one link.

    rates: the inclusion probabilities so far. base, entered, entered_rates: those of the roster; the entered values
    are ascending. shares: of each value in the answer; known, (relations, values): in the rows of each relation.
    The weight of a value is its old rate over the new one, less 1. If explained, sums are: at VARIANCE and SQUARES
    the weighted squares of the shares less what the slopes explain, and their squares. Otherwise, to find slopes: at
    LEFT what stays of the shares, less the shares; from COSTS on for each relation the largest known share of the
    rows that are held of a dropped value; then for each relation the weighted products of known and shares; then the
    squares of the weighted squares of known; then the weighted products of known with itself.
    part: space for as many sums.
    """
    relations, at = known.shape[0], 0
    met, few = COSTS + relations, COSTS + 2 * relations
    gram = COSTS + 3 * relations
    for start in range(0, len(values), _BLOCK):
        for place in range(len(part)):
            part[place] = 0.0
        for i in range(start, min(start + _BLOCK, len(values))):
            while at < len(entered) and entered[at] < values[i]:
                at += 1
            rate = entered_rates[at] if at < len(entered) and entered[at] == values[i] else base
            followed = rate
            if rate <= 0.0:  # the element holds a NULL, whose code is that of a key: NULL is always followed
                rate = 1.0
            scaled = rates[i] / max(rate, 2.0**-53)
            weight = max(scaled - 1.0, 0.0)
            if explained:
                rest = shares[i]
                for k in range(relations):
                    if known[k, i] != 0.0:
                        rest -= slopes[k] * known[k, i]
                term = weight * rest * rest
                part[VARIANCE] += term
                part[SQUARES] += term * term
                continue
            stays = unit_hash(values[i], seed) < followed
            part[LEFT] += shares[i] * ((scaled if stays else 0.0) - 1.0)
            for k in range(relations):
                own = known[k, i]
                if own == 0.0:
                    continue
                if not stays:
                    sums[COSTS + k] = max(sums[COSTS + k], own * rates[i])
                part[met + k] += own * weight * shares[i]
                part[few + k] += (own * own * weight) ** 2
                for other in range(relations):
                    part[gram + k * relations + other] += own * weight * known[other, i]
        for place in range(len(part)):
            sums[place] += part[place]


@kernel("least")
def least_at(factors: np.ndarray, left_out: np.ndarray, places: np.ndarray, least: np.ndarray) -> None:
    """Lower the numbers at the places of entries to the factors of these, except of those that are left out."""
    for i in range(len(places)):
        if not left_out[i] and factors[i] < least[places[i]]:
            least[places[i]] = factors[i]


@kernel("space")
def gather_light(
    column: np.ndarray, rates: np.ndarray, worth: np.ndarray, most: float, space: np.ndarray
) -> int:
    """Write the entries of a column, each over its rate, that are worth at most `most`; return how many there are.

    column: empty for ones; rates: empty if all are 1.
    """
    filled = 0
    for i in range(len(worth)):
        if worth[i] <= most:
            entry = column[i] if len(column) > 0 else 1.0
            space[filled] = entry / rates[i] if len(rates) > 0 else entry
            filled += 1
    return filled


@kernel("factors")
def factors_of(
    values: np.ndarray, known: np.ndarray, worth: np.ndarray, seed: np.uint64, factors: np.ndarray
) -> None:
    """Write the hash of each value over its worth; worth: of all known values, ascending as the values are."""
    at = 0
    for i in range(len(values)):
        while known[at] < values[i]:
            at += 1
        factors[i] = unit_hash(values[i], seed) / worth[at]


@kernel("latest")
def raise_to(factors: np.ndarray, left_out: np.ndarray, places: np.ndarray, latest: np.ndarray) -> None:
    """Raise the numbers of entries to the factors at their places, except of those that are left out."""
    for i in range(len(places)):
        if not left_out[i] and factors[places[i]] > latest[i]:
            latest[i] = factors[places[i]]
