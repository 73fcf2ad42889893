"""Dead letters: rows whose change could not be read, written where someone can look at them."""

from pyspark.sql import DataFrame

from eddyline.errors import PipelineError
from eddyline.plan.layout import Stream
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.changes import decode_changes
from eddyline.spark.marks import BAD, MARK, MARK_KEY
from eddyline.spark.tasks import dead_letter_task


def write_dead_letters(stream: Stream, frame: DataFrame, path: str, query_id: str, batch_id: int) -> None:
    """Write the bad rows of a batch as JSON lines under `path/<stream>/<query id>/batch=<n>`.

    The same batch, if it comes again, overwrites what it wrote.
    """
    target = f"{path.rstrip('/')}/{stream.name}/{query_id}/batch={batch_id}"
    names = [column.name for column in stream.columns]
    rows = decode_changes(stream, frame, names)
    told = rows.select(*(name for name in (BAD, MARK, MARK_KEY) if name in rows.columns))
    try:
        told.mapInArrow(dead_letter_task, "value string").write.mode("overwrite").text(target)
    except SPARK_ERRORS as error:
        raise PipelineError(
            f"stream {stream.name!r}: bad rows of batch {batch_id} cannot be written to {target}: {cause_of(error)}"
        ) from error
