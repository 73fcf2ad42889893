"""Snapshots in stores: one section per synopsis, the plan beside them."""

import msgspec
import numpy as np

from eddyline.errors import CorruptState
from eddyline.ingest.snapshot import Snapshot, Tally
from eddyline.plan.demands import demand_of
from eddyline.plan.explain import describe
from eddyline.plan.layout import Layout
from eddyline.store import Epoch, PlanStamp

_HINTS = "/hints"


def stamp(layout: Layout) -> PlanStamp:
    """Return what a store knows of a plan: what each synopsis holds, in words that can be compared."""
    described = {
        kept.id: f"{describe(demand_of(kept))}; {kept.spec}; {kept.candidates}" for kept in layout.kept
    }
    return PlanStamp(layout.digest, msgspec.json.encode(layout).decode(), described)


def to_sections(snapshot: Snapshot, streams: set[str] | None = None) -> dict[str, bytes]:
    """Return the sections of a snapshot, or of some streams of it."""
    sections: dict[str, bytes] = {}
    for kept in snapshot.layout.kept:
        if streams is None or kept.stream in streams:
            sections[kept.id] = snapshot.counters[kept.id].astype("<i8", copy=False).tobytes()
            if kept.candidates is not None:
                sections[kept.id + _HINTS] = snapshot.hints[kept.id].astype("<i8", copy=False).tobytes()
    return sections


def from_epoch(epoch: Epoch) -> Snapshot:
    """Return the snapshot of an epoch, or raise CorruptState where its sections do not fit its plan."""
    try:
        layout = msgspec.json.decode(epoch.commit.plan.header, type=Layout)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptState(f"the plan of epoch {epoch.number} cannot be read: {error}.") from error
    empty = Snapshot.empty(layout)
    counters = {name: _words(epoch, name, len(values)) for name, values in empty.counters.items()}
    hints = {name: _words(epoch, name + _HINTS, len(values)) for name, values in empty.hints.items()}
    tallies = dict(empty.tallies)
    for name, position in epoch.commit.sources.items():
        tallies[name] = Tally(position.rows, position.deletes)
    return Snapshot(layout, counters, hints, tallies)


def _words(epoch: Epoch, name: str, words: int) -> np.ndarray:
    section = epoch.sections.get(name)
    if section is None or len(section) != 8 * words:
        found = "nothing" if section is None else f"{len(section)} bytes"
        raise CorruptState(
            f"epoch {epoch.number} should hold {8 * words} bytes for {name!r} and holds {found}."
        )
    return np.frombuffer(section, dtype="<i8").astype(np.int64)
