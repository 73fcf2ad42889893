"""A pass over one stream: adds batches to everything that is kept of it, and to the panes of its rows."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.errors import PipelineError
from eddyline.ingest.changes import Tally, Watch
from eddyline.ingest.projection import (
    TIME,
    PaneSpec,
    Prepared,
    Projection,
    SampleTask,
    StreamSpec,
    lean_columns,
    prepare,
    project,
)
from eddyline.ingest.sample_pass import SamplePass
from eddyline.ingest.sketching import Sketches
from eddyline.plan.layout import KeptSynopsis
from eddyline.sketch.counters import TotalSpec
from eddyline.sketch.keys import validity


class Accumulator:
    """Counters, hints, elements and row counts of one stream while its batches are read."""

    def __init__(
        self, kept: Sequence[KeptSynopsis], projection: Projection, samples: Sequence[SampleTask] = ()
    ) -> None:
        self.projection = projection
        self.twins = lean_columns(projection).twins
        self.sketches = Sketches(kept)
        self.samples = {task.sample.id: SamplePass(task) for task in samples}
        self.rows = 0
        self.deletes = 0

    def feed(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add one projected batch."""
        if batch.num_rows == 0:
            return
        prepared = prepare(batch, self.projection, self.twins)
        self.feed_prepared(prepared)
        self.rows += batch.num_rows
        self.deletes += int(np.count_nonzero(prepared.weights < 0))

    def feed_prepared(self, prepared: Prepared) -> None:
        """Add one prepared batch to every synopsis and sample."""
        self.sketches.feed(prepared)
        for sample in self.samples.values():
            sample.feed(prepared)


# The pass: the counters of all synopses of a stream, and those of the panes that its rows fall into.


FIRST_TIME, LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The event times of a calendar with four-digit years, in microseconds since 1970: years 1 to 9999."""


def projection_of(spec: StreamSpec, event_time: str | None) -> Projection:
    """Return the projection that a pass reads; the event time only where a window needs it."""
    kept = [*spec.kept, *(each for pane in spec.panes for each in pane.kept)]
    tasks = [*spec.samples, *(task for pane in spec.panes for task in pane.samples)]
    elements = [each for task in tasks for each in task.sample.exact if each.stream == task.stream]
    sketches = [each for task in tasks for each in task.sketches]
    return project([*kept, *sketches], elements, event_time if spec.panes else None)


MILLISECONDS = (
    "If these are milliseconds since 1970 that were read as seconds, divide by 1,000 where the column is made: "
    "timestamp_millis(at) in Spark, a cast to timestamp('ms') in Arrow."
)


class StreamPass:
    """What batches of one stream add; `late` rows are before the floor of every window, or without a time."""

    def __init__(self, spec: StreamSpec, event_time: str | None = None) -> None:
        self.spec = spec
        self.projection = projection_of(spec, event_time)
        self.whole = Accumulator(spec.kept, self.projection, spec.samples)
        self.panes: dict[tuple[str, int], Accumulator] = {}
        self.newest: dict[str, int] = {}
        self.late = 0
        self.bad = 0
        self.watch = Watch(self.projection, self.whole.twins)
        self.earliest: int | None = None
        self.latest: int | None = None
        self.unread: tuple[str, ...] = ()
        self.similar: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows that were read."""
        return self.whole.rows

    @property
    def deletes(self) -> int:
        """The number of these rows that are deletes."""
        return self.whole.deletes

    @property
    def tally(self) -> Tally:
        """What the input check found in the rows that were read."""
        if not self.rows:
            return Tally()
        empty = tuple(sorted(self.watch.empty))
        timed = self.rows if self.spec.panes else 0
        return Tally(
            self.rows, self.deletes, empty, self.earliest, self.latest, self.unread, self.similar, timed
        )

    def count(self, tally: Tally) -> None:
        """Add what tasks counted of the rows that they read."""
        self.whole.rows, self.whole.deletes = tally.rows, tally.deletes
        self.watch.empty = set(tally.empty)
        self.earliest, self.latest = tally.earliest, tally.latest
        self.unread += tally.unread

    def feed(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add one projected batch."""
        self.whole.feed(batch)
        self.watch.look(batch)
        if not self.spec.panes or batch.num_rows == 0:
            return
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        column = table.column(TIME).combine_chunks()
        dated = validity(column)
        times = column.fill_null(0).to_numpy(zero_copy_only=False)
        late = ~dated if self.spec.floor is None else ~dated | (times < self.spec.floor)
        self.late += int(np.count_nonzero(late))
        if dated.any():
            self._see_times(times[dated])
        for pane in self.spec.panes:
            self._feed_panes(pane, table, times, dated)

    def _see_times(self, times: np.ndarray) -> None:
        """Record event times, or raise PipelineError where one is outside of the calendar."""
        first, last = int(times.min()), int(times.max())
        if first < FIRST_TIME or last > LAST_TIME:
            stream, off = self.spec.panes[0].kept[0].stream, first if first < FIRST_TIME else last
            raise PipelineError(
                f"stream {stream!r} has event times in the year {year_of(off)}, beyond what a calendar shows; nothing "
                f"was applied. {MILLISECONDS}"
            )
        self.earliest = min(first, first if self.earliest is None else self.earliest)
        self.latest = max(last, last if self.latest is None else self.latest)

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
        """Return the accumulator of a pane, created where it is missing."""
        key = (spec.group, number)
        if key not in self.panes:
            self.panes[key] = Accumulator(spec.kept, self.projection, spec.samples)
        return self.panes[key]

    def drop_old(self, spec: PaneSpec) -> None:
        """Drop the panes that no window reaches any longer."""
        oldest = self.newest[spec.group] - spec.window.panes
        for group, number in list(self.panes):
            if group == spec.group and number < oldest:
                del self.panes[group, number]


def year_of(time: int) -> int:
    """Return the approximate year of a time in microseconds since 1970."""
    return 1970 + time // 31_556_952_000_000


# Rows that need not be read, because it is known that no predicate is TRUE for them.


def counts_every_row(kept: KeptSynopsis) -> bool:
    """Return whether a synopsis counts all rows, whatever their values."""
    demand = kept.demand
    asks = demand.keys or demand.predicates or demand.presence or demand.measure is not None
    return isinstance(kept.spec, TotalSpec) and not asks


def deciding_predicates(spec: StreamSpec) -> list[tuple[str, ...]] | None:
    """Return the predicates of all synopses that do not count every row; None where some need all rows.

    A stream sample holds every row, whatever its flags, and panes depend on each row's time.
    """
    if spec.panes or spec.samples:
        return None
    predicates = [kept.demand.predicates for kept in spec.kept if not counts_every_row(kept)]
    return None if () in predicates else list(dict.fromkeys(predicates))


def pass_over(added: StreamPass, rows: int) -> None:
    """Count inserted rows for which none of the `deciding_predicates` is TRUE, without having seen them."""
    sketches, weights = added.whole.sketches, np.array([rows], dtype=np.int64)
    for kept in added.spec.kept:
        if counts_every_row(kept):
            sketches.add(kept, np.empty((0, 1), dtype=np.uint64), weights, weights)
    added.whole.rows += rows
    added.watch.empty.clear()  # the columns were not checked
