"""The origin of a state that was read from a store, told with each of its answers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness
from eddyline.answer.groups.table import Groups
from eddyline.plan.layout import Layout, PlannedQuery


@dataclass(frozen=True)
class Since:
    """Where a synopsis that was added to a running store began: rows of its stream before are not in it."""

    epoch: int
    rows: int


@dataclass(frozen=True)
class Origin:
    """How fresh the store was, and what counts only part of its stream: synopses by id, samples by id/stream."""

    freshness: Freshness
    since: Mapping[str, Since] = field(default_factory=dict)

    def told(
        self, estimate: Estimate | Groups, planned: PlannedQuery, layout: Layout, *, is_windowed: bool = False
    ) -> Estimate | Groups:
        """Return an answer with its freshness, and notes on rows that what it was read from does not hold."""
        freshness = self.freshness.of(set(planned.streams), time.time())
        told = {notes.no_row(each.stream) for each in freshness.streams if each.batch is None}
        about = [
            *(note for note in estimate.notes if note not in told),
            *freshness.notes(is_windowed=is_windowed),
        ]
        read = {name: layout.by_id[name].stream for name in planned.ids}
        read |= {f"{planned.sample}/{stream}": stream for stream in planned.streams}
        since = {stream: self.since[name] for name, stream in read.items() if name in self.since}
        for stream, each in since.items():
            about.append(notes.counted_since(stream, each.epoch, each.rows))
        answer = replace(estimate, notes=tuple(about), freshness=freshness)
        return _only_since(answer, max(each.epoch for each in since.values())) if since else answer


def _only_since(answer: Estimate | Groups, epoch: int) -> Estimate | Groups:
    """Return an answer that lacks earlier rows: no number is exact, and its method says since when it counts."""
    method = f"{answer.method} since epoch {epoch}"
    if isinstance(answer, Estimate):
        return replace(answer, method=method, exact=False)
    return replace(answer.inexact(), method=method)
