"""Slow, obvious oracles of the join-distinct modules."""

from collections import Counter

import numpy as np

from eddyline.answer.distinct_joins.samples import SketchedSide
from eddyline.sketch.counters import key_array


def net_tuples(updates):
    """The (x, b) of ((x, b), weight) updates whose net count is not zero."""
    net = Counter()
    for (x, b), weight in updates:
        net[x, b] += weight
    return {tuple_ for tuple_, count in net.items() if count}


def answer(left, right, form):
    """The distinct count of a form over two sets of (x, b)."""
    triples = {(a, b, c) for a, b in left for c, other in right if b == other}
    if form == "full":
        return len(triples)
    return len({a for a, _, _ in triples} if form == "semi" else {(a, c) for a, _, c in triples})


def answers(left, right):
    """The distinct counts of all forms over two pairs of integer arrays (x, b) of distinct tuples."""
    values = max(left[1].max(), right[1].max()) + 1
    one, two = np.bincount(left[1], minlength=values), np.bincount(right[1], minlength=values)
    held = {}
    for c, b in zip(*right, strict=True):
        held.setdefault(b, set()).add(c)
    reached = {}
    for a, b in zip(*left, strict=True):
        reached.setdefault(a, set()).update(held.get(b, ()))
    return {
        "two-sided": sum(len(own) for own in reached.values()),
        "semi": sum(1 for own in reached.values() if own),
        "full": int((one * two).sum()),
    }


def counters_of(spec, updates):
    """The counters of ((x, b), weight) updates."""
    x = np.array([x for (x, _), _ in updates], dtype=np.int64)
    b = np.array([b for (_, b), _ in updates], dtype=np.int64)
    out = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(out, key_array(x, b), np.array([weight for _, weight in updates], dtype=np.int64))
    return out


def side_of(spec, x, b):
    """A side that holds every given tuple once."""
    out = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(out, key_array(x, b), np.ones(len(x), dtype=np.int64))
    return SketchedSide(spec, out)
