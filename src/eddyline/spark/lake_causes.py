"""Why a table of Delta or Iceberg cannot be read, in our words."""

import re
from dataclasses import dataclass

_ENABLE = "ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
_ANEW = "start a new store, or run with --full-refresh"


@dataclass(frozen=True)
class _Cause:
    """A pattern of an error's text, and our sentence, with the groups of the pattern in it."""

    pattern: str
    told: str


_CAUSES = (
    _Cause(
        r"DELTA_SOURCE_(?:TABLE_)?IGNORE_(?:CHANGES|DELETE)\].*?for example (\w+).*?at version (\d+)",
        "{0} changed rows of the table at version {1}, and only inserts can be counted without its changes; "
        f"nothing of the batch was applied. Let the table record them ({_ENABLE}), say changes = "
        f'"change_type", and {_ANEW}.',
    ),
    _Cause(
        r"DELTA_MISSING_CHANGE_DATA\].*?recorded for version \[(\d+)\]",
        "version {0} of the table was written without its change data feed, so that its changes cannot be "
        f"told: enable it ({_ENABLE}), and {_ANEW} without startingVersion: the table as it is, then its "
        "changes.",
    ),
    _Cause(
        r"DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        "the table is another one than the run began with: it was dropped and made again, or its path was "
        f"changed; restore it, or {_ANEW}.",
    ),
    _Cause(
        r"DELTA_SCHEMA_CHANGED\w*\].*?in version:? (\d+)",
        "columns of the table changed at version {0}; nothing was lost: start the run again, and it goes on "
        "from there with the columns as they are now.",
    ),
    _Cause(
        r"DELTA_STREAMING_\w*(?:SCHEMA|METADATA)_\w+|DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_\w+",
        "columns of the table were dropped, renamed or given another type, which its changes cannot be read "
        f"across; correct the stream's schema, and {_ANEW}.",
    ),
    _Cause(
        r"DELTA_(?:SCHEMA_NOT_SET|TABLE_NOT_FOUND|MISSING_DELTA_TABLE|PATH_DOES_NOT_EXIST|PATH_BASED_\w+)\b",
        "no Delta table is there, or none any more; correct its path or name, or restore it.",
    ),
    _Cause(
        r"DELTA_CONFIGURE_SPARK_SESSION",
        "Spark was started without Delta's extension and catalog: set spark.sql.extensions = "
        "io.delta.sql.DeltaSparkSessionExtension and spark.sql.catalog.spark_catalog = "
        "org.apache.spark.sql.delta.catalog.DeltaCatalog.",
    ),
    _Cause(
        r"DELTA_LOG_FILE_NOT_FOUND\w*|DELTA_VERSIONS_NOT_CONTIGUOUS"
        r"|(?:FILE_NOT_EXIST\].*?|input stream for file:? |\bFile (?=\S+ does not exist))"
        r"\S*?([\w.=-]+\.(?:parquet|bin|json|orc|avro))\b",
        "files that were not read yet are gone (the first: {0}): VACUUM, expire_snapshots or a cleanup of the "
        f"log took them; nothing of the batch was applied. To count the table as it is now, {_ANEW}; and keep "
        "files for longer (delta.deletedFileRetentionDuration, delta.logRetentionDuration, "
        "history.expire.max-snapshot-age-ms).",
    ),
    _Cause(
        r"Cannot process (\w+) snapshot: (\d+)",
        "snapshot {1} of the table is no append ({0}), and a stream of Iceberg counts appended rows only; "
        "nothing of the batch was applied. Say batch = true, which reads the table once, and start a new "
        "store.",
    ),
    _Cause(
        r"Delete files are currently not supported in changelog scans",
        "the table marks deleted rows in files of their own (merge-on-read), whose changes Iceberg cannot "
        "tell: let it rewrite files (write.delete.mode, write.update.mode and write.merge.mode = "
        "copy-on-write), or leave the start out, which reads the table as it is.",
    ),
    _Cause(
        r"snapshot was expired or removed|Cannot find snapshot|Cannot find \w+ snapshot|not a parent ancestor",
        "a snapshot of the table that is still needed was expired; nothing of the batch was applied. To count "
        f"the table as it is now, {_ANEW}; and keep snapshots for longer.",
    ),
    _Cause(
        r"(NoSuchMethodError|IncompatibleClassChangeError|NoClassDefFoundError|AbstractMethodError)",
        "a connector was built for another Spark than this one ({0}): `eddyline doctor FILE` says which fits.",
    ),
)


def lake_cause(text: str) -> str | None:
    """Return what an error of a table means and what to do, None where it is none that is known."""
    for cause in _CAUSES:
        if found := re.search(cause.pattern, text, re.DOTALL):
            return cause.told.format(*(group or "unknown" for group in found.groups()))
    return None
