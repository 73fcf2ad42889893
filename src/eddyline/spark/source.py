"""A source: what a pipeline says about where the rows of a stream are, and how they are to be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from eddyline.ingest.changes import ChangeFormat, change_format
from eddyline.sql.schema import parse_schema


@dataclass(frozen=True)
class Source:
    """Where a stream's rows are.

    schema: the declared columns. streaming: a stream is read, and not once what is there. may_lose_rows: what was
    dropped before it was read is not missed. resumed: a stream goes on from its checkpoint.
    """

    stream: str
    format: str
    path: str | None
    schema: str
    changes: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    streaming: bool = False
    may_lose_rows: bool = False
    resumed: bool = False

    def reader(self, spark: SparkSession) -> DataFrameReader | DataStreamReader:
        """Return Spark's reader, of a batch or a stream."""
        return spark.readStream if self.streaming else spark.read

    @property
    def change(self) -> ChangeFormat:
        """How rows tell their change."""
        return change_format(self.stream, self.changes)

    def columns(self) -> dict[str, str]:
        """Return the declared columns with their types, and the one that tells the change where it is not declared."""
        wanted = {column.name: str(column.type) for column in parse_schema(self.stream, self.schema)}
        form = self.change
        if form.form in ("weight", "words") and form.column.lower() not in {name.lower() for name in wanted}:
            wanted[form.column] = "BIGINT" if form.form == "weight" else "STRING"
        return wanted
