"""What a pass over one stream fills: a plain value that travels to tasks."""

from collections.abc import Mapping

import msgspec
import numpy as np

from eddyline.errors import CorruptState
from eddyline.plan.layout import KeptSynopsis, Layout, PlannedSample, Window
from eddyline.sample.roster import Roster
from eddyline.sample.state import SampleState

_LEAST_ROOM = 64 << 20
_BUDGETS = 4
"""A pass nets its own rows. It lowers rates by itself only if they exceed this many budgets and 64 MB."""


class RosterSpec(msgspec.Struct, frozen=True):
    """A roster as it travels to tasks."""

    seed: int
    base: float
    values: bytes
    ranks: bytes

    @classmethod
    def of(cls, roster: Roster) -> "RosterSpec":
        """Return a roster as bytes."""
        values = roster.values.astype("<i8", copy=False).tobytes()
        return cls(roster.seed, roster.base, values, roster.ranks.tobytes())

    def roster(self) -> Roster:
        """Return the roster."""
        if len(self.values) != 8 * len(self.ranks):
            raise CorruptState(
                f"a roster holds {len(self.values) / 8} values and {len(self.ranks)} probabilities."
            )
        values = np.frombuffer(self.values, dtype="<i8").astype(np.int64)
        if not 0.0 <= self.base <= 1.0 or np.any(values[1:] <= values[:-1]):
            raise CorruptState("the probabilities of a roster are not in order.")
        return Roster(self.seed, self.base, values, np.frombuffer(self.ranks, dtype=np.uint8).copy())


class SampleTask(msgspec.Struct, frozen=True):
    """What a pass over one stream adds to a sample; grouped: the state is in its second stage."""

    sample: PlannedSample
    stream: str
    grouped: bool = False
    rosters: tuple[RosterSpec, ...] = ()

    @property
    def sketches(self) -> tuple[KeptSynopsis, ...]:
        """The sketches of the stream that stand beside the sample in its second stage."""
        return tuple(kept for kept in self.sample.sketches if kept.stream == self.stream)

    @property
    def room(self) -> int:
        """The bytes of elements that a pass may hold in memory."""
        return max(_BUDGETS * self.sample.spec.budget, _LEAST_ROOM)

    @classmethod
    def of(cls, sample: PlannedSample, stream: str, state: SampleState | None) -> "SampleTask":
        """Return the task under the stage and the rosters of a state, the first stage where there is none."""
        if state is None or not state.grouped:
            return cls(sample, stream)
        return cls(sample, stream, True, tuple(RosterSpec.of(roster) for roster in state.rosters))


class PaneSpec(msgspec.Struct, frozen=True):
    """What one stream adds to the panes of a window group."""

    group: str
    window: Window
    kept: tuple[KeptSynopsis, ...]
    samples: tuple[SampleTask, ...] = ()


class StreamSpec(msgspec.Struct, frozen=True):
    """Everything that a pass over one stream fills; rows with an event time before `floor` are late."""

    kept: tuple[KeptSynopsis, ...]
    panes: tuple[PaneSpec, ...] = ()
    floor: int | None = None
    samples: tuple[SampleTask, ...] = ()

    @property
    def nbytes(self) -> int:
        """About the bytes that a pass fills, one pane of each window among them."""
        parts = [*self.kept, *(kept for pane in self.panes for kept in pane.kept)]
        tasks = [*self.samples, *(task for pane in self.panes for task in pane.samples)]
        return sum(kept.nbytes for kept in parts) + sum(task.sample.spec.budget for task in tasks)


States = Mapping[str, SampleState]
"""The states of stream samples, by id."""


def stream_spec(
    layout: Layout,
    stream: str,
    floor: int | None = None,
    states: States | None = None,
    pane_states: Mapping[str, States] | None = None,
) -> StreamSpec:
    """Return what a pass over a stream fills, given how far the samples of the state, and of its panes, are."""
    panes = tuple(
        PaneSpec(
            group.id,
            group.window,
            group.layout.kept_for(stream),
            _tasks(group.layout, stream, (pane_states or {}).get(group.id, {})),
        )
        for group in layout.windows
        if any(each.name == stream for each in group.layout.streams)
    )
    return StreamSpec(layout.kept_for(stream), panes, floor, _tasks(layout, stream, states or {}))


def _tasks(layout: Layout, stream: str, states: States) -> tuple[SampleTask, ...]:
    return tuple(
        SampleTask.of(sample, stream, states.get(sample.id))
        for sample in layout.samples
        if sample.position(stream) is not None
    )
