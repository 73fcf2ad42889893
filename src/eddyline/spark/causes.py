"""Why Spark failed, in one sentence."""

import re

_STACK = re.compile(r"\s+(SQLSTATE: \w+|at \[source .*|JVM stacktrace:)", re.DOTALL)
_PREFIX = re.compile(r"^\s*(\[[A-Z_.0-9]+\] |org\.apache\.spark\.\S+: |java\.\S+: |Job aborted.*?: )+")
_PYTHON = re.compile(r"^\w*(?:\.\w+)*(?:Error|Exception): (.+)$", re.MULTILINE)


def cause_of(error: BaseException) -> str:
    """Return the reason of a Spark error in one line: the Python error inside it, or its first line."""
    text = str(error)
    inside = _PYTHON.findall(text)
    line = inside[-1] if "Traceback (most recent call last)" in text and inside else text
    line = next((part for part in line.strip().splitlines() if part.strip()), type(error).__name__)
    line = _PREFIX.sub("", _STACK.split(line)[0]).strip()
    return line if line.endswith(".") else f"{line}."
