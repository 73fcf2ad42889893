"""The state of a stream sample: dictionaries and rosters, in the first stage or in the second.

First stage: one exact dictionary for each stream. Second stage: dictionaries by stream and links, of which only the
elements stay whose link values are all followed. NULL is not a value of a link: elements with a NULL link are followed
by a hash of the whole element, at a rate of their own for each dictionary. Given the rosters the state is linear in the
rows; two states are combined under the lower of their rosters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np

from eddyline.sample.dictionary import Dictionary
from eddyline.sample.roster import Roster
from eddyline.sample.spec import DictionarySpec, SampleSpec

_GOLDEN, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1
"""Spreads the seeds of NULL links apart, as splitmix does."""


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
    """What reductions may have cost the answer of a query, noted while the keys that they dropped were still there.

    variance: the relative variance that they added, the sum over reductions and keys of the squared share of a key in
    the answer, times its old rate over the new one, less 1. squares: the sum of the squares of these parts, which says
    how few keys carry it.
    """

    variance: float = 0.0
    squares: float = 0.0

    def __add__(self, other: "Record") -> "Record":
        return Record(self.variance + other.variance, self.squares + other.squares)

    @property
    def carriers(self) -> float:
        """How many keys carry the variance."""
        return max(1.0, self.variance**2 / self.squares) if self.squares > 0.0 else 1.0

    @staticmethod
    def of_both(one: "Record | None", other: "Record | None") -> "Record":
        """Return the record of a sum of two states: its relative variance is at most that of either part."""
        return max(one or Record(), other or Record(), key=lambda each: each.variance)


@dataclass(frozen=True, eq=False)
class SampleState:
    """Dictionaries of the first stage (`grouped` False) or of the second; rosters as `fresh_rosters` has them.

    records: what reductions may have cost each query, by its name.
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

    def in_second_stage(self) -> "SampleState":
        """Return the same rows in the dictionaries of the second stage."""
        if self.grouped:
            return self
        made = tuple(
            self.dictionaries[how.source].regrouped(spec, how.keys, how.flags, how.measures)
            for spec, how in zip(self.spec.kept, self.spec.regrouped, strict=True)
        )
        return replace(self, grouped=True, dictionaries=made).under(self.rosters)

    def under(self, rosters: tuple[Roster, ...]) -> "SampleState":
        """Return what is left when rosters lower those of the state; those of NULL links may be left out."""
        lower = (*rosters, *self.rosters[len(rosters) :])
        lowered = tuple(mine.lowered(other) for mine, other in zip(self.rosters, lower, strict=True))
        if self.grouped:
            nulls = lowered[len(self.spec.seeds) :]
            kept = tuple(
                followed(dictionary, lowered, own)
                for dictionary, own in zip(self.dictionaries, nulls, strict=True)
            )
            return replace(self, dictionaries=kept, rosters=lowered)
        return replace(self, rosters=lowered)

    def combined(self, other: "SampleState", sign: int = 1) -> "SampleState":
        """Return both added up under the lower of their rosters; with sign -1 the other one is subtracted."""
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


def under_one_roster(states: list[SampleState]) -> list[SampleState]:
    """Return states that all follow what each of them follows."""
    rosters = states[0].rosters
    for state in states[1:]:
        rosters = tuple(a.lowered(b) for a, b in zip(rosters, state.rosters, strict=True))
    if all(a.same(b) for state in states for a, b in zip(state.rosters, rosters, strict=True)):
        return states
    return [state.under(rosters) for state in states]
