"""Answers of a store as tables: what a Spark frame of format "eddyline" asks, and what it gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, cast

import pyarrow as pa

from eddyline.answer.every_query import SCHEMA, groups_table
from eddyline.answer.groups.table import Groups
from eddyline.api.batch_job import open_state, state_of
from eddyline.api.state import State
from eddyline.errors import PipelineError, StoreError
from eddyline.plan.size.shapes import checked_confidence
from eddyline.store import Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Form = Literal["answers", "groups"]
_OPTIONS = ("path", "query", "confidence", "form")


@dataclass(frozen=True)
class StoreQuestion:
    """What is asked of a store: all queries of its plan or one, by name or as SQL text, at a confidence.

    form: "answers" gives the table of `State.answers`; "groups" that of one GROUP BY query, in columns of its own.
    """

    path: str
    query: str | None = None
    confidence: float | None = None
    form: Form = "answers"

    def __post_init__(self) -> None:
        if self.form not in ("answers", "groups"):
            raise PipelineError(
                f"option form={self.form!r} of format eddyline is neither answers nor groups."
            )
        if self.form == "groups" and self.query is None:
            raise PipelineError("option form='groups' of format eddyline needs the option query beside it.")

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Return the question that a frame's options ask, or raise PipelineError."""
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise PipelineError(
                f"format eddyline has no option {unknown[0]!r}: its options are {', '.join(_OPTIONS)}."
            )
        if not options.get("path"):
            raise PipelineError('format eddyline needs the path of a store: give it with .load("state/").')
        form = cast("Form", options.get("form", "answers"))
        return cls(options["path"], options.get("query"), _confidence(options.get("confidence")), form)

    def schema(self) -> pa.Schema:
        """Return the columns of the table, after a look whether the store and the query can be read."""
        state = open_state(self.path)
        return SCHEMA if self.query is None else self._table_of(state).schema

    def epoch(self) -> int:
        """Return the number of the store's current epoch."""
        return Reader(self.path).current()

    def table(self) -> pa.Table:
        """Return the answers at the store's current epoch."""
        return self._table_of(open_state(self.path))

    def table_at(self, epoch: int) -> pa.Table | None:
        """Return the answers at one epoch, None if it is one that the store has collected."""
        reader = Reader(self.path)
        try:
            found = reader.at(epoch)
        except StoreError:
            if epoch == reader.current() or epoch in reader.epochs():
                raise
            return None
        return self._table_of(state_of(found))

    def _table_of(self, state: State) -> pa.Table:
        if self.form == "answers":
            queries = () if self.query is None else (self.query,)
            return state.answers(*queries, confidence=self.confidence)
        answer = state.answer(cast("str", self.query), confidence=self.confidence)
        if not isinstance(answer, Groups):
            raise PipelineError(f"query {self.query!r} has no groups: leave out the option form='groups'.")
        return groups_table(answer)


def _confidence(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        return checked_confidence(float(given))
    except ValueError:
        raise PipelineError(
            f"option confidence={given!r} of format eddyline is not a number between 0.5 and 1, such as 0.95."
        ) from None


def register(spark: "SparkSession") -> None:
    """Let a Spark session read stores as tables: `spark.read.format("eddyline").load("state/")`.

    Sessions whose Python has eddyline installed find the format by themselves, and need no call.
    """
    from eddyline.api.answers_source import EddylineAnswers  # noqa: PLC0415 - Spark only where it is used

    spark.dataSource.register(EddylineAnswers)
