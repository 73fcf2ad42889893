"""A roster: which values of one link class are followed.

A value is followed iff its hash, uniform in [0, 1), lies below its inclusion probability: that of its entry, else
the base. Probabilities only fall, and no entry lies below the base; so the set of followed values only shrinks, and
of a value that is followed now every row was followed. A probability is kept in one byte, as 2^(-rank/10).
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from eddyline.kernels.following import drop_unfollowed, lookup_table, unit_hashes
from eddyline.sample.sorting import distinct

ENTRY_BYTES = 9
HASH_STEP = 2.0**-53
"""Hashes are multiples of it."""
_STEPS = 10.0
_MOST = 255

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def ranks_below(probabilities: FloatArray) -> np.ndarray:
    """Return the rank of the largest representable probability that is not above each one, 255 below all of them."""
    ranks = np.ceil(-np.log2(np.maximum(probabilities, 1e-300)) * _STEPS - 1e-9)
    ranks = np.clip(ranks, 0, _MOST).astype(np.uint8)
    above = (probability_of(ranks) > probabilities) & (ranks < _MOST)
    return np.where(above, ranks + 1, ranks).astype(np.uint8)


def probability_of(ranks: np.ndarray) -> FloatArray:
    """Return the probability that each rank stands for."""
    return np.exp2(-ranks.astype(np.float64) / _STEPS)


@dataclass(frozen=True, eq=False)
class Roster:
    """The base rate of a link class, and the values (ascending) that have a probability of their own."""

    seed: int
    base: float = 1.0
    values: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    ranks: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    @property
    def nbytes(self) -> int:
        """The bytes of its base and entries; nothing while every value is followed."""
        return 0 if self.follows_all else 8 + ENTRY_BYTES * len(self.values)

    @cached_property
    def follows_all(self) -> bool:
        """Whether every value is followed."""
        return self.base >= 1.0 and not self.ranks.any()

    def hashes(self, keys: np.ndarray) -> FloatArray:
        """Return the hash of each key, in [0, 1)."""
        out = np.empty(len(keys), dtype=np.float64)
        unit_hashes(np.ascontiguousarray(keys, dtype=np.int64), np.uint64(self.seed), out)
        return out

    def probabilities(self, keys: np.ndarray) -> FloatArray:
        """Return the inclusion probability of each key; the keys are ascending, each there once."""
        found = np.full(len(keys), self.base)
        if len(keys):
            places = np.minimum(np.searchsorted(keys, self.values), len(keys) - 1)
            hit = keys[places] == self.values
            found[places[hit]] = probability_of(self.ranks[hit])
        return found

    def rates_of_held(self, keys: np.ndarray) -> FloatArray:
        """Return the inclusion probability of each key that elements hold, ascending.

        Where nothing is followed, what is held has a NULL, whose code is that of a key: NULL is always followed.
        """
        found = self.probabilities(keys)
        return np.where(found > 0.0, found, 1.0)

    def drop_unfollowed(self, keys: np.ndarray, kept: np.ndarray) -> None:
        """Clear `kept` where a key is not followed."""
        if self.follows_all:
            return
        slots = np.full(1 << max(1, (2 * len(self.values)).bit_length()), -1, dtype=np.int64)
        lookup_table(self.values, slots)
        probabilities = probability_of(self.ranks)
        drop_unfollowed(
            np.ascontiguousarray(keys, dtype=np.int64),
            np.uint64(self.seed),
            self.base,
            self.values,
            probabilities,
            slots,
            float(probabilities.max(initial=0.0)),
            kept,
        )

    def with_rates(self, values: np.ndarray, rates: FloatArray) -> "Roster":
        """Return the roster with other rates of some values: for answers, not to decide which rows to keep."""
        added, first = np.unique(values, return_index=True)
        others = ~np.isin(self.values, added)
        every = np.concatenate([self.values[others], added])
        ranks = np.concatenate([self.ranks[others], ranks_below(rates[first])])
        order = np.argsort(every)
        return Roster(self.seed, self.base, every[order], ranks[order])

    def lowered(self, other: "Roster") -> "Roster":
        """Return the roster that follows what both follow: the lower probability of each value."""
        if other.follows_all or self is other:
            return self
        if self.follows_all:
            return other
        base = min(self.base, other.base)
        values = distinct([self.values, other.values])
        lower = np.minimum(self.probabilities(values), other.probabilities(values))
        return Roster(self.seed, base, *_entries(values, lower, base))

    def same(self, other: "Roster") -> bool:
        """Return whether both follow the same values."""
        return (
            (self.seed, self.base) == (other.seed, other.base)
            and np.array_equal(self.values, other.values)
            and np.array_equal(self.ranks, other.ranks)
        )


def _entries(values: np.ndarray, probabilities: FloatArray, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (values, ranks) of those whose probability, rounded down to its rank, is above the base.

    Probabilities below all ranks have none: such values fall to the base.
    """
    ranks = ranks_below(probabilities)
    rounded = probability_of(ranks)
    entered = (rounded > base) & (rounded <= probabilities)
    return values[entered], ranks[entered]


def make_roster(seed: int, base: float, values: np.ndarray, probabilities: FloatArray) -> Roster:
    """Return the roster of a base and of values (ascending) with probabilities of their own."""
    return Roster(seed, base, *_entries(values, probabilities, base))
