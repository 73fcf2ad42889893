"""Coordinated distinct samples of one side of a join, for COUNT(DISTINCT ...) over the join.

A side is a stream of tuples (x, b): x its projected columns, b its join key. The counters hold, one after the
other, levelled peeling tables:

    by x       tuples sampled on x: all tuples of an x, or none
    by b       tuples sampled on (the fingerprint of) b, the same join values in both sides of a query
    x alone    distinct x, a finer count of them than `by x` gives if an x has many tuples

and a counting filter of the join values. A tuple enters the tables as 32-bit fingerprints of x and b.
Sides share `seed`, and may differ in size; `side` (0 or 1) keeps the samples on x of the two sides independent
even if both sides hold the same values, as in a self-join.

Guarantee: a row touches 19 words; streams of fewer than about `cells` tuples are decoded completely.

Limit: counts are kept modulo 2^32 next to sums modulo 2^61 - 1, so that a tuple is recognized only while its net
count is below 2^31 - 1. A row of a larger weight is refused. A tuple (or x) that reaches that many net rows one by
one is not recognized, and its level counts as not decoded: the sample gets smaller and stays correct.
Paper: join-distinct; `sketch.jd_sketch` is the paper's own synopsis. Ours: docs/internals/join-distinct.md.
Deviation from there: no tables of distinct b and (x, b), which no estimate used; fingerprints of 32 bits.
"""

from math import ceil, log2
from typing import NamedTuple

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.join_distinct import (
    FUNCTIONS,
    filter_add,
    filter_combine,
    filter_fill,
    filter_slots,
    filter_test,
    tuple_keys,
)
from eddyline.sketch.counters import Int64Array, KeyArray
from eddyline.sketch.keys import derive_seed, parameters
from eddyline.sketch.peeling import MOST_LEVELS, DistinctSample, PeelingSpec

_LOW32 = np.uint64((1 << 32) - 1)
_SMALLEST, _LARGEST = 3 << 6, 3 << 18
MOST_WEIGHT = (1 << 31) - 1
"""Weights and net counts are below this in absolute value."""
_EXTRA_LEVELS = 2  # of the table of distinct x, which has a quarter of the cells


class Tuples(NamedTuple):
    """Sampled distinct tuples: fingerprints (uint64, below 2^32) of x and of b, and net counts of rows."""

    x: np.ndarray
    b: np.ndarray
    counts: Int64Array
    levels: Int64Array
    complete: np.ndarray
    rate: float


def as_tuples(sample: DistinctSample) -> Tuples:
    """Return a decoded sample as tuples."""
    x, b = sample.keys >> np.uint64(32), sample.keys & _LOW32
    return Tuples(x, b, sample.counts, sample.levels, sample.complete, sample.rate)


def check_weights(weights: Int64Array) -> None:
    """Raise if a row's weight is too large for its tuple to be recognized afterwards."""
    if weights.size and (int(weights.max()) >= MOST_WEIGHT or int(weights.min()) <= -MOST_WEIGHT):
        raise SketchError(
            "a row has a weight of 2^31 - 1 or more, and COUNT(DISTINCT ...) over a join takes smaller ones; nothing "
            "was changed: give the row once, as such a count does not depend on how often a row occurs, or split it."
        )


class JoinDistinctSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="join-distinct"):
    """Shape and seed of the samples of one side: `cells` per level (three times a power of two), `levels`."""

    cells: int
    levels: int
    seed: int
    side: int = 0

    def __post_init__(self) -> None:
        third = self.cells // 3
        if self.cells % 3 or not _SMALLEST <= self.cells <= _LARGEST or third & (third - 1):
            raise SketchError(
                "the cells of a join-distinct synopsis are three times a power of two, "
                f"from {_SMALLEST} to {_LARGEST}, not {self.cells}."
            )
        if not 1 <= self.levels <= MOST_LEVELS - _EXTRA_LEVELS:
            raise SketchError(
                f"a join-distinct synopsis has 1 to {MOST_LEVELS - _EXTRA_LEVELS} levels, not {self.levels}."
            )
        if self.side not in {0, 1}:
            raise SketchError(f"the side of a join-distinct synopsis is 0 or 1, not {self.side}.")

    @classmethod
    def sized(cls, cells: int, max_distinct: int, seed: int, side: int = 0) -> "JoinDistinctSpec":
        """Return the spec with enough levels for streams of `max_distinct` distinct tuples."""
        levels = 1 + max(0, ceil(log2(max(max_distinct, 1) / (0.5 * cells))))
        return cls(cells, min(levels, MOST_LEVELS - _EXTRA_LEVELS), seed, side)

    @classmethod
    def for_budget(cls, size: int, max_distinct: int, seed: int, side: int = 0) -> "JoinDistinctSpec":
        """Return the largest spec of at most `size` bytes (of one side), or raise if none fits."""
        cells = _LARGEST
        while cells >= _SMALLEST:
            spec = cls.sized(cells, max_distinct, seed, side)
            if 8 * spec.words <= size:
                return spec
            cells //= 2
        smallest = 8 * cls.sized(_SMALLEST, max_distinct, seed, side).words
        raise SketchError(
            f"{size} bytes are too few for a join-distinct synopsis of {max_distinct} tuples: it needs at "
            f"least {smallest} bytes a side."
        )

    @classmethod
    def for_error(
        cls,
        error: float,
        max_distinct: int,
        seed: int,
        side: int = 0,
        *,
        tuples: int | None = None,
        answer: int | None = None,
    ) -> "JoinDistinctSpec":
        """Return the spec whose two-sided answer is expected within `error` (a relative standard error).

        Hints: `tuples`, distinct tuples of a side, and the expected `answer`. The sample holds about 0.9
        cells/tuples of the values of either side, so that answer (0.9 cells/tuples)^2 pairs are seen, and we assume
        that they are worth half as many independent ones. Without hints: what random joins of 10^5 tuples took in
        figures/join_distinct.py, an error of 3/sqrt(cells); selective joins take more.
        """
        if not 0 < error < 1:
            raise SketchError(f"an error is between 0 and 1, not {error}.")
        wanted = 1.5 * tuples / answer**0.5 / error / 0.9 if tuples and answer else 9 / error**2
        third = 1 << max(6, ceil(log2(wanted / 3)))
        return cls.sized(min(3 * third, _LARGEST), max_distinct, seed, side)

    @property
    def by_x(self) -> PeelingSpec:
        """The table of tuples sampled on x."""
        own, sampling = derive_seed(self.seed, "by x"), derive_seed(self.seed, "sample x", self.side)
        return PeelingSpec(self.cells, self.levels, own, sampling, edges=2)

    @property
    def by_b(self) -> PeelingSpec:
        """The table of tuples sampled on b."""
        own, sampling = derive_seed(self.seed, "by b"), derive_seed(self.seed, "sample b")
        return PeelingSpec(self.cells, self.levels, own, sampling, edges=2)

    @property
    def of_x(self) -> PeelingSpec:
        """The table of distinct x."""
        own, sampling = derive_seed(self.seed, "of x"), derive_seed(self.seed, "count x", self.side)
        return PeelingSpec(max(self.cells // 4, 48), self.levels + _EXTRA_LEVELS, own, sampling)

    @property
    def slots(self) -> int:
        """The number of counters of the filter, of 4 bytes each: a power of two."""
        return 32 * self.cells // 3

    @property
    def _starts(self) -> tuple[int, int, int]:
        """The first words of the second and third table, and of the filter."""
        table = self.by_x.words
        return table, 2 * table, 2 * table + self.of_x.words

    @property
    def _params(self) -> np.ndarray:
        return np.asarray(parameters("mix", (derive_seed(self.seed, "tuples"),), FUNCTIONS)[0])

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self._starts[2] + self.slots // 2

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes: of x, and of b."""
        return 2

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: two words of three cells of three tables, one slot."""
        return 19

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted tuples to the counters in place; residues never overflow. Weights are below 2^31 - 1."""
        check_weights(weights)
        self.accumulate_net(counters, keys, weights)

    def accumulate_net(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add net counts of tuples in place, whatever their size: one of 2^31 - 1 or more is not recognized."""
        by_b, of_x, slots = self._starts
        tuples = np.empty(keys.shape[1], dtype=np.uint64)
        tuple_keys(keys, self._params, tuples)
        self.by_x.accumulate(counters[:by_b], np.stack([tuples, keys[0]]), weights)
        self.by_b.accumulate(counters[by_b:of_x], np.stack([tuples, tuples & _LOW32]), weights)
        self.of_x.accumulate(counters[of_x:slots], keys[:1], weights)
        filter_add(counters[slots:], tuples, weights, self._params, self.slots)

    def _combine(self, left: Int64Array, right: Int64Array, start: int, *, negative: bool) -> Int64Array:
        """Return the combination of two blocks: all tables in the same way, as each begins at an even word."""
        cut = min(max(self._starts[2] - start, 0), len(left))
        tables = self.by_x.subtract if negative else self.by_x.add
        out = np.empty(left.shape, dtype=np.int64)
        out[:cut] = tables(left[:cut], right[:cut], start)
        filter_combine(left[cut:], right[cut:], negative, out[cut:])
        return out

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the sum of two blocks of counters that begin at word `start`."""
        return self._combine(left, right, start, negative=False)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the difference of two blocks of counters that begin at word `start`."""
        return self._combine(left, right, start, negative=True)

    def tuples_by_x(self, counters: Int64Array) -> Tuples:
        """Return the decoded sample on x."""
        return as_tuples(self.by_x.decode(counters[: self._starts[0]]))

    def tuples_by_b(self, counters: Int64Array) -> Tuples:
        """Return the decoded sample on b."""
        return as_tuples(self.by_b.decode(counters[self._starts[0] : self._starts[1]]))

    def distinct_x(self, counters: Int64Array) -> DistinctSample:
        """Return the decoded sample of distinct x."""
        return self.of_x.decode(counters[self._starts[1] : self._starts[2]])

    def filter_holds(self, counters: Int64Array, b: np.ndarray) -> np.ndarray:
        """Return whether the filter may hold each fingerprint of a join value; False is never wrong."""
        out = np.empty(len(b), dtype=np.bool_)
        filter_test(counters[self._starts[2] :], b, self._params, self.slots, out)
        return out

    def filter_counts(self, counters: Int64Array) -> Int64Array:
        """Return the counters of the filter: the net rows of all join values that share one."""
        words = np.ascontiguousarray(counters[self._starts[2] :]).astype("<i8", copy=False)
        return np.asarray(words.view("<i4").astype(np.int64))

    def filter_slots(self, b: np.ndarray) -> Int64Array:
        """Return the counter of the filter that each fingerprint of a join value adds to."""
        out = np.empty(len(b), dtype=np.int64)
        filter_slots(b, self._params, self.slots, out)
        return out

    def filter_fill(self, counters: Int64Array) -> float:
        """Return the probability that the filter seems to hold a value that it does not."""
        return float(filter_fill(counters[self._starts[2] :])) / self.slots
