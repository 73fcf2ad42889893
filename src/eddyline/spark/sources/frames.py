"""Sources as frames: the rows of a pipeline's streams, read by Spark's readers, connectors, and our own."""

from functools import partial

from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError
from eddyline.expressions.schema import as_ddl, parse_schema
from eddyline.ingest.files import FILE_FORMATS, lacks_files
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.checkpoint import AwaitedFrame, NoFileYet
from eddyline.spark.postgres import CHANGE, FORMAT, PostgresChanges
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.connectors import connector_of
from eddyline.spark.sources.files import file_rows
from eddyline.spark.sources.kafka import FORMAT as KAFKA
from eddyline.spark.sources.kafka import topic_rows
from eddyline.spark.sources.lakes import LAKES, table_rows

_NO_FILE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
_NOT_THERE = ("Failed to find", "Cannot find catalog plugin class", "cannot find the plugin class")


def stream_frame(spark: SparkSession, source: SparkSource) -> DataFrame | AwaitedFrame:
    """Return the frame of a source as `read_frame` does, or a placeholder that waits for its first file.

    Its columns are those of its files, which are checked against the declared ones; before, they are unknown.
    """
    try:
        return read_frame(spark, source)
    except NoFileYet:
        if not source.streaming:
            raise
        return AwaitedFrame(partial(read_frame, spark, source), str(source.path))


def read_frame(spark: SparkSession, source: SparkSource) -> DataFrame:
    """Return the frame of a source, batch or streaming, or raise PipelineError; NoFileYet if there is no file."""
    if source.streaming and lacks_files(source.format, source.path, source.options):
        raise NoFileYet(f"stream {source.stream!r}: there is no file at {source.path}.")
    try:
        return _rows(spark, source)
    except SPARK_ERRORS as error:
        awaited = source.format in FILE_FORMATS and any(f"[{name}]" in str(error) for name in _NO_FILE)
        raise (NoFileYet if awaited else PipelineError)(
            _no_connector(source, error)
            or f"stream {source.stream!r} cannot be read as {source.format} from "
            f"{source.path or source.options.get('table')!r}: {cause_of(error)}"
        ) from error


def _rows(spark: SparkSession, source: SparkSource) -> DataFrame:
    if source.format == KAFKA:
        return topic_rows(spark, source)
    if source.format in LAKES:
        return table_rows(spark, source)
    if source.format == FORMAT:
        return _postgres_rows(spark, source)
    if source.format in FILE_FORMATS:
        return file_rows(spark, source)
    reader = source.reader(spark).format(source.format).options(**source.options)
    return reader.load(source.path) if source.path is not None else reader.load()


def _postgres_rows(spark: SparkSession, source: SparkSource) -> DataFrame:
    changes = _source_of_one_stream(source.stream)
    spark.dataSource.register(changes)
    declared = as_ddl(parse_schema(source.stream, source.schema))
    reader = source.reader(spark).format(changes.name()).options(**source.options)
    return reader.schema(f"{declared}, `{CHANGE}` STRING").load()


def _source_of_one_stream(stream: str) -> type[PostgresChanges]:
    """Return the data source under a name of its own, so that no two streams share Spark's object for it.

    Spark keeps one map of environment variables for each registered name. It adds to the map when a stream starts, and
    writes it into the tasks of every stream that uses the name. Two streams that start at the same time can so send
    half a map, and the task fails with java.io.OptionalDataException.
    """
    name = f"{FORMAT}-{stream}"
    return type("PostgresChanges", (PostgresChanges,), {"name": classmethod(lambda _: name)})


def _no_connector(source: SparkSource, error: BaseException) -> str | None:
    """Return what to do if Spark lacks the connector of a format, None for other errors."""
    connector = connector_of(source.format)
    if connector is None or not any(said in str(error) for said in _NOT_THERE):
        return None
    return (
        f"stream {source.stream!r}: Spark reads {source.format} with a connector that is not there; add packages = "
        f'["{connector.coordinates}"] to [spark] of the pipeline file, or jars = ["FOLDER"] with its jars.'
    )
