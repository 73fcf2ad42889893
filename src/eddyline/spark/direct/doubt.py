"""Why a stream is not scanned directly."""

import pyarrow as pa

from eddyline.errors import EddylineError

READ_ERRORS = (OSError, ValueError, KeyError, pa.ArrowException, EddylineError)
"""What opening, reading and evaluating a file can raise."""


class Doubt(Exception):  # noqa: N818 - no error: the pass goes through the JVM, which knows better
    """The files may mean something else to Spark than to Arrow; the message says why, to follow a colon."""


def one_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
