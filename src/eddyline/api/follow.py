"""A store followed as it moves on: its newest state, who writes it, and what is wrong with it if anything is."""

import os
from dataclasses import dataclass

from eddyline.api.batch_job import state_of
from eddyline.api.state import State
from eddyline.errors import EddylineError
from eddyline.store import Reader


@dataclass(frozen=True)
class Sighting:
    """What was seen of a store: the newest state that could be read, None before the first.

    writer: who writes to it, None where nobody does as far as a reader can know. problem: why the store could not be
    read just now; the state is then the last one that could.
    """

    state: State | None = None
    writer: str | None = None
    problem: str | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch of the state."""
        return self.state.origin.freshness.epoch if self.state and self.state.origin else None

    def is_news_after(self, other: "Sighting") -> bool:
        """Return whether a reader who saw the other has something new to see here."""
        return (self.epoch, self.writer, self.problem) != (other.epoch, other.writer, other.problem)


class Follower:
    """A reader that looks at a store again and again. It never writes and never raises for a store in trouble."""

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self.reader = Reader(store)
        self._seen = Sighting()

    def look(self) -> Sighting:
        """Return what is there now; an epoch that was read before is not read again."""
        before = self._seen
        try:
            number = self.reader.current()
            state = before.state if number == before.epoch else state_of(self.reader.latest())
            self._seen = Sighting(state, self._writer())
        except (EddylineError, OSError) as error:
            self._seen = Sighting(before.state, None, str(error))
        return self._seen

    def older(self, after: int, most: int) -> list[State]:
        """Return states of epochs that the store still keeps, newer than `after` and older than the newest seen."""
        newest = self._seen.epoch
        if newest is None:
            return []
        states = []
        for number in self.reader.epochs()[: most + 1]:
            if after < number < newest:
                try:
                    states.append(state_of(self.reader.at(number)))
                except EddylineError:  # collected, or damaged: what is gone is gone
                    continue
        return states[::-1]

    def _writer(self) -> str | None:
        holder = self.reader.writer()
        return str(holder) if holder else None
