"""Streams that share a slot: each notes in the database how far it has come, and the slot follows the last of them.

The notes are rows of eddyline.slot_positions. Who changes them, or makes or advances the slot, has the slot's turn
(`TableLog.turn`). A slot is shared from its making on: a stream is noted before the slot is made, or while the slot
stands where its copy will begin, so that no other stream can let the server forget what it needs.
"""

from typing import Any

from eddyline.errors import PipelineError

NOTES = "eddyline.slot_positions"
_CREATE = (
    "CREATE SCHEMA IF NOT EXISTS eddyline; CREATE TABLE IF NOT EXISTS eddyline.slot_positions "
    "(slot text, relation text, lsn bigint NOT NULL, PRIMARY KEY (slot, relation))"
)


def enter(connection: Any, slot: str, table: str, *, is_new: bool) -> None:
    """Note a table that has come nowhere yet, which holds its slot where it is; a new slot begins without notes."""
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
    """Raise PipelineError where other tables share a slot, which one stream alone would move past them."""
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
    """Note how far a table has come, and return how far all tables of the slot have."""
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
            f"streams that share a slot note their positions in {NOTES}, which this role may not make: let its "
            f"administrator run {_CREATE}; GRANT ALL ON SCHEMA eddyline TO the role; GRANT ALL ON {NOTES} TO the role."
        ) from error


def _alone(slot: str) -> str:
    return (
        f"the replication slot {slot} was made for one stream alone, and cannot be shared from now on: name another "
        "slot for the streams that share, and start anew with a new store and checkpoint."
    )
