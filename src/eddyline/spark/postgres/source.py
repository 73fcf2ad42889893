"""The PostgreSQL data source: a copy of the table's rows, then batches between two offsets of its log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from eddyline.errors import PipelineError
from eddyline.spark.postgres.messages import CHANGE, Change, Transactions, batches
from eddyline.spark.postgres.server import FORMAT, TableLog
from eddyline.spark.postgres.standing import Offset, Standing, check_offset
from eddyline.spark.sources import TakesAvailableNow

# The rows that a table held at the place where its slot stands, read at any later moment.
#
# The server keeps the log from the slot's place L on. The table at L is the table at a later moment S,
# minus all changes of transactions in between: those in the log from L on that S can see. So a copy is the
# table at S as inserts, and those changes with inserts and deletes swapped. Its net rows are the same whenever
# it is read: a batch that is read again after a crash counts the same. Reading the log from L on then misses
# nothing, and counts nothing twice.
#
# All tasks of one copy read at one moment S: a transaction exports its snapshot, and stays open until the
# batch is committed.


_TURNED = {
    "insert": "delete",
    "delete": "insert",
    "update_preimage": "insert",
    "update_postimage": "delete",
}
_BLOCKS = 4_096  # the least blocks of a task: 32 MB
_WRAP = 1 << 32


@dataclass(frozen=True)
class LogMoment:
    """The transactions that a snapshot sees: all before `lowest`, and before `highest` those not in `open`."""

    lowest: int
    highest: int
    open: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the moment for PostgreSQL's text form, xmin:xmax:xip."""
        lowest, highest, between = text.split(":")
        return cls(int(lowest), int(highest), frozenset(int(each) for each in between.split(",") if each))

    def sees(self, transaction: int) -> bool:
        """Return whether a transaction is seen, given the lower half of its number, as in the log."""
        behind = (self.highest - transaction) % _WRAP
        number = self.highest - behind if behind < _WRAP // 2 else self.highest + _WRAP - behind
        return number < self.lowest or (number < self.highest and number not in self.open)


class Blocks(InputPartition):
    """Some blocks of the table, as an exported snapshot sees them; up to the table's end if `last` is None."""

    def __init__(self, snapshot: str, first: int | None, last: int | None) -> None:
        super().__init__((snapshot, first, last))
        self.snapshot, self.first, self.last = snapshot, first, last


class ChangesSince(InputPartition):
    """The part of the log from the slot's place to an end that a moment can see."""

    def __init__(self, start: int, end: int, moment: str, relation: int) -> None:
        super().__init__((start, end, moment, relation))
        self.start, self.end, self.moment, self.relation = start, end, moment, relation


class TableCopy:
    """A copy in progress: the transaction that keeps its moment, until it is closed."""

    def __init__(self, log: TableLog, tasks: int) -> None:
        self._log = log
        self._tasks = tasks
        self._held: Any = None

    def partitions(self, start: int) -> list[InputPartition]:
        """Return the parts of a copy at this moment, which is kept until `close`; the slot stands at `start`."""
        self.close()
        self._held = held = self._log.connect()
        held.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        snapshot, moment, relation, blocks, kind = held.execute(
            "SELECT pg_export_snapshot(), txid_current_snapshot()::text, oid::bigint, "
            "pg_relation_size(oid) / current_setting('block_size')::bigint, relkind::text "
            "FROM pg_class WHERE oid = to_regclass(%s)",
            (self._log.quoted,),
        ).fetchone()
        parts: list[InputPartition] = [ChangesSince(start, self._log.flush(), moment, relation)]
        if kind != "r":  # a partitioned table has no blocks of its own, only its partitions have
            return [Blocks(snapshot, None, None), *parts]
        each = max(_BLOCKS, -(-blocks // self._tasks))
        starts = range(0, max(blocks, 1), each)
        return [Blocks(snapshot, at, at + each if at + each < blocks else None) for at in starts] + parts

    def close(self) -> None:
        """Release the moment."""
        if self._held is not None:
            self._held.close()
            self._held = None


def read_blocks(log: TableLog, part: Blocks, names: list[str]) -> Iterator[Change]:
    """Yield the rows of some blocks as inserts."""
    from psycopg import sql  # noqa: PLC0415 - an optional extra

    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    table = sql.Identifier(*log.table.split("."))
    ends = [(">=", part.first), ("<", part.last)]
    within = [
        sql.SQL(f"ctid {sign} {{}}::tid").format(sql.Literal(f"({block},0)"))
        for sign, block in ends
        if block is not None
    ]
    where = sql.SQL("WHERE ") + sql.SQL(" AND ").join(within) if within else sql.SQL("")
    with log.connected() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(part.snapshot)))
        asked = sql.SQL("COPY (SELECT {} FROM {} {}) TO STDOUT").format(columns, table, where)
        with cursor.copy(asked) as rows:
            for row in rows.rows():
                yield "insert", row
        cursor.execute("COMMIT")


def read_turned(log: TableLog, part: ChangesSince, names: list[str]) -> Iterator[Change]:
    """Yield the changes that a moment sees, with inserts and deletes swapped."""
    moment = LogMoment.parse(part.moment)
    with log.connected() as connection:
        messages = log.messages(connection, part.start, part.end)
        for transaction in Transactions(messages, log.table, part.relation).all():
            if moment.sees(transaction.number):
                for change, row in transaction.changes(names):
                    yield _TURNED[change], row


