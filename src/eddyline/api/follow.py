"""A store followed as it moves on: its newest state, who writes it, and what is wrong with it if anything is."""

import os
from dataclasses import dataclass, replace

from eddyline.api.batch_job import state_of
from eddyline.api.state import State
from eddyline.errors import EddylineError
from eddyline.store import Reader


@dataclass(frozen=True)
class Sighting:
    """What was seen of a store: the newest state that could be read, None before the first.

    stamp: tells this epoch from that of another store that took its place. store: how many stores were seen there one
    after the other, counted from 0. writer: who writes to it, None where nobody does as far as a reader can know.
    problem: why the store could not be read just now; the state is then the last one that could.
    """

    state: State | None = None
    stamp: str = ""
    store: int = 0
    writer: str | None = None
    problem: str | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch of the state."""
        return self.state.origin.freshness.epoch if self.state and self.state.origin else None

    def is_news_after(self, other: "Sighting") -> bool:
        """Return whether a reader who saw the other has something new to see here."""
        return (self.stamp, self.writer, self.problem) != (other.stamp, other.writer, other.problem)


class Follower:
    """A reader that looks at a store again and again. It never writes and never raises for a store in trouble."""

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self.reader = Reader(store)
        self._seen = Sighting()
        self._was_gone = False

    def look(self) -> Sighting:
        """Return what is there now; an epoch that was read before is not read again."""
        before = self._seen
        try:
            number, file = self.reader.stamp()
            stamp = f"{number} {file}"
            if stamp == before.stamp:
                self._seen = replace(before, writer=self._writer(), problem=None)
            elif (state := self._state_at(number)) is not None:
                is_another = before.state is not None and self._is_another_store(before, number)
                self._seen = Sighting(state, stamp, before.store + is_another, self._writer())
            self._was_gone = False
        except (EddylineError, OSError) as error:
            self._was_gone = self._was_gone or self._is_gone()
            self._seen = replace(before, writer=None, problem=str(error))
        return self._seen

    def _state_at(self, number: int) -> State | None:
        """Return the state of an epoch, None if it was collected meanwhile: the next look finds a newer one."""
        try:
            return state_of(self.reader.at(number))
        except EddylineError:
            if self.reader.current() == number:
                raise
            return None

    def _is_another_store(self, before: Sighting, number: int) -> bool:
        """Return whether a store that has other files than the one seen before is not that one, gone on."""
        return self._was_gone or before.epoch is None or number <= before.epoch

    def _is_gone(self) -> bool:
        try:
            return not self.reader.exists()
        except (EddylineError, OSError):
            return False

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
