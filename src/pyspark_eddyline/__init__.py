"""The format "eddyline" for Spark, which takes `DefaultSource` of every installed module `pyspark_*`.

Spark imports this module in every session that looks for Python data sources, so it imports little until it is used.
`eddyline.spark.answers_source` has Spark's side, and `eddyline.api.store_tables` reads the store.
"""

from typing import TYPE_CHECKING

from eddyline.spark.answers_source import AnswersSource

if TYPE_CHECKING:
    from eddyline.api.store_tables import StoreQuestion


class DefaultSource(AnswersSource):
    """Answers of an eddyline store: options path, query, confidence, form."""

    def question(self) -> "StoreQuestion":
        """Return the question that the options ask, or raise PipelineError."""
        from eddyline.api.store_tables import StoreQuestion  # noqa: PLC0415 - see above

        return StoreQuestion.from_options(self.options)
