"""Freshness: how far the streams behind an answer have come."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Self

from eddyline.answer import notes
from eddyline.answer.plain import plain_time


@dataclass(frozen=True)
class StreamFreshness:
    """How far one stream has come: totals over all its batches, and its last batch.

    `bad` rows were skipped because their change could not be read, `late` ones because the panes of every
    window had moved past them. once: its rows were taken in one pass, and no more will come. Times are seconds since
    1970, for people to read: nothing is ordered by them.
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
        """Rows applied, deletes among them."""
        return sum(each.rows for each in self.streams)

    @property
    def deletes(self) -> int:
        """Rows applied that took rows away."""
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

        Streams that were taken once are not behind.
        """
        time = self._furthest_behind.last_batch_time if self._furthest_behind else None
        return None if time is None else max(self.read_at - time, 0.0)

    @property
    def _furthest_behind(self) -> StreamFreshness | None:
        going_on = [each for each in self.streams if not each.once]
        return min(going_on, key=lambda each: each.last_batch_time or -inf, default=None)

    def notes(self, *, is_windowed: bool) -> tuple[str, ...]:
        """Return what a careful reader should know of rows that are not in the answer.

        Rows that were late for every window are missing from answers over a window alone.
        """
        told = []
        for each in self.streams:
            if each.batch is None:
                told.append(notes.nothing_counted(each.stream))
            if each.bad:
                told.append(notes.skipped_rows(each.stream, each.bad))
            if each.late and is_windowed:
                told.append(notes.late_rows(each.stream, each.late))
        return tuple(told)

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
        """Return how long ago the last batch was; of several streams, that of the one that is furthest behind."""
        behind = self._furthest_behind
        if behind is None or self.last_batch_time is None:
            return ""
        if behind.last_batch_time is None:
            return f"; {behind.stream} has none yet"
        if len(self.streams) == 1 or behind.last_batch_time == self.last_batch_time:
            return f", {self.lag:,.1f} s ago"
        return f"; furthest behind: {behind.stream}, {self.lag:,.1f} s ago"
