"""One streaming query per stream: each micro-batch goes, with the query's own id, to a function on the driver.

The id is that of the checkpoint (`query.id`). It is handed over once the query has started, and the first
batch waits for it, so that no batch is ever taken under a guess. With a batch goes what its checkpoint says that it
holds. The checkpoint is written through to the disk before, so that a committed batch never outlives its plan. A batch
is begun only while nobody asked to stop, and `stop` waits for one that was begun: a stopped stream never leaves half a
batch.
"""

import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from eddyline.errors import EddylineError, PipelineError
from eddyline.spark.awaited import AwaitedFrame, NoFileYet
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.checkpoint import Checkpoint, folder_of, names_in
from eddyline.store import Batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TakeBatch = Callable[[str, str, int, DataFrame, Batch], None]
AVAILABLE_NOW = "available now"
_ID_WAIT = 60.0
_POLL = 0.1
_LOOK = 1.0
"""Seconds between two looks for a stream's first file."""


class _Stopping(Exception):  # noqa: N818 - no error: it tells Spark that this batch was not taken
    """The batch was not begun, because the run is being stopped."""


@dataclass(frozen=True)
class LogLag:
    """Bytes of a source's log that a stream has not taken, and that the server keeps for it, and a warning of them."""

    behind: int | None = None
    retained: int | None = None
    warning: str | None = None


class StreamFeed:
    """A running query that feeds one stream."""

    def __init__(self, stream: str, take: TakeBatch, checkpoint: Checkpoint) -> None:
        self.stream = stream
        self._take = take
        self._checkpoint = checkpoint
        self._folder = ""
        self._query: StreamingQuery | None = None
        self._named = threading.Event()
        self._turn = threading.Lock()
        self._told_to_stop = threading.Event()
        self._error: EddylineError | None = None
        self.waits: str | None = None
        self._waiting: threading.Thread | None = None

    def start(self, frame: DataFrame | AwaitedFrame, trigger: str | None) -> None:
        """Start the query, now or when its first file is there, or raise PipelineError.

        What is to take what is there now does not wait.
        """
        if isinstance(frame, DataFrame):
            self._start(frame, trigger)
            return
        self.waits = str(frame)
        if "availableNow" not in _trigger(trigger):
            self.waits += " and waits for the first"
            self._waiting = threading.Thread(
                target=self._wait, args=(frame, trigger), name=f"await-{self.stream}", daemon=True
            )
            self._waiting.start()

    def _wait(self, awaited: AwaitedFrame, trigger: str | None) -> None:
        """Start the query when its first file is there."""
        try:
            while not self._told_to_stop.wait(_LOOK):
                with contextlib.suppress(NoFileYet):
                    self._start(awaited.read(), trigger)
                    return
        except EddylineError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - nobody else would tell that the stream never began
            self._error = PipelineError(f"stream {self.stream!r} cannot be started: {cause_of(error)}")
        finally:
            self.waits = None

    def _start(self, frame: DataFrame, trigger: str | None) -> None:
        self._folder, location = folder_of(frame), self._checkpoint.location
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", location)
        try:
            self._query = writer.trigger(**_trigger(trigger)).start()
        except SPARK_ERRORS as error:
            raise PipelineError(f"stream {self.stream!r} cannot be started: {cause_of(error)}") from error
        self._named.set()

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._turn:
            if self._told_to_stop.is_set() or not self._named.wait(_ID_WAIT) or self._query is None:
                raise _Stopping
            try:
                self._checkpoint.sync()
                self._take(self.stream, str(self._query.id), batch_id, frame, self._held(batch_id))
            except EddylineError as error:
                self._error = error
                # Without its causes: on a long text a regular expression of Spark overflows its stack.
                raise PipelineError(str(error)) from None

    def _held(self, batch_id: int) -> Batch:
        """Return what the checkpoint knows of a batch."""
        files = names_in(self._folder, self._checkpoint.files(batch_id)) if self._folder else ()
        return Batch(self._checkpoint.held(batch_id), self._folder, files)

    @property
    def active(self) -> bool:
        """Whether the query still runs."""
        waiting = self._waiting is not None and self._waiting.is_alive()
        return waiting or (self._query is not None and bool(self._query.isActive))

    @property
    def status(self) -> str:
        """What the query does now, in Spark's words, or how it ended."""
        if self._query is None:
            return self.waits or "not started"
        if self._query.isActive:
            return str(self._query.status["message"])
        return "failed" if self.error() is not None else "ended"

    @property
    def rows_per_second(self) -> float | None:
        """Rows per second of the last micro-batch, as Spark measured them."""
        progress: Any = self._query.lastProgress if self._query is not None else None
        return None if progress is None else progress.get("processedRowsPerSecond")

    @property
    def log(self) -> LogLag:
        """How the stream stands in its source's log, at the last progress that Spark told."""
        progress: Any = self._query.lastProgress if self._query is not None else None
        sources = progress["sources"] if progress is not None else ()
        return (
            log_lag(*(sources[0].get(name) for name in ("endOffset", "latestOffset")))
            if sources
            else LogLag()
        )

    def error(self) -> EddylineError | None:
        """Return why the query ended, as an error of ours, None if it runs or ended well."""
        if (
            self._error is not None
            or self._told_to_stop.is_set()
            or self._query is None
            or self._query.isActive
        ):
            return self._error
        failure = self._query.exception()
        if failure is not None:
            self._error = PipelineError(f"stream {self.stream!r} stopped: {cause_of(failure)}")
        return self._error

    def await_end(self, timeout: float = _POLL) -> bool:
        """Return whether the query ended within so many seconds."""
        if self._waiting is not None:
            self._waiting.join(timeout)
        if self._query is not None and self._query.isActive:
            try:
                self._query.awaitTermination(timeout)  # type: ignore[arg-type]
            except SPARK_ERRORS:
                return True  # `error` tells it
        return not self.active

    def stop(self) -> None:
        """Let a batch that was begun finish, then end the query; a second time changes nothing."""
        self._told_to_stop.set()
        if self._waiting is not None:
            self._waiting.join()
        with self._turn:
            pass
        if self._query is not None and self._query.isActive:
            self._query.stop()


def log_lag(end: str | None, latest: str | None) -> LogLag:
    """Return how an offset stands to the latest, both as Spark tells them; nothing of sources that have no log."""
    try:
        at, now = json.loads(end or "null"), json.loads(latest or "null")
        return LogLag(max(now["lsn"] - at["lsn"], 0), now["retained"], now["warning"])
    except (ValueError, TypeError, KeyError):
        return LogLag()


def _trigger(trigger: str | None) -> dict[str, Any]:
    """Return the trigger in Spark's words: by default each batch follows the last."""
    if trigger is None:
        return {"processingTime": "0 seconds"}
    if trigger.replace("-", " ") == AVAILABLE_NOW:
        return {"availableNow": True}
    return {"processingTime": trigger}


def check_session(spark: SparkSession) -> None:
    """Raise PipelineError over Spark Connect, where micro-batches do not come to this process."""
    if is_remote() or not hasattr(spark, "_jsparkSession"):
        raise PipelineError(
            "a continuous run needs a classic Spark session: over Spark Connect micro-batches run on the server, "
            "and the store has its one writer here. Use plan.sketch there, or start the run with spark-submit."
        )
