"""The text of a pipeline file: drafts of streams, queries to begin with, and comments that say what to change."""

import json
from collections.abc import Iterator, Sequence

from eddyline.api.drafts.draft import StreamDraft
from eddyline.api.drafts.guesses import likely_event_time, likely_join
from eddyline.sql.schema import as_ddl, in_sql
from eddyline.types import Column

_HEAD = """\
# Written by `eddyline init`; change it as you like. Every setting: docs/how-to/pipeline-files.md
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
    yield f"schema = {_quoted(_schema(draft.columns))}"
    if draft.left_out:
        yield f"# left out, for their types are not read: {', '.join(map(repr, draft.left_out))}"
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


def _schema(columns: Sequence[Column]) -> str:
    """Return the columns as a schema, with backticks only where they are needed."""
    return ", ".join(
        as_ddl([column]) if in_sql(column.name) != column.name else f"{column.name} {column.type}"
        for column in columns
    )


def _queries(drafts: Sequence[StreamDraft]) -> Iterator[tuple[str, str]]:
    """Yield a count of each stream, and of the likeliest join of two of them, if there is one."""
    for draft in drafts:
        yield f"{draft.name}_rows", f"SELECT COUNT(*) FROM {draft.name}"
    join = likely_join(drafts)
    if join is not None:
        left, right = join.left.name, join.right.name
        on = f"l.{in_sql(join.left_column)} = r.{in_sql(join.right_column)}"
        yield f"{left}_with_{right}"[:64], f"SELECT COUNT(*) FROM {left} l JOIN {right} r ON {on}"


def _quoted(text: str) -> str:
    """Return a text as a string of TOML, which reads the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)
