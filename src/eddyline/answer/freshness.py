"""Freshness: how far the streams behind an answer have come; answers as plain values for JSON and CSV."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isfinite, isnan
from typing import Self

from eddyline.answer import notes

# Answers as plain values: what `to_dict` returns, and what JSON and CSV can hold.
#
# Numbers keep all their digits: a DECIMAL that no float holds is a string. What JSON has no number for is a string,
# too: "NaN", "Infinity", "-Infinity". An end of an interval without a bound is None.


Plain = bool | int | float | str | None


def plain(value: object) -> Plain:  # noqa: PLR0911 - one line per type
    """Return a value as a JSON value."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return _plain_decimal(value)
    if isinstance(value, float):
        return (
            value if isfinite(value) else "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return show_time_span(value)
    return value.hex().upper() if isinstance(value, bytes) else str(value)


def show_time_span(span: timedelta) -> str:
    """Return the time between two moments as people read it, and as PostgreSQL reads it.

    >>> show_time_span(timedelta(hours=-27, milliseconds=500)), show_time_span(timedelta(minutes=5))
    ('-1 days -02:59:59.5', '00:05:00')
    """
    sign, size = ("-", -span) if span < timedelta(0) else ("", span)
    minutes, seconds = divmod(size.seconds, 60)
    clock = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
    if size.microseconds:
        clock += f".{size.microseconds:06d}".rstrip("0")
    return f"{sign}{size.days} days {clock}" if size.days else clock


def plain_end(end: object) -> Plain:
    """Return an end of an interval as a JSON value, None where it has no bound."""
    return None if isinstance(end, float) and end in (inf, -inf) else plain(end)


def finite(value: object) -> float | None:
    """Return a number as a float to draw, None for all else: strings, dates, BOOLEAN, ends without a bound."""
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def plain_time(seconds: float | None) -> str | None:
    """Return a moment, in seconds since 1970, as ISO 8601 in UTC."""
    return (
        None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    )


def _plain_decimal(value: Decimal) -> Plain:
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)


@dataclass(frozen=True)
class StreamFreshness:
    """How far one stream has come: totals over all its batches, and its last batch.

    `bad` rows were skipped because their change could not be read, `late` ones because the panes of every window
    had moved past them. once: its rows were read in one pass, and no more will come. Times are seconds since 1970,
    for people to read: nothing is ordered by them.
    """

    stream: str
    rows: int = 0
    deletes: int = 0
    bad: int = 0
    late: int = 0
    batch: int | None = None
    last_batch_time: float | None = None
    once: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as plain values, ready for JSON; times are ISO 8601 in UTC."""
        return {**asdict(self), "last_batch_time": plain_time(self.last_batch_time)}


@dataclass(frozen=True)
class Freshness:
    """The epoch an answer was read from, and the streams that it depends on."""

    epoch: int
    streams: tuple[StreamFreshness, ...]
    read_at: float

    def of(self, names: Iterable[str], read_at: float | None = None) -> Self:
        """Return the freshness of some of the streams, as read at a time."""
        wanted = set(names)
        streams = tuple(each for each in self.streams if each.stream in wanted)
        return replace(self, streams=streams, read_at=self.read_at if read_at is None else read_at)

    @property
    def rows(self) -> int:
        """Rows applied, including deletes."""
        return sum(each.rows for each in self.streams)

    @property
    def deletes(self) -> int:
        """Rows applied that are deletes."""
        return sum(each.deletes for each in self.streams)

    @property
    def bad(self) -> int:
        """Rows skipped because their change could not be read."""
        return sum(each.bad for each in self.streams)

    @property
    def late(self) -> int:
        """Rows that came after the panes of their windows were dropped."""
        return sum(each.late for each in self.streams)

    @property
    def last_batch_time(self) -> float | None:
        """When the newest batch of these streams was committed, None before the first."""
        times = [each.last_batch_time for each in self.streams if each.last_batch_time is not None]
        return max(times, default=None)

    @property
    def lag(self) -> float | None:
        """Seconds since the last batch of the stream that is furthest behind, None before its first.

        Streams that were read once are not behind.
        """
        time = self._furthest_behind.last_batch_time if self._furthest_behind else None
        return None if time is None else max(self.read_at - time, 0.0)

    @property
    def _furthest_behind(self) -> StreamFreshness | None:
        going_on = [each for each in self.streams if not each.once]
        return min(going_on, key=lambda each: each.last_batch_time or -inf, default=None)

    def notes(self, *, is_windowed: bool) -> tuple[str, ...]:
        """Return notes about rows that are not in the answer.

        Rows that were late for every window are missing only from answers over a window.
        """
        found = []
        for each in self.streams:
            if each.batch is None:
                found.append(notes.nothing_counted(each.stream))
            if each.bad:
                found.append(notes.skipped_rows(each.stream, each.bad))
            if each.late and is_windowed:
                found.append(notes.late_rows(each.stream, each.late))
        return tuple(found)

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as plain values, ready for JSON; times are ISO 8601 in UTC, the lag is in seconds."""
        return {
            "epoch": self.epoch,
            "rows": self.rows,
            "deletes": self.deletes,
            "bad": self.bad,
            "late": self.late,
            "last_batch_time": plain_time(self.last_batch_time),
            "lag": self.lag,
            "streams": [each.to_dict() for each in self.streams],
        }

    def __str__(self) -> str:
        rows = f"epoch {self.epoch}, {self.rows:,} rows ({self.deletes:,} deletes, {self.bad:,} bad)"
        if self.last_batch_time is None:
            return f"{rows}, no batch yet"
        moment = datetime.fromtimestamp(self.last_batch_time, UTC).isoformat(" ", "seconds")
        return f"{rows}, last batch {moment}{self._shown_lag()}"

    def _shown_lag(self) -> str:
        """Return how long ago the last batch was; for several streams, that of the stream furthest behind."""
        behind = self._furthest_behind
        if behind is None or self.last_batch_time is None:
            return ""
        if behind.last_batch_time is None:
            return f"; {behind.stream} has none yet"
        if len(self.streams) == 1 or behind.last_batch_time == self.last_batch_time:
            return f", {self.lag:,.1f} s ago"
        return f"; furthest behind: {behind.stream}, {self.lag:,.1f} s ago"
