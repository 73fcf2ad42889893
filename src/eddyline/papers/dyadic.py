"""The document's dyadic hierarchy: a hash sketch of every level of a binary tree over the domain.

Node u of level l stands for the keys [u 2^l, (u + 1) 2^l). A node's frequency is the sum of its
children's, so where nothing is deleted below zero a node under the threshold has no dense key below it, and
the search from the root visits O(n / T) nodes a level.

Memory: `bits` sketches, so bits * depth * width words, and bits * depth counters written for each
element: at 64-bit keys 64 times those of the sketch alone. A reference for finding dense values: the
candidate table (candidates.py) finds more of them in less.
Paper: skimmed, paragraphs 0059-0062 and FIG. 4.
"""

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.skimming import median_estimates
from eddyline.sketch.counters import Int64Array, add, check_headroom, subtract
from eddyline.sketch.hash_families import HashFamily, derive_seed
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.hashed_keys import KeyArray

UInt64Array = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]


class DyadicSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="dyadic"):
    """Shape and seed of a hierarchy over the keys [0, 2^bits)."""

    bits: int
    width: int
    depth: int
    seed: int
    hash: HashFamily = "mix"

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64:
            raise SketchError(f"a dyadic hierarchy has 1 to 64 levels, not {self.bits}.")
        self.level(0)

    def level(self, level: int) -> HashSketchSpec:
        """Return the spec of the sketch of one level: 0 holds the keys themselves."""
        return HashSketchSpec(self.width, self.depth, (derive_seed(self.seed, level),), self.hash)

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self.bits * self.depth * self.width

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 1

    def levels(self, counters: Int64Array) -> Int64Array:
        """Return the counters as a (bits, depth * width) view: the leaves first."""
        return counters.reshape(self.bits, -1)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to every level in place; raise, with nothing changed, if one might overflow."""
        if self.bits < 64 and np.any(keys >> np.uint64(self.bits)):
            raise SketchError(f"this hierarchy takes keys below 2^{self.bits}.")
        check_headroom(counters, weights)
        for level, part in enumerate(self.levels(counters)):
            self.level(level).accumulate(part, keys >> np.uint64(level), weights)

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)


def dense_keys(spec: DyadicSpec, counters: Int64Array, threshold: float) -> UInt64Array:
    """Return, in ascending order, the keys whose every ancestor's estimate reaches the threshold.

    Paper: skimmed, the optimized SKIMDENSE of paragraph 0061. Frequencies must not be negative.
    """
    nodes = np.zeros(1, dtype=np.uint64)
    for level in reversed(range(spec.bits)):
        children = np.concatenate([nodes << np.uint64(1), nodes << np.uint64(1) | np.uint64(1)])
        estimates = _estimates(spec.level(level), spec.levels(counters)[level], children)
        nodes = children[estimates >= threshold]
    return np.sort(nodes)


def _estimates(spec: HashSketchSpec, counters: Int64Array, nodes: UInt64Array) -> np.ndarray:
    """Return the median over rows of the estimated frequency of each node."""
    buckets, signs = spec.locate(nodes.reshape(1, -1))
    out = np.empty(len(nodes))
    rows = spec.rows(counters).astype(np.float64)
    median_estimates(rows, np.ascontiguousarray(buckets.T), np.ascontiguousarray(signs.T), -1, out)
    return out
