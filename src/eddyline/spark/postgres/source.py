"""The data source: offsets in a table's log, and batches of what lies between two of them.

    spark.dataSource.register(PostgresChanges)
    spark.readStream.format("eddyline-postgres").options(dsn="host=... dbname=...", table="public.orders").load()

Rows have the table's columns, of the schema given with `.schema(...)`, and `_change_type`. The first batch is a copy of
the table as it was where its slot stands (`copy` says how); then come its changes. The offset is the end of a
transaction in the write-ahead log, whether the table was copied, and what the stream began with (`standing` says why).
A batch peeks at the slot and leaves it where it is, so that it can be read again; the slot is advanced once Spark has
committed the batch, or all streams of the slot have (`sharing`). The table needs REPLICA IDENTITY FULL, and the server
`wal_level = logical`. A publication and a slot named `eddyline_<table>` are made where they are missing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from eddyline.errors import PipelineError
from eddyline.spark.postgres.batches import CHANGE, batches
from eddyline.spark.postgres.copy import Blocks, ChangesSince, TableCopy, read_blocks, read_turned
from eddyline.spark.postgres.messages import Change, Transactions
from eddyline.spark.postgres.server import FORMAT, TableLog
from eddyline.spark.postgres.standing import Offset, Standing, check_offset

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1, which takes what is available in a single batch
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

_COPIED, _NEVER = "copied", "never"
_OPTIONS = (
    "dsn", "table", "slot", "publication", "shared", "max_changes", "snapshot", "copy_tasks", "warn_retained",
)  # fmt: skip
_STRIDE = 1 << 24
"""Bytes of the log without a change of the table after which the offset moves on, so that the slot can, too."""


class PostgresChanges(DataSource):
    """The data source `eddyline-postgres`: its options are those of docs/how-to/postgres.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format(...)` takes."""
        return FORMAT

    def schema(self) -> str:
        """Raise: the columns are those of the stream, and Spark is told them with `.schema(...)`."""
        raise PipelineError(f"a frame of format {FORMAT} needs its columns: give them with .schema(...).")

    def streamReader(self, schema: StructType) -> "PostgresReader":  # noqa: N802 - Spark's name
        """Return the reader of the stream."""
        return PostgresReader(dict(self.options), schema)


class Range(InputPartition):
    """The transactions after one place in the log, up to another, and the number of the table."""

    def __init__(self, start: int, end: int, relation: int) -> None:
        super().__init__((start, end, relation))
        self.start, self.end, self.relation = start, end, relation


class PostgresReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one table's rows and changes."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise PipelineError(
                f"format {FORMAT} has no option {unknown[0]!r}: its options are {', '.join(_OPTIONS)}."
            )
        if options.get("snapshot", "initial") not in ("initial", _NEVER):
            raise PipelineError(f"option snapshot={options['snapshot']!r} is neither initial nor {_NEVER}.")
        self._log = TableLog.of(options)
        self._is_copied = options.get("snapshot") != _NEVER
        self._most = _number(options, "max_changes", 100_000)
        self._bound = _number(options, "warn_retained", 1 << 30)
        self._schema = schema
        self._names = [field.name for field in schema.fields if field.name != CHANGE]
        self._copy = TableCopy(self._log, _number(options, "copy_tasks", 8))
        self._last: Offset | None = None
        self._until: int | None = None
        self._boundary = 0

    def check(self, names: list[str] | None) -> None:
        """Raise where the server cannot be reached, or the table is not as a new stream needs it."""
        self._log.check(names)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where the slot stands, before the table is copied."""
        now = self._log.prepare(self._names)
        at = {"lsn": now.slot, **({_COPIED: 0} if self._is_copied else {})}
        self._last = {**at, **now.remembered(self._names)}
        return self._last

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Make what the log has now the last to take, with the trigger `availableNow`."""
        with self._log.connected() as connection:
            self._until = self._log.look(connection).flushed

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: ARG002, N802
        """Return the table's copy, or the end of a transaction about `max_changes` on; the last one if none is new.

        The slot stands behind by the batches that Spark has not committed, so it is looked into further and
        further until something new is found. Spark 4.1 gives no arguments.
        """
        last = start or self._last or self.initialOffset()
        copied = {_COPIED: 1} if last.get(_COPIED) == 0 else self._next(last)
        self._last = {**last, **copied}
        return self._last

    def _next(self, last: Offset) -> Offset:
        """Return the end of a transaction about `max_changes` on, or how far the log was read if that is far enough."""
        new, now = self._look_ahead(last, self._until)
        if new is not None:
            return {"lsn": new, **now.divided()}
        read = self._read_up_to(now)
        return {"lsn": read if read - last["lsn"] > _STRIDE else last["lsn"], **now.divided()}

    def _look_ahead(self, last: Offset, until: int | None) -> tuple[int | None, Standing]:
        """Return the end of a transaction about `max_changes` on, None where the log has none of the table."""
        most = self._most
        while True:
            with self._log.connected() as connection:
                now = self._checked(connection, last)
                messages = _Counted(self._log.messages(connection, last["lsn"], until, most))
                transactions = Transactions(messages, self._log.table, now.relation or 0).all()
                new = [each.end for each in transactions if each.rows and each.end > last["lsn"]]
            if new or messages.seen < most:
                return (new[-1] if new else None), now
            most *= 2

    def _read_up_to(self, now: Standing) -> int:
        """Return where a record begins before which all of the log was read, 0 where none is known.

        A slot that stands in the middle of a commit passes its transaction over, and what is flushed can end there.
        """
        begins, self._boundary = (self._boundary, now.inserted), now.inserted
        end = now.flushed if self._until is None else min(now.flushed, self._until)
        return max((at for at in begins if at <= end), default=0)

    def _checked(self, connection: Any, at: Offset) -> Standing:
        now = self._log.look(connection)
        check_offset(now, self._log.table, self._log.publication, self._log.slot, at)
        return now

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return how far the log is, how many bytes of it the server keeps for us, and a warning if they are many.

        Where the log has nothing of the table beyond the last offset, that is how far it is: the rest is of others.
        """
        last, is_all = self._last, False
        if last is not None and last.get(_COPIED) != 0:
            is_all = self._look_ahead(last, None)[0] is None
        with self._log.connected() as connection:
            now = self._log.look(connection)
        end = last["lsn"] if last is not None and is_all else now.flushed
        return {"lsn": end, "retained": now.retained, "warning": self._warning(now)}

    def _warning(self, now: Standing) -> str | None:
        """Return what to do about a log that grows, None while it is short."""
        kept = f"the server keeps {now.retained:,} bytes of its log for the slot {self._log.slot}"
        if now.status == "unreserved":
            return f"{kept}, and is about to drop them (max_slot_wal_keep_size): let it keep more, or the run catch up."
        if now.retained <= self._bound:
            return None
        return (
            f"{kept}, more than warn_retained={self._bound:,}: see that all streams of the slot run and keep up, that "
            "no transaction stays open for long, or drop the slot if its pipeline has ended for good."
        )

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the parts of the table's copy, or one partition of the log: it is read from one end to the other."""
        self._last = end
        with self._log.connected() as connection:
            relation = self._checked(connection, start).relation or 0
        if start.get(_COPIED) == 0 and end.get(_COPIED) == 1:
            return self._copy.partitions(start["lsn"])
        return [Range(start["lsn"], end["lsn"], relation)] if end["lsn"] > start["lsn"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of the copy, or the changes of transactions that end within a range."""
        return batches(self._changes(partition), self._schema, self._log.table)

    def _changes(self, partition: InputPartition) -> Iterator[Change]:
        if isinstance(partition, Blocks):
            yield from read_blocks(self._log, partition, self._names)
        elif isinstance(partition, ChangesSince):
            yield from read_turned(self._log, partition, self._names)
        else:
            assert isinstance(partition, Range)
            with self._log.connected() as connection:
                messages = self._log.messages(connection, partition.start, partition.end)
                for transaction in Transactions(messages, self._log.table, partition.relation).all():
                    if partition.start < transaction.end <= partition.end:
                        yield from transaction.changes(self._names)

    def commit(self, end: Offset) -> None:
        """Let the server forget what Spark has committed."""
        self._copy.close()
        self._log.advance(int(end["lsn"]))

    def stop(self) -> None:
        """Let go of what is held."""
        self._copy.close()


def check_table_source(options: dict[str, str], names: list[str] | None) -> None:
    """Raise what speaks against a stream of a table before anything is begun: its options, its login, its table.

    names: the columns that the stream reads; None leaves the table to the checks of a stream that goes on.
    """
    PostgresReader(options, StructType([])).check(names)


class _Counted:
    """Messages, and how many of them were seen."""

    def __init__(self, messages: Iterator[bytes]) -> None:
        self._messages = messages
        self.seen = 0

    def __iter__(self) -> Iterator[bytes]:
        for message in self._messages:
            self.seen += 1
            yield message


def _number(options: dict[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise PipelineError(f"option {name}={text!r} of format {FORMAT} is not a whole number from 1 on.")
    return int(text)
