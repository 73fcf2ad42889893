"""The text of a generated pipeline file: streams, guessed joins and event times, first queries."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product
from typing import Any

from eddyline.expressions.schema import DeclaredKeys, as_ddl, in_sql
from eddyline.plan.decide.key_joins import join_likelihood
from eddyline.types import Column

# A stream before it is written to a pipeline file.


CHANGE_COLUMNS = {"_change_type": "change_type", "row_kind": "flink"}
"""Columns that name the change of a row, and the value of `changes` that reads them."""

SAMPLED_ROWS = 2_000


@dataclass(frozen=True)
class StreamDraft:
    """A stream of a pipeline file that is not written yet.

    left_out: columns of unsupported types. remarks: what becomes comments. is_followed: `eddyline run` reads it,
    and one pass cannot. rows: the first rows, at most SAMPLED_ROWS, column by column. keys: those that the
    source declares.
    """

    name: str
    columns: tuple[Column, ...]
    form: str
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    changes: str | None = None
    batch: bool = False
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_followed: bool = False
    rows: Mapping[str, list[Any]] = field(default_factory=dict, repr=False)
    keys: DeclaredKeys = field(default_factory=DeclaredKeys)


def stream_name(text: str, taken: Collection[str]) -> str:
    """Return a name for a stream that is a plain identifier and not in use."""
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()[:48] or "stream"
    plain = plain if in_sql(plain) == plain else f"s_{plain}"
    names = [plain, *(f"{plain}_{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


# Guesses about streams that `init` writes: which columns join, and which column has the time of a row.
#
# Names alone mislead: every table has an `Id`, and `ClosedDate` is a time that most rows do not have. So
# the first rows are checked, too. If they contradict a guess, nothing is proposed.


_ENDS = re.compile(r"clos|delet|end|expir|due|last|updat|edit|modif|cancel|finish|birth", re.IGNORECASE)
_LEAST_PRESENT, _LEAST_RISING = 0.9, 0.7
_FEW = 10  # rows whose order does not show anything yet
_LEAST_WITHIN = 0.1


@dataclass(frozen=True)
class DraftJoin:
    """Two streams, and the pairs of their columns that they join on."""

    left: StreamDraft
    right: StreamDraft
    on: tuple[tuple[str, str], ...]


def declared_join(drafts: Sequence[StreamDraft]) -> DraftJoin | None:
    """Return the join along the first foreign key to another stream, None if the sources declare no such key."""
    named = {draft.name: draft for draft in drafts}
    for draft in drafts:
        for key in draft.keys.foreign:
            if key.table in named and key.table != draft.name:
                referred = key.referred or named[key.table].keys.primary
                return DraftJoin(draft, named[key.table], tuple(zip(key.columns, referred, strict=True)))
    return None


def likely_join(drafts: Sequence[StreamDraft]) -> DraftJoin | None:
    """Return the likeliest join of two streams, None if names or values contradict all joins."""
    found: list[tuple[int, DraftJoin]] = []
    for left, right in combinations(drafts, 2):
        for mine, theirs in product(left.columns, right.columns):
            likely = join_likelihood(left.name, mine, right.name, theirs)
            if likely and _may_meet(left, mine.name, right, theirs.name):
                found.append((likely, DraftJoin(left, right, ((mine.name, theirs.name),))))
    return max(found, key=lambda each: each[0])[1] if found else None


def _may_meet(left: StreamDraft, mine: str, right: StreamDraft, theirs: str) -> bool:
    """Return whether values of two columns are the same, or lie in the same range, in the rows that were read."""
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
    return max(len(left.rows[mine]), len(right.rows[theirs])) >= SAMPLED_ROWS  # later rows may differ


def _within(values: set[Any], others: set[Any]) -> float:
    """Return the share of values that lie between the smallest and the largest of others."""
    low, high = min(others), max(others)
    return sum(bool(low <= value <= high) for value in values) / len(values)


def likely_event_time(draft: StreamDraft) -> str | None:
    """Return the TIMESTAMP column with the time of rows: rarely NULL, and rising from row to row."""
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


# The text of the file: drafts of streams, first queries, and comments on what to change.


_HEAD = """\
# Written by `eddyline init`; change it as you like. Every setting: docs/reference/pipeline-file.md
#   eddyline plan {name}          what is kept, and how well it will answer
{steps}

