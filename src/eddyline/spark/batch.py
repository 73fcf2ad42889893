"""The batch pass: one scan of each stream feeds every synopsis on it, in as many tasks as pay off."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from eddyline.errors import PipelineError, RowFailure, without_secrets
from eddyline.ingest.arrow_path import DIRECTLY, referenced
from eddyline.ingest.changes import CORRUPT, bad_rows_error, similar_columns, unread_changes
from eddyline.ingest.projection import StreamSpec
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import StreamPass, projection_of
from eddyline.plan.layout import Layout, Stream
from eddyline.spark import tasks
from eddyline.spark.causes import SPARK_ERRORS, cause_of, failed_row
from eddyline.spark.direct.files import Doubt
from eddyline.spark.direct.planning import check_settings, scan_of
from eddyline.spark.direct.scan import encode_scan, scan_task
from eddyline.spark.projection import project_frame
from eddyline.spark.session import check_zone
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame
from eddyline.spark.tasks import CHUNK_WORDS, DDL, Merger, encode_spec, from_batches, merge_task, sketch_task

# The number of tasks of a pass: each task makes, sends and merges a partial state, however few rows it has.


TASKS_PER_CORE = 4
"""More tasks than cores balance tasks that take longer than others."""
_STATE_BYTES = 32 << 20
"""The most bytes of partial states per core, for all its tasks; above it each core gets one task."""
_MERGE_BYTES = 32 << 20
_PROBED_ROWS = 1 << 13


def tasks_per_core(nbytes: int) -> int:
    """Return the number of tasks per core for a pass that fills `nbytes` of state."""
    return min(max(_STATE_BYTES // max(nbytes, 1), 1), TASKS_PER_CORE)


def merge_tasks(nbytes: int, cores: int) -> int:
    """Return the number of tasks that merge partial states: enough for the bytes, at most one per core or chunk."""
    sent = nbytes * cores * tasks_per_core(nbytes)
    chunks = 1 + nbytes // (8 * CHUNK_WORDS)
    return min(1 + sent // _MERGE_BYTES, TASKS_PER_CORE * cores, chunks)


def cores_of(session: SparkSession) -> int:
    """Return the number of cores of a session; Spark Connect does not report it, but spreads a range over them."""
    if isinstance(session, SparkSession):
        return session.sparkContext.defaultParallelism
    spread = session.range(_PROBED_ROWS).select(sf.spark_partition_id())
    return int(spread.distinct().count())


def in_few_tasks(frame: DataFrame, nbytes: int, cores: int) -> DataFrame:
    """Return a frame in at most a few partitions per core, without a shuffle.

    Frames with tombstones stay as they are: the first record of a partition must stay the first of its task.
    """
    if tasks.MARK in frame.columns:
        return frame
    return frame.coalesce(cores * tasks_per_core(nbytes))


# Tasks read Parquet files themselves where this surely gives the same result (`spark/direct`).
# All other rows are projected in the JVM and sketched in Arrow batches. In both cases partial states are
# merged on the executors by (synopsis, chunk) before they are collected: the driver receives one block per
# chunk of the plan, however many partitions there are. Only the DataFrame API is used, so that it also runs
# over Spark Connect.


_SECRETS = re.compile(r"://[^/\s]*@")


@dataclass(frozen=True)
class Sketched:
    """What a pass over a stream added, and how its rows were read: `way` says how, and why not directly."""

    added: StreamPass
    way: str


def sketch_frames(
    spark: SparkSession,
    layout: Layout,
    sources: Mapping[str, DataFrame | str | os.PathLike[str]],
    *,
    skip_bad: bool = False,
) -> tuple[Snapshot, dict[str, str]]:
    """Return (the snapshot after one pass over each stream, how the rows of each stream were read).

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
    """Raise PipelineError if a stream is neither a path nor a batch frame of Spark."""
    if isinstance(source, str):
        return
    if not hasattr(source, "isStreaming") or not hasattr(source, "sparkSession"):
        kind = type(source).__name__
        raise PipelineError(
            f"stream {stream!r} is given as {kind}: give a Spark DataFrame, or the path of Parquet files; a pandas or "
            "Arrow table goes to plan.empty().update(stream, table), a grouped frame needs its .agg() first."
        )
    if source.isStreaming:
        raise PipelineError(
            f"the frame of stream {stream!r} is a streaming one: keep it current with plan.start(...)."
        )


def sketch_stream(
    spark: SparkSession, snapshot: Snapshot, name: str, source: DataFrame | str, *, skip_bad: bool = False
) -> Sketched:
    """Return what one frame, or a path of Parquet files, adds to a snapshot's stream.

    Raise on any bad row and change nothing. skip_bad: rows whose change cannot be read are only counted, in
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
    """Return the sum of what tasks add that read the files of a stream themselves, or raise Doubt."""
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
    """Return the frame of a path that is not scanned directly; a PipelineError shows no keys of a URI."""
    try:
        return read_frame(spark, SparkSource(stream.name, "parquet", path, "", stream.changes))
    except PipelineError as error:
        reason = str(error).replace(path, without_secrets(path))
        raise PipelineError(
            f"{_SECRETS.sub('://', reason)} Nor can it be scanned directly: {doubt}."
        ) from None


def _through_jvm(layout: Layout, name: str, spec: StreamSpec, frame: DataFrame, cores: int) -> Merger:
    """Return the sum of what tasks add that get a frame's rows from the JVM."""
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
    """Return the merged partial states: merged first on the executors, then here."""
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


# How rows leave the JVM: in Arrow batches that are limited by their rows and not measured in bytes.
#
# Before every row Spark asks each column of the batch for its bytes, to end it before `maxBytesPerBatch`.
# Of a pass through the JVM that takes more than half of the time (benchmarks/pass.py), unless the limit is
# the largest integer, for which Spark does not ask.


_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = str((1 << 31) - 1)
BATCH_ROWS = 4096
"""Rows of a batch; from 1,000 to a million they take the same time. A piece of a state is a row of up to 64 KB."""
_NARROW = (st.NumericType, st.BooleanType, st.DateType, st.TimestampType, st.TimestampNTZType)


@contextmanager
def unmeasured_batches(rows: DataFrame) -> Iterator[None]:
    """Turn off the byte limit of a session's Arrow batches during a pass over a frame of numbers.

    A row with a string may have any size, so the session's own limits stay there. They also stay if they have no byte
    limit (another pass of the session runs, or the user turned it off), and where the platform refuses to set them.
    """
    conf = rows.sparkSession.conf
    narrow = all(isinstance(field.dataType, _NARROW) for field in rows.schema.fields)
    try:
        before = {name: str(conf.get(name)) for name in (_ROWS, _BYTES)}
    except SPARK_ERRORS:
        narrow, before = False, {}
    if not narrow or before[_BYTES].removesuffix("b") == _NO_LIMIT:
        yield
        return
    try:
        _set_allowed(conf, {_ROWS: str(BATCH_ROWS), _BYTES: _NO_LIMIT})
        yield
    finally:
        _set_allowed(conf, before)


def _set_allowed(conf: Any, settings: Mapping[str, str]) -> None:
    """Set what a session allows to set: serverless platforms refuse most settings, and a pass does not need these."""
    for name, value in settings.items():
        with suppress(*SPARK_ERRORS):
            conf.set(name, value)
