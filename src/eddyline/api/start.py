"""Starting a run: the store is opened, created or changed, and every stream gets its query."""

import secrets
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eddyline.api.durable import BATCH_RUN, fresh_sections, stamp
from eddyline.api.run import OnBad, OnUnseenDelete, Run
from eddyline.errors import PipelineError
from eddyline.ingest.sections import to_sections
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Layout
from eddyline.store import Epoch, Options, Reader, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eddyline.spark.awaited import AwaitedFrame

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class StartOptions:
    """How to run.

    adopt: take over a store whose streams another checkpoint fed. change_plan: keep what is unchanged of a
    store that another plan made. refresh: streams that start over, their checkpoints removed.
    """

    trigger: str | None = None
    checkpoint: str | None = None
    adopt: bool = False
    on_bad: OnBad = "fail"
    dead_letter: str | None = None
    change_plan: bool = False
    refresh: Collection[str] = ()
    keep: int = 3
    break_lock: bool = False
    on_unseen_delete: OnUnseenDelete = "note"

    def __post_init__(self) -> None:
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
    """Return the run of a layout on one frame per stream, its queries started and batch frames taken."""
    from eddyline.spark.stream import check_session  # noqa: PLC0415 - Spark only where it is used

    _check_frames(layout, frames)
    check_session(spark)
    folder = _checkpoint_folder(where, settings.checkpoint)
    store = open_store(layout, where, settings)
    _forget_checkpoints(folder, settings.refresh)
    run = Run(spark, layout, store, settings.on_bad, settings.dead_letter, settings.on_unseen_delete)
    try:
        for name in sorted(frames, key=lambda name: frames[name].isStreaming):
            run.feed(name, frames[name], f"{folder}/{name}", settings.trigger)
    except BaseException:
        run.stop()
        raise
    return run


def open_store(layout: Layout, where: str, settings: StartOptions) -> Store:
    """Return the store of a run, open for writing: a new one, or the one that is there if it fits."""
    run_id = f"run-{secrets.token_hex(4)}"
    options = Options(keep=settings.keep, adopt=settings.adopt, break_lock=settings.break_lock)
    if not Store.exists(where):
        return Store.create(
            where, stamp(layout), run_id, to_sections(Snapshot.empty(layout)), options=options
        )
    if Reader(where).latest().commit.run_id == BATCH_RUN:
        return _anew(layout, where, run_id, options)
    if not settings.change_plan and not settings.refresh:
        return Store.open(where, stamp(layout), run_id, options=options)
    if not settings.change_plan:
        Store.open(where, stamp(layout), run_id, options=options).close()  # refuses another plan

    def fresh(epoch: Epoch) -> dict[str, bytes]:
        return fresh_sections(epoch, layout, settings.refresh)

    return Store.replace_plan(where, stamp(layout), run_id, fresh, forget=settings.refresh, options=options)


def check_store(layout: Layout, where: str, settings: StartOptions) -> None:
    """Raise what `open_store` would raise, and `start_run` of its checkpoints, with nothing begun."""
    folder = _checkpoint_folder(where, settings.checkpoint)
    if settings.checkpoint is not None and "://" not in folder:
        Reader(folder).check_writable()
    if not Store.exists(where):
        Reader(where).check_writable()
        return
    found = Reader(where).latest().commit
    may_differ = settings.change_plan or found.run_id == BATCH_RUN
    options = Options(break_lock=settings.break_lock)
    Store.open(where, found.plan if may_differ else stamp(layout), "check", options=options).close()


def _anew(layout: Layout, where: str, run_id: str, options: Options) -> Store:
    """Return the store of one pass over the sources, emptied: a run reads the same rows again, from their first on."""
    streams = Reader(where).latest().commit.sources
    empty = to_sections(Snapshot.empty(layout))
    return Store.replace_plan(where, stamp(layout), run_id, empty, forget=list(streams), options=options)


def _check_frames(layout: Layout, frames: "Mapping[str, DataFrame | AwaitedFrame]") -> None:
    names = {stream.name for stream in layout.streams}
    if names != set(frames):
        raise PipelineError(
            f"the plan has the streams {', '.join(sorted(names))} and frames were given for "
            f"{', '.join(sorted(frames)) or 'none'}: give exactly one frame per stream."
        )


def _checkpoint_folder(where: str, checkpoint: str | None) -> str:
    if checkpoint is not None:
        return checkpoint.rstrip("/")
    if "://" in where and not where.startswith("file://"):
        raise PipelineError(
            f"the store {where} is not on a local disk: say where Spark keeps its checkpoints, by checkpoint in [run] "
            "of the pipeline file, or checkpoint= of plan.start."
        )
    return str(Path(where.removeprefix("file://")).resolve() / CHECKPOINTS)


def _forget_checkpoints(folder: str, streams: Collection[str]) -> None:
    if streams and "://" in folder:
        raise PipelineError(
            f"the checkpoints in {folder} cannot be removed from here: remove those of {', '.join(streams)}."
        )
    for name in streams:
        shutil.rmtree(Path(folder) / name, ignore_errors=True)
