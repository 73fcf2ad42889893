"""The continuous job of a pipeline file: its sources as streams, its store kept current."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from eddyline.api.batch_job import check_files, check_paths, stored_state
from eddyline.api.durable import BATCH_QUERY
from eddyline.api.pipeline import Pipeline, StreamSource
from eddyline.api.plan import Plan
from eddyline.api.run import Run
from eddyline.api.source_checks import FORGETFUL, check_logins, check_one_pass
from eddyline.api.start import StartOptions, check_store, start_run
from eddyline.api.state import State
from eddyline.errors import PipelineError, PlanError
from eddyline.ingest.source_files import local_path
from eddyline.plan.layout import Layout
from eddyline.store import Reader, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class HowToRun:
    """What the command line says of a run; `full_refresh` names queries."""

    once: bool = False
    adopt: bool = False
    change_plan: bool = False
    break_lock: bool = False
    full_refresh: Collection[str] = ()


@dataclass(frozen=True)
class PreparedRun:
    """A run that nothing speaks against, as far as can be known without Spark."""

    pipeline: Pipeline
    plan: Plan
    store: str
    settings: StartOptions

    def start(self, spark: "SparkSession") -> Run:
        """Return the run; a stream of files starts when the first of them is there."""
        from eddyline.api.sources import run_source  # noqa: PLC0415 - Spark only where it is used
        from eddyline.spark.sources import stream_frame  # noqa: PLC0415

        begun = _begun(self.store) - set(self.settings.refresh)
        frames = {
            name: stream_frame(spark, run_source(self.pipeline, name, resumed=name in begun))
            for name in self.pipeline.streams
        }
        return start_run(spark, self.plan.layout, frames, self.store, self.settings)


def prepare_run(pipeline: Pipeline, how: HowToRun) -> PreparedRun:
    """Return the run of a pipeline, or raise what speaks against it; queries added to its store keep the others' state.

    Spark takes seconds to start: a held lock, another plan, too small a budget, missing files, a store that cannot be
    written and a login that fails are told before.
    """
    store = pipeline.workload.store
    if store is None:
        raise PipelineError('a continuous run needs a store: add store = "state" to [workload].')
    state = stored_state(pipeline)
    refresh = _streams_of(pipeline, how.full_refresh, state)
    keep = _without(state.snapshot.layout, refresh) if state is not None and refresh else state
    plan = pipeline.plan(keep=keep)
    settings = StartOptions(
        trigger="available now" if how.once else pipeline.run.trigger,
        checkpoint=pipeline.run.checkpoint,
        adopt=how.adopt,
        on_bad=pipeline.run.on_bad,
        on_unseen_delete=pipeline.run.on_unseen_delete,
        dead_letter=pipeline.run.dead_letter,
        change_plan=how.change_plan or bool(refresh),
        refresh=refresh,
        copied=tuple(name for name, source in pipeline.streams.items() if begins_with_a_copy(source)),
        break_lock=how.break_lock,
    )
    read_once = {name: source for name, source in pipeline.streams.items() if source.batch}
    check_one_pass(read_once)
    check_files(read_once)
    check_paths(pipeline.streams)
    _check_folders(pipeline)
    check_store(plan.layout, store, settings)
    check_logins(pipeline, _begun(store) - set(refresh))
    return PreparedRun(pipeline, plan, store, settings)


def _check_folders(pipeline: Pipeline) -> None:
    """Raise PipelineError where a stream that is followed is one file: Spark follows folders."""
    for name, source in pipeline.streams.items():
        where = local_path(source.format, source.path)
        if not source.batch and where is not None and where.is_file():
            raise PipelineError(
                f"stream {name!r}: {source.path} is one file, and a run follows the files of a folder: name the folder "
                f"in path of [streams.{name}], or read the file once by batch = true."
            )


def _streams_of(pipeline: Pipeline, queries: Collection[str], state: State | None) -> tuple[str, ...]:
    """Return the streams that some queries read, or raise where a source does not give its rows again.

    A stream sample is rebuilt as a whole, from all of its streams; so are those that the store has of them.
    """
    if not queries:
        return ()
    layout = pipeline.plan().layout
    planned = {each.name: each for each in layout.queries}
    unknown = [name for name in queries if name not in planned]
    if unknown:
        raise PlanError(f"the pipeline has no query {unknown[0]!r}: its queries are {', '.join(planned)}.")
    samples = {planned[query].sample for query in queries}
    read = {stream for query in queries for stream in planned[query].streams}
    read |= {part.stream for sample in layout.samples if sample.id in samples for part in sample.exact}
    held = (
        [{part.stream for part in sample.exact} for sample in state.snapshot.layout.samples] if state else []
    )
    while more := [streams for streams in held if streams & read and not streams <= read]:
        read = read.union(*more)
    streams = sorted(read & pipeline.streams.keys())
    for name in streams:
        if pipeline.streams[name].format in FORGETFUL:
            raise PipelineError(
                f"stream {name!r} cannot be rebuilt: a source of format {pipeline.streams[name].format!r} does not "
                "give its rows a second time."
            )
    return tuple(streams)


def begins_with_a_copy(source: StreamSource) -> bool:
    """Return whether a new query of a source first reads all rows that its table has."""
    options = {name.lower(): str(value) for name, value in source.options.items()}
    if source.format == "eddyline-postgres":
        return options.get("snapshot", "initial") != "never"
    return source.format == "delta" and not any(name.startswith("starting") for name in options)


def _begun(store: str) -> set[str]:
    """Return the streams that a run fed a store from before."""
    if not Store.exists(store):
        return set()
    sources = Reader(store).latest().commit.sources
    return {name for name, at in sources.items() if at.query_id != BATCH_QUERY and at.batch_id >= 0}


def _without(layout: Layout, streams: Collection[str]) -> Layout:
    """Return a layout without what it keeps of some streams."""
    samples = tuple(s for s in layout.samples if not {part.stream for part in s.exact} & set(streams))
    gone = {sample.id for sample in layout.samples} - {sample.id for sample in samples}
    return msgspec.structs.replace(
        layout,
        kept=tuple(k for k in layout.kept if k.stream not in streams),
        samples=samples,
        queries=tuple(q for q in layout.queries if q.sample not in gone),
        budget=None,
    )
