"""Answers of a store as Spark frames, batch and streaming: a Python data source.

    spark.read.format("eddyline").load("state/")
    spark.readStream.format("eddyline").load("state/")

The answers are read in the driver, when Spark plans the partitions, and are sent inside the only partition. So all
rows are of one epoch, a retried task returns the same rows, and executors need no access to the store.

The offset of the stream is the number of an epoch. A batch has the answers at its newest epoch; epochs in between
are not delivered. A batch that Spark plans again after a restart has the same epoch as before, as long as the store
keeps it. If the store has collected it, the batch is empty, and the next one has the newest epoch: no epoch comes
twice.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from eddyline.errors import PipelineError
from eddyline.spark.sources import TakesAvailableNow

FORMAT = "eddyline"
_BEFORE_ALL = -1
"""The epoch before the first one: a new stream begins with whatever epoch the store has."""


class StoreQuestions(Protocol):
    """What a reader asks of a store; the `api` package, which is above this one, implements it."""

    def schema(self) -> pa.Schema:
        """Return the columns of the answers."""

    def epoch(self) -> int:
        """Return the number of the store's current epoch."""

    def table(self) -> pa.Table:
        """Return the answers at the current epoch."""

    def table_at(self, epoch: int) -> pa.Table | None:
        """Return the answers at one epoch, None if the store has collected it."""


class AnswersSource(DataSource):
    """The data source `eddyline`, except for the question that its options ask, which a subclass adds."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format(...)` takes."""
        return FORMAT

    @abstractmethod
    def question(self) -> StoreQuestions:
        """Return the question that the options ask."""

    def schema(self) -> StructType:
        """Return the columns of the answers."""
        return from_arrow_schema(self.question().schema())

    def reader(self, schema: StructType) -> "AnswersReader":
        """Return the reader of a batch frame."""
        return AnswersReader(self.question(), schema)

    def streamReader(self, schema: StructType) -> "AnswersStream":  # noqa: N802 - Spark's name
        """Return the reader of a streaming frame."""
        return AnswersStream(self.question(), schema)


class AnswersReader(DataSourceReader):
    """Reads the answers at the epoch that is current when Spark plans the query."""

    def __init__(self, question: StoreQuestions, schema: StructType) -> None:
        self._question = question
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition, which holds the answers."""
        return [_holding(self._question.table(), self._schema)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the answers that a partition holds."""
        return iter(partition.value.to_batches())


class AnswersStream(DataSourceStreamReader, TakesAvailableNow):  # type: ignore[misc]
    """Reads the answers at the newest epoch, once for each epoch that it sees."""

    def __init__(self, question: StoreQuestions, schema: StructType) -> None:
        self._question = question
        self._schema = schema
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset before all epochs."""
        return {"epoch": _BEFORE_ALL}

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, int]:  # noqa: ARG002, N802
        """Return the store's current epoch, or the last one to read; Spark 4.1 passes no arguments."""
        return {"epoch": self._question.epoch() if self._last is None else self._last}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Make the current epoch the last one to read, for the trigger `availableNow`."""
        self._last = self._question.epoch()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one partition with the answers at the end; none if nothing is new or the epoch was collected."""
        if start == end:
            return []
        table = self._question.table_at(end["epoch"])
        return [] if table is None else [_holding(table, self._schema)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the answers that a partition holds."""
        return iter(partition.value.to_batches())


def _holding(table: pa.Table, schema: StructType) -> InputPartition:
    """Return a partition that holds a table, or raise PipelineError if its columns are not those of the frame."""
    found = from_arrow_schema(table.schema)
    if found != schema:
        raise PipelineError(
            f"the answers have the columns {found.simpleString()} and the frame was loaded with "
            f"{schema.simpleString()}: load it again, without .schema(...)."
        )
    return InputPartition(table)
