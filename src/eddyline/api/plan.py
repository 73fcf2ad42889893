"""The plan: a layout, and the ways to fill it."""

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal, get_args

from eddyline.api.notebook import plan_html
from eddyline.api.run import OnBad, OnUnseenDelete, Run
from eddyline.api.start import StartOptions, start_run
from eddyline.api.state import State
from eddyline.errors import PlanError
from eddyline.ingest.arrow_path import DIRECTLY, only_by_spark
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import projection_of
from eddyline.ingest.stream_spec import stream_spec
from eddyline.plan.layout import Layout
from eddyline.plan.show.drawing import as_mermaid, as_svg
from eddyline.plan.show.explain import explain
from eddyline.plan.show.picture import picture_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


_DIRECT = "parquet"
ExplainFormat = Literal["text", "mermaid", "svg"]


def _scans(layout: Layout, formats: "Mapping[str, str]") -> Iterator[str]:
    """Yield how rows of each stream can come; `state.explain()` says how they did. formats: of sources, where known."""
    for stream in layout.streams:
        form = formats.get(stream.name, _DIRECT)
        if form != _DIRECT:
            yield f"{stream.name}: through the JVM: Spark reads {form}"
            continue
        projection = projection_of(stream_spec(layout, stream.name), stream.event_time)
        gap = only_by_spark(stream, projection, layout.timezone)
        yield f"{stream.name}: " + (DIRECTLY if gap is None else f"through the JVM: {gap}")


class Plan:
    """What a workload keeps, within its budget.

    informed: it was planned with statistics of the streams. formats: of the streams' sources, where they are known.
    """

    def __init__(
        self, layout: Layout, *, informed: bool = False, formats: "Mapping[str, str] | None" = None
    ) -> None:
        self.layout = layout
        self._informed = informed
        self._formats = dict(formats or {})

    def reading(self, formats: "Mapping[str, str]") -> "Plan":
        """Return the plan of sources whose formats are known."""
        return Plan(self.layout, informed=self._informed, formats=formats)

    @property
    def nbytes(self) -> int:
        """Bytes of all counters and hints that the plan keeps."""
        return self.layout.nbytes

    def explain(self, form: ExplainFormat = "text") -> str:
        """Return what is kept, who shares it, what rows cost, which errors are expected, and how rows can come.

        form: "text" for a terminal, "mermaid" for documents, "svg" for a browser.
        """
        if form not in get_args(ExplainFormat):
            raise PlanError(f"explain({form!r}): the forms are {', '.join(get_args(ExplainFormat))}.")
        if form != "text":
            picture = picture_of(self.layout)
            return as_mermaid(picture) if form == "mermaid" else as_svg(picture)
        text = explain(self.layout, self.layout.error, informed=self._informed)
        return "\n".join([text, "\nscans", *(f"  {line}" for line in _scans(self.layout, self._formats))])

    def expected_errors(self) -> dict[str, float]:
        """Return half the width of each query's interval that is expected, relative to the answer.

        Infinite where it is not known: the statistics saw no rows of the join, or fewer than their noise.
        """
        return self.layout.expected_errors

    def empty(self) -> State:
        """Return the state before any row."""
        return State(Snapshot.empty(self.layout))

    def sketch(
        self,
        spark: "SparkSession",
        frames: "Mapping[str, DataFrame | str | os.PathLike[str]]",
    ) -> State:
        """Return the state after one pass over the streams: a batch frame of each, or the path of its Parquet files.

        Frames that only read Parquet files, and paths, are read by the tasks themselves where they can;
        `state.explain()` says which were, and why not.
        """
        from eddyline.spark.batch import sketch_frames  # noqa: PLC0415 - Spark only where it is used

        snapshot, ways = sketch_frames(spark, self.layout, frames)
        return State(snapshot, ways=ways)

    def start(
        self,
        spark: "SparkSession",
        frames: "Mapping[str, DataFrame]",
        *,
        store: str | os.PathLike[str],
        trigger: str | None = None,
        checkpoint: str | None = None,
        adopt: bool = False,
        on_bad: OnBad = "fail",
        dead_letter: str | None = None,
        change_plan: bool = False,
        refresh: Collection[str] = (),
        break_lock: bool = False,
        on_unseen_delete: OnUnseenDelete = "note",
    ) -> Run:
        """Return a run that keeps a store current from one frame per stream, streaming or batch.

        A batch frame is taken once, before this returns. trigger: how often, such as "10 seconds", or
        "available now" to end when everything that is there was taken; by default a batch follows the last.
        checkpoint: where Spark keeps its place, by default in the store's directory. on_bad: what to do with
        rows whose change cannot be read: "fail", "skip" (and count), or "dead-letter" to the path
        `dead_letter`. on_unseen_delete: what to do with a batch after which rows were deleted that never came:
        "note" it with every answer, or "fail". adopt, change_plan, refresh: see `eddyline.api.start.StartOptions`.
        """
        settings = StartOptions(
            trigger,
            checkpoint,
            adopt,
            on_bad,
            dead_letter,
            change_plan,
            tuple(refresh),
            break_lock=break_lock,
            on_unseen_delete=on_unseen_delete,
        )
        return start_run(spark, self.layout, frames, os.fspath(store), settings)

    def __repr__(self) -> str:
        return f"Plan({self.layout.digest[:12]}, {len(self.layout.queries)} queries, {self.nbytes:,} bytes)"

    def _repr_html_(self) -> str:
        return plan_html(self.layout, self.explain())
