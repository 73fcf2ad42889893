"""Sources: frames of a pipeline's streams, by Spark's own readers."""

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.ingest.changes import change_format
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.changes import CORRUPT
from eddyline.spark.postgres import CHANGE, FORMAT, PostgresChanges

_TEXT = ("csv", "json")
_FILES = ("csv", "json", "parquet", "orc")


def read_frame(
    spark: SparkSession,
    stream: str,
    form: str,
    path: str | None,
    options: dict[str, str],
    schema: str,
    changes: str | None = None,
    *,
    streaming: bool = False,
) -> DataFrame:
    """Return the frame of a stream, batch or streaming.

    CSV and JSON are read by the declared columns, the one that carries the change, and one for records that do
    not fit them, so that none is lost in silence. Debezium envelopes in JSON files are read as text.
    """
    debezium = change_format(stream, changes).form == "debezium"
    chosen = "text" if debezium and form == "json" else form
    reader = spark.readStream if streaming else spark.read
    reader = reader.format(chosen).options(**options)
    if form == FORMAT:
        spark.dataSource.register(PostgresChanges)
        reader = reader.schema(f"{schema}, `{CHANGE}` STRING")
    try:
        if chosen in _TEXT and "inferSchema" not in options:
            reader = reader.schema(_text_schema(stream, schema, changes))
        elif streaming and chosen in _FILES and path is not None:
            reader = reader.schema(spark.read.format(chosen).options(**options).load(path).schema)
        return reader.load(path) if path is not None else reader.load()
    except SPARK_ERRORS as error:
        raise PipelineError(
            f"stream {stream!r} cannot be read as {form} from {path!r}: {cause_of(error)}"
        ) from error


def _text_schema(stream: str, schema: str, changes: str | None) -> str:
    """Return the declared schema with the columns that are not declared: the change, and corrupt records."""
    form = change_format(stream, changes)
    extra = [f"`{CORRUPT}` STRING"]
    declared = {part.split()[0].strip("`").lower() for part in schema.split(",") if part.split()}
    if form.form in ("weight", "words") and form.column.lower() not in declared:
        extra.insert(0, f"`{form.column}` {'BIGINT' if form.form == 'weight' else 'STRING'}")
    return ", ".join([schema, *extra])
