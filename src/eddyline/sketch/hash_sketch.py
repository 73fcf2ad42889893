"""The hash sketch (Fast-AGMS): `depth` rows of `width` counters, one counter per row and element.

Guarantee: the inner product of one row of two sketches with equal seeds is an unbiased estimate of the
join size J = f.g, of variance (F2(f) F2(g) + J^2 - 2 sum f_u^2 g_u^2) / width.
Paper: skimmed, FIG. 3.
"""

from functools import lru_cache

import msgspec
import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.linear import hash_sketch_add, hash_sketch_add_at, hash_sketch_places
from eddyline.sketch.counters import Int64Array, KeyArray, add, checked_words, subtract
from eddyline.sketch.keys import HashFamily, kernel_id, parameters


class Use(msgspec.Struct, frozen=True):
    """Which key a hash function reads, and whether its bucket and its sign count."""

    key: int
    bucket: bool = True
    sign: bool = True


class HashSketchSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="hash"):
    """Shape and seeds of a hash sketch, with one hash function for each seed.

    uses: what each function reads and gives. By default function i reads key i and gives both its bucket and its
    sign; the bucket of a row is the sum over its functions, the sign the product. number_words: the number of words
    of each weight; the words are sketched side by side.
    """

    width: int
    depth: int
    seeds: tuple[int, ...]
    hash: HashFamily = "mix"
    uses: tuple[Use, ...] = ()
    number_words: int = 1

    def __post_init__(self) -> None:
        if self.width < 2 or self.width & (self.width - 1):
            raise SketchError(
                f"the width of a hash sketch is a power of two of at least 2, not {self.width}."
            )
        if self.depth < 1:
            raise SketchError(f"a hash sketch has at least one row, not {self.depth}.")
        if self.uses and len(self.uses) != len(self.seeds):
            raise SketchError(
                f"{len(self.seeds)} hash functions have {len(self.uses)} uses: give one for each."
            )
        kernel_id(self.hash)

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""
        return self.width * self.depth * self.number_words

    @property
    def touched(self) -> int:
        """The number of counters that a row touches: one per row."""
        return self.depth * self.number_words

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""
        return 1 + max(use.key for use in self.uses) if self.uses else len(self.seeds)

    def rows(self, counters: Int64Array) -> Int64Array:
        """Return the counters of one word as a (depth, width) view."""
        return counters.reshape(self.depth, self.width)

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to the counters in place; raise, with nothing changed, if one might overflow."""
        params, uses = parameters(self.hash, self.seeds, self.depth), _use_words(self.seeds, self.uses)
        for block, row in checked_words(counters, weights):
            hash_sketch_add(self.rows(block), keys, row, params, uses, kernel_id(self.hash))

    def places(self, keys: KeyArray) -> np.ndarray:
        """Return where each key goes in each row, for `accumulate_at`: sketches of one spec hash a batch once."""
        out = np.empty((self.depth, keys.shape[1]), dtype=np.uint32)
        params = parameters(self.hash, self.seeds, self.depth)
        uses = _use_words(self.seeds, self.uses)
        hash_sketch_places(keys, params, uses, kernel_id(self.hash), self.width, out)
        return out

    def accumulate_at(self, counters: Int64Array, places: np.ndarray, weights: Int64Array) -> None:
        """Add weights at places in place, as `accumulate` does for the keys of these places."""
        for block, row in checked_words(counters, weights):
            hash_sketch_add_at(self.rows(block), places, row)

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the sum of two blocks of counters that begin at word `start`."""
        return add(left, right)

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:  # noqa: ARG002
        """Return the difference of two blocks of counters that begin at word `start`."""
        return subtract(left, right)

    def folded(self) -> "HashSketchSpec":
        """Return the spec of half the width."""
        return msgspec.structs.replace(self, width=self.width // 2)

    def fold(self, counters: Int64Array) -> Int64Array:
        """Return the counters at half the width: exactly those of a sketch built at that width."""
        rows, half = counters.reshape(-1, self.width), self.width // 2
        return add(rows[:, :half], rows[:, half:]).reshape(-1)

    def locate(self, keys: KeyArray) -> tuple[np.ndarray, np.ndarray]:
        """Return (buckets int32, signs int8), both (depth, n): where each key goes in each row."""
        places = self.places(keys)
        return (places >> 1).astype(np.int32), (1 - 2 * (places & 1).astype(np.int8))


@lru_cache(maxsize=1024)
def _use_words(seeds: tuple[int, ...], uses: tuple[Use, ...]) -> np.ndarray:
    """Return the uses as the kernels take them: key, bucket mask, sign mask."""
    ones = (1 << 64) - 1
    given = uses or tuple(Use(key) for key in range(len(seeds)))
    words = [[use.key, ones * use.bucket, ones * use.sign] for use in given]
    return np.array(words, dtype=np.uint64).reshape(-1, 3)
