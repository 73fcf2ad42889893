"""The batch job of a pipeline file: one pass over its sources, kept in its store if it names one."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eddyline.api.durable import BATCH_QUERY, BATCH_RUN, from_epoch, origin_of, stamp
from eddyline.api.pipeline import Pipeline, StreamSource
from eddyline.api.plan import Plan
from eddyline.api.source_checks import check_one_pass
from eddyline.api.state import State
from eddyline.errors import EddylineError, PipelineError, PlanError, WrongRun
from eddyline.ingest.sections import to_sections
from eddyline.ingest.source_files import FILE_FORMATS, RECURSIVE, lacks_files
from eddyline.plan.layout import Layout
from eddyline.plan.statistics import Statistics
from eddyline.store import Epoch, Reader, SourcePosition, Store, difference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_state(store: str | os.PathLike[str]) -> State:
    """Return the state of a store at its last commit, as any process can: no Spark needed.

    It does not change when a run commits more; open the store again for that.
    """
    return state_of(Reader(store).latest())


def state_of(epoch: Epoch) -> State:
    """Return the state that an epoch of a store holds."""
    snapshot = from_epoch(epoch)
    return State(snapshot, origin_of(epoch, snapshot.layout))


def stored_state(pipeline: Pipeline) -> State | None:
    """Return the state of the pipeline's store, None where there is no store yet."""
    where = pipeline.workload.store
    return None if where is None or not Store.exists(where) else open_state(where)


@dataclass(frozen=True)
class StoredAnswers:
    """A pipeline's store: its state, the file's queries that it answers, and why it does not answer all of them."""

    state: State
    queries: list[str]
    difference: EddylineError | None = None


def stored_answers(pipeline: Pipeline) -> StoredAnswers | None:
    """Return what the pipeline's store answers of it, None where there is no store yet.

    Where the file is not what the store was made by, queries that are the same in both are answered all the same.
    """
    where = pipeline.workload.store
    if where is None or not Store.exists(where):
        return None
    state = open_state(where)
    unchanged = pipeline.build().unchanged(state.snapshot.layout)
    if set(unchanged) == set(pipeline.queries) and (
        pipeline.workload.confidence == state.snapshot.layout.confidence
    ):
        return StoredAnswers(
            state, unchanged
        )  # whatever budget the file says that the next change of plan is to have
    try:
        _check_same(where, state.snapshot.layout, pipeline.plan(keep=state).layout)
    except (PlanError, WrongRun) as error:
        if not unchanged:
            raise
        return StoredAnswers(state, unchanged, error)
    return StoredAnswers(state, list(pipeline.queries))


def _check_same(where: str, old: Layout, new: Layout) -> None:
    """Raise WrongRun where a store was made by another plan than the pipeline's."""
    if old.digest != new.digest:
        lines = "\n  ".join(difference(stamp(old), stamp(new)))
        raise WrongRun(
            f"the store {where} was made by another plan:\n  {lines}\nAsk the store itself (`eddyline ask {where}`), "
            "let the run take the change (`eddyline run --change-plan`), or build it anew (`eddyline ask --refresh`)."
        )


def check_pass(pipeline: Pipeline) -> None:
    """Raise what speaks against one pass over the pipeline's sources, as far as can be known without Spark."""
    check_one_pass(pipeline.streams)
    check_files(pipeline.streams)
    if pipeline.workload.store is not None:
        check_no_run(pipeline.workload.store)
        if not Store.exists(pipeline.workload.store):
            Reader(pipeline.workload.store).check_writable()


def check_files(sources: Mapping[str, StreamSource]) -> None:
    """Raise PipelineError where a source that is read now has no files."""
    check_paths(sources)
    for name, source in sources.items():
        if lacks_files(source.format, source.path, source.options):
            raise PipelineError(
                f"stream {name!r}: there is no file at {source.path}; correct path in [streams.{name}], or put files "
                "there. (`eddyline run` waits for the first file of a stream; folders in the folder are read with "
                f'{RECURSIVE} = "true" in its options.)'
            )


def check_paths(sources: Mapping[str, StreamSource]) -> None:
    """Raise PipelineError where a source of files does not say where they are: Spark would read none."""
    for name, source in sources.items():
        if source.format in FILE_FORMATS and source.path is None and "path" not in source.options:
            raise PipelineError(
                f"stream {name!r} does not say where its files are: add path to [streams.{name}]."
            )


def build_state(spark: "SparkSession", pipeline: Pipeline, plan: Plan) -> State:
    """Return the state after one pass over the pipeline's sources, written to its store if it names one."""
    state = plan.sketch(spark, _sources(spark, pipeline))
    if pipeline.workload.store is not None:
        save(pipeline.workload.store, plan, state)
    return state


def analyze(spark: "SparkSession", pipeline: Pipeline, budget: str | int) -> Statistics:
    """Return statistics of the pipeline's streams from one pass; bad rows are left out where a run skips them."""
    from eddyline.spark.batch import sketch_frames  # noqa: PLC0415 - Spark only where it is used

    layout, skip = pipeline.build().analysis(budget=budget).layout, pipeline.run.on_bad != "fail"
    return State(sketch_frames(spark, layout, _sources(spark, pipeline), skip_bad=skip)[0]).statistics()


def _sources(spark: "SparkSession", pipeline: Pipeline) -> "dict[str, DataFrame | str]":
    """Return a batch frame for each stream of the pipeline, or its path where a plain read of Parquet is asked for."""
    from eddyline.api.sources import batch_source  # noqa: PLC0415 - Spark only where it is used
    from eddyline.spark.sources import read_frame  # noqa: PLC0415

    return {
        name: given.path
        if given.format == "parquet" and given.path is not None and not given.options
        else read_frame(spark, batch_source(pipeline, name))
        for name, given in pipeline.streams.items()
    }


def save(where: str, plan: Plan, state: State) -> None:
    """Write a state to a store, in place of what it held, as one batch of each stream."""
    now = time.time()
    sources = {
        name: SourcePosition(BATCH_QUERY, 0, tally.rows, tally.deletes, 0, now)
        for name, tally in state.snapshot.tallies.items()
    }
    sections = to_sections(state.snapshot)
    if not Store.exists(where):
        Store.create(where, stamp(plan.layout), BATCH_RUN, sections, sources=sources).close()
        return
    check_no_run(where)
    Store.replace_plan(where, stamp(plan.layout), BATCH_RUN, sections, sources=sources).close()


def check_no_run(where: str) -> None:
    """Raise WrongRun if a continuous run feeds the store."""
    if not Store.exists(where):
        return
    if any(at.query_id != BATCH_QUERY for at in Reader(where).latest().commit.sources.values()):
        raise WrongRun(
            f"the store {where} is kept current by a continuous run, which a pass over the sources would count "
            "again: use `eddyline run --full-refresh`, or another directory."
        )
