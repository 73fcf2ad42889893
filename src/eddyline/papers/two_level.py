"""The document's 2-level hash sketches: the reference that the distinct sketch is compared with.

`copies` sketches of `levels` first-level buckets, each a total and one counter for each bit of the key. In
the plain form every copy sees every element under a hash function of its own; in the time-efficient form
(`spread`) a second hash function g picks the one copy that sees it.
Paper: set expressions, FIG. 2 (paragraphs 0032-0034) and FIG. 3 (0067-0071).
"""

import msgspec

from eddyline.errors import SketchError
from eddyline.papers.two_level_kernels import two_level_add
from eddyline.sketch.counters import Int64Array, add, check_headroom, subtract
from eddyline.sketch.hash_families import parameters
from eddyline.sketch.hashed_keys import KeyArray


class TwoLevelSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="two_level"):
    """Shape and seed of a family of 2-level hash sketches: r copies, or b where `spread`."""

    copies: int
    levels: int
    seed: int
    key_bits: int = 64
    spread: bool = False

    def __post_init__(self) -> None:
        if self.copies < 1 or self.levels < 1 or not 1 <= self.key_bits <= 64:
            raise SketchError(
                f"2-level hash sketches need copies, levels and 1 to 64 key bits, not {self.copies}, "
                f"{self.levels} and {self.key_bits}."
            )

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self.copies * self.levels * (1 + self.key_bits)

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
        params = parameters("mix", (self.seed,), 2 if self.spread else self.copies)[0]
        two_level_add(self.buckets(counters), keys[0], weights, params, self.spread)

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)
