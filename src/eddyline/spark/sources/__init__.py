"""Sources: where a pipeline finds the rows of a stream; one module for each system whose rows Spark reads."""

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from eddyline.expressions.schema import parse_schema
from eddyline.ingest.changes import ChangeFormat, change_format

TakesAvailableNow: Any = object
"""The base class that lets `availableNow` read a Python source in several batches; before Spark 4.2, in one."""
with contextlib.suppress(ImportError):
    TakesAvailableNow = importlib.import_module(
        "pyspark.sql.streaming.datasource"
    ).SupportsTriggerAvailableNow


@dataclass(frozen=True)
class SparkSource:
    """Where a stream's rows are.

    schema: the declared columns. streaming: read as a stream, not once. may_lose_rows: rows that were
    dropped before they were read are acceptable. resumed: a stream continues from its checkpoint.
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
        """Return Spark's reader, for a batch or a stream."""
        return spark.readStream if self.streaming else spark.read

    @property
    def change(self) -> ChangeFormat:
        """The format in which rows carry their change."""
        return change_format(self.stream, self.changes)

    def columns(self) -> dict[str, str]:
        """Return the declared columns with their types, and the change column if it is not declared."""
        wanted = {column.name: str(column.type) for column in parse_schema(self.stream, self.schema)}
        form = self.change
        if form.form in ("weight", "words") and form.column.lower() not in {name.lower() for name in wanted}:
            wanted[form.column] = "BIGINT" if form.form == "weight" else "STRING"
        return wanted
