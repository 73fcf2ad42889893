"""Hash sketches with the document's dyadic hierarchy: a sketch of every level of a binary tree over the key domain.

Node u of level l represents the keys [u 2^l, (u + 1) 2^l) of the domain [0, 2^bits). A node's frequency is the sum
of its children's. So if nothing is deleted below zero, a node under the threshold has no dense key below it, and
the search from the root visits O(n / T) nodes per level. Over a small domain every key is tested instead
(`is_scanned`), and only the leaves are kept.

Memory: `bits` sketches, so bits * depth * width words, and bits * depth counters written for each element: with
64-bit keys 64 times those of a single sketch. One more word holds the exact total n, which the threshold n / width
needs. `method="document"` uses it for joins of two relations. A candidate table (candidates.py) finds more in less
memory.
Paper: skimmed, FIG. 3, paragraphs 0059-0062 and FIG. 4.
"""

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.linear import hash_sketch_add
from eddyline.sketch.counters import Int64Array, KeyArray, add, checked_words, subtract
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.keys import HashFamily, derive_seed, kernel_id, parameters

_PLAIN_USE = np.array([[0, (1 << 64) - 1, (1 << 64) - 1]], dtype=np.uint64)
"""One hash function that reads key 0 and gives both a bucket and a sign."""


class DyadicSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="dyadic"):
    """Shape and seed of a hierarchy over the keys [0, 2^bits): only the lowest bits of larger words count.

    is_scanned: only the leaves are kept, because the domain is small enough to test every key.
    number_words: as in hash sketches.
    """

    bits: int
    width: int
    depth: int
    seed: int
    hash: HashFamily = "mix"
    is_scanned: bool = False
    number_words: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64:
            raise SketchError(f"a dyadic hierarchy has 1 to 64 levels, not {self.bits}.")
        self.level(0)

    def level(self, level: int) -> HashSketchSpec:
        """Return the spec of the sketch of one level: level 0 holds the keys themselves."""
        return HashSketchSpec(self.width, self.depth, (derive_seed(self.seed, level),), self.hash)

    @property
    def kept_levels(self) -> int:
        """The number of levels that are kept."""
        return 1 if self.is_scanned else self.bits

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return (self.kept_levels * self.depth * self.width + 1) * self.number_words

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: one per row of each level, and the total."""
        return (self.kept_levels * self.depth + 1) * self.number_words

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 1

    def levels(self, counters: Int64Array) -> Int64Array:
        """Return the counters of one word as a (levels, depth * width) view: the leaves first."""
        return counters[:-1].reshape(self.kept_levels, -1)

    def total(self, counters: Int64Array) -> int:
        """Return n, the exact sum of all weights, of the counters of one word."""
        return int(counters[-1])

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to every level in place; raise, with nothing changed, if one might overflow."""
        mask = np.uint64((1 << self.bits) - 1)
        leaves = keys[:1] & mask
        family = kernel_id(self.hash)
        for block, row in checked_words(counters, weights):
            for level, part in enumerate(self.levels(block)):
                spec = self.level(level)
                params = parameters(self.hash, spec.seeds, self.depth)
                nodes = leaves >> np.uint64(level) if level else leaves
                hash_sketch_add(spec.rows(part), nodes, row, params, _PLAIN_USE, family)
            block[-1] += row.sum()

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)

    def narrowed(self, counters: Int64Array, width: int, depth: int) -> tuple["DyadicSpec", Int64Array]:
        """Return (spec, counters of one word) at a smaller width and depth: the first rows per level, folded."""
        rows = counters[:-1].reshape(self.kept_levels, self.depth, self.width)[:, :depth]
        while rows.shape[2] > width:
            half = rows.shape[2] // 2
            rows = rows[..., :half] + rows[..., half:]
        spec = msgspec.structs.replace(self, width=width, depth=depth, number_words=1)
        return spec, np.concatenate([rows.reshape(-1), counters[-1:]])
