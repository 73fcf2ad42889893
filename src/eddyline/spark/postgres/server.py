"""Statements for a PostgreSQL server: publication, slot and its messages; streams that share a slot."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

from eddyline.errors import ChangeError, PipelineError
from eddyline.spark.postgres.standing import (
    START_AGAIN,
    Standing,
    check_published,
    check_slot,
    check_table,
    look,
)

# Streams that share a slot: each records in the database how far it has come, and the slot follows the
# slowest of them.
#
# The records are rows of eddyline.slot_positions. Whoever changes them, or creates or advances the slot,
# holds the slot's lock (`TableLog.turn`). A slot is shared from its creation: a stream is recorded before the
# slot is created, or while the slot stands where the stream's copy will begin, so that no other stream can
# let the server drop log that it needs.


NOTES = "eddyline.slot_positions"
_CREATE = (
    "CREATE SCHEMA IF NOT EXISTS eddyline; CREATE TABLE IF NOT EXISTS eddyline.slot_positions "
    "(slot text, relation text, lsn bigint NOT NULL, PRIMARY KEY (slot, relation))"
)


def enter_shared(connection: Any, slot: str, table: str, *, is_new: bool) -> None:
    """Record a table without a position, which holds its slot where it is; a new slot begins without records."""
    _make_notes(connection)
    if is_new:
        connection.execute(f"DELETE FROM {NOTES} WHERE slot = %s", (slot,))
    elif connection.execute(f"SELECT 1 FROM {NOTES} WHERE slot = %s", (slot,)).fetchone() is None:
        raise PipelineError(_alone(slot))
    connection.execute(
        f"INSERT INTO {NOTES} VALUES (%s, %s, 0) ON CONFLICT (slot, relation) DO UPDATE SET lsn = 0",
        (slot, table),
    )


def enter_alone(connection: Any, slot: str, table: str, *, is_new: bool) -> None:
    """Raise PipelineError if other tables share a slot: one stream alone would move it past them."""
    if connection.execute("SELECT to_regclass(%s)", (NOTES,)).fetchone()[0] is None:
        return
    if is_new:
        connection.execute(f"DELETE FROM {NOTES} WHERE slot = %s", (slot,))
    others = connection.execute(
        f"SELECT relation FROM {NOTES} WHERE slot = %s AND relation <> %s ORDER BY 1", (slot, table)
    ).fetchall()
    if others:
        raise PipelineError(
            f"the replication slot {slot} is shared by streams of {', '.join(name for (name,) in others)}: give this "
            f'one shared = "true" or another slot; or take out of {NOTES} what has ended for good.'
        )


def note(connection: Any, slot: str, table: str, at: int) -> int:
    """Record how far a table has come, and return how far all tables of the slot have."""
    noted = connection.execute(
        f"UPDATE {NOTES} SET lsn = %s WHERE slot = %s AND relation = %s", (at, slot, table)
    )
    if noted.rowcount == 0:
        raise PipelineError(_alone(slot))
    return int(connection.execute(f"SELECT min(lsn) FROM {NOTES} WHERE slot = %s", (slot,)).fetchone()[0])


def _make_notes(connection: Any) -> None:
    from psycopg import errors  # noqa: PLC0415 - an optional extra

    if connection.execute("SELECT to_regclass(%s)", (NOTES,)).fetchone()[0] is not None:
        return
    try:
        connection.execute(_CREATE)
    except errors.InsufficientPrivilege as error:
        raise PipelineError(
            f"streams that share a slot note their positions in {NOTES}, which this role may not create: let its "
            f"administrator run {_CREATE}; GRANT ALL ON SCHEMA eddyline TO the role; GRANT ALL ON {NOTES} TO the role."
        ) from error


def _alone(slot: str) -> str:
    return (
        f"the replication slot {slot} was made for one stream alone, and cannot be shared from now on: name another "
        "slot for the streams that share, and start again with a new store and checkpoint."
    )


# Statements about the publication and the slot of a table, and the messages of the slot.


FORMAT = "eddyline-postgres"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?")
_PLAIN_TEXT = "SET datestyle = 'ISO'; SET bytea_output = 'hex'; SET extra_float_digits = 1"
"""Values come in the text forms that `messages` reads, whatever the server's settings are."""
_ALL_ROWS = "SET row_security = off"
"""A copy that a row security policy would filter is refused: the log has all rows."""
_PATIENCE = 120
"""Seconds that a reader waits for others that use its slot."""
_LOGIN_SECONDS = 10
_TIMEOUT = "PGCONNECT_TIMEOUT"
_ITERATED = 5_000
_SECRETS = ("password", "sslpassword")


