"""A pass over one stream: the counters of all its synopses, and those of the panes that its rows fall into."""

import numpy as np
import pyarrow as pa

from eddyline.ingest.accumulator import Accumulator
from eddyline.ingest.projection import TIME, Projection, project
from eddyline.ingest.stream_spec import PaneSpec, StreamSpec
from eddyline.sketch.keys import validity


def projection_of(spec: StreamSpec, event_time: str | None) -> Projection:
    """Return the projection that a pass reads; the event time only where a window needs it."""
    kept = [*spec.kept, *(each for pane in spec.panes for each in pane.kept)]
    tasks = [*spec.samples, *(task for pane in spec.panes for task in pane.samples)]
    elements = [each for task in tasks for each in task.sample.exact if each.stream == task.stream]
    sketches = [each for task in tasks for each in task.sketches]
    return project([*kept, *sketches], elements, event_time if spec.panes else None)


class StreamPass:
    """What batches of one stream add; `late` rows came before the floor, or without a time, for every window."""

    def __init__(self, spec: StreamSpec, event_time: str | None = None) -> None:
        self.spec = spec
        self.projection = projection_of(spec, event_time)
        self.whole = Accumulator(spec.kept, self.projection, spec.samples)
        self.panes: dict[tuple[str, int], Accumulator] = {}
        self.newest: dict[str, int] = {}
        self.late = 0
        self.bad = 0

    @property
    def rows(self) -> int:
        """Rows that went by."""
        return self.whole.rows

    @property
    def deletes(self) -> int:
        """Rows among them that took rows away."""
        return self.whole.deletes

    def feed(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add one projected batch."""
        self.whole.feed(batch)
        if not self.spec.panes or batch.num_rows == 0:
            return
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        column = table.column(TIME).combine_chunks()
        dated = validity(column)
        times = column.fill_null(0).to_numpy(zero_copy_only=False)
        late = ~dated if self.spec.floor is None else ~dated | (times < self.spec.floor)
        self.late += int(np.count_nonzero(late))
        for pane in self.spec.panes:
            self._feed_panes(pane, table, times, dated)

    def _feed_panes(self, spec: PaneSpec, table: pa.Table, times: np.ndarray, dated: np.ndarray) -> None:
        if not dated.any():
            return
        numbers = times // spec.window.slide
        newest = max(int(numbers[dated].max()), self.newest.get(spec.group, -(1 << 62)))
        self.newest[spec.group] = newest
        kept = dated & (numbers >= newest - spec.window.panes)
        for number in np.unique(numbers[kept]).tolist():
            rows = table.filter(pa.array(kept & (numbers == number)))
            self.pane(spec, number).feed(rows)
        self.drop_old(spec)

    def pane(self, spec: PaneSpec, number: int) -> Accumulator:
        """Return the accumulator of a pane, a new one where there is none."""
        key = (spec.group, number)
        if key not in self.panes:
            self.panes[key] = Accumulator(spec.kept, self.projection, spec.samples)
        return self.panes[key]

    def drop_old(self, spec: PaneSpec) -> None:
        """Forget the panes that no window reaches any more."""
        oldest = self.newest[spec.group] - spec.window.panes
        for group, number in list(self.panes):
            if group == spec.group and number < oldest:
                del self.panes[group, number]
