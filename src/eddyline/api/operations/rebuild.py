"""Rebuilding a state: the sources are read again into a second store, which then replaces the content of the first.

The first store answers meanwhile, and its run may continue. The second store is a folder in the first one, and its
streams have checkpoints of their own. It is marked as ready once it has the rows that the first one counted. Whoever
can take the first store's lock then swaps: the run that holds it, or the rebuild itself. The swap is one commit of the
first store, with state, positions and the number of the checkpoints, so a crash leaves the old state or the new one.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from eddyline.api.durable import BATCH_RUN
from eddyline.api.jobs import FORGETFUL, PreparedRun, begins_with_a_copy, checked_run, state_of
from eddyline.api.pipeline import POSTGRES, Pipeline, StreamSource
from eddyline.api.run import StartOptions, checkpoint_folder, checkpoint_location
from eddyline.errors import CorruptState, PipelineError
from eddyline.ingest.files import local_path
from eddyline.store import Epoch, Options, Reader, Store, without_secrets
from eddyline.store.filesystem import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READY = "READY"
"""The file of a second store that has caught up."""
_QUICK = 60.0
"""Seconds: a pass that took less leaves so few new rows behind that the run can read them after the swap. Chosen."""


def rebuild_folder(store: str, number: int) -> str:
    """Return where the second store of a rebuild is: a folder in the first one."""
    path, query, rest = store.partition("?") if "://" in store else (store, "", "")
    return f"{path.rstrip('/')}/rebuild-{number}{query}{rest}"


@dataclass
class Rebuild:
    """A rebuild whose checks passed. number: how often the store will have been rebuilt after it."""

    pipeline: Pipeline
    store: str
    number: int
    prepared: PreparedRun
    fewer_rows: bool = False

    @property
    def folder(self) -> str:
        """Where the second store is."""
        return rebuild_folder(self.store, self.number)

    @property
    def is_ready(self) -> bool:
        """Whether the second store has caught up, and waits for the swap."""
        return READY in Reader(self.folder).names()

    def clear_checkpoints(self, spark: "SparkSession") -> None:
        """Remove checkpoints of an earlier rebuild, and those of streams from which no batch was committed yet.

        A checkpoint of a batch that was planned and not committed may name files that were moved since.
        """
        from eddyline.spark.checkpoint import open_checkpoint  # noqa: PLC0415 - Spark only where it is used

        is_continued = Store.exists(self.folder)
        taken = Reader(self.folder).latest().commit.sources if is_continued else {}
        at = checkpoint_folder(self.store, self.pipeline.run.checkpoint)
        for number in (*(() if is_continued else range(self.number - 1)), self.number):
            for name in self.pipeline.streams.keys() - taken.keys():
                open_checkpoint(spark, checkpoint_location(at, name, number)).clear()

    @property
    def is_done(self) -> bool:
        """Whether the rebuilt state was swapped in."""
        return Reader(self.store).latest().commit.rebuilt >= self.number

    def read(self, spark: "SparkSession", stopped: Event) -> bool:
        """Read what the sources have now; return whether the second store has caught up, and mark it then.

        Raise PipelineError if the sources give fewer rows than the first store counted. stopped: set if it is to stop.
        """
        goal, before, start = counted(self.store), self._read(), time.monotonic()
        with self.prepared.start(spark) as running:
            while not running.await_termination(1.0):
                if stopped.is_set():
                    return False
        return self.note_pass(goal, before, time.monotonic() - start)

    def note_pass(self, goal: Mapping[str, int], before: Mapping[str, int], seconds: float) -> bool:
        """Return whether the second store has caught up after a pass, and mark it then."""
        after = self._read()
        lacking = [] if self.fewer_rows else [n for n in self._compared() if after.get(n, 0) < goal.get(n, 0)]
        if after != before and (lacking or seconds > _QUICK):
            return False
        if lacking:
            name = lacking[0]
            raise PipelineError(
                f"stream {name!r}: the source gave {after.get(name, 0):,} rows, and the store counted {goal[name]:,}: "
                "it no longer has all of them. Nothing was swapped. `eddyline rebuild --fewer-rows` swaps all the same."
            )
        Reader(self.folder).files.replace(READY, b"")
        return True

    def _read(self) -> dict[str, int]:
        return counted(self.folder) if Store.exists(self.folder) else {}

    def _compared(self) -> list[str]:
        """Return the streams whose rows must not get fewer; a source that begins with a copy has only its rows."""
        return [name for name, source in self.pipeline.streams.items() if not begins_with_a_copy(source)]


def counted(store: str) -> dict[str, int]:
    """Return how many rows of each stream a store has read, bad ones included."""
    sources = Reader(store).latest().commit.sources
    return {name: at.rows + at.bad for name, at in sources.items()}


def prepare_rebuild(pipeline: Pipeline, *, fewer_rows: bool = False) -> Rebuild:
    """Return the rebuild of a pipeline's store, new or continued, or raise why it cannot start."""
    store = pipeline.workload.store
    if store is None or not Store.exists(store):
        raise PipelineError(
            "there is no store to rebuild: `eddyline run` builds one, named by store in [workload]."
        )
    commit = Reader(store).latest().commit
    if commit.run_id == BATCH_RUN:
        raise PipelineError(
            f"the store {without_secrets(store)} was made by one pass: `eddyline ask --refresh` reads the sources "
            "again."
        )
    for name, source in pipeline.streams.items():
        if source.format == POSTGRES:
            raise PipelineError(
                f"stream {name!r} cannot be rebuilt: a second reader of its table would take changes of the "
                "replication slot away from the run. `eddyline run --full-refresh QUERY` copies the table again; the "
                "old answers stay until its first batch is committed."
            )
        if source.format in FORGETFUL:
            raise PipelineError(
                f"stream {name!r} cannot be rebuilt: a source of format {source.format!r} does not give its rows a "
                "second time."
            )
    _discard(rebuild_folder(store, commit.rebuilt))  # a swap was killed before it did
    number = commit.rebuilt + 1
    folder, plan, run = rebuild_folder(store, number), pipeline.plan(), pipeline.run
    if Store.exists(folder) and not _may_continue(folder, plan.layout.digest, pipeline):
        _discard(folder)
    settings = StartOptions(
        trigger="available now",
        checkpoint=checkpoint_folder(store, run.checkpoint),
        on_bad="fail" if run.on_bad == "fail" else "skip",  # dead letters were written by the first pass
        on_unseen_delete=run.on_unseen_delete,
        rebuilt=number,
    )
    return Rebuild(pipeline, store, number, checked_run(pipeline, plan, folder, settings), fewer_rows)


