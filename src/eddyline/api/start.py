"""Starting a run: the store is opened, created or changed, and every stream gets its query."""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eddyline.api.durable import BATCH_RUN, fresh_sections, stamp
from eddyline.api.run import OnBad, OnUnseenDelete, Run
from eddyline.errors import PipelineError
from eddyline.ingest.sections import to_sections
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Layout
from eddyline.store import Epoch, Options, Reader, SourcePosition, Store, check_folder, last_to_keep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eddyline.spark.awaited import AwaitedFrame
    from eddyline.spark.checkpoint import Checkpoint

CHECKPOINTS = "checkpoints"
Check = Callable[[Mapping[str, SourcePosition]], None]


@dataclass(frozen=True)
class StartOptions:
    """How to run.

    adopt: take over a store whose streams another checkpoint fed. change_plan: keep what is unchanged of a
    store that another plan made. refresh: streams that start over, their checkpoints removed. copied: streams whose
    source begins with a copy of all its rows, so that adopting them would count rows twice.
    """

    trigger: str | None = None
    checkpoint: str | None = None
    adopt: bool = False
    on_bad: OnBad = "fail"
    dead_letter: str | None = None
    change_plan: bool = False
    refresh: Collection[str] = ()
    copied: Collection[str] = ()
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
    from eddyline.spark.checkpoint import open_checkpoint, stream_folder  # noqa: PLC0415
    from eddyline.spark.stream import check_session  # noqa: PLC0415 - Spark only where it is used

    _check_frames(layout, frames)
    check_session(spark)
    at = _checkpoint_folder(where, settings.checkpoint)
    followed = [name for name, frame in frames.items() if frame.isStreaming]
    checkpoints = {name: open_checkpoint(spark, f"{at}/{name}") for name in followed}
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
    """Return the store of a run, open for writing: a new one, or the one that is there if it fits.

    checkpoints: those of the streams that the run follows, which are brought to where the store is; folders: where
    their files are. Nothing is written where one of them does not fit.
    """
    followed, again, back = checkpoints or {}, set(settings.refresh), dict[str, int]()
    adopt = settings.adopt

    def check(positions: Mapping[str, SourcePosition]) -> None:
        for name, checkpoint in followed.items():
            if name not in again:
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


def _opened(layout: Layout, where: str, settings: StartOptions, check: Check) -> Store:
    """Return the store, created, opened or changed as settings say, once the positions of its streams are checked."""
    run_id = f"run-{secrets.token_hex(4)}"
    options = Options(keep=settings.keep, adopt=settings.adopt, break_lock=settings.break_lock)
    if not Store.exists(where):
        check({})
        return Store.create(
            where, stamp(layout), run_id, to_sections(Snapshot.empty(layout)), options=options
        )
    if Reader(where).latest().commit.run_id == BATCH_RUN:
        return _anew(layout, where, run_id, check, options)
    if not settings.change_plan and not settings.refresh:
        return Store.open(where, stamp(layout), run_id, check=check, options=options)
    if not settings.change_plan:
        Store.open(where, stamp(layout), run_id, options=options).close()  # refuses another plan

    def fresh(epoch: Epoch) -> dict[str, bytes]:
        return fresh_sections(epoch, layout, settings.refresh)

    return Store.replace_plan(
        where, stamp(layout), run_id, fresh, forget=settings.refresh, check=check, options=options
    )


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


def _anew(
    layout: Layout,
    where: str,
    run_id: str,
    check: Check,
    options: Options,
) -> Store:
    """Return the store of one pass over the sources, emptied: a run reads the same rows again, from their first on."""
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


def _checkpoint_folder(where: str, checkpoint: str | None) -> str:
    if checkpoint is not None:
        return checkpoint.rstrip("/")
    if "://" in where and not where.startswith("file://"):
        raise PipelineError(
            f"the store {where} is not on a local disk: say where Spark keeps its checkpoints, by checkpoint in [run] "
            "of the pipeline file, or checkpoint= of plan.start."
        )
    return str(Path(where.removeprefix("file://")).resolve() / CHECKPOINTS)
