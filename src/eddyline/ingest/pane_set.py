"""The panes of a window group: snapshots by pane number, the newest few of them.

What is kept depends only on the rows, not on their order: a pane is dropped once one lies `panes` + 1 further
on. Panes of two states add up pane by pane. The stream samples of all panes share their rosters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from eddyline.ingest.accumulator import Accumulator
from eddyline.ingest.settling import settle
from eddyline.plan.layout import WindowGroup
from eddyline.sample.state import SampleState

if TYPE_CHECKING:
    from eddyline.ingest.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class PaneSet:
    """The panes of one group; `newest` is None before the first row."""

    group: WindowGroup
    newest: int | None = None
    panes: "Mapping[int, Snapshot]" = field(default_factory=dict)

    @property
    def sample_states(self) -> Mapping[str, SampleState]:
        """The samples of a pane, whose stage and rosters are those of all panes; nothing before the first."""
        first = next(iter(self.panes.values()), None)
        return {} if first is None else first.samples

    def _advanced(self, newest: int | None, panes: "Mapping[int, Snapshot]") -> Self:
        """Return the panes that windows still reach, their samples under the same rosters and within the budget."""
        if newest is None:
            return self
        oldest = newest - self.group.window.panes
        numbers = [number for number in sorted(panes) if number >= oldest]
        settled = settle([panes[number] for number in numbers])
        return type(self)(self.group, newest, dict(zip(numbers, settled, strict=True)))

    def plus_pass(self, newest: int | None, added: Mapping[int, Accumulator], empty: "Snapshot") -> Self:
        """Return the panes after adding what a pass over one stream saw of them."""
        panes = dict(self.panes)
        for number, partial in added.items():
            panes[number] = panes.get(number, empty).plus_accumulated(partial)
        known = [each for each in (self.newest, newest) if each is not None]
        return self._advanced(max(known, default=None), panes)

    def combined(self, other: Self, sign: int, make_empty: "Callable[..., Snapshot]") -> Self:
        """Return the panes of both, added pane by pane, or the other's subtracted."""
        layout = self.group.layout
        mine, theirs = make_empty(layout, self.sample_states), make_empty(layout, other.sample_states)
        panes = {
            number: self.panes.get(number, mine).combined(other.panes.get(number, theirs), sign)
            for number in self.panes.keys() | other.panes.keys()
        }
        known = [each for each in (self.newest, other.newest) if each is not None]
        return self._advanced(max(known, default=None), panes)

    def same(self, other: Self, empty: "Snapshot") -> bool:
        """Return whether both hold the same panes; an empty pane equals a missing one."""
        return self.newest == other.newest and all(
            self.panes.get(number, empty) == other.panes.get(number, empty)
            for number in self.panes.keys() | other.panes.keys()
        )

    @property
    def floor(self) -> int | None:
        """The time, in microseconds, before which rows fall into no pane any more."""
        return (
            None if self.newest is None else (self.newest - self.group.window.panes) * self.group.window.slide
        )

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The last complete window, from and to microseconds since 1970: it ends where the newest pane begins."""
        if self.newest is None:
            return None
        slide = self.group.window.slide
        return (self.newest - self.group.window.panes) * slide, self.newest * slide

    def summed(self, empty: "Snapshot") -> "Snapshot":
        """Return the snapshot of the last complete window: the sum of its panes."""
        total = empty
        for number, pane in self.panes.items():
            if number != self.newest:
                total = total.combined(pane, 1)
        return total

    @property
    def nbytes(self) -> int:
        """The bytes of all panes; their samples share one set of rosters."""
        rosters = sum(roster.nbytes for state in self.sample_states.values() for roster in state.rosters)
        return sum(pane.nbytes - rosters for pane in self.panes.values()) + rosters
