"""Constants as PostgreSQL reads them: numbers, booleans, times, intervals, and formats of to_char and to_date."""

import re
from collections.abc import Mapping

from eddyline.serve.postgres.refusals import Refusal

LETTERS = "The format takes YYYY, YY, MM, Mon, DD, Dy, HH24, HH12, MI and SS, of a date or a time."
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})(?:[ T](?P<time>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?"
    r"\s*(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?"
)
_SPANS = re.compile(
    r"\s*([+-]?\d+)\s*(year|month|week|day|hour|minute|second|min|sec|mon)s?(?=[\s+-]|$)", re.IGNORECASE
)
_SPAN_NAMES = {"min": "minute", "sec": "second", "mon": "month"}
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "off", "0"), False),
}
_FORMAT = re.compile(r"(%uy|%[a-zA-Z]|Mon)|([^A-Za-z%'\"]+)")
_FIELDS = {"%Y": r"(?P<Y>\d{4})", "%m": r"(?P<m>\d{2})", "%d": r"(?P<d>\d{2})", "%H": r"(?P<H>\d{2})",
           "%M": r"(?P<M>\d{2})", "%S": r"(?P<S>\d{2})", "%f": r"(?P<f>\d{6})"}  # fmt: skip
"""The fields of a format that reads a time, each with all its digits: of fewer the meaning depends on what follows."""


def _invalid(text: str, kind: str) -> Refusal:
    return Refusal("22P02", f'invalid input syntax for type {kind}: "{text}"')


def number(text: str, *, is_whole: bool) -> str:
    """Return the digits of a string that is compared with a number, or is cast to one."""
    if not (_WHOLE if is_whole else _NUMBER).fullmatch(text):
        raise _invalid(text, "integer" if is_whole else "numeric")
    return text


def read_boolean(text: str) -> bool:
    """Return the value of a string that is a boolean."""
    found = _BOOLEANS.get(text.lower())
    if found is None:
        raise _invalid(text, "boolean")
    return found


def has_zone(text: str) -> bool:
    """Return whether a time names its zone."""
    found = _MOMENT.fullmatch(text.strip())
    return found is not None and found["zone"] is not None


def read_moment(text: str, kind: str) -> str:
    """Return a date or a time of a kind in full; PostgreSQL ignores the zone where the type has none."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise Refusal(
            "0A000", f"{text!r} is not a {kind} that is read here", hint="Write it as '2024-02-29 12:00:00'."
        )
    if kind == "date":
        return found["day"]
    zone = (found["zone"] or "").replace(":", "").replace("Z", "")
    zone = f"{zone[:3] or '+00'}:{zone[3:] or '00'}" if kind == "timestamptz" else ""
    return f"{found['day']} {found['time'] or '00:00:00'}{zone}"


def spans(text: str) -> str:
    """Return an interval as numbers and units in full, '' if it is written in another way."""
    found, at = [], 0
    while each := _SPANS.match(text, at):
        unit = each[2].lower()
        found.append(f"{each[1]} {_SPAN_NAMES.get(unit, unit)}s")
        at = each.end()
    return "" if text[at:].strip() else " ".join(found)


def in_letters(given: str, letters: Mapping[str, str]) -> str | None:
    """Return a format, as the parser has it (it reads Dy as %uy), in other letters; None if a part is unknown."""
    parts = _FORMAT.findall(given)
    if not given or "".join(map("".join, parts)) != given:
        return None
    if any(known and known not in letters for known, _ in parts):
        return None
    return "".join(letters[known] if known else other for known, other in parts)


def by_format(text: str | None, given: str | None) -> str | None:
    """Return the date and time of a written text that a format reads; None if that is not certain."""
    if text is None or not given:
        return None
    parts = _FORMAT.findall(given)
    names = [known for known, _ in parts if known]
    if "".join(map("".join, parts)) != given or len(set(names)) != len(names):
        return None
    if any(each not in _FIELDS for each in names):
        return None
    pattern = "".join(_FIELDS[known] if known else re.escape(other) for known, other in parts)
    found = re.fullmatch(pattern, text)
    if found is None or "%Y" not in names:
        return None
    has = found.groupdict()
    day = f"{has['Y']}-{has.get('m') or '01'}-{has.get('d') or '01'}"
    time = f"{has.get('H') or '00'}:{has.get('M') or '00'}:{has.get('S') or '00'}"
    return f"{day} {time}.{has['f']}" if has.get("f") else f"{day} {time}"
