"""Columns next to a stream's own, from the reading of changes to the tasks, and tombstones. Needs no pyspark."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

WEIGHT = "__eddyline_weight"
BAD = "__eddyline_bad"
"""Why a row cannot be read and the row, as JSON; NULL for a row that can."""

MARK = "__eddyline_mark"
MARK_KEY = "__eddyline_mark_key"
OTHER, DELETE, TOMBSTONE = 0, 1, 2


# Tombstones: the NULL values that Kafka needs after a delete, and that carry nothing.
#
# The rule, which each task can apply to the records in their order: a NULL value is a tombstone if the
# record just before it is the delete of the same key, or if the task has seen no record yet (the delete
# ended the micro-batch or the split before). Any other NULL value is refused: it would be a delete without
# its row.


@dataclass(frozen=True)
class Last:
    """The last record of a task so far."""

    mark: int
    key: int


def drop_tombstones(table: pa.Table, last: Last | None) -> tuple[pa.Table, Last | None]:
    """Return the table without its tombstones, and its last record; NULL values to refuse stay in it."""
    if MARK not in table.column_names or table.num_rows == 0:
        return table, last
    marks = table.column(MARK).to_numpy()
    keys = table.column(MARK_KEY).to_numpy()
    before_marks = np.concatenate([[DELETE if last is None else last.mark], marks[:-1]])
    before_keys = np.concatenate([[keys[0] if last is None else last.key], keys[:-1]])
    tombstones = (marks == TOMBSTONE) & (before_marks == DELETE) & (before_keys == keys)
    left = table.filter(pa.array(~tombstones)) if tombstones.any() else table
    return left, Last(int(marks[-1]), int(keys[-1]))
