"""Why Spark failed, in one sentence."""

import re
import sys

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JError)
_STACK = re.compile(r"\s+(SQLSTATE: \w+|at \[source .*|JVM stacktrace:)", re.DOTALL)
_PREFIX = re.compile(r"^\s*(\[[A-Z_.0-9]+\] |org\.apache\.\S+: |java\.\S+: |Job aborted.*?: )+")
_END = re.compile(r"\n\s*(?:SQLSTATE:|=== Streaming Query ===|\tat )")
_CALL = re.compile(r"An error occurred while calling ")
_WAITED = "Exception thrown in awaitResult"
"""What the thread says that waited for another, whose error is the cause."""
_PYTHON = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)*: (.+)$", re.MULTILINE)
_DATA_LOSS = re.compile(
    r"Some data may have been lost.*?in Kafka.*?Reason:\s*(.*?)(?: with consumer group| SQLSTATE|\n|$)",
    re.DOTALL,
)


_LACKING = re.compile(
    r"ModuleNotFoundError: (No module named '[\w.]+')|(Cannot run program \"[^\"]*\")|\[(PYTHON_VERSION_MISMATCH)\]"
)


def cause_of(error: BaseException) -> str:
    """Return the reason of a Spark error in one line: the Python error inside it, or its first line."""
    text = str(error)
    if lost := _DATA_LOSS.search(text):
        return _data_loss(lost[1])
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


def _data_loss(reason: str) -> str:
    """Return what it means that a topic dropped records that a run still needs, and what to do."""
    return (
        f"records that were not read yet are gone from Kafka ({reason.strip().rstrip('.')}): they aged out, or the "
        "topic was deleted and made again; nothing of the batch was applied. Start a new store from what the topic "
        "still has, or go on without the records by may_lose_rows = true; and let the topic keep them longer "
        "(retention.ms)."
    )
