"""The distinct sketch: how many distinct elements a stream holds, under inserts and deletes.

`levels` rows of `cells` one-word cells; an element goes to one cell of the level that its hash draws (half
of all elements to level 0, a quarter to level 1, ...). A cell shows whether it holds no element, exactly
one (and then which, by a 21-bit fingerprint), or many. Next to them is a small exact table of 3/2 `cells`
(and at least 384) slots of 12 bytes, from which every element can be decoded as long as there are no more than
about `cells` of them.

Guarantee: the count of distinct elements has a relative RMS error of 0.46/sqrt(cells), and is exact up to
`cells` elements; see `eddyline.answer.sets.expression` for set expressions.
Paper: set expressions, FIG. 2 and 3. Deviation: one word per cell instead of 65 counters, because a count, a
sum and a hashed check recognize a single element as well.

What wrapping means: a level cell holds residues modulo P = 2,097,143 and a table slot a residue modulo
2^61 - 1 and a count modulo 2^32. Residues add and cancel exactly, whatever the order, so no update or merge
can overflow and an insert undone leaves no trace. Reading divides residues, which recovers a single element
whatever its net multiplicity m, unless P divides m (the cell then looks empty: one element of the sample is
missed) or |m| >= 2^31 (the table then refuses to decode and the levels answer).
"""

from functools import reduce
from math import ceil, log, log2
from typing import NamedTuple

import msgspec
import numpy as np

from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.kernels.distinct import (
    FUNCTIONS,
    PURE,
    distinct_add,
    distinct_classify,
    distinct_codes,
    distinct_combine,
    distinct_peel,
    distinct_remove,
)
from eddyline.sketch.counters import Int64Array, KeyArray
from eddyline.sketch.keys import parameters

MOST_LEVELS = 43
_SMALLEST, _LARGEST = 64, 1 << 21
_SMALLEST_THIRD = 128  # below it, elements that share all their slots are too frequent
# RMS error times sqrt(cells) of an expression that holds this share of the union, measured
_SHARES = (1 / 128, 1 / 32, 1 / 8, 1 / 2, 1.0)
_CONSTANTS = (6.7, 3.3, 1.5, 0.62, 0.46)


class Cells(NamedTuple):
    """What level cells show: the kind, the fingerprint (-1 unless pure) and the net count (0 unless pure)."""

    kinds: np.ndarray
    fingerprints: np.ndarray
    counts: np.ndarray


class DecodedElements(NamedTuple):
    """All elements of a stream: identities, the codes that level cells show, and net counts.

    An identity has 46 bits; identities are None if some elements came from the levels, which show less. A code is a
    position and a fingerprint. For elements from the levels the net count is its residue.
    """

    identities: np.ndarray | None
    codes: Int64Array
    counts: Int64Array


class DistinctSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="distinct"):
    """Shape and seed of a distinct sketch; streams of one expression share the seed."""

    cells: int
    levels: int
    seed: int

    def __post_init__(self) -> None:
        if not _SMALLEST <= self.cells <= _LARGEST or self.cells & (self.cells - 1):
            raise SketchError(
                f"the cells of a distinct sketch are a power of two from {_SMALLEST} to {_LARGEST}, "
                f"not {self.cells}."
            )
        if not 1 <= self.levels <= MOST_LEVELS:
            raise SketchError(f"a distinct sketch has 1 to {MOST_LEVELS} levels, not {self.levels}.")

    @classmethod
    def sized(cls, cells: int, max_distinct: int, seed: int) -> "DistinctSpec":
        """Return the spec with enough levels for streams (and unions) of `max_distinct` elements."""
        levels = 1 + max(0, ceil(log2(max(max_distinct, 1) / (0.75 * cells))))
        return cls(cells, min(levels, MOST_LEVELS), seed)

    @classmethod
    def for_error(cls, max_distinct: int, error: float, seed: int, share: float = 1.0) -> "DistinctSpec":
        """Return the smallest spec whose relative RMS error is at most `error`.

        The error is that of expressions that hold at least `share` of the union of their streams
        (1: the distinct count itself).
        """
        if not 0 < error < 1 or not 0 < share <= 1:
            raise SketchError(f"an error lies between 0 and 1 and a share too, not {error} and {share}.")
        needed = (error_constant(share) / error) ** 2
        cells = max(_SMALLEST, 1 << ceil(log2(needed)) if needed > 1 else 1)
        return cls.sized(cells, max_distinct, seed)

    @classmethod
    def for_budget(cls, size: int, max_distinct: int, seed: int) -> "DistinctSpec":
        """Return the largest spec of at most `size` bytes, or raise if none fits."""
        cells = _LARGEST
        while cells >= _SMALLEST:
            spec = cls.sized(cells, max_distinct, seed)
            if 8 * spec.words <= size:
                return spec
            cells //= 2
        smallest = 8 * cls.sized(_SMALLEST, max_distinct, seed).words
        raise SketchError(
            f"{size} bytes are too few for a distinct sketch of {max_distinct} elements: it needs at least "
            f"{smallest} bytes."
        )

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self.counts_at + 3 * self._third // 2

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: a level cell, three sums and three counts."""
        return 7

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 1

    @property
    def _third(self) -> int:
        return max(self.cells // 2, _SMALLEST_THIRD)

    @property
    def sums_at(self) -> int:
        """The first word of the table's sums: before it are the level cells."""
        return self.levels * self.cells

    @property
    def counts_at(self) -> int:
        """The first word of the table's counts, two to a word."""
        return self.sums_at + 3 * self._third

    @property
    def params(self) -> np.ndarray:
        """The parameters of its hash functions, as the kernels take them."""
        rows: np.ndarray = parameters("mix", (self.seed,), FUNCTIONS)[0]
        return rows

    def expected_error(self, share: float = 1.0) -> float:
        """Return the relative RMS error of an expression that holds `share` of the union of its streams."""
        return float(error_constant(share) / self.cells**0.5)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to the counters in place; residues never overflow."""
        distinct_add(counters, keys[0], weights, self.params, self.levels, self.cells, self._third)

    def _combine(self, left: Int64Array, right: Int64Array, start: int, *, negative: bool) -> Int64Array:
        out = np.empty(left.shape, dtype=np.int64)
        distinct_combine(left, right, start, self.sums_at, self.counts_at, negative, out)
        return out

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the sum of two blocks of counters that begin at word `start`."""
        return self._combine(left, right, start, negative=False)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the difference of two blocks of counters that begin at word `start`."""
        return self._combine(left, right, start, negative=True)

    def folded(self) -> "DistinctSpec":
        """Return the spec of half the cells."""
        return DistinctSpec(self.cells // 2, self.levels, self.seed)

    def fold(self, counters: Int64Array) -> Int64Array:
        """Return the counters at half the cells: exactly those of a sketch built at that size."""
        regions = [(0, self.sums_at, self.cells)]
        if self.folded()._third < self._third:  # noqa: SLF001 - one of its own kind
            regions.append((self.sums_at, self.counts_at, self._third))
            regions.append((self.counts_at, self.words, self._third // 2))
        halves = [self._halved(counters, *region) for region in regions]
        return np.concatenate([*halves, counters[regions[-1][1] :]])

    def _halved(self, counters: Int64Array, start: int, stop: int, row: int) -> Int64Array:
        """Return the region's rows with their right half added to their left half."""
        rows = counters[start:stop].reshape(-1, 2, row // 2)
        left, right = rows[:, 0].reshape(-1), rows[:, 1].reshape(-1)
        return self.add(left, right, start)

    def lowered(self, levels: int) -> "DistinctSpec":
        """Return the spec of fewer levels."""
        return DistinctSpec(self.cells, levels, self.seed)

    def lower(self, counters: Int64Array, levels: int) -> Int64Array:
        """Return the counters at fewer levels: exactly those of a sketch built with that number."""
        rows = counters[: self.sums_at].reshape(self.levels, self.cells)
        last = reduce(self.add, list(rows[levels - 1 :]))
        return np.concatenate([rows[: levels - 1].reshape(-1), last, counters[self.sums_at :]])

    def cells_of(self, counters: Int64Array) -> Cells:
        """Return what the level cells show, each array (levels, cells)."""
        read = self.cells_of_words(counters[: self.sums_at])
        return Cells(*(array.reshape(self.levels, self.cells) for array in read))

    def cells_of_words(self, words: Int64Array) -> Cells:
        """Return what any words of level cells show."""
        kinds = np.empty(len(words), dtype=np.int8)
        fingerprints, counts = (np.empty(len(words), dtype=np.int32) for _ in range(2))
        distinct_classify(words, self.params, kinds, fingerprints, counts)
        return Cells(kinds, fingerprints, counts)

    def decode(self, counters: Int64Array) -> DecodedElements | None:
        """Return all elements with their net counts, or None if there are too many to decode.

        Elements that cannot be decoded from the table (two that share all three slots) are read from the levels,
        after the others are removed from there.
        """
        sums, counts = self._table(counters)
        room = 2 * len(sums)
        peeled, times = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.int64)
        steps = distinct_peel(sums, counts, self.params, peeled, times)
        identities, found = _net(peeled[:steps], times[:steps])
        rest = counters[: self.sums_at].copy()
        distinct_remove(rest, identities, found, self.params, self.levels, self.cells)
        stuck = self.cells_of_words(rest)
        if (stuck.kinds > PURE).any() or (not (stuck.kinds == PURE).any() and (sums.any() or counts.any())):
            return None
        codes = np.empty(len(identities), dtype=np.int64)
        distinct_codes(identities, self.params, self.levels, self.cells, codes)
        at = np.flatnonzero(stuck.kinds == PURE)
        if len(at) == 0:
            return DecodedElements(identities, codes, found)
        late = at << 21 | stuck.fingerprints[at]
        return DecodedElements(None, np.concatenate([codes, late]), np.concatenate([found, stuck.counts[at]]))

    def _table(self, counters: Int64Array) -> tuple[np.ndarray, Int64Array]:
        """Return a copy of the table: sums (uint64) and signed counts."""
        sums = counters[self.sums_at : self.counts_at].astype(np.uint64)
        halves = np.ascontiguousarray(counters[self.counts_at :]).astype("<i8", copy=False).view("<i4")
        return sums, halves.astype(np.int64)