def _may_continue(folder: str, digest: str, pipeline: Pipeline) -> bool:
    """Return whether a second store can be read, and was begun for this plan and from the files where they are now."""
    try:
        commit = Reader(folder).latest().commit
    except CorruptState:
        return False
    return commit.plan.hash == digest and not any(
        _has_moved(at.folder, pipeline.streams[name]) for name, at in commit.sources.items()
    )


def _has_moved(folder: str, source: StreamSource) -> bool:
    """Return whether the files of a stream were read from another local folder than the one that is named now."""
    where = local_path(source.format, source.path)
    return where is not None and folder.startswith("/") and Path(folder).resolve() != where.resolve()


def ready_epoch(pipeline: Pipeline) -> Epoch | None:
    """Return the state that waits to replace that of the pipeline's store, None if there is none.

    A state that was rebuilt for another version of the pipeline file is not swapped in.
    """
    store = pipeline.workload.store
    if store is None:
        return None
    folder = rebuild_folder(store, Reader(store).latest().commit.rebuilt + 1)
    if READY not in Reader(folder).names():
        return None
    epoch = Reader(folder).latest()
    wanted = pipeline.plan(keep=state_of(epoch)).layout.digest
    return epoch if epoch.commit.plan.hash == wanted else None


def swap(pipeline: Pipeline, epoch: Epoch) -> None:
    """Replace the state of the pipeline's store by a rebuilt one; raise Locked while another process writes it."""
    store = str(pipeline.workload.store)
    Store.swap(store, epoch, "rebuild", options=Options(keep=pipeline.run.keep))
    _discard(rebuild_folder(store, epoch.commit.rebuilt))


def _discard(folder: str) -> None:
    """Remove a second store, READY first: a store that is partly removed must not look like one that is ready."""
    files = Reader(folder).files
    for name in sorted(files.names(), key=lambda name: name != READY):
        files.remove(name)
    if isinstance(files, LocalFiles):
        with contextlib.suppress(OSError):
            files.root.rmdir()