# The data source: offsets in a table's log, and batches between two of them.
#
# Example: spark.dataSource.register(PostgresChanges), then spark.readStream.format("eddyline-postgres")
# .options(dsn="host=... dbname=...", table="public.orders").load().
#
# Rows have the table's columns, in the schema given with `.schema(...)`, and `_change_type`. The first batch
# is a copy of the table as it was where its slot stands (see above); its changes follow. The offset
# holds the end of a transaction in the write-ahead log, whether the table was copied, and what the
# stream began with (`standing` says why). A batch peeks at the slot and does not move it, so that the batch
# can be read again; the slot is advanced once Spark has committed the batch, or all streams of the slot
# have (`server`). The table needs REPLICA IDENTITY FULL, and the server `wal_level = logical`. A
# publication and a slot named `eddyline_<table>` are created if they are missing.


_COPIED, _NEVER = "copied", "never"
_OPTIONS = (
    "dsn", "table", "slot", "publication", "shared", "max_changes", "snapshot", "copy_tasks", "warn_retained",
)  # fmt: skip
_STRIDE = 1 << 24
"""Bytes of the log without a change of the table after which the offset moves, so that the slot can move, too."""


class PostgresChanges(DataSource):
    """The data source `eddyline-postgres`: its options are those of docs/how-to/postgres.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format(...)` takes."""
        return FORMAT

    def schema(self) -> str:
        """Raise: the columns are those of the stream, which Spark gets with `.schema(...)`."""
        raise PipelineError(f"a frame of format {FORMAT} needs its columns: give them with .schema(...).")

    def streamReader(self, schema: StructType) -> "PostgresReader":  # noqa: N802 - Spark's name
        """Return the reader of the stream."""
        return PostgresReader(dict(self.options), schema)


class Range(InputPartition):
    """The transactions between two places in the log, and the number of the table."""

    def __init__(self, start: int, end: int, relation: int) -> None:
        super().__init__((start, end, relation))
        self.start, self.end, self.relation = start, end, relation


class PostgresReader(DataSourceStreamReader, TakesAvailableNow):  # type: ignore[misc]
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
        """Raise if the server cannot be reached, or the table does not meet the needs of a new stream."""
        self._log.check(names)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where the slot stands, before the table is copied."""
        now = self._log.prepare(self._names)
        at = {"lsn": now.slot, **({_COPIED: 0} if self._is_copied else {})}
        self._last = {**at, **now.remembered(self._names)}
        return self._last

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Make the current end of the log the last offset to read, for the trigger `availableNow`."""
        with self._log.connected() as connection:
            self._until = self._log.look(connection).flushed

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: ARG002, N802
        """Return the table's copy, or the end of a transaction about `max_changes` on; the last one if none is new.

        The slot is behind by the batches that Spark has not committed, so ever more of it is read until something
        new is found. Spark 4.1 passes no arguments.
        """
        last = start or self._last or self.initialOffset()
        copied = {_COPIED: 1} if last.get(_COPIED) == 0 else self._next(last)
        self._last = {**last, **copied}
        return self._last

    def _next(self, last: Offset) -> Offset:
        """Return the end of a transaction about `max_changes` on, or the end of what was read if far enough."""
        new, now = self._look_ahead(last, self._until)
        if new is not None:
            return {"lsn": new, **now.divided()}
        read = self._read_up_to(now)
        return {"lsn": read if read - last["lsn"] > _STRIDE else last["lsn"], **now.divided()}

    def _look_ahead(self, last: Offset, until: int | None) -> tuple[int | None, Standing]:
        """Return the end of a transaction about `max_changes` on, None if the log has none of the table."""
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
        """Return the start of a record before which all of the log was read, 0 if no such record is known.

        A slot that stands in the middle of a commit skips its transaction, and the flushed log can end there.
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

        If the log has nothing of the table beyond the last offset, it is that offset: the rest is of other tables.
        """
        last, is_all = self._last, False
        if last is not None and last.get(_COPIED) != 0:
            is_all = self._look_ahead(last, None)[0] is None
        with self._log.connected() as connection:
            now = self._log.look(connection)
        end = last["lsn"] if last is not None and is_all else now.flushed
        return {"lsn": end, "retained": now.retained, "warning": self._warning(now)}

    def _warning(self, now: Standing) -> str | None:
        """Return what to do about a growing log, None while it is short."""
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
        """Return the parts of the table's copy, or one partition of the log: the log is read sequentially."""
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
        """Let the server drop the log that Spark has committed."""
        self._copy.close()
        self._log.advance(int(end["lsn"]))

    def stop(self) -> None:
        """Release the copy and its connection."""
        self._copy.close()


def check_table_source(options: dict[str, str], names: list[str] | None) -> None:
    """Raise if a stream of a table cannot work, before anything begins: its options, its login, its table.

    names: the columns that the stream reads; None leaves the table to the checks of a stream that continues.
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
        raise PipelineError(f"option {name}={text!r} of format {FORMAT} is not a whole number of 1 or more.")
    return int(text)
