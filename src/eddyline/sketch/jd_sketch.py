"""The document's JD sketches, which `method="document"` keeps for distinct counts over a join.

Tuples (a, b) go to a bucket by lsb(h_A(a)); each bucket holds s1 2-level hash sketches of its b, with the same hash
functions on b in all buckets and in both streams. Those are of the family `hash`; h_A is affine over GF(2). There are
s2 independent copies of all this.
Paper: join-distinct, FIG. 3 (paragraphs 0044-0047), composable hash functions (0051-0054).
"""

from math import ceil, log2

import msgspec
import numpy as np

from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.kernels.linear import two_level_add
from eddyline.sketch.counters import Int64Array, KeyArray, add, check_headroom, subtract
from eddyline.sketch.keys import HashFamily, derive_seed, kernel_id, parameters, splitmix64

LEAST_COPIES = 16
"""The fewest copies s2 that a plan keeps: JDEstimator reads an index at which a few of them have their bit set."""
COPY_SKETCHES = 8
"""Sketches s1 of a bucket if no guarantee requires another number: chosen; with fewer, buckets that share one of
several values are missed, more take memory from copies."""
_EMPTY_LEVELS = 2


def composable_levels(seed: int, side: int, copy: int, values: np.ndarray, levels: int) -> Int64Array:
    """Return lsb(h(value)) of the affine hash function of one side and copy, at most `levels` - 1.

    h(v) = M v + u over GF(2), M and u random and different for h_A and h_C. For k != l the lesser of the levels k
    and l of a and c is lsb(h_A(a) xor h_C(c)): an affine function of the pair, hence (0054) composable.
    """
    base = derive_seed(seed, "composable", side, copy)
    rows = np.array([splitmix64(base + i) for i in range(levels)], dtype=np.uint64)
    shifts = splitmix64(base + levels)
    out = np.full(len(values), levels - 1, dtype=np.int64)
    left = np.arange(len(values))  # half of them have their level at each turn
    for level in range(levels - 1):
        found = _parity(values[left] & rows[level]) != (shifts >> level & 1)
        out[left[found]] = level
        left = left[~found]
    return out


def _parity(words: np.ndarray) -> np.ndarray:
    """Return whether the number of ones in each word is odd; NumPy 1 has no bitwise_count."""
    for shift in (32, 16, 8, 4, 2, 1):
        words = words ^ words >> np.uint64(shift)
    return words & np.uint64(1)


class JdSketchSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="jd-sketch"):
    """Shape and seed of JD sketches: s2 `copies` of `levels` buckets of s1 `sketches` on b.

    `side` is 0 for R(A, B) with h_A, 1 for S(B, C) with h_C; parallel sketches share everything else.
    """

    copies: int
    sketches: int
    levels: int
    b_levels: int
    seed: int
    side: int = 0
    key_bits: int = 64
    hash: HashFamily = "mix"

    def __post_init__(self) -> None:
        if min(self.copies, self.sketches, self.levels, self.b_levels) < 1 or not 1 <= self.key_bits <= 64:
            raise SketchError(f"JD sketches need copies, sketches, levels and 1 to 64 key bits, not {self}.")
        if self.side not in {0, 1}:
            raise SketchError(f"the side of a JD sketch is 0 or 1, not {self.side}.")
        kernel_id(self.hash)

    @classmethod
    def of_copies(
        cls, copies: int, sketches: int, most: int, seed: int, side: int, key_bits: int
    ) -> "JdSketchSpec":
        """Return `copies` copies with the levels that `most` distinct values of either attribute need."""
        levels = ceil(log2(max(most, 1))) + _EMPTY_LEVELS
        return cls(copies, sketches, levels, levels, seed, side, key_bits)

    @classmethod
    def within(cls, words: int, most: int, seed: int, side: int, key_bits: int) -> "JdSketchSpec":
        """Return as many copies as fit a number of words, and at least LEAST_COPIES."""
        least = cls.of_copies(LEAST_COPIES, COPY_SKETCHES, most, seed, side, key_bits)
        copies = max(words // (least.words // LEAST_COPIES), LEAST_COPIES)
        return msgspec.structs.replace(least, copies=copies)

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes: of a (or c), and of b."""
        return 2

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Copies, buckets of a, sketches, buckets of b, counters of a signature."""
        return self.copies, self.levels, self.sketches, self.b_levels, 1 + self.key_bits

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return int(np.prod(self.shape))

    @property
    def touched(self) -> int:
        """The largest number of counters that a row touches."""
        return self.copies * self.sketches * (1 + self.key_bits)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted tuples to the counters in place; raise, with nothing changed, if one might overflow.

        Paper: join-distinct, paragraph 0047.
        """
        check_headroom(counters, weights)
        for copy, buckets in enumerate(counters.reshape(self.shape)):
            params = parameters(self.hash, (derive_seed(self.seed, "b", copy),), self.sketches)[0]
            level_of = composable_levels(self.seed, self.side, copy, keys[0], self.levels)
            for level in np.unique(level_of):
                inside = level_of == level
                two_level_add(
                    buckets[level], keys[1][inside], weights[inside], params, kernel_id(self.hash), False
                )

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)


def at_common_copies(
    left: JdSketchSpec, one: Int64Array, right: JdSketchSpec, two: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the counters of two parallel JD sketches in their shapes, cut to the copies that both have."""
    rest = [msgspec.structs.replace(spec, copies=1, side=0) for spec in (left, right)]
    if rest[0] != rest[1] or left.side == right.side:
        raise IncompatibleSpecs(f"these sketches are not parallel: {left} and {right}.")
    copies = min(left.copies, right.copies)
    return one.reshape(left.shape)[:copies], two.reshape(right.shape)[:copies]
