"""Questions about single values: frequencies of keys, frequent keys, and the distinct values of a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.answer.estimate import Estimate
from eddyline.answer.interval import FloatArray, half_width_of_frequency, of_each
from eddyline.answer.joins.quantities import candidate_keys
from eddyline.answer.joins.skimming import UInt64Array, places, point_estimates, without_dense_keys
from eddyline.errors import PlanError
from eddyline.expressions.arrow_values import date_of
from eddyline.ingest.snapshot import Snapshot
from eddyline.kernels.skimming import noise_level
from eddyline.plan.layout import Elements, Flag, KeptSynopsis
from eddyline.plan.show.explain import describe
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.state import Roster
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.keys import NULL_KEY
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sql.query import Key

# Point frequencies and heavy hitters of one sketched stream, with intervals.
#
# The estimate of a key is what is left in its counters after all other dense values have been subtracted. Paper:
# skimmed, SKIMDENSE lines 4-5, the median over rows. Deviation: read off the residual.


@dataclass(frozen=True)
class Frequencies:
    """Keys with their estimated frequencies and the half-widths of their intervals."""

    keys: UInt64Array
    values: FloatArray
    half_widths: FloatArray


def frequencies(
    spec: HashSketchSpec,
    counters: Int64Array,
    keys: UInt64Array,
    candidates: UInt64Array | None = None,
    confidence: float = 0.95,
) -> Frequencies:
    """Return the frequencies of the keys, in their order; candidates are keys that may be dense."""
    known = keys if candidates is None else np.concatenate([keys, candidates])
    at = places(spec, known)
    skimmed = without_dense_keys(spec.rows(counters).astype(np.float64), at)
    estimates = skimmed.dense + point_estimates(skimmed.residual, at)
    half = half_width_of_frequency(noise_level(skimmed.residual, -1), confidence)
    values = estimates[np.searchsorted(at.keys, keys)]
    return Frequencies(keys, values, np.full(len(keys), half))


def frequent(
    spec: HashSketchSpec,
    counters: Int64Array,
    candidates: UInt64Array,
    *,
    threshold: float | None = None,
    top: int | None = None,
    confidence: float = 0.95,
    compared: int = 1,
) -> Frequencies:
    """Return the most frequent candidates in descending order: those at or above a threshold, or the top few.

    Without either, those whose interval lies above zero. compared: the number of keys among which these were found.
    The largest of many estimates is partly large by its noise, so the intervals are wide enough to hold for all
    keys together.
    """
    among = of_each(confidence, max(compared, len(candidates)))
    found = frequencies(spec, counters, np.unique(candidates), None, among)
    if threshold is not None:
        kept = np.nonzero(found.values >= threshold)[0]
    elif top is not None:
        kept = np.arange(len(found.keys))
    else:
        kept = np.nonzero(found.values > found.half_widths)[0]
    order = kept[np.argsort(-found.values[kept], kind="stable")][:top]
    return Frequencies(found.keys[order], found.values[order], found.half_widths[order])


# Converts keys back to values, where a key holds its value.


def holds_value(key: Key) -> bool:
    """Return whether the keys of these columns are the values themselves rather than hashes."""
    kind = key.columns[0].type
    return len(key.columns) == 1 and (kind.is_integer or kind.kind in ("boolean", "date"))


def value_of(key: Key, word: int) -> Any:
    """Return the SQL value that a 64-bit key holds, or None where it is a hash (or NULL)."""
    if not holds_value(key) or (key.null_is_value and word == NULL_KEY):
        return None
    kind = key.columns[0].type.kind
    if kind == "boolean":
        return bool(word)
    return date_of(word) if kind == "date" else word


# Samples of a stream's distinct values, from the peeling tables that the workload requests.


@dataclass(frozen=True)
class Sample:
    """A uniform sample of distinct values with their exact net counts.

    Every distinct value of the stream is in the sample with probability `rate`, whatever its count; at rate 1 the
    sample holds all values. `keys` are 64-bit keys; `values` the values themselves where keys hold them, else None.
    """

    keys: tuple[int, ...]
    values: tuple[Any, ...] | None
    counts: tuple[int, ...]
    rate: float

    def __len__(self) -> int:
        return len(self.keys)


def find_sample(snapshot: Snapshot, stream: str, key: Key, predicates: tuple[str, ...]) -> KeptSynopsis:
    """Return the peeling table on these columns, or raise PlanError."""
    for kept in snapshot.layout.kept_for(stream):
        if kept.demand.sample and kept.demand.keys == (key,) and kept.demand.predicates == predicates:
            return kept
    raise PlanError(
        f"no sample of {key} of stream {stream!r} is kept{' under this predicate' if predicates else ''}: ask for it "
        "with w.sample(stream, columns) before the state is built."
    )


def read_sample(snapshot: Snapshot, kept: KeptSynopsis) -> Sample:
    """Return the sample that a kept peeling table holds."""
    assert isinstance(kept.spec, PeelingSpec)
    decoded = kept.spec.decode(snapshot.counters[kept.id])
    keys = tuple(int(word) for word in decoded.keys.view(np.int64))
    values = (
        tuple(value_of(kept.demand.keys[0], word) for word in keys)
        if holds_value(kept.demand.keys[0])
        else None
    )
    return Sample(keys, values, tuple(int(count) for count in decoded.counts), decoded.rate)


# Frequent keys of a stream, a by-product of its join sketches: point frequencies and heavy hitters.


@dataclass(frozen=True)
class FrequentKey:
    """A key and how often it occurs; `value` is the SQL value where the key holds it, else None."""

    key: int
    value: Any
    count: Estimate


def find_sketch(snapshot: Snapshot, stream: str, key: Key, predicates: tuple[str, ...]) -> KeptSynopsis:
    """Return the unweighted sketch on these columns, or raise PlanError that lists the existing ones."""
    offered = []
    for kept in snapshot.layout.by_id.values():
        if (
            kept.stream == stream
            and kept.id in snapshot.counters
            and (
                isinstance(kept.spec, HashSketchSpec)
                and kept.candidates
                and kept.demand.measure is None
                and not kept.demand.presence
            )
        ):
            same = kept.demand.keys == (key,) and kept.demand.predicates == predicates
            if same and (not kept.unfollowed or find_followed(snapshot, stream, key, predicates)):
                return kept
            offered.append(describe(kept.demand))
    raise PlanError(
        f"no sketch of stream {stream!r} is kept on {key}"
        f"{' where ' + ' and '.join(predicates) if predicates else ''}: kept are {'; '.join(offered) or 'none'}. Ask a "
        "query that joins on these columns, for example with itself."
    )


def frequent_keys(
    snapshot: Snapshot,
    kept: KeptSynopsis,
    top: int | None,
    threshold: float | None,
    confidence: float,
    followed: Sequence[FrequentKey] = (),
) -> list[FrequentKey]:
    """Return the heavy hitters of a kept sketch, the most frequent first; followed: keys that it does not hold."""
    assert isinstance(kept.spec, HashSketchSpec)
    counters = snapshot.counters[kept.id]
    candidates, _ = candidate_keys(kept, snapshot.hints[kept.id], kept.spec, counters)
    rows = snapshot.tallies[kept.stream].rows
    found = frequent(
        kept.spec,
        counters,
        candidates,
        threshold=threshold,
        top=top if threshold is not None or not kept.unfollowed else None,
        confidence=confidence,
        compared=rows,
    )
    sketched = [
        FrequentKey(
            int(key), value_of(kept.demand.keys[0], int(key)), _count(float(value), float(half), confidence)
        )
        for key, value, half in zip(found.keys.view(np.int64), found.values, found.half_widths, strict=True)
    ]
    if not followed:
        return sketched
    return sorted([*followed, *sketched], key=lambda each: -float(each.count))[:top]


def key_frequency(snapshot: Snapshot, kept: KeptSynopsis, key: int, confidence: float) -> Estimate:
    """Return how often one key occurs."""
    assert isinstance(kept.spec, HashSketchSpec)
    counters = snapshot.counters[kept.id]
    candidates, _ = candidate_keys(kept, snapshot.hints[kept.id], kept.spec, counters)
    found = frequencies(
        kept.spec, counters, np.array([key], dtype=np.int64).view(np.uint64), candidates, confidence
    )
    return _count(float(found.values[0]), float(found.half_widths[0]), confidence)


def _count(value: float, half: float, confidence: float) -> Estimate:
    middle, low, high = (max(round(end), 0) for end in (value, value - half, value + half))
    return Estimate("frequency", middle, low, high, confidence, "skimmed")


# Frequencies from a stream sample: the net counts of followed values are exact.


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
        held = zip(parts, state.dictionaries, strict=True)
        for elements, dictionary in sorted(
            held, key=lambda each: each[0].explored
        ):  # planned queries' rates first
            if elements.stream == stream and _holds(elements, key, predicates, grouped=state.grouped):
                position = elements.keys.index(key)
                values, counts = _counted(elements, dictionary, position, predicates)
                link = dictionary.spec.classes[position]
                return FollowedKeys(key, values, counts, state.rosters[link] if link >= 0 else None)
    return None


def _holds(elements: Elements, key: Key, predicates: tuple[str, ...], *, grouped: bool) -> bool:
    """Return whether a dictionary holds all rows of the followed values of a key: no other link reduces them."""
    alone = not elements.apart and elements.links == frozenset((key,)) if grouped else True
    alone = alone and key in elements.keys
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
