"""How many tasks a pass takes: every task makes, sends and merges a partial state, however few rows it has."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from eddyline.spark import marks
from eddyline.spark.partials import CHUNK_WORDS

TASKS_PER_CORE = 4
"""More tasks than cores even out tasks that take longer than others."""
_STATE_BYTES = 32 << 20
"""Partial states of a core, all its tasks together; above it one task for each core."""
_MERGE_BYTES = 32 << 20
_PROBED_ROWS = 1 << 13


def tasks_per_core(nbytes: int) -> int:
    """Return the tasks for each core of a pass that fills so many bytes."""
    return min(max(_STATE_BYTES // max(nbytes, 1), 1), TASKS_PER_CORE)


def merge_tasks(nbytes: int, cores: int) -> int:
    """Return the tasks that merge what all tasks send: enough for its bytes, at most one for a core or a chunk."""
    sent = nbytes * cores * tasks_per_core(nbytes)
    chunks = 1 + nbytes // (8 * CHUNK_WORDS)
    return min(1 + sent // _MERGE_BYTES, TASKS_PER_CORE * cores, chunks)


def cores_of(session: SparkSession) -> int:
    """Return the cores of a session; Spark Connect does not say, but spreads a range over them."""
    if isinstance(session, SparkSession):
        return session.sparkContext.defaultParallelism
    spread = session.range(_PROBED_ROWS).select(sf.spark_partition_id())
    return int(spread.distinct().count())


def in_few_tasks(frame: DataFrame, nbytes: int, cores: int) -> DataFrame:
    """Return a frame in at most a few partitions for each core, without a shuffle.

    Not where tombstones are told by the record before them, which must stay the first of its task.
    """
    if marks.MARK in frame.columns:
        return frame
    return frame.coalesce(cores * tasks_per_core(nbytes))
