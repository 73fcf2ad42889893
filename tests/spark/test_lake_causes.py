"""How errors of Delta and Iceberg are reported: their own texts, for machines without their connectors."""

import pytest

from eddyline.spark.causes import cause_of

UPDATED = (
    "[STREAM_FAILED] Query [id = 1] terminated with exception: [DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update "
    '(for example UPDATE (Map(predicate -> "[(k < 5)]"))) in the source table at version 6. This is currently not supported.'
)
UNTOLD = (
    "[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [0 , 3] as change data was not\nrecorded for version "
    "[0]. If you've enabled change data feed on this table,\nuse `DESCRIBE HISTORY` to see when it was first enabled."
)
GONE = "java.io.FileNotFoundException: File file:/tmp/t/deletion_vector_d10a.bin does not exist\n\tat org.apache.hadoop"
LOG = "[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE] If you never deleted it, it's likely your query is lagging behind."
CHANGED = (
    "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 5:\nstreaming source schema: root"
)
DROPPED = (
    "[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG] Streaming read is not supported on tables"
)
OTHER = "[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from an unexpected Delta table"
OVERWRITTEN = "Cannot process overwrite snapshot: 949273, to ignore overwrites, set streaming-skip-overwrite-snapshots=true"
MERGED = (
    "java.lang.UnsupportedOperationException: Delete files are currently not supported in changelog scans"
)
BUILT = "An error occurred while calling o36.sql.\n: java.lang.NoSuchMethodError: 'void org.apache.spark.sql.execution.X'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (UPDATED, "UPDATE changed rows of the table at version 6"),
        (UNTOLD, "version 0 of the table was written without its change data feed"),
        (GONE, "files that were not read yet are gone (the first: deletion_vector_d10a.bin)"),
        (LOG, "files that were not read yet are gone"),
        (CHANGED, "columns of the table changed at version 5"),
        (DROPPED, "columns of the table were dropped, renamed"),
        (OTHER, "the table is another one than the run began with"),
        (OVERWRITTEN, "snapshot 949273 of the table is no append (overwrite)"),
        (MERGED, "the table marks deleted rows in files of their own"),
        (BUILT, "a connector was built for another Spark than this one (NoSuchMethodError)"),
    ],
)
def test_errors_of_tables_are_told_in_our_words(text, shown):
    said = cause_of(RuntimeError(text))
    assert said.startswith(shown)
    assert "\n" not in said
    assert said.endswith(".")
