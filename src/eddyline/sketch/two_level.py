"""The document's 2-level hash sketches, which `method="document"` keeps for distinct counts and set expressions.

`copies` sketches of `levels` first-level buckets, each a total and one counter for each bit of the key. In
the plain form every copy sees every element under its own hash function; in the time-efficient form
(`spread`) a second hash function g picks the one copy that sees it.
Paper: set expressions, FIG. 2 (paragraphs 0032-0034) and FIG. 3 (0067-0071).
"""

from math import ceil, log2

import msgspec
import numpy as np

from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.kernels.linear import two_level_add
from eddyline.sketch.counters import Int64Array, KeyArray, add, check_headroom, subtract
from eddyline.sketch.keys import HashFamily, kernel_id, parameters

LEAST_COPIES = 16
"""The fewest copies that a plan keeps: with fewer, a level that is at most 1/8 full shows two elements or none."""
_EMPTY_LEVELS = 3
"""Levels beyond the one that all elements fill: the estimators read a level of which at most 1/8 is not empty."""


class TwoLevelSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="two-level"):
    """Shape and seed of a family of 2-level hash sketches: r copies, or b if `spread`."""

    copies: int
    levels: int
    seed: int
    key_bits: int = 64
    spread: bool = False
    hash: HashFamily = "mix"

    def __post_init__(self) -> None:
        if self.copies < 1 or self.levels < 1 or not 1 <= self.key_bits <= 64:
            raise SketchError(
                f"2-level hash sketches need copies, levels and 1 to 64 key bits, not {self.copies}, "
                f"{self.levels} and {self.key_bits}."
            )
        kernel_id(self.hash)

    @classmethod
    def of_copies(cls, copies: int, most: int, seed: int, key_bits: int, *, spread: bool) -> "TwoLevelSpec":
        """Return `copies` copies with the levels that `most` distinct elements need."""
        shared = most / copies if spread else most
        return cls(copies, max(ceil(log2(max(shared, 1.0))), 0) + _EMPTY_LEVELS + 1, seed, key_bits, spread)

    @classmethod
    def within(cls, words: int, most: int, seed: int, key_bits: int, *, spread: bool) -> "TwoLevelSpec":
        """Return as many copies as fit a number of words; in the time-efficient form a power of two, to fold."""
        copies = LEAST_COPIES
        while (spec := cls.of_copies(2 * copies, most, seed, key_bits, spread=spread)).words <= words:
            copies = spec.copies
        spec = cls.of_copies(copies, most, seed, key_bits, spread=spread)
        if spread or spec.words >= words:
            return spec
        return msgspec.structs.replace(spec, copies=words // (spec.words // copies))

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self.copies * self.levels * (1 + self.key_bits)

    @property
    def touched(self) -> int:
        """The largest number of counters that a row touches."""
        return (1 if self.spread else self.copies) * (1 + self.key_bits)

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 1

    def buckets(self, counters: Int64Array) -> Int64Array:
        """Return the counters as a (copies, levels, 1 + key bits) view."""
        return counters.reshape(self.copies, self.levels, 1 + self.key_bits)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to the counters in place; raise, with nothing changed, if one might overflow."""
        check_headroom(counters, weights)
        params = parameters(self.hash, (self.seed,), 2 if self.spread else self.copies)[0]
        two_level_add(self.buckets(counters), keys[0], weights, params, kernel_id(self.hash), self.spread)

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)

    def narrowed(self, buckets: Int64Array, copies: int, levels: int) -> Int64Array:
        """Return exactly the buckets of a sketch of fewer copies and levels.

        Fewer levels: the higher levels are added to the last one. Fewer copies: the first ones; in the
        time-efficient form each two neighbors are added, so both numbers are powers of two.
        """
        if levels < self.levels:
            last = buckets[:, levels - 1 :].sum(axis=1, keepdims=True)
            buckets = np.concatenate([buckets[:, : levels - 1], last], axis=1)
        if not self.spread:
            return buckets[:copies]
        if copies & (copies - 1) or self.copies % copies:
            raise IncompatibleSpecs(f"{self.copies} time-efficient sketches do not fold to {copies}.")
        return np.asarray(buckets.reshape(copies, -1, *buckets.shape[1:]).sum(axis=1))


def _hashing(spec: TwoLevelSpec) -> tuple[int, int, bool, HashFamily]:
    return spec.seed, spec.key_bits, spec.spread, spec.hash


def at_common_shape(sketches: list[tuple[TwoLevelSpec, Int64Array]]) -> tuple[TwoLevelSpec, list[Int64Array]]:
    """Return the shape to which all sketches can be reduced, and their buckets in it."""
    first = sketches[0][0]
    if any(_hashing(spec) != _hashing(first) for spec, _ in sketches):
        raise IncompatibleSpecs(
            f"these 2-level sketches differ in seed, form, key bits or hash family: {[spec for spec, _ in sketches]}."
        )
    copies, levels = (min(getattr(spec, name) for spec, _ in sketches) for name in ("copies", "levels"))
    common = msgspec.structs.replace(first, copies=copies, levels=levels)
    return common, [spec.narrowed(spec.buckets(words), copies, levels) for spec, words in sketches]