@dataclass(frozen=True)
class TableLog:
    """A table, and the slot and publication that deliver its changes. Each call makes its own connection.

    dsn: as libpq reads it; what it leaves out, above all a password, comes from libpq's environment variables and
    from pgpass. is_shared: the slot also delivers other tables.
    """

    dsn: str
    table: str
    slot: str
    publication: str
    is_shared: bool = False

    @classmethod
    def of(cls, options: dict[str, str]) -> Self:
        """Return the table that a frame's options name, or raise PipelineError."""
        table = options.get("table", "")
        if not _NAME.fullmatch(table):
            raise PipelineError(f"format {FORMAT} needs the option table (schema.name), not {table!r}.")
        table = table if "." in table else f"public.{table}"
        plain = table.replace(".", "_").replace("$", "_").lower()
        slot = options.get("slot", f"eddyline_{plain}")
        is_shared = options.get("shared", "false").lower() == "true"
        return cls(_dsn(options.get("dsn", "")), table, slot, options.get("publication", slot), is_shared)

    @property
    def quoted(self) -> str:
        """The table's name as SQL writes it."""
        return ".".join(f'"{part}"' for part in self.table.split("."))

    @contextmanager
    def connected(self, seconds: int | None = None) -> Iterator[Any]:
        """Yield a connection that commits every statement; an error of the server becomes a PipelineError.

        seconds: how long to wait for it, if neither the DSN nor the environment says.
        """
        connection = self.connect(seconds)
        import psycopg  # noqa: PLC0415 - an optional extra

        with connection:
            try:
                yield connection
            except psycopg.Error as error:
                raise PipelineError(self._refused(error)) from error

    def _refused(self, error: Exception) -> str:
        """Return the meaning of an error of the server."""
        from psycopg import errors  # noqa: PLC0415 - an optional extra

        if isinstance(error, errors.LockNotAvailable | errors.ObjectInUse):
            return (
                f"the replication slot {self.slot} is in use by another process (SELECT active_pid FROM "
                "pg_replication_slots): end it, or name another slot."
            )
        if isinstance(error, errors.UndefinedObject) and "publication" in str(error):
            return (
                f"the publication {self.publication} was dropped, and the log cannot be read across that: "
                f"drop the slot {self.slot} and {START_AGAIN}"
            )
        return f"the server of {self.table} refused: {_line(error)}"

    def connect(self, seconds: int | None = None) -> Any:
        """Return a connection that commits every statement; a transaction on it must be opened explicitly."""
        psycopg = _psycopg()
        is_given = "connect_timeout" in psycopg.conninfo.conninfo_to_dict(self.dsn) or _TIMEOUT in os.environ
        waiting = {} if seconds is None or is_given else {"connect_timeout": seconds}
        try:
            connection = psycopg.connect(self.dsn, autocommit=True, **waiting)
            connection.execute(f"{_PLAIN_TEXT}; {_ALL_ROWS}; SET lock_timeout = '{_PATIENCE}s'")
        except psycopg.Error as error:
            raise PipelineError(f"the server of {self.table} cannot be reached: {_line(error)}") from error
        return connection

    @contextmanager
    def turn(self, connection: Any) -> Iterator[None]:
        """Wait for the lock of the slot, which only one session at a time can read, and hold it."""
        connection.execute("SELECT pg_advisory_lock(hashtext('eddyline'), hashtext(%s))", (self.slot,))
        yield
        connection.execute("SELECT pg_advisory_unlock(hashtext('eddyline'), hashtext(%s))", (self.slot,))

    def check(self, names: list[str] | None) -> None:
        """Raise if the login fails within a few seconds, or the table does not meet the needs of a new stream."""
        with self.connected(_LOGIN_SECONDS) as connection:
            if names is None:
                return
            check_table(self.look(connection), self.table, names)
            self._check_identity(connection)
            (level,) = connection.execute("SHOW wal_level").fetchone()
        if level != "logical":
            raise PipelineError(
                f"the server of {self.table} has wal_level = {level}, and changes are read with logical: ALTER SYSTEM "
                "SET wal_level = logical; then restart it."
            )

    def look(self, connection: Any) -> Standing:
        """Return what the server reports about the table, its publication and its slot."""
        return look(connection, self.quoted, self.table, self.publication, self.slot)

    def prepare(self, names: list[str]) -> Standing:
        """Return where the slot stands; create it and the publication if they are missing."""
        with self.connected() as connection:
            with self.turn(connection):
                before = self.look(connection)
                check_table(before, self.table, names)
                self._check_identity(connection)
                enter = enter_shared if self.is_shared else enter_alone
                enter(connection, self.slot, self.table, is_new=before.slot is None)
                if before.published is None:
                    self._publish(connection)
                if before.slot is None:
                    connection.execute(
                        "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot,)
                    )
            if before.slot is not None:
                self._outlast(connection)
            with self.turn(connection):
                now = self.look(connection)
                check_published(now, self.table, self.publication)
                assert now.slot is not None
                if self.is_shared:
                    note(connection, self.slot, self.table, now.slot)
                return now

    def _publish(self, connection: Any) -> None:
        there = "SELECT 1 FROM pg_publication WHERE pubname = %s"
        if connection.execute(there, (self.publication,)).fetchone() is not None:
            connection.execute(f'ALTER PUBLICATION "{self.publication}" ADD TABLE {self.quoted}')
        else:
            connection.execute(
                f'CREATE PUBLICATION "{self.publication}" FOR TABLE {self.quoted} '
                "WITH (publish_via_partition_root = true)"
            )

    def _outlast(self, connection: Any) -> None:
        """Wait until the transactions that run now have ended, as the creation of a slot does.

        What they wrote to a table before it was published is not in the log, so a copy has to see it.
        """
        (until,) = connection.execute(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        ).fetchone()
        oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        deadline = time.monotonic() + _PATIENCE
        while connection.execute(oldest).fetchone()[0] < until:
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"transactions that began before {self.table} was published are still running, and their rows "
                    "would be missed: start again when they have ended (pg_stat_activity shows them)."
                )
            time.sleep(0.1)

    def _check_identity(self, connection: Any) -> None:
        found = connection.execute(
            "SELECT relreplident::text FROM pg_class WHERE oid = to_regclass(%s)", (self.quoted,)
        ).fetchone()
        if found[0] != "f":
            raise ChangeError(
                f"deletes of {self.table} do not carry their row: ALTER TABLE {self.table} REPLICA IDENTITY FULL."
            )

    def flush(self) -> int:
        """Return how far the log is flushed to disk, once it includes everything that is visible now.

        A transaction that does not wait for the disk is visible before it is flushed: ours waits and comes after.
        """
        with self.connected() as connection:
            connection.execute("SET synchronous_commit = on")
            connection.execute("SELECT pg_logical_emit_message(true, 'eddyline', '')")
            return self.look(connection).flushed

    def messages(
        self, connection: Any, start: int, end: int | None, most: int | None = None
    ) -> Iterator[bytes]:
        """Yield the messages in the slot, up to a place in the log or about a given number; the slot does not move.

        The server reads the log at the first fetch. The slot must not have passed `start` by then.
        """
        upto = "NULL" if end is None else f"'0/0'::pg_lsn + {end}"
        with connection.transaction(), connection.cursor(name="eddyline_log", binary=True) as cursor:
            cursor.itersize = _ITERATED
            cursor.execute(
                f"SELECT data FROM pg_logical_slot_peek_binary_changes(%s, {upto}, %s, "
                "'proto_version', '1', 'publication_names', %s)",
                (self.slot, most, f'"{self.publication}"'),
            )
            with self.turn(connection):
                first = cursor.fetchmany(_ITERATED)
                check_slot(self.look(connection), self.slot, start)
            for (data,) in chain(first, cursor):
                yield data

    def advance(self, end: int) -> None:
        """Let the server drop its log up to a place, or up to where all tables of a shared slot have come."""
        with self.connected() as connection, self.turn(connection):
            if self.is_shared:
                end = note(connection, self.slot, self.table, end)
            connection.execute(
                f"SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + {end}) "
                f"FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn < '0/0'::pg_lsn + {end}",
                (self.slot, self.slot),
            )


def _psycopg() -> Any:
    try:
        import psycopg  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise PipelineError(
            "the PostgreSQL source needs psycopg: pip install 'eddyline[postgres]'."
        ) from error
    return psycopg


def _dsn(dsn: str) -> str:
    """Return a connection string without secrets, or raise PipelineError: Spark shows options in plans and logs."""
    psycopg = _psycopg()
    try:
        given = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise PipelineError(
            "the option dsn is not a connection string of libpq (host=... dbname=...)."
        ) from None
    if any(name in given for name in _SECRETS):
        raise PipelineError(
            "the option dsn holds a password, which Spark would show in its plans: put it into a pgpass file or into "
            "PGPASSWORD, where libpq finds it."
        )
    return dsn


def _line(error: Exception) -> str:
    """Return the message of an error in one line; of several attempts, the message of the last one."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if lines[0].startswith("Multiple") else 0].lstrip("- ")
