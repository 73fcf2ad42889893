"""The rates at which the links of a join are sampled."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, minimize
from scipy.special import logsumexp

_ROUNDS = 3
_NEGLIGIBLE = 1e-4  # a rate so near 1 is 1: the solver's last digits must not make an answer inexact


class RelationSize(NamedTuple):
    """How many elements (rows of different keys) a relation has and its sample can hold; its links, and the number
    of distinct values of its key on each.
    """  # noqa: D205

    elements: float
    capacity: float
    links: tuple[int, ...]
    distinct: tuple[float, ...]


def sampling_rates(
    relations: Sequence[RelationSize], joined_values: Sequence[float], join_size: float
) -> tuple[float, ...]:
    """Return the rate of each link: of the smallest expected variance that fits all samples.

    The relative variance is about the sum of (1/p_e)/d_e over the links plus (product of 1/p_e)/J: d_e
    `joined_values` of link e, J the `join_size`, all that joins spread evenly. The elements that a relation keeps
    vary likewise, and two standard deviations of that are left free in its sample.
    """
    capacities = np.array([max(relation.capacity, 1.0) for relation in relations])
    rates = _best_rates(relations, capacities, joined_values, join_size)
    for _ in range(_ROUNDS):
        spread = np.array([_spread(relation, rates[list(relation.links)]) for relation in relations])
        rates = _best_rates(relations, capacities / (1 + 2 * spread), joined_values, join_size)
    return tuple(rates.tolist())


def _spread(relation: RelationSize, rates: np.ndarray) -> float:
    """Return the relative standard deviation of how many elements are kept, as they come in groups of equal keys.

    What would be so without groups is left to the capacity.
    """
    grouped = ((1 / rates - 1) / np.maximum(relation.distinct, 1.0)).sum()
    return float(np.sqrt(max(grouped - 1 / max(relation.elements * rates.prod(), 1.0), 0.0)))


def _best_rates(
    relations: Sequence[RelationSize],
    capacities: np.ndarray,
    joined_values: Sequence[float],
    join_size: float,
) -> np.ndarray:
    """Return the best rates for some capacities.

    The logarithm of the variance is convex in the logarithms of the rates, and the capacities bound sums of them.
    """
    links = len(joined_values)
    shape = np.vstack([np.eye(links), np.ones(links)])
    scale = -np.log(np.maximum([*joined_values, join_size], 1.0))
    uses = np.array(
        [[link in relation.links for link in range(links)] for relation in relations], dtype=float
    )
    needs = np.log(np.maximum([relation.elements for relation in relations] / capacities, 1.0))
    if links == 1 or not needs.any():
        return np.asarray(np.exp(np.full(links, -needs.max())))  # nothing to weigh

    def log_variance(x: np.ndarray) -> float:
        return float(logsumexp(shape @ x + scale))

    def gradient(x: np.ndarray) -> np.ndarray:
        terms = shape @ x + scale
        return np.asarray(np.exp(terms - logsumexp(terms)) @ shape)

    found = minimize(
        log_variance,
        np.full(links, needs.max()),  # every sample fits
        jac=gradient,
        method="SLSQP",
        bounds=[(0, None)] * links,
        constraints=LinearConstraint(uses, needs, np.inf),
    )
    return np.exp(-np.where(found.x < _NEGLIGIBLE, 0.0, found.x))
