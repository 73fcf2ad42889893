"""State of a table, its publication and its slot on a server, and whether a stream may continue from its offset.

A stream stores with every offset which server, table, columns and partitions it began with. A server that was
restored or promoted, a table that was created again, a column of another type, and a partition that was truncated
or detached hold other rows than those that were counted, and the log does not show which. Such a stream is refused:
it does not continue with wrong counts.
"""

from dataclasses import dataclass
from typing import Any

from eddyline.errors import PipelineError

Offset = dict[str, Any]
START_AGAIN = (
    "copy the table again (eddyline run --full-refresh QUERY), or start again with a new store and "
    "checkpoint."
)
_ASKED = """
SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8),
  (pg_current_wal_insert_lsn() - '0/0')::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint,
  (SELECT oid::bigint FROM pg_class WHERE oid = to_regclass(%(quoted)s)),
  (SELECT coalesce(json_object_agg(attname, format_type(atttypid, atttypmod) || ' #' || attnum ORDER BY attnum), '{}')
    FROM pg_attribute WHERE attrelid = to_regclass(%(quoted)s) AND attnum > 0 AND NOT attisdropped
      AND attgenerated = ''),
  (SELECT coalesce(json_object_agg(relid::oid::text, relfilenode::bigint ORDER BY relid::oid), '{}')
    FROM pg_partition_tree(to_regclass(%(quoted)s)) JOIN pg_class ON pg_class.oid = relid::oid
    WHERE isleaf AND level > 0),
  EXISTS (SELECT 1 FROM pg_inherits JOIN pg_class ON pg_class.oid = inhparent
    WHERE inhparent = to_regclass(%(quoted)s) AND relkind = 'r'),
  (SELECT coalesce(r.oid, p.oid)::bigint FROM pg_publication p
    LEFT JOIN pg_publication_rel r ON prpubid = p.oid AND prrelid = to_regclass(%(quoted)s)
    WHERE pubname = %(publication)s),
  (SELECT to_jsonb(t) ->> 'rowfilter' IS NULL AND pubinsert AND pubupdate AND pubdelete AND pubtruncate
    FROM pg_publication_tables t JOIN pg_publication USING (pubname)
    WHERE pubname = %(publication)s AND schemaname || '.' || tablename = %(table)s),
  (confirmed_flush_lsn - '0/0')::bigint, coalesce(pg_current_wal_flush_lsn() - restart_lsn, 0)::bigint, wal_status
FROM (VALUES (1)) AS one LEFT JOIN pg_replication_slots ON slot_name = %(slot)s
"""


@dataclass(frozen=True)
class Standing:
    """The current state of a table on its server.

    server: its system identifier and timeline. inserted: where the log's next record will begin. flushed: how far
    the log is flushed to disk, perhaps in the middle of a record. relation: the table's number, None if it is
    missing. columns: the type and number of each. parts: the file of each partition, by its number. inherited:
    whether other tables inherit from the table. membership: the number of the table in the publication. published:
    whether all changes of the table are, None if it is not published. slot: its confirmed position, None if there
    is no slot. retained: bytes of the log that the server keeps for it. status: PostgreSQL's wal_status.
    """

    server: str
    inserted: int
    flushed: int
    relation: int | None
    columns: dict[str, str]
    parts: dict[str, int]
    inherited: bool
    membership: int | None
    published: bool | None
    slot: int | None
    retained: int
    status: str | None

    def remembered(self, names: list[str]) -> Offset:
        """Return what a stream of some columns stores about its beginning."""
        columns = {name: self.columns[name] for name in names}
        began = {"server": self.server, "relation": self.relation, "columns": columns}
        return {**began, "membership": self.membership, **self.divided()}

    def divided(self) -> Offset:
        """Return what a stream stores about the partitions that it has seen; empty for an unpartitioned table."""
        return {"parts": self.parts} if self.parts else {}


