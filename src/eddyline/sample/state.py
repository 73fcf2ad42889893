"""The state of a stream sample: its dictionaries, and the rosters of values that are followed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest

import msgspec
import numpy as np

from eddyline.kernels.elements import drop_unfollowed, lookup_table, unit_hashes
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.packing import distinct
from eddyline.sample.spec import DictionarySpec, SampleSpec, Shape

# A roster: which values of one link class are followed.
#
# A value is followed iff its hash, uniform in [0, 1), is below its inclusion probability: that of its entry,
# or the base. Probabilities only fall, and no entry is below the base. So the set of followed values only
# shrinks, and every row of a value that is followed now was followed. A probability is kept in one byte, as
# 2^(-rank/10).


ENTRY_BYTES = 9
HASH_STEP = 2.0**-53
"""Hashes are multiples of it."""
_STEPS = 10.0
_MOST = 255

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def ranks_below(probabilities: FloatArray) -> np.ndarray:
    """Return the rank of the largest representable probability not above each one, 255 if below all of them."""
    ranks = np.ceil(-np.log2(np.maximum(probabilities, 1e-300)) * _STEPS - 1e-9)
    ranks = np.clip(ranks, 0, _MOST).astype(np.uint8)
    above = (probability_of(ranks) > probabilities) & (ranks < _MOST)
    return np.where(above, ranks + 1, ranks).astype(np.uint8)


def probability_of(ranks: np.ndarray) -> FloatArray:
    """Return the probability that each rank represents."""
    return np.exp2(-ranks.astype(np.float64) / _STEPS)


@dataclass(frozen=True, eq=False)
class Roster:
    """The base rate of a link class, and the values (ascending) that have their own probability."""

    seed: int
    base: float = 1.0
    values: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    ranks: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    @property
    def nbytes(self) -> int:
        """The bytes of its base and entries; 0 while every value is followed."""
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
        """Return the inclusion probability of each key; the keys are ascending, without duplicates."""
        found = np.full(len(keys), self.base)
        if len(keys):
            places = np.minimum(np.searchsorted(keys, self.values), len(keys) - 1)
            hit = keys[places] == self.values
            found[places[hit]] = probability_of(self.ranks[hit])
        return found

    def rates_of_held(self, keys: np.ndarray) -> FloatArray:
        """Return the inclusion probability of each key that elements hold, ascending.

        If nothing is followed, held elements have a NULL, whose code is that of a key: NULL is always followed.
        """
        found = self.probabilities(keys)
        if self.base <= 0.0:
            found[found <= 0.0] = 1.0
        return found

    def drop_unfollowed(self, keys: np.ndarray, kept: np.ndarray) -> None:
        """Clear `kept` for keys that are not followed."""
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
        """Return the roster with other rates for some values: for answers, not to decide which rows to keep."""
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
        made = Roster(self.seed, base, *_entries(values, lower, base))
        return self if made.same(self) else made

    def same(self, other: "Roster") -> bool:
        """Return whether both follow the same values."""
        return (
            (self.seed, self.base) == (other.seed, other.base)
            and np.array_equal(self.values, other.values)
            and np.array_equal(self.ranks, other.ranks)
        )


def _entries(values: np.ndarray, probabilities: FloatArray, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (values, ranks) of those whose probability, rounded down to its rank, is above the base.

    Probabilities below all ranks have no rank: such values get the base rate.
    """
    ranks = ranks_below(probabilities)
    rounded = probability_of(ranks)
    entered = (rounded > base) & (rounded <= probabilities)
    return values[entered], ranks[entered]


def make_roster(seed: int, base: float, values: np.ndarray, probabilities: FloatArray) -> Roster:
    """Return the roster of a base and of values (ascending) with their own probabilities."""
    return Roster(seed, base, *_entries(values, probabilities, base))


# The dictionaries and rosters are those of the first stage or of the second.
#
# First stage: one exact dictionary for each stream. Second stage: dictionaries by stream and links, which
# keep only the elements whose link values are all followed. NULL is not a value of a link: elements with a
# NULL link are followed by a hash of the whole element, at a separate rate for each dictionary. Given the
# rosters the state is linear in the rows; two states are combined under the lower of their rosters.


_GOLDEN, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1
"""Separates the seeds of NULL links, as splitmix does."""


