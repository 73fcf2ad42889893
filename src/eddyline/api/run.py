"""A continuous run: streams in, one commit to the store per micro-batch, answers at any time.

A micro-batch is sketched as a whole and then committed under (stream, query id, batch id), counters and
position in one epoch. Spark delivers it again after a crash; the store knows it, and it counts once.
"""

import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness
from eddyline.answer.groups.table import Groups
from eddyline.answer.input_check import check_stream
from eddyline.answer.unseen_deletes import unseen_deletes
from eddyline.api.durable import BATCH_QUERY, from_epoch, origin_of
from eddyline.api.state import State
from eddyline.errors import ChangeError, EddylineError
from eddyline.ingest.sections import to_sections
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Layout
from eddyline.store import Batch, Epoch, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

    from eddyline.spark.awaited import AwaitedFrame
    from eddyline.spark.checkpoint import Checkpoint
    from eddyline.spark.stream import StreamFeed

OnBad = Literal["fail", "skip", "dead-letter"]
OnUnseenDelete = Literal["note", "fail"]
TRACK = 1_000
"""Answers of each query that a run remembers for its plot, the last ones."""


@dataclass(frozen=True)
class StreamProgress:
    """How one stream of a run is doing; `status` is Spark's, or "taken" for a batch frame.

    way: how the rows of the last batch came, "directly from Parquet files" or "through the JVM" and why. notes: what
    the input check found striking about its rows.
    behind, retained: of a PostgreSQL table, bytes of the server's log that were not taken yet, and that the server
    keeps for the stream's slot. warning: what to do about them.
    """

    stream: str
    status: str
    rows: int
    deletes: int
    bad: int
    late: int
    batch: int | None
    last_batch_time: float | None
    lag: float | None
    rows_per_second: float | None = None
    error: str | None = None
    way: str | None = None
    notes: tuple[str, ...] = ()
    behind: int | None = None
    retained: int | None = None
    warning: str | None = None


