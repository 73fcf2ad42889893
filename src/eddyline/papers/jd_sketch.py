"""The document's synopses for distinct counts over a join: a reference, not what we ship.

JD sketch: tuples (a, b) go to a bucket by lsb(h_A(a)); each bucket holds s1 2-level hash sketches of its b, under
the same hash functions on b in all buckets and in both streams; s2 independent copies of all this. The
alternative of Theta(|B|) space keeps FM synopses with counters of the a of every value of b.
Paper: join-distinct, FIG. 3 (paragraphs 0044-0047), composable hash functions (0051-0054), paragraph 0064.
"""

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.papers.two_level_kernels import two_level_add
from eddyline.sketch.counters import Int64Array, add, check_headroom, subtract
from eddyline.sketch.hash_families import derive_seed, parameters, splitmix64
from eddyline.sketch.hashed_keys import KeyArray


def composable_levels(seed: int, side: int, copy: int, values: np.ndarray, levels: int) -> Int64Array:
    """Return lsb(h(value)) of the affine hash function of one side and copy, at most `levels` - 1.

    h(v) = M v + u over GF(2), M and u random and different for h_A and h_C. For k != l the lesser of the levels k
    and l of a and c is lsb(h_A(a) xor h_C(c)): an affine function of the pair, hence (0054) composable.
    """
    base = derive_seed(seed, "composable", side, copy)
    rows = np.array([splitmix64(base + i) for i in range(levels)], dtype=np.uint64)
    shifts = splitmix64(base + levels)
    out = np.full(len(values), levels - 1, dtype=np.int64)
    for level in range(levels - 2, -1, -1):
        bit = (np.bitwise_count(values & rows[level]) & 1) ^ (shifts >> level & 1)
        out[bit == 1] = level
    return out


def paired(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return 64-bit keys of pairs, as the full projection hashes (a, b) in place of a (0063)."""
    word = one * np.uint64(0x9E3779B97F4A7C15) ^ (two + np.uint64(0x632BE59BD9B4E019))
    word ^= word >> np.uint64(31)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(word ^ word >> np.uint64(29))


class _PlainCounters:
    """Counters that are added and subtracted one by one."""

    __slots__ = ()

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes: of a (or c), and of b."""
        return 2

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)


class JdSketchSpec(msgspec.Struct, _PlainCounters, frozen=True, tag_field="kind", tag="jd-sketch"):
    """Shape and seed of JD sketches: s2 `copies` of `levels` buckets of s1 `sketches` on b.

    `side` is 0 for R(A, B) with h_A, 1 for S(B, C) with h_C; parallel sketches share all else.
    """

    copies: int
    sketches: int
    levels: int
    b_levels: int
    seed: int
    side: int = 0
    key_bits: int = 64

    def __post_init__(self) -> None:
        if min(self.copies, self.sketches, self.levels, self.b_levels) < 1 or not 1 <= self.key_bits <= 64:
            raise SketchError(f"JD sketches need copies, sketches, levels and 1 to 64 key bits, not {self}.")
        if self.side not in {0, 1}:
            raise SketchError(f"the side of a JD sketch is 0 or 1, not {self.side}.")

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
        """The number of counters that a row touches, at most."""
        return self.copies * self.sketches * (1 + self.key_bits)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted tuples to the counters in place; raise, with nothing changed, if one might overflow.

        Paper: join-distinct, paragraph 0047.
        """
        check_headroom(counters, weights)
        for copy, buckets in enumerate(counters.reshape(self.shape)):
            params = parameters("mix", (derive_seed(self.seed, "b", copy),), self.sketches)[0]
            level_of = composable_levels(self.seed, self.side, copy, keys[0], self.levels)
            for level in np.unique(level_of):
                inside = level_of == level
                two_level_add(buckets[level], keys[1][inside], weights[inside], params, False)


class ThetaBSpec(msgspec.Struct, _PlainCounters, frozen=True, tag_field="kind", tag="theta-b"):
    """Shape and seed of the alternative: `copies` FM synopses with counters for each b of [0, values)."""

    values: int
    copies: int
    levels: int
    seed: int
    side: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Values of b, copies, buckets of a."""
        return self.values, self.copies, self.levels

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return int(np.prod(self.shape))

    @property
    def touched(self) -> int:
        """The number of counters that a row touches."""
        return self.copies

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted tuples to the counters in place; raise, with nothing changed, where it cannot."""
        check_headroom(counters, weights)
        if (keys[1] >= np.uint64(self.values)).any():
            raise SketchError(f"the join values of these synopses are below {self.values}.")
        first = keys[1].astype(np.int64) * self.copies
        for copy in range(self.copies):
            level_of = composable_levels(self.seed, self.side, copy, keys[0], self.levels)
            np.add.at(counters, (first + copy) * self.levels + level_of, weights)
