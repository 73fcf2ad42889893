"""Every exception that eddyline raises on purpose.

EddylineError
├── SqlError                  the SQL cannot be read
│   └── UnsupportedQuery      the SQL is valid, and eddyline does not answer such queries
├── PlanError                 the workload cannot be planned
├── SketchError               a synopsis cannot take these rows or operations
│   └── IncompatibleSpecs     two synopses of different spec were combined
├── StoreError                durable state
│   ├── CorruptState          bytes are damaged
│   ├── FormatVersion         bytes were written by another version of the format
│   ├── Locked                another writer holds the store
│   └── WrongRun              the store belongs to another plan, run or checkpoint
├── ChangeError               a row whose change (insert, delete, weight) cannot be read
└── PipelineError             frames, sources and the machine around Spark
    └── RowFailure            an expression has no value on a row: a division by zero, say

Each message is a sentence that says what was wrong, where, and what to do about it. It shows no password or key of a
URI.
"""

import re

_URI = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)(?P<rest>[^\s'\"<>]*)")


def without_secrets(text: str) -> str:
    """Return a text with every URI in it without user, password and query; a path stays as it is."""
    return _URI.sub(_plain, text) if "://" in text else text


def _plain(found: re.Match[str]) -> str:
    rest = found["rest"].partition("?")[0]
    netloc = rest.partition("/")[0]
    user, at, _ = netloc.rpartition("@")
    if not at and re.search(r":\D", netloc):  # no port: a key with a slash in it
        user, at, _ = rest.rpartition("@")
    return found["scheme"] + rest[len(user) + len(at) :]


class EddylineError(Exception):
    """The root of all errors that eddyline raises on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(without_secrets(message))


class SqlError(EddylineError):
    """The SQL cannot be read."""


class UnsupportedQuery(SqlError):  # noqa: N818 - a fixed public name
    """The SQL is valid, and eddyline does not answer such queries."""


class PlanError(EddylineError):
    """The workload cannot be planned."""


class SketchError(EddylineError):
    """A synopsis cannot take these rows or operations."""


class IncompatibleSpecs(SketchError):  # noqa: N818 - a fixed public name
    """Two synopses of different spec were combined."""


class StoreError(EddylineError):
    """Durable state cannot be read or written."""


class CorruptState(StoreError):  # noqa: N818 - a fixed public name
    """Bytes of state are damaged."""


class FormatVersion(StoreError):  # noqa: N818 - a fixed public name
    """Bytes of state were written by another version of the format."""


class Locked(StoreError):  # noqa: N818 - a fixed public name
    """Another writer holds the store."""


class WrongRun(StoreError):  # noqa: N818 - a fixed public name
    """The store belongs to another plan, run or checkpoint."""


class ChangeError(EddylineError):
    """A row whose change (insert, delete or weight) cannot be read."""


class PipelineError(EddylineError):
    """Frames, sources or the machine around Spark do not fit the plan."""


class RowFailure(PipelineError):  # noqa: N818 - no error of ours, nor of the pipeline's
    """An expression of a query has no value on a row that counts."""


SMALLER_TOTALS = (
    "CAST what a VARIANCE, STDDEV, COVAR or CORR reads to DOUBLE, whose squares take more bits; otherwise use smaller "
    "weights, a coarser scale for the measure, or shorter windows."
)
"""What to do where integers do not fit 64 bits. The squares of 10,000.00000 add up to that in ten rows."""
