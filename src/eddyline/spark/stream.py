"""One streaming query per stream: each micro-batch goes to a function on the driver; bad rows are kept apart."""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from eddyline.errors import EddylineError, PipelineError
from eddyline.plan.layout import Stream
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.changes import decode_changes
from eddyline.spark.checkpoint import AwaitedFrame, Checkpoint, NoFileYet, file_names_in, folder_of
from eddyline.spark.tasks import BAD, MARK, MARK_KEY, dead_letter_task
from eddyline.store import Batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


# Each micro-batch goes to its function with the query's own id.
#
# The id is that of the checkpoint (`query.id`). It is passed on once the query has started, and the first
# batch waits for it, so that no batch is committed under a guessed id. Each batch comes with what its
# checkpoint says that it holds. The checkpoint is flushed to disk before, so that a committed batch never
# outlives its plan. A batch begins only if no stop was requested, and `stop` waits for one that has
# begun: a stopped stream never leaves half a batch.


_LOG = logging.getLogger("eddyline.spark")
TakeBatch = Callable[[str, str, int, DataFrame, Batch], None]
AVAILABLE_NOW = "available now"
_ID_WAIT = 60.0
_POLL = 0.1
_LOOK = 1.0
"""Seconds between two checks for a stream's first file."""
_STARTING = ("Initializing", "Getting offsets")
"""How Spark describes a query that has not read its source yet."""
_SECONDS_TO_START = 30.0
"""Seconds that the next stream waits for this one to start: processes that start together slow each other down."""
_NO_WORKER = "Python worker failed to connect back"
"""Spark gives a Python process ten seconds to start, which is too short on a busy machine."""
_RESTARTS = 5


class _Stopping(Exception):  # noqa: N818 - not an error: it signals Spark that this batch was not taken
    """The batch was not begun, because the run is being stopped."""


@dataclass(frozen=True)
class LogLag:
    """Bytes of a source's log that a stream has not read, bytes that the server keeps for it, and a warning."""

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
        self._stopping = threading.Event()
        self._error: EddylineError | None = None
        self.waits: str | None = None
        self._waiting: threading.Thread | None = None
        self._again: Callable[[], None] = lambda: None
        self._restarts = 0
        self._restarting = threading.Lock()

    def start(self, frame: DataFrame | AwaitedFrame, trigger: str | None) -> None:
        """Start the query, now or when its first file exists, or raise PipelineError.

        `availableNow` does not wait for a first file.
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
        """Start the query when its first file exists."""
        try:
            while not self._stopping.wait(_LOOK):
                with contextlib.suppress(NoFileYet):
                    self._start(awaited.read(), trigger)
                    return
        except EddylineError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - nothing else would report that the stream never began
            self._error = PipelineError(f"stream {self.stream!r} cannot be started: {cause_of(error)}")
        finally:
            self.waits = None

    def _start(self, frame: DataFrame, trigger: str | None) -> None:
        self._folder, location = folder_of(frame), self._checkpoint.location
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", location)
        self._again = lambda: self._start(frame, trigger)
        self._named.clear()
        try:
            self._query = writer.trigger(**_trigger(trigger)).start()
        except SPARK_ERRORS as error:
            raise PipelineError(f"stream {self.stream!r} cannot be started: {cause_of(error)}") from error
        self._named.set()
        self._await_start(self._query)

    def _await_start(self, query: "StreamingQuery") -> None:
        """Wait until a query reads its source, so that streams start one after the other."""
        end = time.monotonic() + _SECONDS_TO_START
        while query.isActive and time.monotonic() < end and not self._stopping.wait(_POLL):
            if not str(query.status["message"]).startswith(_STARTING):
                return

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._turn:
            if self._stopping.is_set() or not self._named.wait(_ID_WAIT) or self._query is None:
                raise _Stopping
            try:
                self._checkpoint.sync()
                self._take(self.stream, str(self._query.id), batch_id, frame, self._held(batch_id))
            except EddylineError as error:
                self._error = error
                # Without its causes: on a long string a regular expression of Spark overflows its stack.
                raise PipelineError(str(error)) from None

    def _held(self, batch_id: int) -> Batch:
        """Return what the checkpoint knows of a batch."""
        files = file_names_in(self._folder, self._checkpoint.files(batch_id)) if self._folder else ()
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
        """Rows per second of the last micro-batch, as measured by Spark."""
        progress: Any = self._query.lastProgress if self._query is not None else None
        return None if progress is None else progress.get("processedRowsPerSecond")

    @property
    def log(self) -> LogLag:
        """The stream's position in its source's log, at Spark's last progress report."""
        progress: Any = self._query.lastProgress if self._query is not None else None
        sources = progress["sources"] if progress is not None else ()
        return (
            log_lag(*(sources[0].get(name) for name in ("endOffset", "latestOffset")))
            if sources
            else LogLag()
        )

    def error(self) -> EddylineError | None:
        """Return why the query ended, as one of our errors, None if it runs or ended well."""
        if self._error is not None or self._stopping.is_set() or self._query is None or self._query.isActive:
            return self._error
        with self._restarting:
            failure = None if self._query.isActive else self._query.exception()
            if failure is not None and _NO_WORKER in str(failure) and self._restarts < _RESTARTS:
                self._restarts += 1
                self._restart()
            elif failure is not None:
                self._error = PipelineError(f"stream {self.stream!r} stopped: {cause_of(failure)}")
        return self._error

    def _restart(self) -> None:
        """Start the query again from its checkpoint, which says what was taken."""
        _LOG.warning("stream %s starts again: a Python process of Spark took too long to start", self.stream)
        try:
            self._again()
        except EddylineError as error:
            self._error = error

    def await_end(self, timeout: float = _POLL) -> bool:
        """Return whether the query ended within `timeout` seconds."""
        if self._waiting is not None:
            self._waiting.join(timeout)
        if self._query is not None and self._query.isActive:
            try:
                self._query.awaitTermination(timeout)  # type: ignore[arg-type]
            except SPARK_ERRORS:
                return True  # `error` returns the reason
        return not self.active

    def stop(self) -> None:
        """Let a batch that has begun finish, then end the query; a second call changes nothing."""
        self._stopping.set()
        if self._waiting is not None:
            self._waiting.join()
        with self._turn:
            pass
        if self._query is not None and self._query.isActive:
            self._query.stop()


