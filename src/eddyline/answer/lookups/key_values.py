"""Values back from keys, where a key holds its value."""

from typing import Any

from eddyline.sketch.keys import NULL_KEY
from eddyline.sql.arrow_types import date_of
from eddyline.sql.query import Key


def holds_value(key: Key) -> bool:
    """Return whether the keys of these columns are the values themselves rather than hashes."""
    kind = key.columns[0].type
    return len(key.columns) == 1 and (kind.is_integer or kind.kind in ("boolean", "date"))


def value_of(key: Key, word: int) -> Any:
    """Return the SQL value that a 64-bit key holds, or None where it is a hash (or NULL)."""
    if not holds_value(key) or (key.null_is_value and word == NULL_KEY):
        return None
    kind = key.columns[0].type.kind
    if kind == "boolean":
        return bool(word)
    return date_of(word) if kind == "date" else word
