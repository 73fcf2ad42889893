"""Why Spark, Delta or Iceberg failed, in one sentence."""

import re
import sys
from dataclasses import dataclass

from pyspark.errors import PySparkException

from eddyline.expressions.nodes import row_failure

try:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
except ImportError:  # a client of Spark Connect has no JVM
    Py4JError = PySparkException

# Why a table of Delta or Iceberg cannot be read, in eddyline's words.


_ENABLE = "ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
_START_AGAIN = "start a new store, or run with --full-refresh"


@dataclass(frozen=True)
class _Cause:
    """A pattern of an error's text, and our sentence, which contains the groups of the pattern."""

    pattern: str
    sentence: str


_CAUSES = (
    _Cause(
        r"DELTA_SOURCE_(?:TABLE_)?IGNORE_(?:CHANGES|DELETE)\].*?for example (\w+).*?at version (\d+)",
        "{0} changed rows of the table at version {1}, and only inserts can be counted without its changes; "
        f"nothing of the batch was applied. Let the table record them ({_ENABLE}), say changes = "
        f'"change_type", and {_START_AGAIN}.',
    ),
    _Cause(
        r"DELTA_MISSING_CHANGE_DATA\].*?recorded for version \[(\d+)\]",
        "version {0} of the table was written without its change data feed, so that its changes cannot be "
        f"reported: enable it ({_ENABLE}), and {_START_AGAIN} without startingVersion: the table as it is, then its "
        "changes.",
    ),
    _Cause(
        r"DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        "the table is another one than the run began with: it was dropped and made again, or its path was "
        f"changed; restore it, or {_START_AGAIN}.",
    ),
    _Cause(
        r"DELTA_SCHEMA_CHANGED\w*\].*?in version:? (\d+)",
        "columns of the table changed at version {0}; nothing was lost: start the run again, and it goes on "
        "from there with the columns as they are now.",
    ),
    _Cause(
        r"DELTA_STREAMING_\w*(?:SCHEMA|METADATA)_\w+|DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_\w+",
        "columns of the table were dropped, renamed or given another type, which its changes cannot be read "
        f"across; correct the stream's schema, and {_START_AGAIN}.",
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
        f"log took them; nothing of the batch was applied. To count the table as it is now, {_START_AGAIN}; and keep "
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
        "show: let it rewrite files (write.delete.mode, write.update.mode and write.merge.mode = "
        "copy-on-write), or leave the start out, which reads the table as it is.",
    ),
    _Cause(
        r"snapshot was expired or removed|Cannot find snapshot|Cannot find \w+ snapshot|not a parent ancestor",
        "a snapshot of the table that is still needed was expired; nothing of the batch was applied. To count "
        f"the table as it is now, {_START_AGAIN}; and keep snapshots for longer.",
    ),
    _Cause(
        r"(NoSuchMethodError|IncompatibleClassChangeError|NoClassDefFoundError|AbstractMethodError)",
        "a connector was built for another Spark than this one ({0}): `eddyline doctor FILE` says which fits.",
    ),
)


def lake_cause(text: str) -> str | None:
    """Return what an error of a table means and what to do, None for an unknown error."""
    for cause in _CAUSES:
        if found := re.search(cause.pattern, text, re.DOTALL):
            return cause.sentence.format(*(group or "unknown" for group in found.groups()))
    return None


# Why Spark itself failed.


