"""The batch pass: one scan of each stream feeds every synopsis on it.

Files of Parquet are read by the tasks themselves where that is sure to give the same (`spark/direct`). All other
rows are projected in the JVM and sketched in Arrow batches. Either way partial states are merged on the executors by
(synopsis, chunk), and only then collected: the driver receives one block per chunk of the plan, however many
partitions there are.
DataFrame API only, so that it runs over Spark Connect as well.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError, RowFailure
from eddyline.ingest.arrow_path import DIRECTLY, referenced
from eddyline.ingest.change_columns import similar_columns, unread_changes
from eddyline.ingest.changes import bad_rows_error
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import StreamPass, projection_of
from eddyline.ingest.stream_spec import StreamSpec
from eddyline.plan.layout import Layout, Stream
from eddyline.spark.arrow_batches import unmeasured_batches
from eddyline.spark.causes import SPARK_ERRORS, cause_of, failed_row
from eddyline.spark.changes import CORRUPT
from eddyline.spark.direct.doubt import Doubt
from eddyline.spark.direct.planning import check_settings, scan_of
from eddyline.spark.direct.scan import encode_scan, scan_task
from eddyline.spark.partials import DDL, Merger, from_batches
from eddyline.spark.projection import project_frame
from eddyline.spark.source import Source
from eddyline.spark.sources import read_frame
from eddyline.spark.task_counts import cores_of, in_few_tasks, merge_tasks, tasks_per_core
from eddyline.spark.tasks import encode_spec, merge_task, sketch_task
from eddyline.spark.timezone import check_zone
from eddyline.store.filesystem import without_secrets

_SECRETS = re.compile(r"://[^/\s]*@")


@dataclass(frozen=True)
class Sketched:
    """What a pass over a stream added, and how its rows came: `way` says so, and why not directly."""

    added: StreamPass
    way: str


def sketch_frames(
    spark: SparkSession,
    layout: Layout,
    sources: Mapping[str, DataFrame | str | os.PathLike[str]],
    *,
    skip_bad: bool = False,
) -> tuple[Snapshot, dict[str, str]]:
    """Return (the snapshot after one pass over each stream, how the rows of each came).

    sources: one frame per stream, or the path of its Parquet files. skip_bad: see `sketch_stream`.
    """
    names = {stream.name for stream in layout.streams}
    if not hasattr(spark, "readStream") or not isinstance(sources, Mapping):
        raise PipelineError(
            "plan.sketch(spark, frames) takes a Spark session, then a dict with a frame for each stream, not "
            f"{type(spark).__name__} and {type(sources).__name__}; without Spark: plan.empty().update(stream, table)."
        )
    if names != set(sources):
        raise PipelineError(
            f"the plan has the streams {', '.join(sorted(names))} and frames were given for "
            f"{', '.join(sorted(sources)) or 'none'}: give exactly one frame per stream."
        )
    snapshot, ways = Snapshot.empty(layout), {}
    for stream in layout.streams:
        source = sources[stream.name]
        given = os.fspath(source) if isinstance(source, os.PathLike) else source
        _check_source(stream.name, given)
        sketched = sketch_stream(spark, snapshot, stream.name, given, skip_bad=skip_bad)
        snapshot = snapshot.plus_stream(stream.name, sketched.added, settle=False)
        ways[stream.name] = sketched.way
    return snapshot.settled(), ways


def _check_source(stream: str, source: object) -> None:
    """Raise PipelineError where a stream is neither a path nor a batch frame of Spark."""
    if isinstance(source, str):
        return
    if not hasattr(source, "isStreaming") or not hasattr(source, "sparkSession"):
        kind = type(source).__name__
        raise PipelineError(
            f"stream {stream!r} is given as {kind}: give a Spark DataFrame, or the path of Parquet files; a pandas or "
            "Arrow table goes to plan.empty().update(stream, table), a grouped frame is none before its aggregate."
        )
    if source.isStreaming:
        raise PipelineError(
            f"the frame of stream {stream!r} is a streaming one: keep it current with plan.start(...)."
        )


def sketch_stream(
    spark: SparkSession, snapshot: Snapshot, name: str, source: DataFrame | str, *, skip_bad: bool = False
) -> Sketched:
    """Return what one frame, or a path of Parquet files, adds to a snapshot's stream.

    Raise, with nothing changed, on any bad row. skip_bad: rows whose change cannot be read are only counted, in
    `StreamPass.bad`.
    """
    layout, spec = snapshot.layout, snapshot.stream_spec(name)
    session = spark if isinstance(source, str) else source.sparkSession
    check_zone(layout, session)
    cores = cores_of(session)
    try:
        merger, way = _directly(session, layout, name, spec, source, cores), DIRECTLY
    except Doubt as doubt:
        frame = _frame(spark, layout.stream(name), source, doubt) if isinstance(source, str) else source
        merger, way = _through_jvm(layout, name, spec, frame, cores), f"through the JVM: {doubt}"
    merger.report.raise_error()
    if merger.report.bad and not skip_bad:
        total = merger.report.tally.rows + merger.report.bad
        raise bad_rows_error(name, merger.report.bad, total, list(merger.report.shown))
    return Sketched(merger.stream_pass(), way)


def _directly(
    spark: SparkSession, layout: Layout, name: str, spec: StreamSpec, source: DataFrame | str, cores: int
) -> Merger:
    """Return what tasks that read the files of a stream themselves add up to, or raise Doubt."""
    stream = layout.stream(name)
    ours, projection = check_settings(spark, source), projection_of(spec, stream.event_time)
    tasks = cores * tasks_per_core(spec.nbytes)
    scan = scan_of(stream, projection, layout.timezone, source, tasks, our_calendar=ours)
    numbers = spark.range(0, len(scan.tasks), 1, len(scan.tasks))
    partials = numbers.mapInArrow(partial(scan_task, encode_spec(spec), encode_scan(scan)), DDL)
    merger = _merged(name, spec, partials, cores)
    if merger.report.error is not None and merger.report.error[0] == Doubt.__name__:
        raise Doubt(merger.report.error[1])
    return merger


def _frame(spark: SparkSession, stream: Stream, path: str, doubt: Doubt) -> DataFrame:
    """Return the frame of a path that is not scanned directly, or raise PipelineError without keys of a URI in it."""
    try:
        return read_frame(spark, Source(stream.name, "parquet", path, "", stream.changes))
    except PipelineError as error:
        told = str(error).replace(path, without_secrets(path) if "://" in path else path)
        raise PipelineError(f"{_SECRETS.sub('://', told)} Nor can it be scanned directly: {doubt}.") from None


def _through_jvm(layout: Layout, name: str, spec: StreamSpec, frame: DataFrame, cores: int) -> Merger:
    """Return what tasks add up to that the JVM brings a frame's rows to."""
    stream = layout.stream(name)
    projection = projection_of(spec, stream.event_time)
    unread = unread_changes(stream, frame.columns, referenced(projection))
    projected = project_frame(stream, frame, projection)
    tasks = in_few_tasks(projected, spec.nbytes, cores)
    partials = tasks.mapInArrow(partial(sketch_task, encode_spec(spec)), DDL)
    with unmeasured_batches(projected):
        merger = _merged(name, spec, partials, cores)
    merger.added.unread = unread
    named = [name for name in frame.columns if name != CORRUPT]
    merger.added.similar = similar_columns(stream, named, merger.report.tally.empty)
    return merger


def _merged(name: str, spec: StreamSpec, partials: DataFrame, cores: int) -> Merger:
    """Return partial states merged, first on the executors, then here."""
    spread = partials.repartition(merge_tasks(spec.nbytes, cores), "name", "chunk")
    merged = spread.mapInArrow(partial(merge_task, encode_spec(spec)), DDL)
    merger = Merger(spec)
    try:
        collected = merged.toArrow()
    except SPARK_ERRORS as error:
        failed = failed_row(error)
        if failed is not None:
            raise RowFailure(f"stream {name!r}: {failed}") from error
        raise PipelineError(f"stream {name!r}: Spark failed on a row or a task: {cause_of(error)}") from error
    for row in from_batches(collected.to_batches()):
        merger.take(*row)
    return merger
