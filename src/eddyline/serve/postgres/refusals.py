"""Errors as a PostgreSQL client expects them: a SQLSTATE, a message, a detail and a hint."""

import re

from eddyline.errors import (
    ChangeError,
    EddylineError,
    PipelineError,
    PlanError,
    RowFailure,
    SketchError,
    SqlError,
    StoreError,
    UnsupportedQuery,
)
from eddyline.plan.decide.coverage import UNNAMED

_STATES: tuple[tuple[type[EddylineError], str], ...] = (
    (UnsupportedQuery, "0A000"),
    (SqlError, "42601"),
    (PlanError, "0A000"),
    (StoreError, "58030"),
    (RowFailure, "22000"),
    (SketchError, "0A000"),
    (ChangeError, "22000"),
    (PipelineError, "0A000"),
)
"""The SQLSTATE of each kind of our errors: feature not supported, syntax error, I/O error, data exception."""
_STATES_BY_SENTENCE = (
    (re.compile(r"there is no stream "), "42P01"),
    (re.compile(r"there is no column |is neither grouped by nor inside"), "42703"),
    (re.compile(r"could be .* or |is ambiguous"), "42702"),
)
"""Messages that have a SQLSTATE of their own: undefined table, undefined column, ambiguous column."""
_HINT = re.compile(
    r"^(?P<message>(?:[^'\"`:]|'[^']*'|\"[^\"]*\"|`[^`]*`|['\"`]|:(?! ))*): (?P<hint>.+)$", re.DOTALL
)
"""Our messages say what is wrong, then a colon, then what to do."""


_SENTENCE_END = re.compile(r"(?<!\.)\. ")
"""The end of a sentence; three points are not one."""


class Refusal(Exception):  # noqa: N818 - a refusal is not a failure
    """A statement or message that is answered with an error.

    fatal: the connection is closed after it.
    """

    def __init__(
        self, state: str, message: str, *, detail: str = "", hint: str = "", fatal: bool = False
    ) -> None:
        super().__init__(message)
        self.state, self.message, self.detail, self.hint, self.fatal = state, message, detail, hint, fatal

    def fields(self) -> dict[str, str]:
        """Return the fields of the error message by their codes."""
        severity = "FATAL" if self.fatal else "ERROR"
        given = {"S": severity, "V": severity, "C": self.state, "M": self.message}
        return given | {code: text for code, text in (("D", self.detail), ("H", self.hint)) if text}


def refusal_of(error: EddylineError) -> Refusal:
    """Return one of our errors as a refusal; its message is split into message, detail and hint."""
    sentence = " ".join(str(error).split()).removeprefix(f"query {UNNAMED!r}: ")
    state = next((code for kind, code in _STATES if isinstance(error, kind)), "XX000")
    if isinstance(error, SqlError):
        state = next((code for said, code in _STATES_BY_SENTENCE if said.search(sentence)), state)
    first, _, rest = _SENTENCE_END.sub("\n", sentence, count=1).partition("\n")
    if rest and first.count("'") % 2 == 0:  # the sentence did not end inside a quotation
        sentence, detail = first, rest
    else:
        detail = ""
    found = _HINT.match(sentence)
    message, hint = (found["message"], found["hint"]) if found else (sentence, "")
    return Refusal(state, message.rstrip("."), detail=detail, hint=hint)


def read_only(what: str) -> Refusal:
    """Return the refusal of a statement that would write."""
    return Refusal(
        "25006",
        f"{what} cannot be executed: this server is read-only",
        detail="It answers questions about a store. Only a run writes to the store.",
    )


def not_supported(what: str, hint: str = "") -> Refusal:
    """Return the refusal of something that this server does not support."""
    return Refusal("0A000", what, hint=hint)
