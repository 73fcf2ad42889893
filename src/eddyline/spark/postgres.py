"""PostgreSQL as a stream of changes: a Python data source over logical decoding (pgoutput).

    spark.dataSource.register(PostgresChanges)
    spark.readStream.format("eddyline-postgres").options(dsn="host=... dbname=...", table="public.orders").load()

Rows have the table's columns, of the schema given with `.schema(...)`, and `_change_type`. The offset is the end
of a transaction in the write-ahead log. A batch peeks at the slot and leaves it where it is, so that it can be
read again; the slot is advanced once Spark has committed the batch. The table needs REPLICA IDENTITY FULL, and
the server `wal_level = logical`. A publication and a slot named `eddyline_<table>` are made where they are
missing; rows that were in the table before that are not in the stream.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from eddyline.errors import ChangeError, PipelineError
from eddyline.spark.pgoutput import Transactions, convert

FORMAT = "eddyline-postgres"
CHANGE = "_change_type"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?")


class PostgresChanges(DataSource):
    """The data source `eddyline-postgres`: options dsn, table, and optionally slot, publication, max_changes."""

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
    """The transactions after one place in the log, up to another."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


class PostgresReader(DataSourceStreamReader):
    """Reads one table's changes through its slot; each call makes its own connection."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        table = options.get("table", "")
        if not _NAME.fullmatch(table) or "dsn" not in options:
            raise PipelineError(
                f"format {FORMAT} needs the options dsn and table (schema.name), not {table!r}."
            )
        self._dsn = options["dsn"]
        self._table = table if "." in table else f"public.{table}"
        plain = self._table.replace(".", "_").replace("$", "_").lower()
        self._slot = options.get("slot", f"eddyline_{plain}")
        self._publication = options.get("publication", f"eddyline_{plain}")
        self._most = int(options.get("max_changes", "100000"))
        self._schema = schema
        self._offered = 0

    def _connection(self) -> Any:
        try:
            import psycopg  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise PipelineError(
                "the PostgreSQL source needs psycopg: pip install 'eddyline[postgres]'."
            ) from error
        return psycopg.connect(self._dsn, autocommit=True)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return where the slot stands, after making it and the publication where they are missing."""
        with self._connection() as connection:
            return {"lsn": self._prepared(connection)}

    def _prepared(self, connection: Any) -> int:
        """Return where the slot stands; it and the publication are made where they are missing."""
        self._check_identity(connection)
        published = "SELECT 1 FROM pg_publication WHERE pubname = %s"
        if connection.execute(published, (self._publication,)).fetchone() is None:
            connection.execute(f'CREATE PUBLICATION "{self._publication}" FOR TABLE {self._table}')
        if self._slot_at(connection) is None:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,))
        at = self._slot_at(connection)
        assert at is not None
        return at

    def _slot_at(self, connection: Any) -> int | None:
        row = connection.execute(
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s", (self._slot,)
        ).fetchone()
        return None if row is None else int(row[0])

    def _check_identity(self, connection: Any) -> None:
        found = connection.execute(
            "SELECT relreplident FROM pg_class WHERE oid = to_regclass(%s)", (self._table,)
        ).fetchone()
        if found is None:
            raise PipelineError(f"there is no table {self._table}.")
        identity = found[0].decode() if isinstance(found[0], bytes) else found[0]
        if identity != "f":
            raise ChangeError(
                f"deletes of {self._table} do not carry their row: ALTER TABLE {self._table} REPLICA IDENTITY FULL."
            )

    def _peek(self, connection: Any, end: int | None, most: int | None = None) -> list[bytes]:
        """Return the messages in the slot, up to a place in the log or about so many."""
        upto = "NULL" if end is None else f"'0/0'::pg_lsn + {end}"
        rows = connection.execute(
            f"SELECT data FROM pg_logical_slot_peek_binary_changes(%s, {upto}, %s, "
            "'proto_version', '1', 'publication_names', %s)",
            (self._slot, most, self._publication),
        )
        return [bytes(row[0]) for row in rows]

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Return the end of a transaction past the last one offered, about `max_changes` on; the last if none is.

        The slot stands behind by the batches that Spark has not committed, so it is looked into further and
        further until something new is found.
        """
        most = self._most
        with self._connection() as connection:
            if self._offered == 0:
                self._offered = self._prepared(connection)
            while True:
                messages = self._peek(connection, None, most)
                ends = [end for end, changes in Transactions(messages, self._table).all() if changes]
                new = [end for end in ends if end > self._offered]
                if new or len(messages) < most:
                    break
                most *= 2
        self._offered = new[-1] if new else self._offered
        return {"lsn": self._offered}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one partition: a slot is read from one end to the other."""
        self._offered = max(self._offered, end["lsn"])
        with self._connection() as connection:
            at = self._slot_at(connection)
        if at is None or at > start["lsn"]:
            raise PipelineError(
                f"the replication slot {self._slot} is gone, or was moved past the checkpoint, and changes with it: "
                "start anew with a new store, from a snapshot of the table."
            )
        return [Range(start["lsn"], end["lsn"])] if end["lsn"] > start["lsn"] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the changes of transactions that end within the range."""
        assert isinstance(partition, Range)
        names = [field.name for field in self._schema.fields if field.name != CHANGE]
        with self._connection() as connection:
            found = Transactions(self._peek(connection, partition.end), self._table)
        for end, changes in found.all():
            if partition.start < end <= partition.end:
                for change, row in changes:
                    missing = [name for name in names if name not in row]
                    if missing:
                        raise PipelineError(f"the table {self._table} has no column {missing[0]!r}.")
                    yield tuple(
                        change if field.name == CHANGE else convert(row[field.name], field.dataType)
                        for field in self._schema.fields
                    )

    def commit(self, end: dict[str, int]) -> None:
        """Let the server forget what Spark has committed."""
        with self._connection() as connection:
            connection.execute(
                f"SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + {int(end['lsn'])}) "
                "FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn < '0/0'::pg_lsn + "
                f"{int(end['lsn'])}",
                (self._slot, self._slot),
            )
