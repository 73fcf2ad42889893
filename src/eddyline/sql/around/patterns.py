"""Regular expressions that mean the same in PostgreSQL and in RE2, which DuckDB uses.

Both agree on whether a text has a match of such a pattern. They may choose different matches: PostgreSQL takes the
longest, RE2 prefers the first alternative. A pattern without groups and alternatives has one candidate.
"""

import re

_CLASS = r"\[\^?(?:[A-Za-z0-9 _,;:/@.]-[A-Za-z0-9]|[A-Za-z0-9 _,;:/@.])+\]"
_ATOM = rf"(?:[A-Za-z0-9 _,;:/@#%&=<>~'\"!-]|\\[.\\()\[\]{{}}*+?|^$/-]|\\d|\.|{_CLASS})"
_TIMES = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?"
_ONE = re.compile(rf"\^?(?:{_ATOM}{_TIMES})+\$?")
_PIECES = re.compile(rf"(?:{_ATOM}{_TIMES}|\^|\$|\(|\){_TIMES}|\|)*")
_MOST = 200
"""Characters of a pattern: chosen."""


def is_test(pattern: str) -> bool:
    """Return whether both agree on which texts a pattern matches."""
    if len(pattern) > _MOST or not _PIECES.fullmatch(pattern) or "(?" in pattern or "(*" in pattern:
        return False
    return _compiles(pattern)


def is_test_anywhere(pattern: str) -> bool:
    """Return whether Java, which Spark uses, also agrees: it reads a line's end, and `.`, in other ways."""
    return is_test(pattern) and not set(pattern) & set("\\.$")


def is_one_match(pattern: str) -> bool:
    """Return whether both also agree on what is matched, which is some text."""
    if len(pattern) > _MOST or not _ONE.fullmatch(pattern) or not _compiles(pattern):
        return False
    return re.search(pattern, "") is None


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
