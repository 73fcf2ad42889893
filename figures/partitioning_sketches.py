"""Estimates of a partitioned chain join: the sum over cells of what AGMS or hash sketches say of each."""

from functools import lru_cache

import numpy as np
from regions import Relation

from eddyline.plan.size.specs import shape_for
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.keys import derive_seed

DOMAIN = 1024
Cells = list[tuple[Relation, ...]]
"""What each relation of the chain has in each cell."""
Links = tuple[tuple[int, ...], ...]


def agms_estimate(cells: Cells, links: Links, copies: tuple[int, ...], seed: int) -> float:
    """Return the sum of the cells' estimates, each the mean of its copies of an atomic sketch."""
    signs = random_signs(seed, (len(links) - 1, DOMAIN, sum(copies)))
    estimate, end = 0.0, 0
    for relations, count in zip(cells, copies, strict=True):
        start, end = end, end + count
        atomic = [
            atomic_sketches(each, [signs[link, :, start:end] for link in own])
            for each, own in zip(relations, links, strict=True)
        ]
        estimate += float(np.prod(atomic, axis=0).mean())
    return estimate


@lru_cache(maxsize=4)
def random_signs(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of random 1 and -1; all ways to partition a data set use those of its seeds."""
    size = int(np.prod(shape))
    drawn = np.frombuffer(np.random.default_rng(seed).bytes(-(-size // 8)), dtype=np.uint8)
    return 1 - 2 * np.unpackbits(drawn, count=size).reshape(shape).astype(np.float32)


def atomic_sketches(relation: Relation, signs: list[np.ndarray]) -> np.ndarray:
    """Return the sums of counts times the product of the signs of one or two keys, one for each copy.

    signs: for each link, (values, copies). Products of matrices in float32, exact but for roundings of 1e-6.
    """
    counts = relation.counts.astype(np.float32)
    if len(signs) == 1:
        return np.asarray(counts @ signs[0][relation.keys[0]], dtype=np.float64)
    table = np.zeros((DOMAIN, DOMAIN), dtype=np.float32)
    table[relation.keys[1], relation.keys[0]] = counts
    columns, rows = np.flatnonzero(table.any(axis=1)), np.flatnonzero(table.any(axis=0))
    inner = table[np.ix_(columns, rows)] @ signs[0][rows]
    return np.asarray(np.einsum("bc,bc->c", inner, signs[1][columns], dtype=np.float64))


def hash_estimate(cells: Cells, links: Links, words: tuple[int, ...], seed: int) -> float:
    """Return the sum of the cells' estimates from hash sketches: neighbours in the chain correlate."""
    estimate = 0.0
    for cell, (relations, share) in enumerate(zip(cells, words, strict=True)):
        width, depth = shape_for(share)
        spectrum = np.ones((depth, width), dtype=np.complex128)
        for index, (relation, own) in enumerate(zip(relations, links, strict=True)):
            seeds = tuple(derive_seed(seed, cell, link) for link in own)
            spec = HashSketchSpec(width, depth, seeds)
            counters = np.zeros(spec.words, dtype=np.int64)
            spec.accumulate(counters, np.ascontiguousarray(relation.keys), relation.counts)
            rows = np.fft.fft(spec.rows(counters))
            spectrum *= rows.conj() if index % 2 else rows
        estimate += float(spectrum.sum(axis=1).real.mean()) / width
    return estimate
