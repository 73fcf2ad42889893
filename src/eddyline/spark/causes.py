"""Why Spark failed, in one sentence."""

import re
import sys

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from eddyline.spark.lake_causes import lake_cause
from eddyline.sql.failing import row_failure

SPARK_ERRORS = (PySparkException, Py4JError)
_STACK = re.compile(r"\s+(SQLSTATE: \w+|at \[source .*|JVM stacktrace:)", re.DOTALL)
_PREFIX = re.compile(r"^\s*(\[[A-Z_.0-9]+\] |org\.apache\.\S+: |java\.\S+: |Job aborted.*?: )+")
_END = re.compile(r"\n\s*(?:SQLSTATE:|=== Streaming Query ===|\tat )")
_CALL = re.compile(r"An error occurred while calling ")
_WAITED = "Exception thrown in awaitResult"
"""What the thread says that waited for another, whose error is the cause."""
_PYTHON = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)*: (.+)$", re.MULTILINE)
_ROW = re.compile(
    r"\[[A-Z_.]+\] ([^\n]*?)(?:\. [^\n]*)?\s*SQLSTATE: 22\w+(?:\s*== SQL \([^)\n]*\) ==\n([^\n]+))?"
)
"""What Spark says of a value that an expression cannot take: the reason, and the expression if it tells it."""
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
    if told := _file_cause(text) or lake_cause(text):
        return told
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
    """Return what is wrong with the files of a stream, None where the error says nothing of the kind."""
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
    """Return the sentence on an expression that has no value on a row; None for errors of another kind."""
    found = _ROW.search(str(error))
    return None if found is None else row_failure(found[2] or "", found[1])


def _data_loss(reason: str) -> str:
    """Return what it means that a topic dropped records that a run still needs, and what to do."""
    return (
        f"records that were not read yet are gone from Kafka ({reason.strip().rstrip('.')}): they aged out, or the "
        "topic was deleted and made again; nothing of the batch was applied. Start a new store from what the topic "
        "still has, or go on without the records by may_lose_rows = true; and let the topic keep them longer "
        "(retention.ms)."
    )


def _other_header(file: str, found: str, others: str) -> str:
    """Return what it means that a CSV file has another header than the first one, by the columns that are read."""
    return (
        f"the header of {file} has {found} where other files have {others}; nothing was applied. Write all files of "
        "the stream with the same columns in the same order."
    )
