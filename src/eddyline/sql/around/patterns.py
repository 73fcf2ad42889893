"""Patterns that mean the same in all engines: regular expressions, and formats of dates and times.

PostgreSQL and RE2, which DuckDB uses, agree on whether a text matches one of these regular expressions. They may choose
different matches: PostgreSQL takes the longest, RE2 prefers the first alternative. A pattern without groups and
alternatives has one candidate.
"""

import re

from sqlglot import exp

_CLASS = r"\[\^?(?:[A-Za-z0-9 _,;:/@.]-[A-Za-z0-9]|[A-Za-z0-9 _,;:/@.])+\]"
_ATOM = rf"(?:[A-Za-z0-9 _,;:/@#%&=<>~'\"!-]|\\[.\\()\[\]{{}}*+?|^$/-]|\\d|\.|{_CLASS})"
_TIMES = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?"
_ONE = re.compile(rf"\^?(?:{_ATOM}{_TIMES})+\$?")
_PIECES = re.compile(rf"(?:{_ATOM}{_TIMES}|\^|\$|\(|\){_TIMES}|\|)*")
_LETTERS = {
    "yyyy": "%Y", "y": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m", "dd": "%d", "d": "%-d",
    "EEEE": "%A", "EEE": "%a", "E": "%a", "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M",
    "ss": "%S", "s": "%-S", "a": "%p", "SSS": "%g", "DDD": "%j",
}  # fmt: skip
"""Letters of Java's formats of dates, in those of strftime."""
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


def java_pattern(node: exp.Expr) -> str | None:
    """Return the format of date_format as it is written."""
    found = re.search(r",\s*'((?:[^'\\]|\\.)*)'\)$", node.sql(dialect="spark"))
    return None if found is None else found[1]


def truncation_of(node: exp.Expr) -> str | None:
    """Return the unit to which a date_format truncates a time: the format has the year and all units down to it."""
    letters = set(re.sub(r"'[^']*'", "", java_pattern(node) or "")) & set("yMdHms")
    for place, unit in enumerate(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"), 1):
        if letters == set("yMdHms"[:place]):
            return unit
    return None


def strftime_pattern(pattern: str) -> str:
    """Return a format of Java as one of strftime, or raise KeyError with the letters that have no counterpart."""
    made = ""
    for letters, quoted, other in re.findall(r"([A-Za-z]+)|\\?'((?:[^'\\])*)\\?'|([^A-Za-z'\\])", pattern):
        made += "".join(_LETTERS[match[0]] for match in re.finditer(r"(.)\1*", letters))
        made += (quoted or other).replace("%", "%%")
    return made
