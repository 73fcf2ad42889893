"""Frequencies from a stream sample: the net counts of followed values are exact."""

import numpy as np

from eddyline.answer.estimate import Estimate
from eddyline.answer.lookups.frequent_keys import FrequentKey
from eddyline.answer.lookups.key_values import value_of
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Elements, Flag
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.roster import Roster
from eddyline.sql.query import Key


class FollowedKeys:
    """The followed values of one key of a stream with their exact net counts."""

    def __init__(self, key: Key, values: np.ndarray, counts: np.ndarray, roster: Roster | None) -> None:
        self.key = key
        self.values = values
        self.counts = counts
        self.roster = roster

    @property
    def all(self) -> bool:
        """Whether every value is followed."""
        return self.roster is None or self.roster.follows_all

    def frequent(self, top: int | None, threshold: float | None, confidence: float) -> list[FrequentKey]:
        """Return the most frequent values, the most frequent first."""
        order = np.lexsort((self.values, -self.counts))
        if threshold is not None:
            order = order[self.counts[order] >= threshold]
        order = order[self.counts[order] > 0][: top if top is not None else 1000]
        return [
            FrequentKey(
                int(self.values[i]),
                value_of(self.key, int(self.values[i])),
                _exactly(int(self.counts[i]), confidence),
            )
            for i in order
        ]

    def frequency(self, value: int, confidence: float) -> Estimate | None:
        """Return how often a value occurs, None where it is not followed."""
        followed = np.ones(1, dtype=np.bool_)
        if self.roster is not None:
            self.roster.drop_unfollowed(np.array([value]), followed)
        if not followed[0]:
            return None
        at = int(np.searchsorted(self.values, value))
        found = at < len(self.values) and self.values[at] == value
        return _exactly(int(self.counts[at]) if found else 0, confidence)


def _exactly(count: int, confidence: float) -> Estimate:
    return Estimate("frequency", count, count, count, confidence, "exact", exact=True)


def find_followed(
    snapshot: Snapshot, stream: str, key: Key, predicates: tuple[str, ...]
) -> FollowedKeys | None:
    """Return the followed values of a stream's key under predicates, None where no sample holds them."""
    for planned in snapshot.layout.samples:
        state = snapshot.samples[planned.id]
        parts = planned.kept if state.grouped else planned.exact
        for elements, dictionary in zip(parts, state.dictionaries, strict=True):
            if elements.stream == stream and _holds(elements, key, predicates, grouped=state.grouped):
                position = elements.keys.index(key)
                values, counts = _counted(elements, dictionary, position, predicates)
                link = dictionary.spec.classes[position]
                return FollowedKeys(key, values, counts, state.rosters[link] if link >= 0 else None)
    return None


def _holds(elements: Elements, key: Key, predicates: tuple[str, ...], *, grouped: bool) -> bool:
    """Return whether a dictionary holds all rows of the followed values of a key: no other link thins them out."""
    alone = elements.keys == (key,) if grouped else key in elements.keys
    flags = (Flag(predicates),) if predicates else ()
    return alone and set(flags) <= set(elements.flags) and elements.holds_rows_of(flags)


def _counted(
    elements: Elements, dictionary: Dictionary, position: int, predicates: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    counted = ~dictionary.is_null(position)
    if predicates:
        counted &= dictionary.flag(elements.flags.index(Flag(predicates)))
    values, places = dictionary.index(position)
    counts = np.zeros(len(values), dtype=np.int64)
    np.add.at(counts, places, np.where(counted, dictionary.total(-1), 0))
    return values, counts
