"""What is known of a stream that is about to be written to a pipeline file."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from eddyline.sql.schema import in_sql
from eddyline.types import Column

CHANGE_COLUMNS = {"_change_type": "change_type", "row_kind": "flink"}
"""Columns that say what a row changes, and the spelling of `changes` that reads them."""

SAMPLED_ROWS = 2_000


@dataclass(frozen=True)
class StreamDraft:
    """A stream of a pipeline file to be.

    left_out: columns whose types are not read. remarks: what becomes comments. is_followed: `eddyline run` reads it,
    and one pass cannot. rows: the first rows, at most SAMPLED_ROWS, column by column.
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


def stream_name(text: str, taken: Collection[str]) -> str:
    """Return a name for a stream that is a plain identifier and not taken."""
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()[:48] or "stream"
    plain = plain if in_sql(plain) == plain else f"s_{plain}"
    names = [plain, *(f"{plain}_{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