SPARK_ERRORS = (PySparkException, Py4JError)
_STACK = re.compile(r"\s+(SQLSTATE: \w+|at \[source .*|JVM stacktrace:)", re.DOTALL)
_PREFIX = re.compile(r"^\s*(\[[A-Z_.0-9]+\] |org\.apache\.\S+: |java\.\S+: |Job aborted.*?: )+")
_END = re.compile(r"\n\s*(?:SQLSTATE:|=== Streaming Query ===|\tat )")
_CALL = re.compile(r"An error occurred while calling ")
_WAITED = "Exception thrown in awaitResult"
"""The message of a thread that waited for another thread, whose error is the cause."""
_PYTHON = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)*: (.+)$", re.MULTILINE)
_ROW = re.compile(
    r"\[[A-Z_.]+\] ([^\n]*?)(?:\. [^\n]*)?\s*SQLSTATE: 22\w+(?:\s*== SQL \([^)\n]*\) ==\n([^\n]+))?"
)
"""Spark's message for a value that an expression cannot take: the reason, and the expression if it is named."""
_DATA_LOSS = re.compile(
    r"Some data may have been lost.*?in Kafka.*?Reason:\s*(.*?)(?: with consumer group| SQLSTATE|\n|$)",
    re.DOTALL,
)
_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: ([^\n]*)\n\s*Schema: ([^\n]*).*?CSV file: (\S+)",
    re.DOTALL,
)
_WIDTH = re.compile(
    r"Number of column in CSV header is not equal.*?Header length: (\d+), schema size: (\d+)\s+CSV file: (\S+)",
    re.DOTALL,
)
_LACKING = re.compile(
    r"ModuleNotFoundError: (No module named '[\w.]+')|(Cannot run program \"[^\"]*\")|\[(PYTHON_VERSION_MISMATCH)\]"
)


_OTHER_FOLDER = re.compile(r"Wrong basePath (\S+) for the root path: (?:file:)?(\S+?)\.?(?:\s|$)")
_NANOSECONDS = "(TIMESTAMP(NANOS"


def cause_of(error: BaseException) -> str:
    """Return the reason of a Spark error in one line: the Python error inside it, or its first line."""
    text = str(error)
    if lost := _DATA_LOSS.search(text):
        return _data_loss(lost[1])
    if sentence := _file_cause(text) or lake_cause(text):
        return sentence
    if lacking := _LACKING.search(text):
        return (
            f"the workers run another Python, without what this one has ({lacking[lacking.lastindex or 0]}): set "
            f"PYSPARK_PYTHON to an interpreter with eddyline, such as {sys.executable}, on every executor."
        )
    if _WAITED in text:
        text = text.partition("Caused by:")[2] or text
    _, _, trace = text.partition("Traceback (most recent call last):")
    inside = _PYTHON.findall(_END.split(trace)[0])
    line = inside[-1] if inside else text
    lines = [part for part in line.strip().splitlines() if part.strip() and not _CALL.match(part)]
    line = lines[0].lstrip(": ") if lines else type(error).__name__
    line = _PREFIX.sub("", _STACK.split(line)[0]).strip()
    return line if line.endswith(".") else f"{line}."


def _file_cause(text: str) -> str | None:
    """Return what is wrong with the files of a stream, None if the error is not about files."""
    if header := _HEADER.search(text):
        return _other_header(header[3], header[1], header[2])
    if width := _WIDTH.search(text):
        return _other_header(width[3], f"{width[1]} columns", width[2])
    if moved := _OTHER_FOLDER.search(text):
        return (
            f"its checkpoint is that of other files, such as {moved[2]}, and now it reads {moved[1]}: name the folder "
            "as before, or begin with a new store."
        )
    if _NANOSECONDS in text:
        return (
            "a column holds times in nanoseconds, which Spark does not read: write them in microseconds (pandas: "
            'to_parquet(..., coerce_timestamps="us", allow_truncated_timestamps=True)).'
        )
    return None


def failed_row(error: BaseException) -> str | None:
    """Return the sentence about an expression that has no value on a row; None for other errors."""
    found = _ROW.search(str(error))
    return None if found is None else row_failure(found[2] or "", found[1])


def _data_loss(reason: str) -> str:
    """Return what to do when a topic dropped records that a run still needs, and what it means."""
    return (
        f"records that were not read yet are gone from Kafka ({reason.strip().rstrip('.')}): they aged out, or the "
        "topic was deleted and made again; nothing of the batch was applied. Start a new store from what the topic "
        "still has, or go on without the records by may_lose_rows = true; and let the topic keep them longer "
        "(retention.ms)."
    )


def _other_header(file: str, found: str, others: str) -> str:
    """Return what to do when a CSV file has another header than the first file, by the columns that are read."""
    return (
        f"the header of {file} has {found} where other files have {others}; nothing was applied. Write all files of "
        "the stream with the same columns in the same order."
    )
