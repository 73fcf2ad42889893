"""Sources: frames of a pipeline's streams, by Spark's own readers."""

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import PipelineError

_NEEDS_SCHEMA = ("csv", "json")


def read_frame(
    spark: SparkSession, stream: str, form: str, path: str | None, options: dict[str, str], schema: str
) -> DataFrame:
    """Return the batch frame of a stream; text formats are read by its declared schema."""
    reader = spark.read.format(form).options(**options)
    if form in _NEEDS_SCHEMA and "inferSchema" not in options:
        reader = reader.schema(schema)
    try:
        return reader.load(path) if path is not None else reader.load()
    except (AnalysisException, PySparkException) as error:
        reason = str(error).split("\n")[0]
        raise PipelineError(f"stream {stream!r} cannot be read as {form} from {path!r}: {reason}") from error