def look(connection: Any, quoted: str, table: str, publication: str, slot: str) -> Standing:
    """Return what a server reports now; `quoted` is the table's name in SQL."""
    asked = {"quoted": quoted, "table": table, "publication": publication, "slot": slot}
    return Standing(*connection.execute(_ASKED, asked).fetchone())


def check_table(now: Standing, table: str, names: list[str]) -> None:
    """Raise PipelineError if a table does not exist, lacks columns of the stream, or has rows of other tables."""
    if now.relation is None:
        raise PipelineError(
            f"there is no table {table}: it was dropped or renamed, or its name is spelled differently."
        )
    if now.inherited:
        raise PipelineError(
            f"other tables inherit from {table}, and their changes are not logged as its own: name each of those "
            "tables as a stream, or divide it with PARTITION BY."
        )
    missing = [name for name in names if name not in now.columns]
    if missing:
        raise PipelineError(
            f"the table {table} has no column {missing[0]!r}: its columns are {', '.join(now.columns)}; a column that "
            "was dropped or renamed leaves the counts, and the log has no generated ones: take it out of the schema "
            f"and {START_AGAIN}"
        )


def check_offset(now: Standing, table: str, publication: str, slot: str, at: Offset) -> None:
    """Raise PipelineError if a stream cannot continue from an offset without missing changes."""
    if at.get("server", now.server) != now.server:
        raise PipelineError(
            f"the server of {table} is not the one that the stream began with ({now.server} instead of {at['server']}: "
            f"a restored, promoted or other one), and places in its log mean something else: {START_AGAIN}"
        )
    check_table(now, table, list(at.get("columns", ())))
    if at.get("relation", now.relation) != now.relation:
        raise PipelineError(
            f"the table {table} was dropped and made again, and its old rows with it: {START_AGAIN}"
        )
    for name, kind in at.get("columns", {}).items():
        if now.columns[name] != kind:
            raise PipelineError(
                f"column {name!r} of {table} was {_type(kind)} and is now {_type(now.columns[name])}, created again by "
                f"ALTER TABLE, which does not log the values that it changed: {START_AGAIN}"
            )
    if any(now.parts.get(part) != file for part, file in at.get("parts", {}).items()):
        raise PipelineError(
            f"a partition of {table} was dropped, detached, truncated or rewritten (VACUUM FULL), and the log does "
            f"not say which rows went with it: {START_AGAIN}"
        )
    check_published(now, table, publication)
    if at.get("membership", now.membership) != now.membership:
        raise PipelineError(
            f"the publication {publication} was dropped, or the table {table} taken out of it, and put back, and "
            f"changes were not logged for us meanwhile: drop the slot {slot} and {START_AGAIN}"
        )
    check_slot(now, slot, at["lsn"])


def check_published(now: Standing, table: str, publication: str) -> None:
    """Raise PipelineError if not all changes of a table are published."""
    if now.published is None:
        raise PipelineError(
            f"the publication {publication} is gone, or no longer has the table {table}, and changes were not logged "
            f"for us meanwhile: {START_AGAIN}"
        )
    if not now.published:
        raise PipelineError(
            f"the publication {publication} leaves out changes of {table} (a WHERE, or publish without all of insert, "
            "update, delete, truncate): give another one, or leave the option out, so that one is made."
        )


def check_slot(now: Standing, slot: str, at: int) -> None:
    """Raise PipelineError if the server no longer has the changes from a place in its log on."""
    if now.slot is None or now.slot > at:
        raise PipelineError(
            f"the replication slot {slot} is gone, or was moved past the checkpoint, and changes with it "
            f"(a server that took over after a failure has no slots of the old one): {START_AGAIN}"
        )
    if now.status == "lost":
        raise PipelineError(
            f"the replication slot {slot} is lost: the server removed log that the stream had not read "
            f"(max_slot_wal_keep_size): drop the slot, let the server keep more, and {START_AGAIN}"
        )


def _type(kind: str) -> str:
    return kind.rpartition(" #")[0]
