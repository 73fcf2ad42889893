"""Snapshots in stores: one section per synopsis, the plan beside them.

A synopsis that was added to a store with rows has a section `<id>/since` that says where it began.
"""

import time
from collections.abc import Collection

import msgspec
import numpy as np

from eddyline.answer.freshness import Freshness, StreamFreshness
from eddyline.answer.origin import Origin, Since
from eddyline.errors import CorruptState
from eddyline.ingest.pane_set import PaneSet
from eddyline.ingest.snapshot import Snapshot, Tally, newest_word, panes_from, slot_words
from eddyline.plan.explain import describe
from eddyline.plan.layout import Kept, Layout
from eddyline.sketch.counters import Int64Array
from eddyline.store import Epoch, PlanStamp, unchanged_names

_HINTS = "/hints"
_SINCE = "/since"


def stamp(layout: Layout) -> PlanStamp:
    """Return what a store knows of a plan: what each synopsis holds, in words that can be compared."""
    described = {kept.id: f"{describe(kept.demand)}; {kept.spec}; {kept.candidates}" for kept in layout.kept}
    for group in layout.windows:
        described[group.id] = (
            f"{group.window.panes} panes of {group.window.slide} us; plan {group.layout.digest}"
        )
    for planned in [*layout.queries, *(q for group in layout.windows for q in group.layout.queries)]:
        described[planned.name] = f"{' '.join(planned.query.text.split())} [{planned.method}]"
    return PlanStamp(layout.digest, msgspec.json.encode(layout).decode(), described)


def to_sections(snapshot: Snapshot, streams: set[str] | None = None) -> dict[str, bytes]:
    """Return the sections of a snapshot, or of some streams of it."""
    sections: dict[str, bytes] = {}
    for kept in snapshot.layout.kept:
        if streams is None or kept.stream in streams:
            sections |= _sections(snapshot, kept)
    for panes in snapshot.windows.values():
        if streams is None or streams & {stream.name for stream in panes.group.layout.streams}:
            sections |= _pane_sections(panes)
    return sections


def _pane_sections(panes: PaneSet) -> dict[str, bytes]:
    """Return a section for the newest pane's number, and one per slot: a pane overwrites one long dropped."""
    sections = {panes.group.id: _bytes(newest_word(panes))}
    for slot in range(panes.group.window.panes + 1):
        sections[f"{panes.group.id}/{slot}"] = _bytes(slot_words(panes, slot))
    return sections


def _bytes(words: Int64Array) -> bytes:
    return words.astype("<i8", copy=False).tobytes()


def _sections(snapshot: Snapshot, kept: Kept) -> dict[str, bytes]:
    sections = {kept.id: _bytes(snapshot.counters[kept.id])}
    if kept.candidates is not None:
        sections[kept.id + _HINTS] = _bytes(snapshot.hints[kept.id])
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
    windows = {}
    for group in layout.windows:
        slots = [
            _words(epoch, f"{group.id}/{slot}", 1 + group.layout.nbytes // 8)
            for slot in range(group.window.panes + 1)
        ]
        windows[group.id] = panes_from(group, _words(epoch, group.id, 1), slots)
    return Snapshot(layout, counters, hints, tallies, windows)


def fresh_sections(epoch: Epoch, layout: Layout, refresh: Collection[str]) -> dict[str, bytes]:
    """Return empty sections for what a layout adds to an epoch or changes, and for whole streams to refresh.

    What is added to a stream that goes on says since when it counts.
    """
    empty, unchanged = Snapshot.empty(layout), unchanged_names(epoch.commit.plan, stamp(layout))
    sections: dict[str, bytes] = {}
    for kept in layout.kept:
        if kept.id in unchanged and kept.stream not in refresh:
            continue
        sections |= _sections(empty, kept)
        position = epoch.commit.sources.get(kept.stream)
        begun = position is not None and position.rows > 0 and kept.stream not in refresh
        rows = position.rows if position is not None else 0
        sections[kept.id + _SINCE] = msgspec.json.encode(Since(epoch.number, rows)) if begun else b""
    for panes in empty.windows.values():
        streams = {stream.name for stream in panes.group.layout.streams}
        if panes.group.id not in unchanged or streams & set(refresh):
            sections |= _pane_sections(panes)
    return sections


def origin_of(epoch: Epoch, layout: Layout) -> Origin:
    """Return how far the streams of an epoch had come, and which synopses count only part of them."""
    streams = []
    for stream in layout.streams:
        at = epoch.commit.sources.get(stream.name)
        fresh = StreamFreshness(stream.name)
        if at is not None:
            fresh = StreamFreshness(
                stream.name, at.rows, at.deletes, at.bad, at.late, at.batch_id, at.last_commit_time
            )
        streams.append(fresh)
    since = {
        kept.id: msgspec.json.decode(epoch.sections[kept.id + _SINCE], type=Since)
        for kept in layout.kept
        if epoch.sections.get(kept.id + _SINCE)
    }
    return Origin(Freshness(epoch.number, tuple(streams), time.time()), since)


def _words(epoch: Epoch, name: str, words: int) -> np.ndarray:
    section = epoch.sections.get(name)
    if section is None or len(section) != 8 * words:
        found = "nothing" if section is None else f"{len(section)} bytes"
        raise CorruptState(
            f"epoch {epoch.number} should hold {8 * words} bytes for {name!r} and holds {found}."
        )
    return np.frombuffer(section, dtype="<i8").astype(np.int64)