[workload]
budget = "1 MB"          # memory of everything kept; more gives narrower intervals once the data no longer fit
store = "state"          # where answers are kept
"""


_RUN = "#   eddyline run {name} --once    takes what is new into the store; without --once, keeps it current"
_ASK = "#   eddyline ask {name}           the answers, "


def pipeline_text(file: str, drafts: Sequence[StreamDraft]) -> str:
    """Return the pipeline file of some drafts, to be written under a name."""
    steps = [_ASK + "by one pass or from the store", _RUN]
    if any(draft.is_followed for draft in drafts):
        steps = [_RUN, _ASK + "from the store, once it has been run"]
    lines = [_HEAD.format(name=file, steps="\n".join(steps).format(name=file))]
    for draft in drafts:
        lines += [*_stream(draft), ""]
    lines += ["[queries]", *(f"{name} = {_quoted(sql)}" for name, sql in _queries(drafts))]
    return "\n".join(lines) + "\n"


def _stream(draft: StreamDraft) -> Iterator[str]:
    yield f"[streams.{draft.name}]"
    yield from (f"# {remark}" for remark in draft.remarks)
    yield f"schema = {_quoted(schema_text(draft))}"
    if draft.left_out:
        yield f"# left out, for their types are not read: {', '.join(map(repr, draft.left_out))}"
    if draft.is_followed:
        yield 'explore = ["*"]          # every column can be asked with SQL, and joins along keys'
    if draft.changes is not None:
        yield f"changes = {_quoted(draft.changes)}"
    else:
        yield '# changes = "weight"    # the column that says insert (1) or delete (-1), if there is one'
    time = likely_event_time(draft)
    if time is not None:
        yield f"# event_time = {_quoted(time)}    # for queries with a window"
    yield f"format = {_quoted(draft.form)}"
    if draft.path is not None:
        yield f"path = {_quoted(draft.path)}"
    if draft.options:
        options = ", ".join(f"{name} = {_quoted(value)}" for name, value in draft.options.items())
        yield f"options = {{ {options} }}"
    if draft.batch:
        yield "batch = true             # one file, read once; name a folder and take this out to follow new files"


def schema_text(draft: StreamDraft) -> str:
    """Return the columns and keys of a draft as a schema, with backticks only where needed."""
    parts = [
        as_ddl([column]) if in_sql(column.name) != column.name else f"{column.name} {column.type}"
        for column in draft.columns
    ]
    if draft.keys.primary:
        parts.append(f"PRIMARY KEY ({_names(draft.keys.primary)})")
    parts += [
        f"FOREIGN KEY ({_names(key.columns)}) REFERENCES {in_sql(key.table)} ({_names(key.referred)})"
        for key in draft.keys.foreign
    ]
    return ", ".join(parts)


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(in_sql, columns))


def _queries(drafts: Sequence[StreamDraft]) -> Iterator[tuple[str, str]]:
    """Yield a count of each stream, and of a join of two streams: along a foreign key, else the likeliest one."""
    for draft in drafts:
        yield f"{draft.name}_rows", f"SELECT COUNT(*) FROM {draft.name}"
    join = declared_join(drafts) or likely_join(drafts)
    if join is not None:
        left, right = join.left.name, join.right.name
        on = " AND ".join(f"l.{in_sql(mine)} = r.{in_sql(theirs)}" for mine, theirs in join.on)
        yield f"{left}_with_{right}"[:64], f"SELECT COUNT(*) FROM {left} l JOIN {right} r ON {on}"


def _quoted(text: str) -> str:
    """Return a string of TOML, which reads the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)
