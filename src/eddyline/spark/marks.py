"""Columns that travel beside a stream's own, from the reading of changes to the tasks."""

WEIGHT = "__eddyline_weight"
BAD = "__eddyline_bad"
"""Why a row cannot be read and the row, as JSON; NULL for a row that can."""

MARK = "__eddyline_mark"
MARK_KEY = "__eddyline_mark_key"
OTHER, DELETE, TOMBSTONE = 0, 1, 2
