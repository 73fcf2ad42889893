"""What a sampled join counts too often where two of its links that no relation shares hold one value.

In a path such as e1-e2-e3-e4 over one table of edges, the first and the third link are of one class. Where both
hold the value u, its inclusion is one event of probability pi(u), but the sum-product scales such rows up by
1/pi(u) twice. Links that share a relation are put right element by element in `Join.relations`; this module puts
right the pairs of links at distance two, which share a neighbouring link.

Approximated: each pair is put right on its own, so rows in which several pairs coincide at once are only right to
first order; links at a distance of three or more are left as they are.
"""

from itertools import combinations

import numpy as np

from eddyline.sample.join import Join
from eddyline.sample.messages import Messages
from eddyline.sample.roster import FloatArray


def coinciding_excess(join: Join, messages: Messages) -> float:
    """Return what is to be added to a sampled total so that coinciding values are scaled up once (mostly negative)."""
    return float(sum(float(excess.sum()) for _, excess in coinciding_pairs(join, messages)))


def coinciding_pairs(join: Join, messages: Messages) -> list[tuple[int, FloatArray]]:
    """Return for each pair of links at distance two (one of its links, what to add for each value of that link)."""
    found = []
    for middle in range(len(join.shape.classes)):
        for left, right in combinations(messages.members(middle), 2):
            for first in messages.relations[left].variables:
                for second in messages.relations[right].variables:
                    if middle in (first, second) or first == second:
                        continue
                    if join.shape.classes[first] == join.shape.classes[second]:
                        found.append((first, _pair(join, messages, (left, first), middle, (right, second))))
    return found


def _pair(
    join: Join, messages: Messages, left: tuple[int, int], middle: int, right: tuple[int, int]
) -> FloatArray:
    """Return for each value u of the first link (pi(u) - 1) times the rows that hold u in both links."""
    (one, first), (other, second) = left, right
    values = join.values[first]
    both, at, there = np.intersect1d(values, join.values[second], assume_unique=True, return_indices=True)
    excess = np.zeros(join.sizes[first])
    probability = join.probabilities[first][at]
    if len(both) == 0 or bool(np.all(probability >= 1.0)):
        return excess
    ours = _by_two_keys(messages, one, (first, middle), at)
    theirs = _by_two_keys(messages, other, (second, middle), there)
    keys, i, j = np.intersect1d(ours[0], theirs[0], assume_unique=True, return_indices=True)
    value, place = np.divmod(keys, messages.sizes[middle])
    between = messages.factors[middle].copy()
    for third in messages.members(middle):
        if third not in (one, other):
            between *= messages.sent(third, middle)
    joined = ours[1][i] * between[place] * theirs[1][j]
    if join.shape.classes[middle] == join.shape.classes[first]:
        middle_values = np.append(join.values[middle], 0)[np.minimum(place, len(join.values[middle]))]
        alike = (both[value] == middle_values) & (place < len(join.values[middle]))
        joined[alike] = 0.0  # three links alike: right already
    excess[at] = np.bincount(value, weights=joined, minlength=len(both)) * (probability - 1.0)
    return excess


def _by_two_keys(
    messages: Messages, relation: int, links: tuple[int, int], chosen: np.ndarray
) -> tuple[np.ndarray, FloatArray]:
    """Return (pairs of a chosen value of the outer link and a value of the middle one, what a relation adds there).

    What the relation adds is its elements' weights times what reaches them, but not through the middle link.
    """
    outer, middle = links
    mine = messages.relations[relation]
    weights = mine.weights.astype(np.float64)
    for variable, places in zip(mine.variables, mine.places, strict=True):
        if variable != middle:
            weights = weights * messages.passed(variable, relation)[places]
    number = np.full(messages.sizes[outer], -1, dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    value = number[mine.places[mine.variables.index(outer)]]
    kept = (value >= 0) & (weights != 0)
    pairs = value[kept] * messages.sizes[middle] + mine.places[mine.variables.index(middle)][kept]
    keys, where = np.unique(pairs, return_inverse=True)
    return keys, np.bincount(where, weights=weights[kept], minlength=len(keys)).astype(np.float64)
