"""Columns that seem to say what a row changes, on a stream whose rows all count as inserts."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import ChangeError
from eddyline.ingest.changes import INSERTS
from eddyline.ingest.tally import Tally
from eddyline.plan.layout import Stream

_CERTAIN = {
    "change_type": ("_change_type", "_commit_version"),
    "debezium": ("op", "before", "after"),
}
"""Spellings of changes whose columns nobody has by chance."""
_TELLING = {
    "_change_type": "change_type",
    "row_kind": "flink",
    "op": None,
    "__op": None,
    "_commit_version": None,
}
"""Columns that often say what a row changes, and the spelling if it is known."""

_SOME = 5


def unread_changes(stream: Stream, names: Iterable[str], read: Collection[str]) -> tuple[str, ...]:
    """Return the columns of rows that by their names say what a row changes, and that nothing reads.

    Raise ChangeError where they certainly do.
    """
    if stream.changes is not None:
        return ()
    used = {name.lower() for name in read}
    unread = {name.lower(): name for name in names if name.lower() not in used}
    for spelling, columns in _CERTAIN.items():
        if unread.keys() >= set(columns):
            raise ChangeError(
                f"the rows of stream {stream.name!r} say what they change ({', '.join(columns)}), and all would count "
                f'as inserts: declare the stream with changes="{spelling}", or with changes="{INSERTS}" if that is '
                "what you mean."
            )
    return tuple(sorted(unread[name] for name in _TELLING if name in unread))


def unread_in_table(stream: Stream, table: pa.Table, read: Collection[str], before: Tally) -> tuple[str, ...]:
    """Return the same of a table, with columns that hold nothing but 1 and -1; before: the rows that came earlier."""
    named = unread_changes(stream, table.column_names, read)
    if stream.changes is not None or (before.rows and not before.unread):
        return named
    used = {name.lower() for name in (*read, *named)}
    whole = [each.name for each in table.schema if pa.types.is_signed_integer(each.type)]
    signs = [name for name in whole if name.lower() not in used and _holds_signs(table.column(name))]
    return tuple(sorted([*named, *signs]))


def _holds_signs(column: pa.ChunkedArray) -> bool:
    ends: Mapping[str, int | None] = pc.min_max(column).as_py()
    return (ends["min"], ends["max"]) == (-1, 1) and not pc.any(pc.equal(column, 0)).as_py()


def spelling_of(column: str) -> str | None:
    """Return how `changes=` would name a column that seems to say what a row changes; None where there is no way."""
    return _TELLING.get(column.lower(), column)


def similar_columns(stream: Stream, names: Iterable[str], empty: Collection[str]) -> tuple[str, ...]:
    """Return columns that rows have and the schema has not, spelt like those that had no value; some if none are."""
    declared = {column.name.lower() for column in stream.columns}
    others = [name for name in names if name.lower() not in declared]
    if not empty:
        return ()
    alike = [name for each in empty for name in get_close_matches(each, others, 2)]
    return tuple(sorted(dict.fromkeys(alike or others[:_SOME])))
