"""Coordinated key samples: the rows of a relation whose join keys are sampled, for joins of several relations.

A link is what two or more relations of a join meet on. Its seed, shared by them, gives every key value a hash;
a value is kept if its hash is below a limit, so that all relations keep the same values. A row stays if all of
its keys do. Rows of equal keys are one element, with their net count (or, `wide`, net sum of a measure).
Elements live in levelled peeling tables: level s + 1 takes those whose hashes are all below 2^-s-1 of their
limits, so that a stream that outgrows its tables still leaves a smaller sample that can be read.

Guarantee: in a decoded sample every element of the net stream whose hashes are below the sample's limits is
there, with its exact net value, and no other. A level counts as decoded only if it peels to all zeros. A cell
of several elements passes for one with a chance below 2^-35 (check bits, and the cell's place), and even then
its level does not end as zeros but by a second such accident. Two sampled values of one link are taken for one
with a chance of 2^-30 or 2^-60, by the bits of the fingerprints.
Paper: none has it; algorithms.md, section 3, "Where product sketches fail", and section 5.
Deviation from there: the chance of a link is any fraction of 8 bits, not a power of two.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import floor, frexp
from typing import NamedTuple, Self

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.key_sample import (
    FIELD_BITS,
    FUNCTIONS,
    SPARE_BITS,
    Layout,
    key_sample_add,
    key_sample_combine,
    key_sample_decode,
)
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.families import parameters
from eddyline.sketch.hashed_keys import KeyArray
from eddyline.sketch.key_sample_sizes import (
    LARGEST_LEVEL,
    MOST_LEVELS,
    SMALLEST_LEVEL,
    capacity_of,
    cell_words,
    level_shares,
    level_sizes,
)

HASH_BITS = 64 - SPARE_BITS
EVERYTHING = 1 << HASH_BITS  # the limit of a link whose values are all kept
_RATE_BITS = 8


def limit_of(rate: float) -> int:
    """Return the limit of the largest rate that fits 8 bits and is not above `rate`."""
    if not 0 < rate <= 1:
        raise SketchError(f"the rate of a link is above 0 and at most 1, not {rate}.")
    mantissa, exponent = frexp(rate)
    return floor(mantissa * (1 << _RATE_BITS)) << (HASH_BITS - _RATE_BITS + exponent)


def _affordable_bits(words: int, edges: int, elements: float | None, *, wide: bool) -> int:
    """Return the bits of fingerprints: 60 where they cost nothing, or let all `elements` be read exactly."""
    free = cell_words(edges, wide=wide, bits=60) == cell_words(edges, wide=wide, bits=30)
    whole = elements is not None and elements <= capacity_of(words, edges, wide=wide, bits=60)
    return 60 if free or whole else 30


class KeySample(NamedTuple):
    """Elements of a stream: hashes of their keys (uint64, n x edges) and net values (int64).

    `limits`: all elements whose hashes are below them are here, and no others. The low `shifts` bits of hashes
    are not known. `first` is the first level that was decoded with all that follow; None if not even the
    last one was: then the sample is empty and says nothing.
    """

    hashes: np.ndarray
    values: Int64Array
    first: int | None
    limits: tuple[int, ...]
    shifts: tuple[int, ...]
    link_seeds: tuple[int, ...]


class KeySampleSpec(msgspec.Struct, frozen=True, tag_field="family", tag="key-sample"):
    """Shape and seeds of the key sample of one relation.

    `cells` of each level; `link_seeds` and `limits` (of 2^62), one per key array. `wide` keeps values of 64 bits,
    for measures; otherwise they have 32. `bits` of a fingerprint are 30, or 60 for exact answers.
    """

    cells: tuple[int, ...]
    link_seeds: tuple[int, ...]
    limits: tuple[int, ...]
    seed: int
    wide: bool = False
    bits: int = 60

    def __post_init__(self) -> None:
        if not 1 <= len(self.cells) <= MOST_LEVELS:
            raise SketchError(f"a key sample has 1 to {MOST_LEVELS} levels, not {len(self.cells)}.")
        if any(not SMALLEST_LEVEL <= cells <= LARGEST_LEVEL for cells in self.cells):
            raise SketchError(
                f"a level of a key sample has {SMALLEST_LEVEL} to {LARGEST_LEVEL} cells, not {self.cells}."
            )
        if not self.link_seeds or len(self.link_seeds) != len(self.limits):
            raise SketchError("a key sample takes one link seed and one limit per key array, at least one.")
        if self.bits not in {30, FIELD_BITS}:
            raise SketchError(f"fingerprints of a key sample have 30 or {FIELD_BITS} bits, not {self.bits}.")
        if any(
            limit not in range(1, EVERYTHING + 1) or limit // (limit & -limit) >> _RATE_BITS
            for limit in self.limits
        ):
            raise SketchError(
                f"limits of a key sample have 8 significant bits, up to 2^62, not {self.limits}."
            )

    @classmethod
    def sized(
        cls,
        words: int,
        link_seeds: Sequence[int],
        seed: int,
        *,
        rates: Sequence[float] | None = None,
        elements: float | None = None,
        wide: bool = False,
        max_elements: int = 2**30,
    ) -> Self:
        """Return the largest spec within a number of words.

        `elements`: how many are expected to pass the rates (1 unless given). They should not be more than
        `capacity_of` these words; a stream up to 16 times larger still leaves a sample. Without it the
        levels are nearly equal, and enough for `max_elements`.
        """
        edges = len(link_seeds)
        limits = tuple(limit_of(rate) for rate in rates or (1.0,) * edges)
        bits = _affordable_bits(words, edges, elements if set(limits) == {EVERYTHING} else None, wide=wide)
        cells = words // cell_words(edges, wide=wide, bits=bits)
        sizes = level_sizes(cells, level_shares(cells, edges, elements, max_elements))
        if sizes[0] < SMALLEST_LEVEL:
            least = cell_words(edges, wide=wide, bits=bits) * SMALLEST_LEVEL * len(sizes)
            raise SketchError(
                f"{words} words are too few for a key sample of {edges} join keys: it needs at least {least}."
            )
        return cls(sizes, tuple(link_seeds), limits, seed, wide, bits)

    @property
    def _layout(self) -> Layout:
        return cell_words(self.edges, wide=self.wide, bits=self.bits), self.bits, self.wide

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self._layout[0] * sum(self.cells)

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return len(self.link_seeds)

    @property
    def touched(self) -> int:
        """The number of counters that a kept row touches, at most: all words of four cells."""
        return 4 * self._layout[0]

    @property
    def rates(self) -> tuple[float, ...]:
        """The chance of a value to be kept, per edge."""
        return tuple(limit / EVERYTHING for limit in self.limits)

    @property
    def _params(self) -> np.ndarray:
        return np.asarray(parameters("mix", (self.seed,), FUNCTIONS)[0])

    @property
    def _shifts(self) -> np.ndarray:
        """The low bits of a hash that are dropped at each level, uint64 (levels, edges)."""
        widths = np.array([(limit - 1).bit_length() for limit in self.limits])
        known = widths - self.bits - np.arange(len(self.cells))[:, None]
        return np.maximum(known, 0).astype(np.uint64)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to the counters in place; residues never overflow."""
        key_sample_add(
            counters,
            keys,
            weights,
            np.asarray(parameters("mix", self.link_seeds, 1)[:, 0]),
            np.array(self.limits, dtype=np.uint64),
            self._shifts,
            np.array(self.cells),
            self._params,
            self._layout,
        )

    def _combine(self, left: Int64Array, right: Int64Array, start: int, *, negative: bool) -> Int64Array:
        out = np.empty(left.shape, dtype=np.int64)
        key_sample_combine(left, right, start, self._layout, negative, out)
        return out

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the sum of two blocks of counters that begin at word `start`."""
        return self._combine(left, right, start, negative=False)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the difference of two blocks of counters that begin at word `start`."""
        return self._combine(left, right, start, negative=True)

    def decode(self, counters: Int64Array) -> KeySample:
        """Return the elements of the last levels, as many as decode completely without a gap."""
        bounds = np.cumsum([0, *(self._layout[0] * cells for cells in self.cells)]).tolist()
        hashes = [np.empty((0, self.edges), dtype=np.uint64)]
        values: list[Int64Array] = [np.empty(0, dtype=np.int64)]
        first = None
        for level, (begin, end) in reversed(list(enumerate(pairwise(bounds)))):
            found = self._decode_level(counters[begin:end].copy(), level)
            if found is None:
                break
            first = level
            hashes.append(found[0])
            values.append(found[1])
        limits = tuple(limit >> (first or 0) for limit in self.limits)
        shifts = tuple(self._shifts[first or 0].tolist())
        return KeySample(
            np.concatenate(hashes), np.concatenate(values), first, limits, shifts, self.link_seeds
        )

    def _decode_level(self, block: Int64Array, level: int) -> tuple[np.ndarray, Int64Array] | None:
        """Return hashes and net values of one level, or None where it does not decode; spends the block."""
        prints = np.empty((2 * self.cells[level], self.edges), dtype=np.uint64)
        values = np.empty(len(prints), dtype=np.int64)
        steps = key_sample_decode(block, self.cells[level], self._params, self._layout, prints, values)
        if block.any():
            return None
        unique, inverse = np.unique(prints[:steps], axis=0, return_inverse=True)
        totals = np.zeros(len(unique), dtype=np.int64)
        np.add.at(totals, inverse, values[:steps])
        return unique[totals != 0] << self._shifts[level], totals[totals != 0]
