"""How estimates moved: a bounded series of points for each query, which survives a restart of the server.

A series that is full drops every second point and from then on takes only every second epoch, and so on: it always
spans the whole time, in less detail the longer it is. Its newest point is always there.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

MOST_POINTS = 480
MOST_QUERIES = 1_000


class Point(msgspec.Struct, frozen=True, array_like=True):
    """An estimate at an epoch; `time` is when its last batch was committed, in seconds since 1970.

    exact: the exact answer, where something knows it, as the demo does.
    """

    epoch: int
    time: float
    value: float | None
    low: float | None
    high: float | None
    exact: float | None = None


class Series(msgspec.Struct):
    """The points of one query in the order of their epochs; of what came, one in `stride` is kept."""

    sql: str
    points: list[Point] = []
    stride: int = 1
    taken: int = 0

    def add(self, point: Point) -> None:
        """Take the next point, in place of the newest one where that was there only for being the newest."""
        if self.points and (self.taken - 1) % self.stride:
            self.points.pop()
        self.points.append(point)
        self.taken += 1
        if len(self.points) > MOST_POINTS:
            self.points = [*self.points[:-1][::2], self.points[-1]]
            self.stride *= 2


class History(msgspec.Struct):
    """The series of all queries of a store."""

    series: dict[str, Series] = {}

    @property
    def epoch(self) -> int:
        """The newest epoch that has a point, -1 before the first."""
        return max((each.points[-1].epoch for each in self.series.values() if each.points), default=-1)

    def add(self, texts: Mapping[str, str], points: Mapping[str, Point]) -> None:
        """Take the points of an epoch; `texts` are the queries that the plan has now, by name.

        A query that is gone, or has another text, loses its series; a store that began anew loses all.
        """
        newest = max((point.epoch for point in points.values()), default=self.epoch)
        if newest < self.epoch:
            self.series = {}
        kept = {name: each for name, each in self.series.items() if texts.get(name) == each.sql}
        for name in list(points)[:MOST_QUERIES]:
            kept.setdefault(name, Series(texts[name])).add(points[name])
        self.series = kept


class HistoryFile:
    """The file that a history is kept in between restarts; without a path it is kept nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self) -> History:
        """Return the history of the file; an empty one where there is none, or none that can be read."""
        if self._path is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
                return msgspec.json.decode(self._path.read_bytes(), type=History)
        return History()

    def save(self, history: History) -> None:
        """Write the history, whole or not at all; raise OSError where that cannot be done."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        half = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        half.write_bytes(msgspec.json.encode(history))
        half.replace(self._path)


def default_path(store: str) -> Path:
    """Return where the history of a store is kept: with the user's other state, not in the store."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    where = store if "://" in store else str(Path(store).resolve())
    return (
        Path(home)
        / "eddyline"
        / "serve"
        / f"{hashlib.blake2b(where.encode(), digest_size=12).hexdigest()}.json"
    )
