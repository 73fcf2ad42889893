"""The batch pass: one scan of each frame feeds every synopsis on it.

Rows are projected in the JVM, sketched in Arrow batches, merged on the executors by (synopsis, chunk), and
only then collected: the driver receives one block per chunk of the plan, however many partitions there are.
DataFrame API only, so that it runs over Spark Connect as well.
"""

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.ingest.changes import bad_rows_error
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import StreamPass, projection_of
from eddyline.plan.layout import Layout
from eddyline.spark import marks
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.partials import DDL, Merger, from_batch
from eddyline.spark.projection import project_frame
from eddyline.spark.tasks import encode_spec, merge_task, sketch_task
from eddyline.spark.timezone import check_zone

TASKS_PER_CORE = 4
"""Tasks of a pass for each core: every task makes, sends and merges a whole partial state, however few rows it has."""
_MERGE_BYTES = 4 << 20
_MERGE_TASKS = 64


def sketch_frames(layout: Layout, frames: Mapping[str, DataFrame]) -> Snapshot:
    """Return the snapshot after one pass over each frame."""
    names = {stream.name for stream in layout.streams}
    if names != set(frames):
        raise PipelineError(
            f"the plan has the streams {', '.join(sorted(names))} and frames were given for "
            f"{', '.join(sorted(frames)) or 'none'}: give exactly one frame per stream."
        )
    snapshot = Snapshot.empty(layout)
    for stream in layout.streams:
        added = sketch_stream(snapshot, stream.name, frames[stream.name])
        snapshot = snapshot.plus_stream(stream.name, added)
    return snapshot


def in_few_tasks(frame: DataFrame) -> DataFrame:
    """Return a frame in at most a few partitions for each core, without a shuffle.

    Not where tombstones are told by the record before them, which must stay the first of its task; and not over Spark
    Connect, which does not say how many cores there are.
    """
    session = frame.sparkSession
    if marks.MARK in frame.columns or not isinstance(session, SparkSession):
        return frame
    return frame.coalesce(TASKS_PER_CORE * session.sparkContext.defaultParallelism)


def sketch_stream(snapshot: Snapshot, name: str, frame: DataFrame, *, skip_bad: bool = False) -> StreamPass:
    """Return what one frame adds to a snapshot's stream; raise, with nothing changed, on any bad row.

    skip_bad: rows whose change cannot be read are only counted, in `StreamPass.bad`.
    """
    stream, spec = snapshot.layout.stream(name), snapshot.stream_spec(name)
    specs = encode_spec(spec)
    check_zone(snapshot.layout, frame)
    projected = in_few_tasks(project_frame(stream, frame, projection_of(spec, stream.event_time)))
    partials = projected.mapInArrow(partial(sketch_task, specs), DDL)
    merge_tasks = min(1 + spec.nbytes // _MERGE_BYTES, _MERGE_TASKS)
    merged = partials.repartition(merge_tasks, "name", "chunk").mapInArrow(partial(merge_task, specs), DDL)
    merger = Merger(spec)
    try:
        collected = merged.toArrow()
    except SPARK_ERRORS as error:
        raise PipelineError(f"stream {name!r}: Spark failed on a row or a task: {cause_of(error)}") from error
    for row in from_batch(collected):
        merger.take(*row)
    merger.report.raise_error()
    if merger.report.bad and not skip_bad:
        total = merger.report.rows + merger.report.bad
        raise bad_rows_error(name, merger.report.bad, total, list(merger.report.shown))
    return merger.stream_pass()
