"""Sources: frames of a pipeline's streams, by Spark's own readers."""

from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.ingest.changes import change_format
from eddyline.ingest.source_files import FILE_FORMATS, lacks_files
from eddyline.spark.awaited import AwaitedFrame, NoFileYet
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.changes import CORRUPT
from eddyline.spark.connectors import connector_of
from eddyline.spark.kafka import FORMAT as KAFKA
from eddyline.spark.kafka import check_topics, kafka_options, value_rows
from eddyline.spark.lakes import LAKES, table_rows
from eddyline.spark.postgres import CHANGE, FORMAT, PostgresChanges
from eddyline.spark.text_files import text_columns
from eddyline.sql.schema import as_ddl, parse_schema

_TEXT = ("csv", "json")
_CHECKED = {"enforceSchema": "false"}
"""What makes Spark hold the header of every CSV file against the columns that it was told."""
_FILES = ("csv", "json", "parquet", "orc")
_NO_FILE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
_NOT_THERE = ("Failed to find", "Cannot find catalog plugin class", "cannot find the plugin class")


def stream_frame(
    spark: SparkSession, stream: str, form: str, path: str | None, *given: Any, **settings: Any
) -> DataFrame | AwaitedFrame:
    """Return the frame of a stream as `read_frame` does, or what waits for its first file.

    Its columns are those of its files, which are checked against the declared ones; none are known before.
    """
    read = partial(read_frame, spark, stream, form, path, *given, **settings)
    try:
        return read()
    except NoFileYet:
        if not settings.get("streaming"):
            raise
        return AwaitedFrame(read, str(path))


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
    may_lose_rows: bool = False,
    resumed: bool = False,
) -> DataFrame:
    """Return the frame of a stream, batch or streaming; resumed: it goes on from its checkpoint.

    CSV and JSON are read by the declared columns, the one that carries the change, and one for records that do
    not fit them, so that none is lost in silence; so are the values of Kafka records. Files of CSV with a header, and
    of JSON, have their other columns, too. Debezium envelopes are read as text.
    """
    if form == KAFKA:
        return _topic_rows(
            spark, stream, options, schema, changes, streaming=streaming, may_lose_rows=may_lose_rows
        )
    if streaming and lacks_files(form, path):
        raise NoFileYet(f"stream {stream!r}: there is no file at {path}.")
    debezium = change_format(stream, changes).form == "debezium"
    chosen = "text" if debezium and form == "json" else form
    reader = spark.readStream if streaming else spark.read
    reader = reader.format(chosen).options(**{**(_CHECKED if form == "csv" else {}), **options})
    if form == FORMAT:
        spark.dataSource.register(PostgresChanges)
        reader = reader.schema(f"{as_ddl(parse_schema(stream, schema))}, `{CHANGE}` STRING")
    try:
        if form in LAKES:
            return table_rows(
                spark,
                stream,
                form,
                path,
                options,
                changes,
                streaming=streaming,
                may_lose_rows=may_lose_rows,
                resumed=resumed,
            )
        if chosen in _TEXT and "inferSchema" not in options:
            columns = text_columns(spark, stream, chosen, path, options, _wanted(stream, schema, changes))
            reader = reader.schema(f"{columns.ddl}, `{CORRUPT}` STRING")
            return columns.named(reader.load(path) if path is not None else reader.load())
        if streaming and chosen in _FILES and path is not None:
            reader = reader.schema(spark.read.format(chosen).options(**options).load(path).schema)
        return reader.load(path) if path is not None else reader.load()
    except SPARK_ERRORS as error:
        awaited = form in FILE_FORMATS and any(f"[{name}]" in str(error) for name in _NO_FILE)
        raise (NoFileYet if awaited else PipelineError)(
            _no_connector(stream, form, error)
            or f"stream {stream!r} cannot be read as {form} from {path or options.get('table')!r}: {cause_of(error)}"
        ) from error


def _topic_rows(
    spark: SparkSession,
    stream: str,
    options: dict[str, str],
    schema: str,
    changes: str | None,
    *,
    streaming: bool,
    may_lose_rows: bool,
) -> DataFrame:
    """Return the rows of Kafka topics, or their keys and values where these are Debezium envelopes."""
    chosen = kafka_options(stream, options, may_lose_rows=may_lose_rows)
    reader = spark.readStream if streaming else spark.read
    try:
        frame = reader.format(KAFKA).options(**chosen).load()
    except SPARK_ERRORS as error:
        raise PipelineError(
            _no_connector(stream, KAFKA, error)
            or f"stream {stream!r} cannot be read from Kafka: {cause_of(error)}"
        ) from error
    if not may_lose_rows:
        check_topics(spark, stream, chosen)
    if change_format(stream, changes).form == "debezium":
        return frame.select("key", "value")
    wanted = [f"`{name}` {kind}" for name, kind in _wanted(stream, schema, changes).items()]
    return value_rows(frame, ", ".join([*wanted, f"`{CORRUPT}` STRING"]))


def _no_connector(stream: str, form: str, error: BaseException) -> str | None:
    """Return what to do where Spark lacks the connector of a format, None where the error is another one."""
    connector = connector_of(form)
    if connector is None or not any(said in str(error) for said in _NOT_THERE):
        return None
    return (
        f"stream {stream!r}: Spark reads {form} with a connector that is not there; add packages = "
        f'["{connector.coordinates}"] to [spark] of the pipeline file, or jars = ["FOLDER"] with its jars.'
    )


def _wanted(stream: str, schema: str, changes: str | None) -> dict[str, str]:
    """Return the declared columns with their types, and the column that carries the change where it is not declared."""
    wanted = {column.name: str(column.type) for column in parse_schema(stream, schema)}
    form = change_format(stream, changes)
    if form.form in ("weight", "words") and form.column.lower() not in {name.lower() for name in wanted}:
        wanted[form.column] = "BIGINT" if form.form == "weight" else "STRING"
    return wanted
