"""The origin of a state that was read from a store, told with each of its answers."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness
from eddyline.plan.layout import Kept


@dataclass(frozen=True)
class Since:
    """Where a synopsis that was added to a running store began: rows of its stream before are not in it."""

    epoch: int
    rows: int


@dataclass(frozen=True)
class Origin:
    """How fresh the store was, and which synopses (by id) count only part of their stream."""

    freshness: Freshness
    since: Mapping[str, Since] = field(default_factory=dict)

    def told(self, estimate: Estimate, read: Sequence[Kept]) -> Estimate:
        """Return an estimate with its freshness, and notes on rows that the synopses read do not hold."""
        freshness = self.freshness.of({kept.stream for kept in read}, time.time())
        notes = [*estimate.notes, *freshness.notes()]
        for stream, since in {
            kept.stream: self.since[kept.id] for kept in read if kept.id in self.since
        }.items():
            notes.append(
                f"it counts stream {stream!r} only since epoch {since.epoch}, when the query was added: "
                f"{since.rows:,} earlier rows are not in it."
            )
        return replace(estimate, notes=tuple(notes), freshness=freshness)