def fresh_rosters(spec: SampleSpec) -> tuple[Roster, ...]:
    """Return rosters that follow everything: one for each link class, then one for each dictionary's NULL links."""
    first = spec.seeds[0] if spec.seeds else 0
    nulls = (first ^ (_GOLDEN * (place + 1) & _WORD) for place in range(len(spec.kept)))
    return tuple(Roster(seed) for seed in (*spec.seeds, *nulls))


def followed(dictionary: Dictionary, rosters: tuple[Roster, ...], nulls: Roster) -> Dictionary:
    """Return the elements all of whose link values are followed; nulls: the roster of those with a NULL link."""
    kept = np.ones(len(dictionary), dtype=np.bool_)
    for key, link in enumerate(dictionary.spec.classes):
        if link < 0 or rosters[link].follows_all:
            continue
        followed = np.ones(len(dictionary), dtype=np.bool_)
        rosters[link].drop_unfollowed(dictionary.key(key), followed)
        kept &= followed | dictionary.is_null(key)
    if not nulls.follows_all:
        chosen = kept & dictionary.null_links()
        left = np.ones(int(chosen.sum()), dtype=np.bool_)
        nulls.drop_unfollowed(dictionary.codes(chosen), left)
        kept[chosen] = left
    return dictionary.where(kept)


class Record(msgspec.Struct, frozen=True, array_like=True):
    """The cost of reductions for the answer of a query, recorded while the dropped keys were still held.

    variance: the relative variance that they added, the sum over reductions and keys of the squared share of a key
    in the answer, times its old rate over the new one, less 1. squares: the sum of the squares of these terms,
    which shows how few keys dominate it. left: the estimate after all reductions over the estimate before: far
    below 1 if keys that dominated the answer were dropped, above 1 if light keys that stayed count too often.
    heaviest: for each relation the rows of the heaviest dropped key; empty if no key was dropped.
    """

    variance: float = 0.0
    squares: float = 0.0
    left: float = 1.0
    heaviest: tuple[float, ...] = ()

    def __add__(self, other: "Record") -> "Record":
        return Record(
            self.variance + other.variance,
            self.squares + other.squares,
            self.left * other.left,
            _heavier(self, other),
        )

    def regained(self, share: float) -> "Record":
        """Return the record where sketches show dropped keys; share: the estimate without them over that with them."""
        if self.left >= 1.0:
            return self
        left = min(self.left / max(share, self.left), 1.0)
        gone = (1.0 / left - 1.0) / (1.0 / self.left - 1.0)
        return Record(self.variance * gone**2, self.squares * gone**4, left, self.heaviest)

    @property
    def carriers(self) -> float:
        """How many keys dominate the variance."""
        return max(1.0, self.variance**2 / self.squares) if self.squares > 0.0 else 1.0

    @staticmethod
    def of_both(one: "Record | None", other: "Record | None") -> "Record":
        """Return the record of a sum of two states: its relative variance is at most that of either part.

        What one part dropped is also dropped from the other: the larger loss counts.
        """
        if one is None or other is None:
            return one or other or Record()
        widest = max(one, other, key=lambda each: each.variance)
        return msgspec.structs.replace(widest, left=min(one.left, other.left), heaviest=_heavier(one, other))


def _heavier(one: Record, other: Record) -> tuple[float, ...]:
    """Return for each relation the rows of the heavier of two dropped keys."""
    return tuple(max(pair) for pair in zip_longest(one.heaviest, other.heaviest, fillvalue=0.0))