def _net(identities: np.ndarray, found: Int64Array) -> tuple[np.ndarray, Int64Array]:
    """Return each identity once with its total count, without those whose count is 0."""
    unique, inverse = np.unique(identities, return_inverse=True)
    totals = np.zeros(len(unique), dtype=np.int64)
    np.add.at(totals, inverse, found)
    return unique[totals != 0], totals[totals != 0]


def error_constant(share: float) -> float:
    """Return the RMS error times sqrt(cells) of an expression with this share of the union (measured)."""
    if share <= _SHARES[0]:
        return _CONSTANTS[0] * (_SHARES[0] / share)
    return float(np.exp(np.interp(log(share), np.log(_SHARES), np.log(_CONSTANTS))))


def at_common_size(
    specs: list[DistinctSpec], counters: list[Int64Array]
) -> tuple[DistinctSpec, list[Int64Array]]:
    """Return the largest spec to which all fold, and all counters at it; raise if seeds differ."""
    if len({spec.seed for spec in specs}) != 1:
        raise IncompatibleSpecs("these distinct sketches differ in their seeds: build them from one plan.")
    cells, levels = min(spec.cells for spec in specs), min(spec.levels for spec in specs)
    folded = []
    for spec, words in zip(specs, counters, strict=True):
        if words.shape != (spec.words,):
            raise SketchError(f"this spec takes {spec.words} counters, not {words.shape}.")
        own, shape = words, spec
        if shape.levels > levels:
            own, shape = shape.lower(own, levels), shape.lowered(levels)
        while shape.cells > cells:
            own, shape = shape.fold(own), shape.folded()
        folded.append(own)
    return DistinctSpec(cells, levels, specs[0].seed), folded
