"""Frequent keys of a stream, a by-product of its join sketches: point frequencies and heavy hitters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.answer.estimate import Estimate
from eddyline.answer.joins.quantities import candidate_keys
from eddyline.answer.lookups.frequency import frequencies, frequent
from eddyline.answer.lookups.key_values import value_of
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import KeptSynopsis
from eddyline.plan.show.explain import describe
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sql.query import Key


@dataclass(frozen=True)
class FrequentKey:
    """A key and how often it occurs; `value` is the SQL value where the key holds it, else None."""

    key: int
    value: Any
    count: Estimate


def find_sketch(snapshot: Snapshot, stream: str, key: Key, predicates: tuple[str, ...]) -> KeptSynopsis:
    """Return the unweighted sketch on these columns, or raise PlanError with what there is."""
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
            if kept.demand.keys == (key,) and kept.demand.predicates == predicates:
                return kept
            offered.append(describe(kept.demand))
    raise PlanError(
        f"no sketch of stream {stream!r} is kept on {key}"
        f"{' where ' + ' and '.join(predicates) if predicates else ''}: kept are {'; '.join(offered) or 'none'}. Ask a "
        "query that joins on these columns, for example with itself."
    )


def frequent_keys(
    snapshot: Snapshot, kept: KeptSynopsis, top: int | None, threshold: float | None, confidence: float
) -> list[FrequentKey]:
    """Return the heavy hitters of a kept sketch, the most frequent first."""
    assert isinstance(kept.spec, HashSketchSpec)
    counters = snapshot.counters[kept.id]
    candidates, _ = candidate_keys(kept, snapshot.hints[kept.id], kept.spec, counters)
    rows = snapshot.tallies[kept.stream].rows
    found = frequent(
        kept.spec, counters, candidates, threshold=threshold, top=top, confidence=confidence, compared=rows
    )
    return [
        FrequentKey(
            int(key), value_of(kept.demand.keys[0], int(key)), _count(float(value), float(half), confidence)
        )
        for key, value, half in zip(found.keys.view(np.int64), found.values, found.half_widths, strict=True)
    ]


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