@dataclass(frozen=True, eq=False)
class SampleState:
    """Dictionaries of the first stage (`grouped` False) or of the second; rosters in the order of `fresh_rosters`.

    records: the possible cost of reductions for each query, by its name.
    """

    spec: SampleSpec
    grouped: bool
    dictionaries: tuple[Dictionary, ...]
    rosters: tuple[Roster, ...]
    records: Mapping[str, "Record"] = field(default_factory=dict)

    @classmethod
    def empty(cls, spec: SampleSpec, *, grouped: bool = False) -> "SampleState":
        """Return the state before any row."""
        parts: tuple[DictionarySpec, ...] = spec.kept if grouped else spec.exact
        dictionaries = tuple(Dictionary.empty(part) for part in parts)
        return cls(spec, grouped, dictionaries, fresh_rosters(spec))

    @cached_property
    def nbytes(self) -> int:
        """The bytes of dictionaries and rosters."""
        return sum(d.nbytes for d in self.dictionaries) + sum(r.nbytes for r in self.rosters)

    def nulls(self, dictionary: int) -> Roster:
        """Return the roster of the elements with a NULL link of one dictionary of the second stage."""
        return self.rosters[len(self.spec.seeds) + dictionary]

    @property
    def follows_all(self) -> bool:
        """Whether every value of every link is followed: then nothing is missing."""
        return all(roster.follows_all for roster in self.rosters)

    @property
    def part_of_keys(self) -> float:
        """About which part of the keys is held, of the link of which the least is."""
        parts = [1.0]
        for link, roster in enumerate(self.rosters[: len(self.spec.seeds)]):
            values = held_keys([self], link)
            if len(values) and not roster.follows_all:
                parts.append(len(values) / float((1.0 / roster.rates_of_held(values)).sum()))
        return min(parts)

    def in_second_stage(self) -> "SampleState":
        """Return the followed part of the same rows in the dictionaries of the second stage."""
        return self if self.grouped else self.regrouped().filtered(self.rosters)

    def regrouped(self) -> "SampleState":
        """Return the same rows in the dictionaries of the second stage, followed or not."""
        if self.grouped:
            return self
        made = tuple(
            self.dictionaries[how.source].regrouped(spec, how.keys, how.flags, how.measures)
            for spec, how in zip(self.spec.kept, self.spec.regrouped, strict=True)
        )
        return replace(self, grouped=True, dictionaries=made)

    def record_of(self, shape: Shape) -> Record:
        """Return the part of the answer of an ad hoc query that reductions left.

        It is at most that of planned queries on some of its links, with no more relations.
        """
        left = (
            self.records[each.name].left
            for each in self.spec.shapes
            if each.name in self.records
            and set(each.classes) <= set(shape.classes)
            and each.relations <= shape.relations
        )
        return Record(left=min(left, default=1.0))

    def under(self, rosters: tuple[Roster, ...]) -> "SampleState":
        """Return what is left when rosters lower those of the state; the rosters of NULL links may be omitted."""
        lower = (*rosters, *self.rosters[len(rosters) :])
        lowered = tuple(mine.lowered(other) for mine, other in zip(self.rosters, lower, strict=True))
        if all(mine is other for mine, other in zip(self.rosters, lowered, strict=True)):
            return self
        return self.filtered(lowered) if self.grouped else replace(self, rosters=lowered)

    def filtered(self, rosters: tuple[Roster, ...]) -> "SampleState":
        """Return the elements, in the second stage, that rosters at most as high as those of the state follow."""
        nulls = rosters[len(self.spec.seeds) :]
        kept = tuple(
            followed(dictionary, rosters, own)
            for dictionary, own in zip(self.dictionaries, nulls, strict=True)
        )
        return replace(self, dictionaries=kept, rosters=rosters)

    def combined(self, other: "SampleState", sign: int = 1) -> "SampleState":
        """Return the sum of both under the lower of their rosters; with sign -1 the difference."""
        left, right = self, other
        if left.grouped != right.grouped:
            left, right = left.in_second_stage(), right.in_second_stage()
        left, right = left.under(right.rosters), right.under(left.rosters)
        parts = zip(left.dictionaries, right.dictionaries, strict=True)
        records = {
            name: Record.of_both(left.records.get(name), right.records.get(name))
            for name in sorted({*left.records, *right.records})
        }
        return replace(left, dictionaries=tuple(a.plus(b, sign) for a, b in parts), records=records)

    def same(self, other: "SampleState") -> bool:
        """Return whether both hold the same elements under the same rosters."""
        return (
            self.grouped == other.grouped
            and all(a.same(b) for a, b in zip(self.rosters, other.rosters, strict=True))
            and all(a.same(b) for a, b in zip(self.dictionaries, other.dictionaries, strict=True))
        )


def held_keys(states: Sequence[SampleState], link: int) -> np.ndarray:
    """Return the keys of a link that states hold, ascending, without NULL."""
    found = [
        dictionary.key(key)[~dictionary.is_null(key)]
        for state in states
        for dictionary in state.dictionaries
        for key, own in enumerate(dictionary.spec.classes)
        if own == link
    ]
    return distinct(found)


def under_one_roster(states: list[SampleState]) -> list[SampleState]:
    """Return the states restricted to the values that all of them follow."""
    rosters = states[0].rosters
    for state in states[1:]:
        rosters = tuple(a.lowered(b) for a, b in zip(rosters, state.rosters, strict=True))
    if all(a.same(b) for state in states for a, b in zip(state.rosters, rosters, strict=True)):
        return states
    return [state.under(rosters) for state in states]
