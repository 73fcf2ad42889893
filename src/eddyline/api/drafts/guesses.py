"""Guesses about streams that `init` writes down: which columns join, and which says when a row happened.

Names alone mislead: every table has an `Id`, and `ClosedDate` is a time that most rows do not have. So the first rows
are looked at, too. Where they speak against a guess, nothing is proposed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Any

from eddyline.api.drafts.draft import SAMPLED_ROWS, StreamDraft
from eddyline.types import Column

_BARE = {"id", "_id", "key", "pk", "uuid", "guid", "rowid", "row_id", "index", "number", "no"}
"""Names under which tables keep their own key: two of them have nothing to do with each other."""
_KEY = re.compile(r"(id|key|code|uuid|guid|sku|isbn)$", re.IGNORECASE)
_NO_KEY = re.compile(
    r"score|count|total|amount|price|cost|weight|quantity|qty|size|value|rank|level|year|month|day|hour|age$|name|title"
    r"|text|body|type|status|state|kind|date|time|flag|view|comment|rate|page|^x$|^y$",
    re.IGNORECASE,
)
_ENDS = re.compile(r"clos|delet|end|expir|due|last|updat|edit|modif|cancel|finish|birth", re.IGNORECASE)
_LEAST_PRESENT, _LEAST_RISING = 0.9, 0.7
_FEW = 10  # rows whose order says nothing yet
_LEAST_WITHIN = 0.1


@dataclass(frozen=True)
class Join:
    """Two streams and the column of each that a join is likely on."""

    left: StreamDraft
    right: StreamDraft
    left_column: str
    right_column: str


def likely_join(drafts: Sequence[StreamDraft]) -> Join | None:
    """Return the likeliest join of two streams, None where names or values speak against all of them."""
    found: list[tuple[int, Join]] = []
    for left, right in combinations(drafts, 2):
        for mine, theirs in product(left.columns, right.columns):
            likely = _likely(left, mine, right, theirs)
            if likely and _may_meet(left, mine.name, right, theirs.name):
                found.append((likely, Join(left, right, mine.name, theirs.name)))
    return max(found, key=lambda each: each[0])[1] if found else None


def _likely(left: StreamDraft, mine: Column, right: StreamDraft, theirs: Column) -> int:
    """Return how much two names speak for a join, 0 where they do not."""
    one, other = mine.name.lower(), theirs.name.lower()
    types = {kind.key_class for kind in (mine.type, theirs.type)}
    if len(types) > 1 or None in types or not all(_can_be_key(each) for each in (mine, theirs)):
        return 0
    if one in _BARE or other in _BARE:
        refers = (one in _BARE and _refers(other, left.name)) or (other in _BARE and _refers(one, right.name))
        return 3 if refers and one != other else 0
    if one != other:
        return 0
    if _KEY.search(one):
        return 4 if mine.type.is_integer else 2
    return 0 if _NO_KEY.search(one) else 1


def _can_be_key(column: Column) -> bool:
    return column.type.is_integer or column.type.kind == "string"


def _refers(name: str, stream: str) -> bool:
    """Return whether a column is named for the key of a stream: `OwnerUserId` for that of `users`."""
    singular = re.sub(r"(?<=[^aeious])ies$", "y", stream.lower().replace("_", ""))
    names = {singular, singular.removesuffix("s"), singular.removesuffix("es")} - {""}
    return any(name.replace("_", "").endswith(f"{each}{key}") for each in names for key in ("id", "key"))


def _may_meet(left: StreamDraft, mine: str, right: StreamDraft, theirs: str) -> bool:
    """Return whether values of two columns are the same, or lie in the same range, as far as rows were looked at."""
    one, other = (
        {value for value in draft.rows.get(name, ()) if value is not None}
        for draft, name in ((left, mine), (right, theirs))
    )
    if not one or not other:
        return not left.rows.get(mine) or not right.rows.get(theirs)
    if one & other:
        return True
    if all(isinstance(value, int) for value in one | other):
        return max(_within(one, other), _within(other, one)) >= _LEAST_WITHIN
    return max(len(left.rows[mine]), len(right.rows[theirs])) >= SAMPLED_ROWS  # others may come further on


def _within(values: set[Any], others: set[Any]) -> float:
    """Return which share of values lies between the least and the largest of others."""
    low, high = min(others), max(others)
    return sum(bool(low <= value <= high) for value in values) / len(values)


def likely_event_time(draft: StreamDraft) -> str | None:
    """Return the TIMESTAMP column that says when rows happened: hardly ever NULL, and rising from row to row."""
    found: list[tuple[float, str]] = []
    for column in draft.columns:
        if column.type.kind not in ("timestamp", "timestamp_ntz"):
            continue
        values = draft.rows.get(column.name, [])
        present = [value for value in values if value is not None]
        if len(present) < _LEAST_PRESENT * len(values):
            continue
        if len(present) < _FEW:
            if not _ENDS.search(column.name):
                found.append((0.0, column.name))
            continue
        rising = sum(a <= b for a, b in pairwise(present)) / (len(present) - 1)
        if rising >= _LEAST_RISING:
            found.append((rising, column.name))
    return max(found, key=lambda each: each[0])[1] if found else None
