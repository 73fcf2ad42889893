"""Slow, obvious oracles of the set-expression modules."""

from collections import Counter
from itertools import product
from math import exp, factorial

import numpy as np

from eddyline.answer.sets.expression import Except, Intersect, StreamLeaf, Union
from eddyline.sketch.counters import key_array

EMPTY, PURE, MANY = 0, 1, 2


def counters_of(spec, *keys, weights=None):
    """The counters of a stream of int64 keys."""
    columns = [np.asarray(column, dtype=np.int64) for column in keys]
    weights = np.ones(len(columns[0])) if weights is None else weights
    out = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(out, key_array(*columns), np.asarray(weights, dtype=np.int64))
    return out


def net_set(updates):
    """The elements of (key, weight) updates whose net count is not zero."""
    net = Counter()
    for key, weight in updates:
        net[key] += weight
    return {key for key, count in net.items() if count}


def evaluate(expression, sets):
    """The elements of an expression over sets."""
    match expression:
        case StreamLeaf(stream):
            return set(sets[stream])
        case Union(left, right):
            return evaluate(left, sets) | evaluate(right, sets)
        case Intersect(left, right):
            return evaluate(left, sets) & evaluate(right, sets)
        case Except(left, right):
            return evaluate(left, sets) - evaluate(right, sets)


def true_kinds(spec, net):
    """What every level cell should show, from where each key of {key: count} goes when it is alone."""
    residents = Counter()
    for key in net:
        alone = counters_of(spec, [key])[: spec.sums_at]
        residents[int(np.flatnonzero(alone)[0])] += 1
    kinds = np.zeros(spec.sums_at, dtype=np.int8)
    for at, number in residents.items():
        kinds[at] = PURE if number == 1 else MANY
    return kinds.reshape(spec.levels, spec.cells)


def pattern_of(numbers, streams, resolvable):
    """The pattern, as the kernel writes it, of a cell with numbers[T] elements of each class T."""
    elements = [(mask, i) for mask, number in numbers.items() for i in range(number)]
    inside = [{element for element in elements if element[0] >> j & 1} for j in range(streams)]
    clear = {j for j in range(streams) if len(inside[j]) < 2}
    while True:
        known = {element for j in clear for element in inside[j]}
        found = {
            j
            for j in range(streams)
            if j not in clear and resolvable >> j & 1 and len(inside[j]) == 2 and inside[j] & known
        }
        if not found:
            break
        clear |= found
    masks = sorted((sum(1 << j for j in clear if element in inside[j]) for element in known), reverse=True)
    code = sum(1 << j for j in range(streams) if j not in clear)
    for i, mask in enumerate(masks):
        code |= mask << streams * (i + 1)
    return code


def pattern_chances(rates, streams, most, resolvable):
    """The chance of every pattern, by enumerating up to `most` elements of each class."""
    masks = range(1, 1 << streams)
    chances = Counter()
    for counts in product(range(most + 1), repeat=len(masks)):
        chance = 1.0
        for mask, number in zip(masks, counts, strict=True):
            chance *= exp(-rates[mask]) * rates[mask] ** number / factorial(number)
        chances[pattern_of(dict(zip(masks, counts, strict=True)), streams, resolvable)] += chance
    return chances
