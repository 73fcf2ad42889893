"""Snapshots in stores: one section per synopsis, with the plan alongside them.

A synopsis that was added to a store with rows has a section `<id>/since`, which records where it began.
"""

import re
import time
from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from eddyline.answer.freshness import Freshness, StreamFreshness
from eddyline.answer.query import Origin, Since
from eddyline.errors import CorruptState, WrongRun
from eddyline.ingest.changes import Tally
from eddyline.ingest.sections import (
    INPUT_CHECK,
    from_sections,
    pane_sections,
    sample_sections,
    synopsis_sections,
    to_sections,
)
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import KeptSynopsis, Layout, PlannedSample, Stream, as_first_written, layout_hash
from eddyline.plan.layout_check import check_layout, plan_that_was_read
from eddyline.plan.show.explain import describe as describe_demand
from eddyline.plan.show.explain import describe_sample
from eddyline.sketch import codec
from eddyline.store import (
    Epoch,
    PlanStamp,
    Reader,
    Sections,
    SourcePosition,
    Store,
    kept_sections,
    make_epoch,
    unchanged_names,
)

BATCH_QUERY = "batch"
"""The query id under which a batch frame is committed, once, as batch 0."""
SAVED = "saved"
"""The run id of a store that `State.save` writes, and the query id of its streams."""
BATCH_RUN = "batch"
"""The run id of a store that one pass over the sources made: `eddyline ask` on a pipeline file."""
_SINCE = "/since"
_YEAR_10000 = 253_402_300_800.0  # seconds since 1970: later times cannot be shown


def stamp(layout: Layout) -> PlanStamp:
    """Return what a store keeps of a plan: a digest of each part, and words that describe the part."""
    describe, identity = {}, {}
    for kept in layout.kept:
        describe[kept.id] = f"{describe_demand(kept.demand)}; {_written(kept)}; {kept.candidates}"
        identity[kept.id] = _digest(kept.demand, kept.spec, kept.candidates)
    for planned_sample in layout.samples:
        describe[planned_sample.id] = describe_sample(planned_sample)
        identity[planned_sample.id] = _digest_of_sample(planned_sample)
    for group in layout.windows:
        panes = f"{group.window.panes} panes of {group.window.slide} us"
        describe[group.id] = f"{panes}; plan {group.layout.digest}"
        identity[group.id] = _digest(group.window, group.layout.digest)
    for planned in [*layout.queries, *(q for group in layout.windows for q in group.layout.queries)]:
        text = " ".join(planned.query.text.split())
        describe[planned.name] = f"{text} [{planned.method}]"
        identity[planned.name] = _digest(text, planned.method)
    settings = {f"stream {each.name}": _columns(each) for each in layout.streams}
    settings |= {"seed": str(layout.seed), "confidence": str(layout.confidence)}
    settings |= {} if layout.budget is None else {"budget": f"{layout.budget:,} bytes"}
    header = msgspec.json.encode(layout).decode()
    return PlanStamp(layout.digest, header, describe, settings, identity)


def _digest(*parts: object) -> str:
    """Return a hash of structures as JSON, which does not change if later versions add fields with defaults."""
    return layout_hash(as_first_written(msgspec.json.decode(msgspec.json.encode(parts))))


def _digest_of_sample(planned: PlannedSample) -> str:
    """Return a hash of what a stream sample holds. Its budget and the queries that read it may change."""
    sketches = [(kept.id, kept.demand, kept.spec, kept.candidates) for kept in planned.sketches]
    return _digest(planned.exact, planned.kept, planned.spec.regrouped, planned.spec.seeds, sketches)


def _columns(stream: Stream) -> str:
    """Return a stream's columns, and how its rows carry their change and time, in a form for people to compare."""
    columns = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
    return f"{columns}; changes {stream.changes}; event time {stream.event_time}"


def _written(kept: KeptSynopsis) -> str:
    """Return a spec in words, without unused fields of later versions: older stores stay readable."""
    return re.sub(r"(, )?number_words=1\b", "", str(kept.spec))


def from_epoch(epoch: Epoch) -> Snapshot:
    """Return the snapshot of an epoch, or raise CorruptState if its sections do not fit its plan.

    If the plan has changed to a smaller budget, its samples are reduced to it.
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
        with plan_that_was_read(decoded=True):
            return from_sections(layout, epoch.sections, tallies).settled()
    except CorruptState as error:
        raise CorruptState(f"epoch {epoch.number}: {error}") from error


def _layout_of(epoch: Epoch) -> Layout:
    written, what = epoch.commit.plan, f"the plan of epoch {epoch.number}"
    layout = codec.read_json(what, written.header, Layout)
    with plan_that_was_read(decoded=True):
        check_layout(layout, codec.read_json(what, written.header, object), written.hash)
    return layout


def fresh_sections(epoch: Epoch, layout: Layout, refresh: Collection[str]) -> Sections:
    """Return empty sections for what a layout adds to an epoch or changes, and for whole streams to refresh.

    What is added to a stream that continues records since when it counts. Samples whose budget was lowered are reduced.
    """
    before = _layout_of(epoch)  # raises if a part of it has a format that this version does not read
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
    budgets = {sample.id: sample.spec.budget for sample in before.samples}
    if any(sample.spec.budget < budgets.get(sample.id, 0) for sample in layout.samples):
        return {**sections, **_reduced(epoch, layout, sections)}
    return sections


def _reduced(epoch: Epoch, layout: Layout, fresh: Mapping[str, bytes]) -> Sections:
    """Return the sections of an epoch under a layout with smaller budgets, its samples within them."""
    plan = stamp(layout)
    content = {**kept_sections(epoch, plan), **fresh}
    return to_sections(from_epoch(make_epoch(replace(epoch.commit, plan=plan), content)))


def _since(epoch: Epoch, name: str, stream: str, refresh: Collection[str]) -> dict[str, bytes]:
    """Return the section that records where something new on a stream begins to count, empty at its first row."""
    position = epoch.commit.sources.get(stream)
    begun = position is not None and position.rows > 0 and stream not in refresh
    rows = position.rows if position is not None else 0
    return {name + _SINCE: msgspec.json.encode(Since(epoch.number, rows)) if begun else b""}


def save_snapshot(where: str, snapshot: Snapshot) -> int:
    """Write a snapshot to a store, replacing what was saved there before, and return its epoch."""
    batch = 0
    exists = Store.exists(where)
    if exists:
        commit = Reader(where).latest().commit
        if commit.run_id != SAVED:
            raise WrongRun(
                f"the store {where} was not written by save(), and save() replaces what is there: name another "
                "directory."
            )
        batch = commit.epoch + 1
    sources = {
        name: SourcePosition(SAVED, batch, tally.rows, tally.deletes, 0, time.time())
        for name, tally in snapshot.tallies.items()
    }
    write = Store.replace_plan if exists else Store.create
    with write(where, stamp(snapshot.layout), SAVED, to_sections(snapshot), sources=sources) as store:
        return store.current.number


def since_sections(since: Mapping[str, Since]) -> dict[str, bytes]:
    """Return the sections that record where synopses begin to count."""
    return {name + _SINCE: msgspec.json.encode(each) for name, each in since.items()}


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
