"""Snapshots in stores: one section per synopsis, the plan beside them.

A synopsis that was added to a store with rows has a section `<id>/since` that says where it began.
"""

import re
import time
from collections.abc import Collection

import msgspec

from eddyline.answer.freshness import Freshness, StreamFreshness
from eddyline.answer.origin import Origin, Since
from eddyline.errors import CorruptState
from eddyline.ingest.sections import (
    INPUT_CHECK,
    from_sections,
    pane_sections,
    sample_sections,
    synopsis_sections,
)
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.tally import Tally
from eddyline.plan.layout import KeptSynopsis, Layout, Stream
from eddyline.plan.layout_check import check_layout
from eddyline.plan.show.explain import describe, describe_sample
from eddyline.sketch import codec
from eddyline.store import Epoch, PlanStamp, unchanged_names

BATCH_QUERY = "batch"
"""The query id under which a batch frame is taken, once, as batch 0."""
BATCH_RUN = "batch"
"""The run id of a store that one pass over the sources made: `eddyline ask` on a pipeline file."""
_SINCE = "/since"
_YEAR_10000 = 253_402_300_800.0  # seconds since 1970: later times cannot be shown


def stamp(layout: Layout) -> PlanStamp:
    """Return what a store knows of a plan: what each synopsis holds, in words that can be compared."""
    described = {
        kept.id: f"{describe(kept.demand)}; {_written(kept)}; {kept.candidates}" for kept in layout.kept
    }
    for planned_sample in layout.samples:
        described[planned_sample.id] = describe_sample(planned_sample)
    for group in layout.windows:
        described[group.id] = (
            f"{group.window.panes} panes of {group.window.slide} us; plan {group.layout.digest}"
        )
    for planned in [*layout.queries, *(q for group in layout.windows for q in group.layout.queries)]:
        described[planned.name] = f"{' '.join(planned.query.text.split())} [{planned.method}]"
    settings = {f"stream {each.name}": _columns(each) for each in layout.streams}
    settings |= {"seed": str(layout.seed), "confidence": str(layout.confidence)}
    settings |= {} if layout.budget is None else {"budget": f"{layout.budget:,} bytes"}
    return PlanStamp(layout.digest, msgspec.json.encode(layout).decode(), described, settings)


def _columns(stream: Stream) -> str:
    """Return a stream's columns, and how its rows say what they change and when, as people compare them."""
    columns = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
    return f"{columns}; changes {stream.changes}; event time {stream.event_time}"


def _written(kept: KeptSynopsis) -> str:
    """Return a spec in words, without what came later and is not used: stores of before read the same."""
    return re.sub(r"(, )?number_words=1\b", "", str(kept.spec))


def from_epoch(epoch: Epoch) -> Snapshot:
    """Return the snapshot of an epoch, or raise CorruptState where its sections do not fit its plan.

    Where the plan has changed to a smaller budget, its samples are brought down to it.
    """
    layout = _layout_of(epoch)
    tallies = {stream.name: Tally() for stream in layout.streams}
    for name, position in epoch.commit.sources.items():
        counts = (position.rows, position.deletes, position.bad, position.late)
        if min(counts) < 0 or not 0 <= position.last_commit_time < _YEAR_10000:
            raise CorruptState(
                f"epoch {epoch.number}: the position of stream {name!r} is not one that a run can reach."
            )
        tallies[name] = Tally(position.rows, position.deletes)
    try:
        return from_sections(layout, epoch.sections, tallies).settled()
    except CorruptState as error:
        raise CorruptState(f"epoch {epoch.number}: {error}") from error


def _layout_of(epoch: Epoch) -> Layout:
    written, what = epoch.commit.plan, f"the plan of epoch {epoch.number}"
    layout = codec.read_json(what, written.header, Layout)
    check_layout(layout, codec.read_json(what, written.header, object), written.hash)
    return layout


def fresh_sections(epoch: Epoch, layout: Layout, refresh: Collection[str]) -> dict[str, bytes]:
    """Return empty sections for what a layout adds to an epoch or changes, and for whole streams to refresh.

    What is added to a stream that goes on says since when it counts.
    """
    _layout_of(epoch)  # raises where a part of it would be of numbers that this version does not read
    empty, unchanged = Snapshot.empty(layout), unchanged_names(epoch.commit.plan, stamp(layout))
    names = [INPUT_CHECK + stream.name for stream in layout.streams if stream.name not in refresh]
    sections = {name: epoch.sections[name] for name in names if name in epoch.sections}
    for kept in layout.kept:
        if kept.id not in unchanged or kept.stream in refresh:
            sections |= synopsis_sections(empty, kept)
            sections |= _since(epoch, kept.id, kept.stream, refresh)
    for planned in layout.samples:
        streams = {each.stream for each in planned.exact}
        if planned.id in unchanged and not streams & set(refresh):
            continue
        state = empty.samples[planned.id]
        sections |= sample_sections(planned, state, state.rosters)
        for kept in planned.sketches:
            sections |= synopsis_sections(empty, kept)
        for stream in sorted(streams):
            sections |= _since(epoch, f"{planned.id}/{stream}", stream, refresh)
    for panes in empty.windows.values():
        streams = {stream.name for stream in panes.group.layout.streams}
        if panes.group.id not in unchanged or streams & set(refresh):
            sections |= pane_sections(panes)
    return sections


def _since(epoch: Epoch, name: str, stream: str, refresh: Collection[str]) -> dict[str, bytes]:
    """Return the section that says where something new on a stream begins to count, empty at its first row."""
    position = epoch.commit.sources.get(stream)
    begun = position is not None and position.rows > 0 and stream not in refresh
    rows = position.rows if position is not None else 0
    return {name + _SINCE: msgspec.json.encode(Since(epoch.number, rows)) if begun else b""}


def origin_of(epoch: Epoch, layout: Layout) -> Origin:
    """Return how far the streams of an epoch had come, and which synopses count only part of them."""
    streams = []
    for stream in layout.streams:
        at = epoch.commit.sources.get(stream.name)
        fresh = StreamFreshness(stream.name)
        if at is not None and at.batch_id >= 0:
            fresh = StreamFreshness(
                stream.name,
                at.rows,
                at.deletes,
                at.bad,
                at.late,
                at.batch_id,
                at.last_commit_time,
                at.query_id == BATCH_QUERY,
            )
        streams.append(fresh)
    named = [(kept.id, kept.stream) for kept in layout.kept]
    named += [(f"{s.id}/{part.stream}", part.stream) for s in layout.samples for part in s.exact]
    since = {
        name: codec.read_json(f"where {name!r} begins", epoch.sections[name + _SINCE], Since)
        for name, _ in named
        if epoch.sections.get(name + _SINCE)
    }
    return Origin(Freshness(epoch.number, tuple(streams), time.time()), since)
