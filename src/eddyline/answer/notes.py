"""The notes of answers: every note of the product, with its wording."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import inf

from eddyline.ingest.stream_pass import FIRST_TIME, LAST_TIME, MILLISECONDS, year_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FEW_WITNESSES = 30
"""Fewer sampled values than this are few to base an answer on."""

TINY_VALUES = "digits below 2^-120 were dropped from some numbers: the interval includes the effect."
NOT_PLANNED = "this query was not planned: it is answered from the columns that stream samples hold."
FEW_LARGE_VALUES = (
    "variances depend on the largest values of a column, and a sample may miss some of them: where they differ much in "
    "size, the interval is wide and may still be too narrow; a planned query is calibrated by exact totals."
)
HEAVY_TAIL = (
    "the largest values dominate the sum, and the sample may miss larger ones: the "
    "interval is unbounded there; a planned query is calibrated by exact totals."
)
MOSTLY_MISSED = 1 / 2
"""The share of a join in an unfollowed value above which the seen values do not represent it."""
NO_ROWS_SEEN = "no rows of the join are seen: it may be empty, or too small for what is kept."
HEAVY_VALUE_MISSED = (
    "exact totals show that a heavy join value is not followed, and its rows are not known: the intervals of averages, "
    "quantiles and groups are unbounded; more memory, or queries that read fewer columns, would keep it."
)
NO_ROOM_FOR_PAIRS = (
    "the rows no longer fit the stream sample, and the budget has no memory for a synopsis of distinct pairs, which "
    "would answer from here on: plan with a larger budget."
)
NO_PAIRS_SEEN = "the samples show no joining tuples: the answer is small, or unresolved with this memory."
FEW_COMMON_VALUES = (
    "this estimate is unresolved: the samples show too few joined pairs to say how many join values "
    "they have in common; more memory narrows the interval."
)
UNEVEN_JOIN_VALUES = (
    "this estimate is uncertain: join values with many rows in one stream may have few or none in the other, "
    "and how many cannot be distinguished at this memory; more memory narrows the interval."
)
ROWS_NOT_SEEN = (
    "this estimate is unresolved: the samples show only some of the rows that join. A few join values may have many "
    "tuples, or a few rows may be repeated very often; more memory narrows the interval."
)

_SNAPSHOT = (
    "Answers match no state that its table ever had: take the rows that the table held at the start as inserts "
    "first."
)
GROUPS_NOT_SEEN = (
    "groups that were not seen are not in the table, even if HAVING and LIMIT would show them: `rest` "
    "bounds them."
)
DIVIDED_BY_ZERO = (
    "a divisor is 0: the value is NULL here, and Spark raises an error; write NULLIF(divisor, 0) if "
    "you want NULL."
)
NULL_GROUP_LEFT_OUT = "the NULL group is not shown, because not all its rows fit in memory: `rest` has it."
NULL_GROUP_SAMPLED = "the NULL group is estimated from a sample of its rows: not all of them fit in memory."
UNSEEN_DETAIL = "nothing is known about this aggregate over groups that were not seen."
UNSEEN_AVERAGE = "nothing is known about the average over groups that were not seen."


def nothing_counted(stream: str) -> str:
    """Return the note on a stream without a committed batch."""
    return f"stream {stream} has no committed batch yet."


def negative_groups(number: int) -> str:
    """Return the note on groups with more deletes than inserts."""
    return f"{number:,} groups have a negative net count and are left out: more deletes than inserts."


def negative_values(number: int) -> str:
    """Return the note on values of a distinct count, quantile, MIN or MAX with more deletes than inserts."""
    return f"{number:,} elements have a negative net count and count as absent: more deletes than inserts."


def groups_not_followed(followed: int, rows: int) -> str:
    """Return the note on groups of one stream that no longer fit."""
    return (
        f"not all groups fit in memory: {followed:,} are held and exact, and {rows:,} rows are in others, which "
        "`rest` adds up."
    )


def heavy_groups(number: int) -> str:
    """Return the note on groups found by sketches."""
    return f"{number:,} heavy groups did not fit in memory when their rows arrived; they are estimated from sketches."


def groups_near_the_limit(number: int) -> str:
    """Return the note on groups outside the LIMIT that may belong inside."""
    return f"{number:,} groups beyond the LIMIT may belong among the first: their intervals overlap."


def negative_stream(stream: str, net: int) -> str:
    """Return the note on a stream with more deletes than inserts."""
    return f"stream {stream!r} has a net count of {net:,}: rows were deleted whose inserts are not in it. {_SNAPSHOT}"


def unseen_deletes(stream: str, rows: int, *, exact: bool) -> str:
    """Return the note on a stream with deletes of unseen rows."""
    number = f"{rows:,}" if exact else f"about {rows:,}"
    return f"{number} rows of stream {stream!r} were deleted whose inserts are not in it. {_SNAPSHOT}"


def negative_elements(number: int) -> str:
    """Return the note on elements with more deletes than inserts."""
    return f"{number} elements have a negative net count: more deletes than inserts."


def error_not_reached(wanted: float) -> str:
    """Return the note on an answer that is less precise than the workload requests."""
    return (
        f"the error of {wanted:.2g} that the workload asks for is not reached here: plan with a larger error, or give "
        "a budget."
    )


def few_joined_values(number: int, base: float) -> list[str]:
    """Return the note on a sampled answer that is based on few values, with what to do; None if they are enough."""
    if number >= FEW_WITNESSES:
        return []
    note = (
        f"the sample holds {number} joined values, new ones followed at a rate of {base:.2g}: more memory makes "
        "the answer more precise; after heavy deletes, rebuilding the state restores the rate."
    )
    return [note]


def few_witnesses(number: int) -> str | None:
    """Return the note on a set expression with few elements in distinct sketches; None if they are enough."""
    if number >= FEW_WITNESSES:
        return None
    return (
        f"this estimate is based on {number} witnesses: the expression is a small share of the union of its "
        "streams; more memory narrows the interval."
    )


def site_gone(site: str, since: str, epoch: int | None) -> str:
    """Return the note on a site that cannot be read; epoch: the last one that was read, None if there was none."""
    counted = "its rows are missing" if epoch is None else f"its rows count up to epoch {epoch}"
    return f"site {site} cannot be read since {since}: {counted}."


def site_late(site: str, last: str) -> str:
    """Return the note on a site that has sent nothing for long while others have."""
    return f"site {site} is late: its last batch is of {last}."


def site_without_rows(site: str) -> str:
    """Return the note on a site that has no epoch yet."""
    return f"site {site} has no epoch yet: its rows are missing."


def other_plan(site: str) -> str:
    """Return the note on a site whose state cannot be merged with those of the others."""
    return f"site {site} has another plan: its rows are missing; run all sites with one plan."


def no_singleton(level: int) -> str:
    """Return the note on a set expression for which the document's estimator returns noEstimate."""
    return (
        f"not known: no bucket of level {level} holds a single element of the union, where the document's estimator "
        "looks for witnesses; give the query more memory."
    )


