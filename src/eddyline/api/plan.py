"""The plan: a layout, and the ways to fill it."""

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal, Self, get_args

import msgspec

from eddyline.api.batch_writer import BatchWriter
from eddyline.api.notebook import plan_html
from eddyline.api.run import OnBad, OnUnseenDelete, Run, StartOptions, start_run
from eddyline.api.state import State
from eddyline.errors import CorruptState, PlanError
from eddyline.ingest.arrow_path import DIRECTLY, only_by_spark
from eddyline.ingest.projection import stream_spec
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import projection_of
from eddyline.plan.layout import Layout
from eddyline.plan.layout_check import check_layout
from eddyline.plan.show.explain import explain, plan_json
from eddyline.plan.show.picture import as_mermaid, as_svg, picture_of
from eddyline.sketch import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


_DIRECT = "parquet"
ExplainFormat = Literal["text", "json", "mermaid", "svg"]


class _Header(msgspec.Struct, frozen=True):
    """A plan as it is written."""

    layout: Layout
    digest: str
    informed: bool = False

    @classmethod
    def of(cls, layout: Layout, informed: bool) -> "_Header":
        return cls(layout, layout.digest, informed)


def _scans(layout: Layout, formats: "Mapping[str, str]") -> Iterator[str]:
    """Yield how rows of each stream can be read; `state.explain()` shows how they were. formats: if known."""
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

    informed: it was planned with statistics of the streams. formats: of the streams' sources, if they are known.
    """

    def __init__(
        self, layout: Layout, *, informed: bool = False, formats: "Mapping[str, str] | None" = None
    ) -> None:
        self.layout = layout
        self._informed = informed
        self._formats = dict(formats or {})

    def reading(self, formats: "Mapping[str, str]") -> "Plan":
        """Return the plan with the formats of its sources."""
        return Plan(self.layout, informed=self._informed, formats=formats)

    @property
    def nbytes(self) -> int:
        """Bytes of all counters and hints that the plan keeps."""
        return self.layout.nbytes

    def explain(self, form: ExplainFormat = "text") -> str:
        """Return what is kept, which queries share it, what a row costs, expected errors, and how rows can be read.

        form: "text" for a terminal, "json" for programs, "mermaid" for documents, "svg" for a browser.
        """
        if form not in get_args(ExplainFormat):
            raise PlanError(f"explain({form!r}): the forms are {', '.join(get_args(ExplainFormat))}.")
        if form == "json":
            return plan_json(self.layout)
        if form != "text":
            picture = picture_of(self.layout)
            return as_mermaid(picture) if form == "mermaid" else as_svg(picture)
        text = explain(self.layout, self.layout.error, informed=self._informed)
        return "\n".join([text, "\nscans", *(f"  {line}" for line in _scans(self.layout, self._formats))])

    def expected_errors(self) -> dict[str, float]:
        """Return the expected half-width of each query's interval, relative to the answer.

        Infinite if it is not known: the statistics saw no rows of the join, or fewer than their noise.
        """
        return self.layout.expected_errors

    def to_bytes(self) -> bytes:
        """Return the plan as bytes: sites that read it keep states that can be added up, without Spark."""
        return codec.pack(codec.KIND_PLAN, msgspec.json.encode(_Header.of(self.layout, self._informed)), b"")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the plan that `to_bytes` wrote, or raise CorruptState or FormatVersion."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise CorruptState(
                f"a plan is read from the bytes of to_bytes(), not from {type(data).__name__}."
            )
        header, _ = codec.unpack(bytes(data), codec.KIND_PLAN)
        read = codec.read_json("this plan", header, _Header)
        written = codec.read_json("this plan", header, dict[str, object])
        check_layout(read.layout, written["layout"], read.digest)
        return cls(read.layout, informed=read.informed)

    def __eq__(self, other: object) -> bool:
        """Return whether both keep the same for the same queries, so that their states can be added up."""
        return isinstance(other, Plan) and self.layout.digest == other.layout.digest

    def __hash__(self) -> int:
        return hash(self.layout.digest)

    def empty(self) -> State:
        """Return a state without rows."""
        return State(Snapshot.empty(self.layout))

    def sketch(
        self,
        spark: "SparkSession",
        frames: "Mapping[str, DataFrame | str | os.PathLike[str]]",
    ) -> State:
        """Return the state after one pass over the streams, each a batch frame or the path of its Parquet files.

        Tasks read Parquet files themselves where possible, for paths and for frames that only read such files;
        `state.explain()` shows for which streams they did, and why not for others.
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
        keep: int | str = 3,
    ) -> Run:
        """Return a run that keeps a store current from one frame per stream, streaming or batch.

        A batch frame is read once, before this returns. trigger: how often, such as "10 seconds", or "available
        now" to end when everything available was read; by default a batch directly follows the last one.
        checkpoint: where Spark keeps its position, by default in the store's directory. on_bad: what to do with
        rows whose change cannot be read: "fail", "skip" (and count), or "dead-letter" to the path `dead_letter`.
        on_unseen_delete: what to do with deletes of rows that were never inserted: "note" adds a note to every
        answer, "fail" refuses the batch. keep: the epochs that the store keeps, a number or a rule such as "hourly
        for 7 days, daily for 90". adopt, change_plan, refresh: see `eddyline.api.run.StartOptions`.
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
            keep=keep,
        )
        return start_run(spark, self.layout, frames, os.fspath(store), settings)

    def batch_writer(
        self,
        stream: str,
        *,
        store: str | os.PathLike[str],
        checkpoint: str | os.PathLike[str],
        on_bad: OnBad = "fail",
        on_unseen_delete: OnUnseenDelete = "note",
    ) -> BatchWriter:
        """Return a function for `foreachBatch` that commits each micro-batch of a stream to a store.

        For Spark Connect, where Spark calls it in a process of the server, which needs eddyline and both paths.
        Give the query the same checkpoint as checkpointLocation. Each stream has its own query; one store takes
        all. on_bad: "fail" or "skip".
        """
        return BatchWriter(
            self.layout, stream, os.fspath(store), os.fspath(checkpoint), on_bad, on_unseen_delete
        )

    def __repr__(self) -> str:
        return f"Plan({self.layout.digest[:12]}, {len(self.layout.queries)} queries, {self.nbytes:,} bytes)"

    def _repr_html_(self) -> str:
        return plan_html(self.layout, self.explain())
