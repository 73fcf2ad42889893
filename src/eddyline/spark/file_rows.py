"""Files as frames: Parquet, ORC, CSV, JSON, and Debezium envelopes as lines of text.

CSV and JSON are read by the declared columns, the one that carries the change, and one for records that do not fit
them, so that none is lost in silence. Files of CSV with a header, and of JSON, have their other columns, too.
"""

from pyspark.sql import DataFrame, SparkSession

from eddyline.spark.changes import CORRUPT
from eddyline.spark.source import Source
from eddyline.spark.text_files import text_columns

_TEXT = ("csv", "json")
_CHECKED = {"enforceSchema": "false", "columnPruning": "false"}
"""What makes Spark hold the header of every CSV file, and the cells of every line, against the columns it was told."""


def file_rows(spark: SparkSession, source: Source) -> DataFrame:
    """Return the rows of a source's files."""
    envelopes = source.format == "json" and source.change.form == "debezium"
    chosen = "text" if envelopes else source.format
    checked = _CHECKED if chosen == "csv" else {}
    reader = source.reader(spark).format(chosen).options(**{**checked, **source.options})
    if chosen in _TEXT and "inferSchema" not in source.options:
        columns = text_columns(spark, source.stream, chosen, source.path, source.options, source.columns())
        # Spark reads twins under names that are in no header, and holds the columns that are read against it
        twins = {"columnPruning": "true"} if columns.doubled else {}
        reader = reader.options(**twins).schema(f"{columns.ddl}, `{CORRUPT}` STRING")
        return columns.named(reader.load(source.path))
    if source.streaming and chosen != "text":
        reader = reader.schema(spark.read.format(chosen).options(**source.options).load(source.path).schema)
    return reader.load(source.path)