class Run:
    """Streams that keep a store current; made by `Plan.start`. As a context manager it stops at the end."""

    def __init__(
        self,
        spark: "SparkSession",
        layout: Layout,
        store: Store,
        on_bad: OnBad,
        dead_letter: str | None,
        on_unseen_delete: OnUnseenDelete = "note",
    ) -> None:
        self._spark = spark
        self._layout = layout
        self._store = store
        self._on_bad = on_bad
        self._dead_letter = dead_letter
        self._on_unseen_delete = on_unseen_delete
        self._feeds: dict[str, StreamFeed] = {}
        self._ways: dict[str, str] = {}
        self._turn = threading.Lock()
        self._read: tuple[int, Snapshot] | None = None
        self._told: dict[str, deque[Estimate]] = {}
        self._ended = False

    def feed(
        self, name: str, frame: "DataFrame | AwaitedFrame", checkpoint: "Checkpoint", trigger: str | None
    ) -> None:
        """Start the query of a stream."""
        from eddyline.spark.stream import StreamFeed  # noqa: PLC0415 - Spark only where it is used

        feed = StreamFeed(name, self._take, checkpoint)
        feed.start(frame, trigger)
        self._feeds[name] = feed

    def take_once(self, name: str, frame: "DataFrame") -> None:
        """Take a batch frame, unless the store has it."""
        self._take(name, BATCH_QUERY, 0, frame, Batch())

    def _take(self, stream: str, query_id: str, batch_id: int, frame: "DataFrame", batch: Batch) -> None:
        """Sketch one batch and commit it, unless the store has it."""
        from eddyline.spark.batch import sketch_stream  # noqa: PLC0415 - Spark only where it is used
        from eddyline.spark.dead_letters import write_dead_letters  # noqa: PLC0415

        def change(epoch: Epoch) -> dict[str, bytes]:
            after = self._snapshot(epoch).plus_stream(stream, added)
            note = unseen_deletes(after, stream) if self._on_unseen_delete == "fail" else None
            if note is not None:
                raise ChangeError(f"batch {batch_id} of stream {stream} is not taken: {note}")
            return to_sections(after)

        if self._store.seen(stream, query_id, batch_id, batch):
            self._store.commit(stream, query_id, batch_id, {}, batch=batch)  # counts the repeat
            return
        skip = self._on_bad != "fail"
        current = self._snapshot(self._store.current)
        sketched = sketch_stream(self._spark, current, stream, frame, skip_bad=skip)
        added, self._ways[stream] = sketched.added, sketched.way
        if added.bad and self._dead_letter is not None:
            declared = self._layout.stream(stream)
            write_dead_letters(declared, frame, self._dead_letter, query_id, batch_id)
        self._store.commit(
            stream,
            query_id,
            batch_id,
            change,
            rows=added.rows,
            deletes=added.deletes,
            bad=added.bad,
            late=added.late,
            batch=batch,
        )

    def _snapshot(self, epoch: Epoch) -> Snapshot:
        """Return the snapshot of an epoch, read once."""
        with self._turn:
            if self._read is None or self._read[0] != epoch.number:
                self._read = (epoch.number, from_epoch(epoch))
            return self._read[1]

    def state(self) -> State:
        """Return the state of the last commit."""
        epoch = self._store.current
        return State(self._snapshot(epoch), origin_of(epoch, self._layout))

    @property
    def freshness(self) -> Freshness:
        """How far all streams had come at the last commit."""
        return origin_of(self._store.current, self._layout).freshness

    def answer(self, query: str, **settings: Any) -> Any:
        """Return the answer of a query from the last commit; `settings` are those of `State.answer`."""
        estimate, error = self.state().answer(query, **settings), self.error()
        if isinstance(estimate, Estimate) and not settings and query in self._layout.query_names:
            self._told.setdefault(query, deque(maxlen=TRACK)).append(estimate)
        if error is None:
            return estimate
        return replace(estimate, notes=(*estimate.notes, notes.failed_run(error)))

    def plot(self, query: str | None = None, *, aggregate: str | None = None, top: int = 20) -> "Figure":
        """Return a matplotlib figure of the last commit, as `State.plot` does: `pip install "eddyline[plot]"`.

        Of a planned query without groups it shows how its answers moved: what `answer` told of it so far, this
        call's among it. Nothing is recorded but what was asked.
        """
        if query is None or isinstance(self.answer(query), Groups) or query not in self._told:
            return self.state().plot(query, aggregate=aggregate, top=top)
        from eddyline.api.plots import plot_track  # noqa: PLC0415 - matplotlib only where it is used

        return plot_track(tuple(self._told[query]))

    def progress(self) -> dict[str, StreamProgress]:
        """Return how each stream is doing."""
        now, snapshot = time.time(), self._snapshot(self._store.current)
        told = {}
        for fresh in self.freshness.streams:
            feed = self._feeds.get(fresh.stream)
            error = feed.error() if feed is not None else None
            told[fresh.stream] = StreamProgress(
                fresh.stream,
                feed.status if feed is not None else "taken",
                fresh.rows,
                fresh.deletes,
                fresh.bad,
                fresh.late,
                fresh.batch,
                fresh.last_batch_time,
                None if fresh.last_batch_time is None else max(now - fresh.last_batch_time, 0.0),
                feed.rows_per_second if feed is not None else None,
                str(error) if error is not None else None,
                self._ways.get(fresh.stream),
                tuple(check_stream(snapshot, fresh.stream)),
                **(asdict(feed.log) if feed is not None else {}),
            )
        return told

    def waiting(self) -> dict[str, str]:
        """Return what streams wait for that have no file yet, by stream."""
        return {name: feed.waits for name, feed in self._feeds.items() if feed.waits is not None}

    @property
    def repeats(self) -> int:
        """Batches that came again and were ignored."""
        return self._store.repeats

    @property
    def active(self) -> bool:
        """Whether any stream still runs."""
        return any(feed.active for feed in self._feeds.values())

    def error(self) -> EddylineError | None:
        """Return why a stream stopped, None while all is well."""
        return next((e for e in (feed.error() for feed in self._feeds.values()) if e is not None), None)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Return whether all streams ended within so many seconds; if one fails, stop all and raise its error."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.error() is None and self.active:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            for feed in self._feeds.values():
                feed.await_end()
        error = self.error()
        if error is None and not self.waiting() and not self._ended:
            self._store.settle()  # all streams were read to their end
        self.stop()
        if error is not None:
            raise error
        return True

    def stop(self) -> None:
        """Let batches that were begun finish, end all streams and let the next writer in."""
        if not self._ended:
            self._ended = True
            for feed in self._feeds.values():
                feed.stop()
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Run({self._store.where}, epoch {self._store.current.number}, {len(self._feeds)} streams)"
