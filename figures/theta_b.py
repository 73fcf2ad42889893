"""The alternative synopses of the join-distinct document: FM synopses with counters for every value of b.

They take space in proportion to the number of join values, and are compared in figures/join_distinct.py.
`inverted_estimator` is ours: a better reading of the same bitmaps than the document's scan.
Paper: join-distinct, paragraph 0064.
"""

from math import exp

import msgspec
import numpy as np

from eddyline.answer.distinct_joins.document import Bitmaps, mapping_chance
from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.sketch.counters import Int64Array, KeyArray, add, check_headroom, subtract
from eddyline.sketch.jd_sketch import composable_levels


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


def inverted_estimator(bitmaps: Bitmaps) -> float:
    """Return the most likely number of pairs, taking every bit for set with the chance 1 - exp(-m p_i).

    Deviation: the document scans for one index; this uses them all and is far better.
    """
    copies, levels = bitmaps.shape
    chances = np.asarray(mapping_chance(np.arange(levels)), dtype=np.float64)
    counts = bitmaps.sum(axis=0)
    if not counts.any():
        return 0.0
    low, high = -2.0, 60.0  # of ln m; the slope of the likelihood falls with it
    for _ in range(60):
        middle = (low + high) / 2
        mean = np.minimum(exp(middle) * chances, 700.0)
        slope = float((counts * chances / np.expm1(mean) - (copies - counts) * chances).sum())
        low, high = (middle, high) if slope > 0 else (low, middle)
    return exp(middle)


def theta_b_bitmaps(left: ThetaBSpec, one: Int64Array, right: ThetaBSpec, two: Int64Array) -> Bitmaps:
    """Return the bitmaps of all copies, composed for each value of b and united (0064)."""
    _check_parallel(left, right)
    own, other = one.reshape(left.shape) != 0, two.reshape(right.shape) != 0
    both = (own & _later(other)) | (other & _later(own))
    return np.asarray(both.any(axis=0))


def _later(bits: np.ndarray) -> np.ndarray:
    """Return whether any bit of a later index is set."""
    out = np.zeros_like(bits)
    out[..., :-1] = np.logical_or.accumulate(bits[..., :0:-1], axis=-1)[..., ::-1]
    return out


def _check_parallel(left: ThetaBSpec, right: ThetaBSpec) -> None:
    if left.shape != right.shape or left.seed != right.seed or left.side == right.side:
        raise IncompatibleSpecs(f"these sketches are not parallel: {left} and {right}.")
