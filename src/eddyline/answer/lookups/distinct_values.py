"""Samples of a stream's distinct values, from the peeling tables that the workload asks for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.answer.lookups.key_values import holds_value, value_of
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import KeptSynopsis
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sql.query import Key


@dataclass(frozen=True)
class Sample:
    """A uniform sample of distinct values with their exact net counts.

    Every distinct value of the stream is in the sample with the chance `rate`, whatever its count; at rate 1
    the sample is everything. `keys` are 64-bit keys; `values` the values themselves where keys hold them, else
    None.
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
