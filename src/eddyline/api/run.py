"""A continuous run: how it starts, one commit to the store per micro-batch, answers at any time."""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from eddyline.answer import notes
from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness
from eddyline.answer.groups.table import Groups
from eddyline.answer.input_check import check_stream, note_on_deletes
from eddyline.api.durable import BATCH_QUERY, BATCH_RUN, fresh_sections, from_epoch, origin_of, stamp
from eddyline.api.state import State
from eddyline.errors import ChangeError, EddylineError, PipelineError
from eddyline.ingest.sections import to_sections
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Layout
from eddyline.store import (
    Batch,
    Epoch,
    Options,
    Reader,
    Sections,
    SourcePosition,
    Store,
    check_folder,
    last_to_keep,
    parse_retention,
    without_secrets,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

    from eddyline.spark.checkpoint import AwaitedFrame, Checkpoint
    from eddyline.spark.stream import StreamFeed


# A micro-batch is sketched as a whole and then committed under (stream, query id, batch id), with counters
# and position in one epoch. Spark delivers it again after a crash; the store knows it, and it counts once.


OnBad = Literal["fail", "skip", "dead-letter"]
OnUnseenDelete = Literal["note", "fail"]
TRACK = 1_000
"""The number of latest answers of each query that a run keeps for its plot."""


@dataclass(frozen=True)
class StreamProgress:
    """How one stream of a run is doing; `status` is Spark's, or "taken" for a batch frame.

    way: how the rows of the last batch were read, "directly from Parquet files" or "through the JVM" and why.
    notes: what the input check found notable in its rows. behind, retained: of a PostgreSQL table, bytes of the
    server's log that were not read yet, and bytes that the server keeps for the stream's slot. warning: what to do
    about them.
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
        self._answered: dict[str, deque[Estimate]] = {}
        self._ended = False

    def feed(
        self, name: str, frame: "DataFrame | AwaitedFrame", checkpoint: "Checkpoint", trigger: str | None
    ) -> None:
        """Start the query of a stream."""
        from eddyline.spark.stream import StreamFeed  # noqa: PLC0415 - Spark only where it is used

        feed = StreamFeed(name, self.take_batch, checkpoint)
        feed.start(frame, trigger)
        self._feeds[name] = feed

    def take_once(self, name: str, frame: "DataFrame") -> None:
        """Read a batch frame, unless the store already has it."""
        self.take_batch(name, BATCH_QUERY, 0, frame, Batch())

    def take_batch(self, stream: str, query_id: str, batch_id: int, frame: "DataFrame", batch: Batch) -> None:
        """Sketch one batch and commit it, unless the store already has it."""
        from eddyline.spark.batch import sketch_stream  # noqa: PLC0415 - Spark only where it is used
        from eddyline.spark.stream import write_dead_letters  # noqa: PLC0415

        def change(epoch: Epoch) -> dict[str, bytes]:
            after = self._snapshot(epoch).plus_stream(stream, added)
            note = note_on_deletes(after, stream) if self._on_unseen_delete == "fail" else None
            if note is not None:
                raise ChangeError(f"batch {batch_id} of stream {stream} is not applied: {note}")
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
            self._answered.setdefault(query, deque(maxlen=TRACK)).append(estimate)
        if error is None:
            return estimate
        return replace(estimate, notes=(*estimate.notes, notes.failed_run(error)))

    def sql(self, text: str, **settings: Any) -> pa.Table:
        """Return the result of any SQL around aggregates, from the last commit, as `State.sql` does."""
        return self.state().sql(text, **settings)

    def plot(self, query: str | None = None, *, aggregate: str | None = None, top: int = 20) -> "Figure":
        """Return a matplotlib figure of the last commit, as `State.plot` does: `pip install "eddyline[plot]"`.

        For a planned query without groups it shows how its answers changed: every result of `answer` so far, and
        that of this call. Only queries that were asked are recorded.
        """
        if query is None or isinstance(self.answer(query), Groups) or query not in self._answered:
            return self.state().plot(query, aggregate=aggregate, top=top)
        from eddyline.api.plots import plot_track  # noqa: PLC0415 - matplotlib only where it is used

        return plot_track(tuple(self._answered[query]))

    def progress(self) -> dict[str, StreamProgress]:
        """Return how each stream is doing."""
        now, snapshot = time.time(), self._snapshot(self._store.current)
        progress = {}
        for fresh in self.freshness.streams:
            feed = self._feeds.get(fresh.stream)
            error = feed.error() if feed is not None else None
            progress[fresh.stream] = StreamProgress(
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
        return progress

    def waiting(self) -> dict[str, str]:
        """Return what each stream without a file waits for."""
        return {name: feed.waits for name, feed in self._feeds.items() if feed.waits is not None}

    @property
    def repeats(self) -> int:
        """Batches that were delivered again and ignored."""
        return self._store.repeats

    @property
    def active(self) -> bool:
        """Whether any stream still runs."""
        return any(feed.active for feed in self._feeds.values())

    def error(self) -> EddylineError | None:
        """Return why a stream stopped, None if all run or ended well."""
        return next((e for e in (feed.error() for feed in self._feeds.values()) if e is not None), None)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Return whether all streams ended within `timeout` seconds; if one fails, stop all and raise its error."""
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
        """Finish the batches that have started, end all streams and release the store."""
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


# Starting a run: the store is opened, created or changed, and every stream gets its query.


CHECKPOINTS = "checkpoints"
PositionCheck = Callable[[Mapping[str, SourcePosition]], None]


@dataclass(frozen=True)
class StartOptions:
    """How to run.

    adopt: take over a store whose streams another checkpoint fed. change_plan: of a store that another plan made,
    keep what is unchanged. refresh: streams that start again, their checkpoints removed. copied: streams whose
    source begins with a copy of all its rows, so that adopting them would count rows twice. rebuilt: of a new store
    that is to replace another one, as in `store.layout.Commit`.
    """

    trigger: str | None = None
    checkpoint: str | None = None
    adopt: bool = False
    on_bad: OnBad = "fail"
    dead_letter: str | None = None
    change_plan: bool = False
    refresh: Collection[str] = ()
    copied: Collection[str] = ()
    keep: int | str = 3
    break_lock: bool = False
    on_unseen_delete: OnUnseenDelete = "note"
    rebuilt: int = 0

    def __post_init__(self) -> None:
        parse_retention(self.keep)
        if self.on_bad not in ("fail", "skip", "dead-letter"):
            raise PipelineError(f"on_bad={self.on_bad!r} is not fail, skip or dead-letter.")
        if self.on_unseen_delete not in ("note", "fail"):
            raise PipelineError(f"on_unseen_delete={self.on_unseen_delete!r} is neither note nor fail.")
        if (self.on_bad == "dead-letter") != (self.dead_letter is not None):
            raise PipelineError(
                'on_bad="dead-letter" and dead_letter=, the path to write bad rows to, go together.'
            )


def start_run(
    spark: "SparkSession",
    layout: Layout,
    frames: "Mapping[str, DataFrame | AwaitedFrame]",
    where: str,
    settings: StartOptions,
) -> Run:
    """Return the run of a layout on one frame per stream, with its queries started and batch frames read."""
    from eddyline.spark.checkpoint import open_checkpoint, stream_folder  # noqa: PLC0415
    from eddyline.spark.stream import check_session  # noqa: PLC0415 - Spark only where it is used

    _check_frames(layout, frames)
    check_session(spark)
    followed = [name for name, frame in frames.items() if frame.isStreaming]
    at = checkpoint_locations(where, settings, followed)
    checkpoints = {name: open_checkpoint(spark, location) for name, location in at.items()}
    folders = {name: stream_folder(frames[name]) for name in followed}
    store = open_store(layout, where, settings, checkpoints, folders)
    run = Run(spark, layout, store, settings.on_bad, settings.dead_letter, settings.on_unseen_delete)
    try:
        for name in sorted(frames.keys() - checkpoints.keys()):
            run.take_once(name, frames[name])  # type: ignore[arg-type]  # an awaited frame is streaming
        for name, checkpoint in checkpoints.items():
            run.feed(name, frames[name], checkpoint, settings.trigger)
    except BaseException:
        run.stop()
        raise
    return run


def open_store(
    layout: Layout,
    where: str,
    settings: StartOptions,
    checkpoints: "Mapping[str, Checkpoint] | None" = None,
    folders: Mapping[str, str] | None = None,
) -> Store:
    """Return the store of a run, open for writing: a new one, or the existing one if it fits.

    checkpoints: those of the streams that the run follows, which are moved to the store's position; folders: where
    their files are. Nothing is written if one of them does not fit.
    """
    followed, again, back = checkpoints or {}, set(settings.refresh), dict[str, int]()
    adopt = settings.adopt

    def check(positions: Mapping[str, SourcePosition]) -> None:
        for name, checkpoint in followed.items():
            if name not in again:
                checkpoint.drop_torn()
                check_folder(positions.get(name), name, (folders or {}).get(name, ""), adopt=adopt)
                may_adopt = adopt and name not in settings.copied
                last = last_to_keep(positions.get(name), name, checkpoint, adopt=may_adopt)
                back.update({} if last is None else {name: last})

    if Store.exists(where):
        sources = Reader(where).latest().commit.sources
        again |= {name for name, position in sources.items() if position.again}
    store = _opened(layout, where, replace(settings, refresh=tuple(sorted(again))), check)
    try:
        for name, checkpoint in followed.items():
            if name in again:
                checkpoint.clear()
            elif name in back:
                checkpoint.rewind(back[name])
    except BaseException:
        store.close()
        raise
    return store


def _opened(layout: Layout, where: str, settings: StartOptions, check: PositionCheck) -> Store:
    """Return the store, created, opened or changed as settings say, after a check of its streams' positions."""
    run_id = f"run-{secrets.token_hex(4)}"
    options = Options(keep=settings.keep, adopt=settings.adopt, break_lock=settings.break_lock)
    if not Store.exists(where):
        check({})
        return Store.create(
            where,
            stamp(layout),
            run_id,
            to_sections(Snapshot.empty(layout)),
            rebuilt=settings.rebuilt,
            options=options,
        )
    if Reader(where).latest().commit.run_id == BATCH_RUN:
        return _emptied(layout, where, run_id, check, options)
    if not settings.change_plan and not settings.refresh:
        return Store.open(where, stamp(layout), run_id, check=check, options=options)
    if not settings.change_plan:
        Store.open(where, stamp(layout), run_id, options=options).close()  # refuses another plan

    def fresh(epoch: Epoch) -> Sections:
        return fresh_sections(epoch, layout, settings.refresh)

    return Store.replace_plan(
        where, stamp(layout), run_id, fresh, forget=settings.refresh, check=check, options=options
    )


def check_store(layout: Layout, where: str, settings: StartOptions) -> None:
    """Raise what `open_store`, and `start_run` for its checkpoints, would raise, without starting anything."""
    folder = checkpoint_folder(where, settings.checkpoint)
    if settings.checkpoint is not None and "://" not in folder:
        Reader(folder).check_writable()
    if not Store.exists(where):
        Reader(where).check_writable()
        return
    found = Reader(where).latest().commit
    may_differ = settings.change_plan or found.run_id == BATCH_RUN
    options = Options(break_lock=settings.break_lock)
    Store.open(where, found.plan if may_differ else stamp(layout), "check", options=options).close()


def _emptied(
    layout: Layout,
    where: str,
    run_id: str,
    check: PositionCheck,
    options: Options,
) -> Store:
    """Return the store of one pass over the sources, emptied: a run reads the same rows again, from the start."""
    streams = Reader(where).latest().commit.sources
    empty = to_sections(Snapshot.empty(layout))
    return Store.replace_plan(
        where, stamp(layout), run_id, empty, forget=list(streams), check=check, options=options
    )


def _check_frames(layout: Layout, frames: "Mapping[str, DataFrame | AwaitedFrame]") -> None:
    names = {stream.name for stream in layout.streams}
    if names != set(frames):
        raise PipelineError(
            f"the plan has the streams {', '.join(sorted(names))} and frames were given for "
            f"{', '.join(sorted(frames)) or 'none'}: give exactly one frame per stream."
        )


def checkpoint_locations(where: str, settings: StartOptions, streams: Collection[str]) -> dict[str, str]:
    """Return where Spark keeps the checkpoints of streams: `r`, and `r@2` after the state was rebuilt twice."""
    at = checkpoint_folder(where, settings.checkpoint)
    rebuilt = Reader(where).latest().commit.rebuilt if Store.exists(where) else settings.rebuilt
    return {name: checkpoint_location(at, name, rebuilt) for name in streams}


def checkpoint_location(folder: str, stream: str, rebuilt: int) -> str:
    """Return where the checkpoint of a stream is: no name of a stream contains an @."""
    return f"{folder}/{stream}@{rebuilt}" if rebuilt else f"{folder}/{stream}"


def checkpoint_folder(where: str, checkpoint: str | None) -> str:
    """Return the folder of all checkpoints of a run: as given, or in the store if that is on a local disk."""
    if checkpoint is not None:
        return checkpoint.rstrip("/")
    if "://" in where and not where.startswith("file://"):
        raise PipelineError(
            f"the store {without_secrets(where)} is not on a local disk: say where Spark keeps its checkpoints, by "
            "checkpoint in [run] of the pipeline file, or checkpoint= of plan.start."
        )
    return str(Path(where.removeprefix("file://")).resolve() / CHECKPOINTS)