def log_lag(end: str | None, latest: str | None) -> LogLag:
    """Return an offset's lag behind the latest one, as Spark reports both; empty for sources without a log."""
    try:
        at, now = json.loads(end or "null"), json.loads(latest or "null")
        return LogLag(max(now["lsn"] - at["lsn"], 0), now["retained"], now["warning"])
    except (ValueError, TypeError, KeyError):
        return LogLag()


def _trigger(trigger: str | None) -> dict[str, Any]:
    """Return the trigger in Spark's words: by default each batch directly follows the last."""
    if trigger is None:
        return {"processingTime": "0 seconds"}
    if trigger.replace("-", " ") == AVAILABLE_NOW:
        return {"availableNow": True}
    return {"processingTime": trigger}


def check_session(spark: SparkSession) -> None:
    """Raise PipelineError over Spark Connect, where micro-batches do not reach this process."""
    if is_remote() or not hasattr(spark, "_jsparkSession"):
        raise PipelineError(
            "plan.start needs a classic Spark session: over Spark Connect micro-batches run on the server. There, use "
            "frame.writeStream.foreachBatch(plan.batch_writer(stream, store=..., checkpoint=...)), or plan.sketch for "
            "a batch pass."
        )


# Dead letters: rows whose change could not be read, written to files for inspection.


def write_dead_letters(stream: Stream, frame: DataFrame, path: str, query_id: str, batch_id: int) -> None:
    """Write the bad rows of a batch as JSON lines under `path/<stream>/<query id>/batch=<n>`.

    If the same batch comes again, it overwrites what it wrote.
    """
    target = f"{path.rstrip('/')}/{stream.name}/{query_id}/batch={batch_id}"
    names = [column.name for column in stream.columns]
    rows = decode_changes(stream, frame, names)
    kept = rows.select(*(name for name in (BAD, MARK, MARK_KEY) if name in rows.columns))
    try:
        kept.mapInArrow(dead_letter_task, "value string").write.mode("overwrite").text(target)
    except SPARK_ERRORS as error:
        raise PipelineError(
            f"stream {stream.name!r}: bad rows of batch {batch_id} cannot be written to {target}: {cause_of(error)}"
        ) from error
