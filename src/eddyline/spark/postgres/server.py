"""What is asked of a PostgreSQL server: the publication and the slot of a table, and messages of the slot."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from eddyline.errors import ChangeError, PipelineError

FORMAT = "eddyline-postgres"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?")
_PLAIN_TEXT = "SET datestyle = 'ISO'; SET bytea_output = 'hex'; SET extra_float_digits = 1"
"""Values come as the texts that `messages.convert` reads, whatever the server's settings are."""
_ITERATED = 5_000


@dataclass(frozen=True)
class TableLog:
    """A table, and the slot and publication through which its changes come. Each call makes its own connection.

    dsn: as libpq reads it; what it leaves out, a password above all, comes from libpq's environment variables and
    from pgpass.
    """

    dsn: str
    table: str
    slot: str
    publication: str

    @classmethod
    def of(cls, options: dict[str, str]) -> Self:
        """Return the table that a frame's options name, or raise PipelineError."""
        table = options.get("table", "")
        if not _NAME.fullmatch(table):
            raise PipelineError(f"format {FORMAT} needs the option table (schema.name), not {table!r}.")
        table = table if "." in table else f"public.{table}"
        plain = table.replace(".", "_").replace("$", "_").lower()
        name = f"eddyline_{plain}"
        return cls(options.get("dsn", ""), table, options.get("slot", name), options.get("publication", name))

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield a connection that commits every statement, or raise PipelineError where there is none to be had."""
        connection = self.connect()
        with connection:
            yield connection

    def connect(self) -> Any:
        """Return a connection that commits every statement; a transaction on it is asked for."""
        try:
            import psycopg  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise PipelineError(
                "the PostgreSQL source needs psycopg: pip install 'eddyline[postgres]'."
            ) from error
        try:
            connection = psycopg.connect(self.dsn, autocommit=True)
            connection.execute(_PLAIN_TEXT)
        except psycopg.Error as error:
            raise PipelineError(
                f"the server of {self.table} cannot be reached: {_first_line(error)}"
            ) from error
        return connection

    def prepare(self) -> int:
        """Return where the slot stands; it and the publication are made where they are missing."""
        with self.connected() as connection:
            self._check_identity(connection)
            published = "SELECT 1 FROM pg_publication WHERE pubname = %s"
            if connection.execute(published, (self.publication,)).fetchone() is None:
                connection.execute(f'CREATE PUBLICATION "{self.publication}" FOR TABLE {self.table}')
            at = self.slot_at(connection)
            if at is None:
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot,))
                at = self.slot_at(connection)
            assert at is not None
            return at

    def slot_at(self, connection: Any) -> int | None:
        """Return the place in the log up to which the slot was confirmed, None where there is no slot."""
        row = connection.execute(
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s", (self.slot,)
        ).fetchone()
        return None if row is None else int(row[0])

    def _check_identity(self, connection: Any) -> None:
        found = connection.execute(
            "SELECT relreplident FROM pg_class WHERE oid = to_regclass(%s)", (self.table,)
        ).fetchone()
        if found is None:
            raise PipelineError(f"there is no table {self.table}.")
        identity = found[0].decode() if isinstance(found[0], bytes) else found[0]
        if identity != "f":
            raise ChangeError(
                f"deletes of {self.table} do not carry their row: ALTER TABLE {self.table} REPLICA IDENTITY FULL."
            )

    def flushed(self, connection: Any) -> int:
        """Return how far the server's log is safe on disk."""
        return int(connection.execute("SELECT pg_current_wal_flush_lsn() - '0/0'").fetchone()[0])

    def flush(self) -> int:
        """Return how far the log is safe on disk, after all that is visible now is in it.

        A transaction that does not wait for the disk is seen by others before it is safe: ours waits, and comes after.
        """
        with self.connected() as connection:
            connection.execute("SET synchronous_commit = on")
            connection.execute("SELECT pg_logical_emit_message(true, 'eddyline', '')")
            return self.flushed(connection)

    def messages(self, connection: Any, end: int | None, most: int | None = None) -> Iterator[bytes]:
        """Yield the messages in the slot, up to a place in the log or about so many; the slot stays where it is."""
        upto = "NULL" if end is None else f"'0/0'::pg_lsn + {end}"
        with connection.transaction(), connection.cursor(name="eddyline_log") as cursor:
            cursor.itersize = _ITERATED
            cursor.execute(
                f"SELECT data FROM pg_logical_slot_peek_binary_changes(%s, {upto}, %s, "
                "'proto_version', '1', 'publication_names', %s)",
                (self.slot, most, self.publication),
            )
            for (data,) in cursor:
                yield bytes(data)

    def advance(self, end: int) -> None:
        """Let the server forget its log up to a place."""
        with self.connected() as connection:
            connection.execute(
                f"SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + {end}) "
                f"FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn < '0/0'::pg_lsn + {end}",
                (self.slot, self.slot),
            )

    def retained(self) -> tuple[int, int]:
        """Return how far the log is, and how many bytes of it the server keeps for the slot."""
        with self.connected() as connection:
            flushed = self.flushed(connection)
            row = connection.execute(
                "SELECT restart_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s", (self.slot,)
            ).fetchone()
            return flushed, flushed - int(row[0]) if row is not None and row[0] is not None else 0


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
