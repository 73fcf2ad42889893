"""The plan: a layout, and the ways to fill it."""

from typing import TYPE_CHECKING

from eddyline.api.state import State
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.explain import explain
from eddyline.plan.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


class Plan:
    """What a workload keeps, within its budget."""

    def __init__(self, layout: Layout, assumption: str = "") -> None:
        self.layout = layout
        self._assumption = assumption

    @property
    def nbytes(self) -> int:
        """Bytes of all counters and hints that the plan keeps."""
        return self.layout.nbytes

    def explain(self) -> str:
        """Return what is kept, who shares it and what rows cost, as text."""
        return explain(self.layout, self._assumption)

    def empty(self) -> State:
        """Return the state before any row."""
        return State(Snapshot.empty(self.layout))

    def sketch(self, spark: "SparkSession", frames: "Mapping[str, DataFrame]") -> State:
        """Return the state after one pass over batch frames, one frame per stream."""
        from eddyline.spark.batch import sketch_frames  # noqa: PLC0415 - Spark only where it is used

        return State(sketch_frames(spark, self.layout, frames))

    def __repr__(self) -> str:
        return f"Plan({self.layout.digest[:12]}, {len(self.layout.queries)} queries, {self.nbytes:,} bytes)"
