"""Files as frames: Parquet, ORC, CSV, JSON, and Debezium envelopes as lines of text.

CSV and JSON are read by the declared columns, the one that carries the change, and one for records that do not fit
them, so that none is lost in silence. Files of CSV with a header, and of JSON, have their other columns, too.
"""

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.spark.changes import CORRUPT
from eddyline.spark.source import Source
from eddyline.spark.text_files import text_columns

_TEXT = ("csv", "json")
_CHECKED = {"enforceSchema": "false", "columnPruning": "false"}
"""What makes Spark hold the header of every CSV file, and the cells of every line, against the columns it was told."""
_EVERY_FILE = {"maxFileAge": "1000000d"}
"""By default Spark passes over files that are 7 days older, by their times, than the newest it has seen."""


def file_rows(spark: SparkSession, source: Source) -> DataFrame:
    """Return the rows of a source's files."""
    envelopes = source.format == "json" and source.change.form == "debezium"
    chosen = "text" if envelopes else source.format
    checked = _CHECKED if chosen == "csv" else {}
    every = _EVERY_FILE if source.streaming else {}
    if source.streaming and not source.may_lose_rows:
        _refuse_age(source)
    reader = source.reader(spark).format(chosen).options(**{**checked, **every, **source.options})
    if chosen in _TEXT and "inferSchema" not in source.options:
        columns = text_columns(spark, source.stream, chosen, source.path, source.options, source.columns())
        # Spark reads twins under names that are in no header, and holds the columns that are read against it
        twins = {"columnPruning": "true"} if columns.doubled else {}
        reader = reader.options(**twins).schema(f"{columns.ddl}, `{CORRUPT}` STRING")
        return columns.named(reader.load(source.path))
    if source.streaming and chosen != "text":
        reader = reader.schema(spark.read.format(chosen).options(**source.options).load(source.path).schema)
    return reader.load(source.path)


def _refuse_age(source: Source) -> None:
    """Raise PipelineError where options let files be passed over by their times."""
    if any(name.lower() == "maxfileage" for name in source.options):
        raise PipelineError(
            f"stream {source.stream!r}: maxFileAge passes over, in silence, files that are older than others; take it "
            "out, or say may_lose_rows = true in the stream's table if that is meant."
        )
