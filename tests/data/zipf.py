"""Zipf streams for statistical tests: fixed seeds, sketches of the exact frequencies."""

import numpy as np

from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis

DOMAIN = 1 << 14


def zipf(exponent, elements=400_000, shift=0, domain=DOMAIN, seed=0):
    """Return the frequency of each key of the domain: a multinomial draw, moved right by `shift`."""
    shares = np.arange(1, domain + 1, dtype=np.float64) ** -exponent
    draw = np.random.default_rng([seed, shift]).multinomial(elements, shares / shares.sum())
    return np.roll(draw, shift).astype(np.int64)


def counters_of(spec: HashSketchSpec, frequencies):
    """Return the counters of a stream with these frequencies of the keys 0, 1, 2, ..."""
    return Synopsis(spec).update(np.arange(len(frequencies)), weights=frequencies).counters


def heaviest(frequencies, count):
    """Return the most frequent keys."""
    return np.argsort(-np.abs(frequencies), kind="stable")[:count].astype(np.uint64)
