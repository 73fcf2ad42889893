"""The rows that a table holds at the place where its slot stands, read at any later moment.

The log is kept from the slot's place L on. What the table held at L is what it holds at a later moment S, less all
that transactions changed between: those in the log from L on that S can see. So a copy is the table at S as inserts,
and those changes turned around. Its net rows are the same whenever it is read: a batch that is read again after a
crash counts the same. Reading the log from L on then misses nothing, and counts nothing twice.

All tasks of one copy read at one moment S: a transaction exports it, and stays open until the batch is committed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql.datasource import InputPartition

from eddyline.spark.postgres.messages import Change, Transactions
from eddyline.spark.postgres.server import TableLog

_TURNED = {
    "insert": "delete",
    "delete": "insert",
    "update_preimage": "insert",
    "update_postimage": "delete",
}
_BLOCKS = 4_096  # of a task at least: 32 MB
_WRAP = 1 << 32


@dataclass(frozen=True)
class Moment:
    """Which transactions a snapshot sees: all before `lowest`, none from `highest` on, and not those `open` between."""

    lowest: int
    highest: int
    open: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the moment of PostgreSQL's text form, xmin:xmax:xip."""
        lowest, highest, between = text.split(":")
        return cls(int(lowest), int(highest), frozenset(int(each) for each in between.split(",") if each))

    def sees(self, transaction: int) -> bool:
        """Return whether a transaction is seen, given the lower half of its number, as the log has it."""
        behind = (self.highest - transaction) % _WRAP
        number = self.highest - behind if behind < _WRAP // 2 else self.highest + _WRAP - behind
        return number < self.lowest or (number < self.highest and number not in self.open)


class Blocks(InputPartition):
    """Some blocks of the table, as an exported snapshot sees them; to its end where `last` is None."""

    def __init__(self, snapshot: str, first: int | None, last: int | None) -> None:
        super().__init__((snapshot, first, last))
        self.snapshot, self.first, self.last = snapshot, first, last


class ChangesSince(InputPartition):
    """What the log has from the slot's place on up to an end, and a moment can see."""

    def __init__(self, start: int, end: int, moment: str, relation: int) -> None:
        super().__init__((start, end, moment, relation))
        self.start, self.end, self.moment, self.relation = start, end, moment, relation


class TableCopy:
    """A copy that is under way: the transaction that keeps its moment, until it is closed."""

    def __init__(self, log: TableLog, tasks: int) -> None:
        self._log = log
        self._tasks = tasks
        self._held: Any = None

    def partitions(self, start: int) -> list[InputPartition]:
        """Return the parts of a copy at this moment, which lasts until `close`; the slot stands at `start`."""
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
        if kind != "r":  # the blocks of a partitioned table are those of its parts
            return [Blocks(snapshot, None, None), *parts]
        each = max(_BLOCKS, -(-blocks // self._tasks))
        starts = range(0, max(blocks, 1), each)
        return [Blocks(snapshot, at, at + each if at + each < blocks else None) for at in starts] + parts

    def close(self) -> None:
        """Let the moment go."""
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
    """Yield the changes that a moment sees, turned around: what came goes, and what went comes."""
    moment = Moment.parse(part.moment)
    with log.connected() as connection:
        messages = log.messages(connection, part.start, part.end)
        for transaction in Transactions(messages, log.table, part.relation).all():
            if moment.sees(transaction.number):
                for change, row in transaction.changes(names):
                    yield _TURNED[change], row
