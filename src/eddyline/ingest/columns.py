"""Which columns of a projected batch carry what, where every column costs: no value travels twice.

A row that leaves the JVM pays for each of its columns, wide or narrow. So equal values share a column, a key of
several columns is made from its parts where those travel anyhow, and all truth values of a row are bits of one integer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from eddyline.ingest.projection import Projection, measure_name, part_name
from eddyline.sql.query import Expression, Key
from eddyline.types import SqlType

_WHOLE = "64-bit integer"


def is_made_in_jvm(kind: SqlType) -> bool:
    """Return whether the JVM makes the 64-bit key of a value of a type; of others the value itself travels."""
    return kind.kind in ("boolean", "date", "timestamp", "string", "binary") or is_whole(kind)


def is_whole(kind: SqlType) -> bool:
    """Return whether a type's values are 64-bit integers, the same as a key and as a measure."""
    return kind.is_integer or (kind.kind == "decimal" and kind.scale == 0 and kind.precision <= 18)


@dataclass(frozen=True)
class LeanColumns:
    """The fewest columns for a projection.

    twins: for each key part and measure, the column that carries it. hashed: keys (by index) that travel as one
    64-bit key instead of as parts.
    """

    twins: dict[str, str]
    hashed: frozenset[int]

    @property
    def names(self) -> list[str]:
        """The columns of key parts and measures that travel, each once."""
        return list(dict.fromkeys(self.twins.values()))


def lean_columns(projection: Projection) -> LeanColumns:
    """Return the columns that carry a projection's keys and measures."""
    hashed = _hashed(projection)
    twins: dict[str, str] = {}
    first: dict[tuple[str, str], str] = {}
    for name, content in _contents(projection, hashed):
        twins[name] = first.setdefault(content, name)
    return LeanColumns(twins, hashed)


def _contents(projection: Projection, hashed: frozenset[int]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name and the content of each column: of keys that travel in parts, and of measures."""
    for i, key in enumerate(projection.keys):
        if i not in hashed:
            content = _as_value if key in projection.labelled else _as_key
            yield from ((part_name(i, j), content(part)) for j, part in enumerate(key.columns))
    for i, measure in enumerate(projection.measures):
        yield measure_name(i), _as_number(measure.expression)


def _as_key(part: Expression) -> tuple[str, str]:
    return part.text, _WHOLE if is_whole(part.type) else f"key of {part.type}"


def _as_value(part: Expression) -> tuple[str, str]:
    return part.text, f"value of {part.type}"


def _as_number(part: Expression) -> tuple[str, str]:
    return part.text, _WHOLE if is_whole(part.type) else f"number of {part.type}"


def _hashed(projection: Projection) -> frozenset[int]:
    """Return the keys of several columns for which one column of their own is fewer than their parts are."""
    open_keys = {i: key for i, key in enumerate(projection.keys) if _can_be_hashed(key)}
    travelling = {content for _, content in _contents(projection, frozenset(open_keys))}
    found = True
    while found:
        found = False
        for i, key in list(open_keys.items()):
            more = {_as_key(part) for part in key.columns} - travelling
            if len(more) <= 1:
                travelling |= more
                del open_keys[i]
                found = True
    return frozenset(open_keys)


def _can_be_hashed(key: Key) -> bool:
    return len(key.columns) > 1 and all(is_made_in_jvm(part.type) for part in key.columns)
