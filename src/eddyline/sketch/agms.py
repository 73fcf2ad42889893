"""The classic AGMS sketch: depth x width atomic sketches, each updated by every element.

Every update costs depth * width counters. `method="agms"` uses it, and so does `method="document"` for three or
more relations.
Paper: skimmed, paragraphs 0022-0024; multi-join, section 3.
"""

from collections.abc import Sequence
from math import ceil, log2, prod

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.linear import agms_add
from eddyline.sketch.counters import Int64Array, KeyArray, add, checked_words, subtract
from eddyline.sketch.keys import HashFamily, kernel_id, parameters


class AgmsSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="agms"):
    """Shape and seeds of an AGMS sketch: the mean of `width` copies, the median of `depth` such means.

    reads: which key each sign family reads, by default family i reads key i; a key in several joins has several
    families. number_words: as in hash sketches.
    """

    width: int
    depth: int
    seeds: tuple[int, ...]
    hash: HashFamily = "poly4"
    reads: tuple[int, ...] = ()
    number_words: int = 1

    def __post_init__(self) -> None:
        if self.width < 1 or self.depth < 1:
            raise SketchError(f"an AGMS sketch has at least one copy, not {self.depth} x {self.width}.")
        if self.reads and len(self.reads) != len(self.seeds):
            raise SketchError(
                f"{len(self.seeds)} sign families read {len(self.reads)} keys: give one for each."
            )
        kernel_id(self.hash)

    @classmethod
    def guaranteed(
        cls,
        error: float,
        chance: float,
        self_joins: Sequence[float],
        join_size: float,
        seeds: tuple[int, ...],
    ) -> "AgmsSpec":
        """Return the shape whose relative error exceeds `error` with probability at most `chance`, for any data.

        self_joins: upper bounds, one per relation; join_size: a lower bound; there is one join fewer than
        relations.
        Paper: multi-join, Theorem 3.1 with Lemma 3.2: s1 = 8 Var / (error L)^2 copies and s2 = 2 log2(1/chance)
        groups, Var = ((2^n - 1)^2 + 1) times the product of the self-joins for n joins.
        """
        if not (error > 0 and 0 < chance < 1 and join_size > 0):
            raise SketchError(
                f"no sketch guarantees error={error} with chance={chance} on a join of {join_size}."
            )
        variance = ((2 ** (len(self_joins) - 1) - 1) ** 2 + 1) * prod(self_joins)
        width = ceil(8 * variance / (error * join_size) ** 2)
        return cls(max(width, 1), max(2 * ceil(log2(1 / chance)), 1), seeds)

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self.width * self.depth * self.number_words

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: all of them."""
        return self.words

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 1 + max(self.reads) if self.reads else len(self.seeds)

    def rows(self, counters: Int64Array) -> Int64Array:
        """Return the counters of one word as a (depth, width) view."""
        return counters.reshape(self.depth, self.width)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to the counters in place; raise, with nothing changed, if one might overflow."""
        params = parameters(self.hash, self.seeds, self.width * self.depth)
        reads = np.array(self.reads or range(len(self.seeds)), dtype=np.int64)
        for block, row in checked_words(counters, weights):
            agms_add(block, keys, row, params, reads, kernel_id(self.hash))

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)
