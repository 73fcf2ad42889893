"""Why Spark failed, in one sentence."""

import re

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


def cause_of(error: BaseException) -> str:
    """Return the reason of a Spark error in one line: the Python error inside it, or its first line."""
    text = str(error)
    if _WAITED in text:
        text = text.partition("Caused by:")[2] or text
    _, _, trace = text.partition("Traceback (most recent call last):")
    inside = _PYTHON.findall(_END.split(trace)[0])
    line = inside[-1] if inside else text
    lines = [part for part in line.strip().splitlines() if part.strip() and not _CALL.match(part)]
    line = lines[0].lstrip(": ") if lines else type(error).__name__
    line = _PREFIX.sub("", _STACK.split(line)[0]).strip()
    return line if line.endswith(".") else f"{line}."
