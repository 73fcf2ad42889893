"""Levelled peeling tables: a uniform sample of a stream's distinct keys, with their exact net counts.

Half of all keys go to level 0, a quarter to level 1, and so on, by a hash of the key or of a separate
sampled value; within its level a key goes to three of `cells` cells of 16 bytes. A level that holds no more
than about 3/4 `cells` keys is decoded completely, key by key. Streams with equal sample seeds sample the
same values, so that their samples can be joined and compared.

Guarantee: the decoded levels together hold each key with probability `rate`, independently of its count; a
stream of fewer than about `cells` keys is decoded completely, with rate 1.
Paper: IBLT, Goodrich and Mitzenmacher; levels by hash are ours.

What wrapping means: counts are kept modulo 2^32 and sums modulo primes, which add and cancel exactly in any
order. A key whose net count does not fit 32 bits is not recognized, so its level is not decoded: the sample
gets smaller and stays correct.
"""

from math import ceil, log2
from typing import NamedTuple

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.peeling import (
    FUNCTIONS,
    peeling_add,
    peeling_combine,
    peeling_decode,
    peeling_levels,
)
from eddyline.sketch.counters import Int64Array, KeyArray
from eddyline.sketch.keys import parameters

MOST_LEVELS = 60
_SMALLEST, _LARGEST = 3 << 4, 3 << 20


class DistinctSample(NamedTuple):
    """Distinct keys (uint64) with net counts and levels; the levels that were decoded; their total rate."""

    keys: np.ndarray
    counts: Int64Array
    levels: Int64Array
    complete: np.ndarray
    rate: float


class PeelingSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="peeling"):
    """Shape and seeds of levelled peeling tables.

    `cells` (per level) is three times a power of two. With `edges` 2 an update takes the keys and, as a
    second array, the values whose hash draws the level; with 1 the key draws its own level.
    """

    cells: int
    levels: int
    seed: int
    sample_seed: int
    edges: int = 1

    def __post_init__(self) -> None:
        third = self.cells // 3
        if self.cells % 3 or not _SMALLEST <= self.cells <= _LARGEST or third & (third - 1):
            raise SketchError(
                "the cells of a peeling table are three times a power of two, "
                f"from {_SMALLEST} to {_LARGEST}, not {self.cells}."
            )
        if not 1 <= self.levels <= MOST_LEVELS:
            raise SketchError(f"a peeling table has 1 to {MOST_LEVELS} levels, not {self.levels}.")
        if self.edges not in {1, 2}:
            raise SketchError(f"a peeling table takes 1 or 2 key arrays, not {self.edges}.")

    @classmethod
    def sized(
        cls, cells: int, max_distinct: int, seed: int, sample_seed: int | None = None, edges: int = 1
    ) -> "PeelingSpec":
        """Return the spec with enough levels for streams of `max_distinct` keys."""
        levels = 1 + max(0, ceil(log2(max(max_distinct, 1) / (0.5 * cells))))
        return cls(cells, min(levels, MOST_LEVELS), seed, seed if sample_seed is None else sample_seed, edges)

    @classmethod
    def for_sample(cls, size: int, max_distinct: int, seed: int) -> "PeelingSpec":
        """Return the smallest spec whose sample holds at least about `size` keys, if the stream has that many."""
        third = 1 << max(4, ceil(log2(max(size, 1) / (0.7 * 3))))
        return cls.sized(3 * third, max_distinct, seed)

    @classmethod
    def for_budget(cls, size: int, max_distinct: int, seed: int) -> "PeelingSpec":
        """Return the largest spec of at most `size` bytes, or raise if none fits."""
        cells = _LARGEST
        while cells >= _SMALLEST:
            spec = cls.sized(cells, max_distinct, seed)
            if 8 * spec.words <= size:
                return spec
            cells //= 2
        smallest = 8 * cls.sized(_SMALLEST, max_distinct, seed).words
        raise SketchError(
            f"{size} bytes are too few for a peeling table of {max_distinct} keys: it needs at least "
            f"{smallest} bytes."
        )

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return 2 * self.cells * self.levels

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: two words of three cells."""
        return 6

    @property
    def _params(self) -> np.ndarray:
        own = parameters("mix", (self.seed,), FUNCTIONS)[0]
        sampling = parameters("mix", (self.sample_seed,), FUNCTIONS)[0]
        return np.concatenate([sampling[:1], own[1:]])

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to the counters in place; residues never overflow."""
        peeling_add(counters, keys, weights, self._params, self.levels, self.cells // 3)

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the sum of two blocks of counters that begin at word `start`."""
        out = np.empty(left.shape, dtype=np.int64)
        peeling_combine(left, right, start, False, out)
        return out

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the difference of two blocks of counters that begin at word `start`."""
        out = np.empty(left.shape, dtype=np.int64)
        peeling_combine(left, right, start, True, out)
        return out

    def folded(self) -> "PeelingSpec":
        """Return the spec of half the cells."""
        return msgspec.structs.replace(self, cells=self.cells // 2)

    def fold(self, counters: Int64Array) -> Int64Array:
        """Return the counters at half the cells: exactly those of tables built at that size."""
        halves = counters.reshape(-1, 2, self.cells // 3)
        return self.add(halves[:, 0].reshape(-1), halves[:, 1].reshape(-1))

    def level_of(self, sampled: np.ndarray) -> Int64Array:
        """Return the level that each sampled value (uint64) draws."""
        out = np.empty(len(sampled), dtype=np.int64)
        peeling_levels(sampled, self._params, self.levels, out)
        return out

    @property
    def level_rates(self) -> np.ndarray:
        """The share of all sampled values that each level holds."""
        rates = 0.5 ** np.arange(1, self.levels + 1)
        rates[-1] = 0.5 ** (self.levels - 1)
        return np.asarray(rates)

    def decode(self, counters: Int64Array) -> DistinctSample:
        """Return the keys of all levels that decode completely; raise if no level does."""
        rows = counters.reshape(self.levels, -1).copy()
        found = [self._decode_level(row) for row in rows]
        complete = np.array([level is not None for level in found])
        if not complete.any():
            raise SketchError(
                f"this stream holds more distinct keys than a peeling table of {self.levels} levels can "
                "sample (capacity exceeded): plan with a larger max_distinct."
            )
        parts = [(index, *level) for index, level in enumerate(found) if level is not None]
        return DistinctSample(
            np.concatenate([keys for _, keys, _ in parts]),
            np.concatenate([counts for _, _, counts in parts]),
            np.repeat([index for index, _, _ in parts], [len(keys) for _, keys, _ in parts]).astype(np.int64),
            complete,
            float(self.level_rates[complete].sum()),
        )

    def _decode_level(self, row: Int64Array) -> tuple[np.ndarray, Int64Array] | None:
        """Return the keys and net counts of one level, or None if it does not decode; overwrites the row."""
        keys, counts = np.empty(2 * self.cells, dtype=np.uint64), np.empty(2 * self.cells, dtype=np.int64)
        steps = peeling_decode(row, self._params, self.cells // 3, keys, counts)
        if row.any():
            return None
        unique, inverse = np.unique(keys[:steps], return_inverse=True)
        totals = np.zeros(len(unique), dtype=np.int64)
        np.add.at(totals, inverse, counts[:steps])
        return unique[totals != 0], totals[totals != 0]