NO_INDEX_OF_PAIRS = (
    "not known: the document's estimator fails, because no index has a share of set bits in its range; give the query "
    "more memory."
)


def few_sampled_joins(number: int) -> str | None:
    """Return the note on distinct pairs when the samples show few; None if they are enough."""
    if number >= FEW_WITNESSES:
        return None
    return f"this estimate is based on {number} sampled joins; more memory narrows the interval."


def from_difference(cells: int) -> str:
    """Return the note on a difference of nearly equal streams."""
    return (
        "read from the difference of the sketches: elements of both streams have equal net counts "
        f"in all of the {cells} cells that show one."
    )


def wide_interval(value: float, low: float, high: float) -> list[str]:
    """Return the note on an interval that is wider than its estimate; None if it is not."""
    half = (high - low) / 2
    if half <= abs(value):
        return []
    if half == inf or value == 0:
        return [
            "the interval is wider than the estimate: the join may be empty or far smaller than the noise."
        ]
    factor = (half / (0.1 * abs(value))) ** 2
    return [
        f"the interval is wider than the estimate; about {factor:,.0f} times the memory would bring it to 10%."
    ]


def no_row(stream: str) -> str:
    """Return the note on a stream without rows while others have some."""
    return f"no row of stream {stream!r} has arrived, while other streams have rows: is its source correct?"


def never_a_value(stream: str, column: str, rows: int, similar: Sequence[str]) -> str:
    """Return the note on a column that is NULL in all rows, with columns that may have been meant."""
    sentence = f"column {column!r} of stream {stream!r} is NULL in all {rows:,} rows"
    if not similar:
        return f"{sentence}: is it spelled in the schema as it is in the data?"
    return f"{sentence}, which have {', '.join(similar)}: spell it in the schema as it is in the data."


def unread_change(stream: str, column: str, spelling: str | None) -> str:
    """Return the note on a column that seems to hold the change type; spelling: how `changes=` would name it."""
    say = f'say changes="{spelling}" if it does, and ' if spelling is not None else ""
    return (
        f"stream {stream!r} has a column {column!r} that seems to hold the change type of a row, and all rows were "
        f'counted as inserts: {say}changes="inserts" if they are.'
    )


def times_ahead(stream: str, latest: int) -> str:
    """Return the note on event times in the future, given in microseconds since 1970."""
    return (
        f"event times of stream {stream!r} go up to {moment(latest)}, which is in the future: windows end there, and "
        f"rows of today are late for them. {MILLISECONDS}"
    )


def times_long_ago(stream: str, earliest: int) -> str:
    """Return the note on event times before 1990, given in microseconds since 1970."""
    return (
        f"event times of stream {stream!r} go back to {moment(earliest)}, before 1990: if these are seconds since 1970 "
        "that were read as milliseconds or microseconds, make the column by timestamp_seconds(at)."
    )


def moment(time: int) -> str:
    """Return a time in microseconds since 1970 formatted for people; only the year if it is beyond the calendar."""
    if FIRST_TIME <= time <= LAST_TIME:
        return (_EPOCH + timedelta(microseconds=time)).isoformat(" ")
    return f"the year {year_of(time)}"


def window(bounds: tuple[int, int] | None) -> str:
    """Return the note on the window of an answer, given in microseconds since 1970."""
    if bounds is None:
        return "no row has an event time yet: the window is empty."
    start, end = map(moment, bounds)
    return f"over event times from {start} to before {end}."


def failed_run(error: object) -> str:
    """Return the note on answers of a run that has failed."""
    return f"the run has failed and counts no more rows: {error}"


def skipped_rows(stream: str, rows: int) -> str:
    """Return the note on rows that could not be read."""
    return f"{rows:,} rows of stream {stream!r} could not be read and were skipped."


def late_rows(stream: str, rows: int) -> str:
    """Return the note on rows that came too late."""
    return f"{rows:,} rows of stream {stream!r} arrived too late for any window."


def counted_since(stream: str, epoch: int, rows: int) -> str:
    """Return the note on a query that was added to a running store."""
    return (
        f"this query counts stream {stream!r} only since epoch {epoch}, when the query was added: "
        f"{rows:,} earlier rows are not in it."
    )
