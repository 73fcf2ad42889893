"""Snapshots as named sections of bytes: what a store keeps and what `to_bytes` packs.

| section | holds |
| --- | --- |
| `<synopsis>` | its counters; empty for a sketch whose sample is still in its first stage |
| `<synopsis>/hints` | its candidate table |
| `<synopsis>/labels` | the values of candidate keys that their codes do not determine |
| `<sample>` | the stage of a stream sample and its rosters |
| `<sample>/<i>` | its dictionaries |
| `<window group>` | the number of the newest pane, and the rosters that the samples of all panes share |
| `<window group>/<slot>` | a pane, its number and its own sections; empty where there is no pane |
| `input-check/<stream>` | what the input check found in the stream's rows; empty or missing where it found nothing |
"""

from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa

from eddyline.errors import CorruptState
from eddyline.expressions.arrow_values import from_arrow
from eddyline.ingest.changes import Tally
from eddyline.ingest.projection import RosterSpec
from eddyline.ingest.snapshot import PaneSet, Snapshot
from eddyline.plan.decide.shapes import code_identifies
from eddyline.plan.layout import Elements, KeptSynopsis, Layout, PlannedSample, WindowGroup
from eddyline.plan.layout_check import check_layout, plan_that_was_read
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.labels import KeyLabels
from eddyline.sample.state import Record, Roster, SampleState, fresh_rosters
from eddyline.sketch import codec
from eddyline.sketch.counters import Int64Array
from eddyline.sql.query import Key

HINTS = "/hints"
LABELS = "/labels"
INPUT_CHECK = "input-check/"
Sections = Mapping[str, bytes]


class _Header(msgspec.Struct, frozen=True):
    layout: Layout
    tallies: dict[str, Tally]
    lengths: dict[str, int]
    digest: str = ""  # of the layout; missing in states of earlier versions


class _Stage(msgspec.Struct, frozen=True, omit_defaults=True):
    grouped: bool
    rosters: tuple[RosterSpec, ...]
    dictionaries: int
    records: dict[str, Record] = {}


class _Newest(msgspec.Struct, frozen=True):
    number: int
    rosters: dict[str, tuple[RosterSpec, ...]] = {}


class _Pane(msgspec.Struct, frozen=True):
    number: int
    sections: dict[str, bytes]


def to_sections(snapshot: Snapshot, *, is_pane: bool = False) -> dict[str, bytes]:
    """Return everything that a snapshot holds, by name; a pane is without the rosters, which all panes share."""
    sections: dict[str, bytes] = {}
    for kept in _all_kept(snapshot.layout):
        sections |= synopsis_sections(snapshot, kept)
    for planned in snapshot.layout.samples:
        state = snapshot.samples[planned.id]
        sections |= sample_sections(planned, state, () if is_pane else state.rosters)
    for panes in snapshot.windows.values():
        sections |= pane_sections(panes)
    if not is_pane:
        sections |= {INPUT_CHECK + name: _striking(tally) for name, tally in snapshot.tallies.items()}
    return sections


def _striking(tally: Tally) -> bytes:
    """Return a tally without its numbers of rows, which a store keeps with its positions."""
    rest = msgspec.structs.replace(tally, rows=0, deletes=0)
    return b"" if rest == Tally() else msgspec.msgpack.encode(rest)


def _tally(name: str, sections: Sections, counted: Tally) -> Tally:
    """Return the tally of a stream, given how many rows were counted."""
    content = sections.get(INPUT_CHECK + name) or b"\x80"
    rest = codec.read_msgpack(f"what was striking about stream {name!r}", content, Tally)
    return msgspec.structs.replace(rest, rows=counted.rows, deletes=counted.deletes)


def _all_kept(layout: Layout) -> list[KeptSynopsis]:
    return [*layout.kept, *(kept for sample in layout.samples for kept in sample.sketches)]


def _bytes(words: Int64Array) -> bytes:
    return words.astype("<i8", copy=False).tobytes()


def synopsis_sections(snapshot: Snapshot, kept: KeptSynopsis) -> dict[str, bytes]:
    """Return the sections of one synopsis."""
    on = kept.id in snapshot.counters
    sections = {kept.id: _bytes(snapshot.counters[kept.id]) if on else b""}
    if kept.candidates is not None:
        sections[kept.id + HINTS] = _bytes(snapshot.hints[kept.id]) if on else b""
    if kept.has_labels:
        sections[kept.id + LABELS] = snapshot.labels[kept.id].to_bytes() if on else b""
    return sections


def sample_sections(
    planned: PlannedSample, state: SampleState, rosters: tuple[Roster, ...]
) -> dict[str, bytes]:
    """Return the sections of one stream sample, with the rosters that are stored with it."""
    stage = _Stage(
        state.grouped, _roster_specs(planned, rosters), len(state.dictionaries), dict(state.records)
    )
    sections = {planned.id: msgspec.msgpack.encode(stage)}
    for i in range(max(len(planned.exact), len(planned.kept))):
        held = i < len(state.dictionaries)
        sections[f"{planned.id}/{i}"] = state.dictionaries[i].to_bytes() if held else b""
    return sections


def _roster_specs(planned: PlannedSample, rosters: tuple[Roster, ...]) -> tuple[RosterSpec, ...]:
    """Return rosters as they are stored: those of NULL links only where at least one is sampled."""
    links = len(planned.spec.seeds)
    if all(roster.follows_all for roster in rosters[links:]):
        rosters = rosters[:links]
    return tuple(map(RosterSpec.of, rosters))


def _rosters(planned: PlannedSample, specs: tuple[RosterSpec, ...]) -> tuple[Roster, ...]:
    """Return the rosters that were stored; where none were stored for NULL links, these follow everything."""
    fresh, found = fresh_rosters(planned.spec), tuple(each.roster() for each in specs)
    seeds = tuple(each.seed for each in fresh)
    if tuple(each.seed for each in found) not in (planned.spec.seeds, seeds):
        raise CorruptState(f"the sample {planned.id!r} does not fit its plan.")
    return (*found, *fresh[len(found) :])


def encode_sample(state: SampleState) -> bytes:
    """Return a state of a sample as the bytes that tasks exchange."""
    parts = [dictionary.to_bytes() if len(dictionary) else b"" for dictionary in state.dictionaries]
    rosters = tuple(map(RosterSpec.of, state.rosters))
    return msgspec.msgpack.encode((state.grouped, rosters, parts, dict(state.records)))


def decode_sample(planned: PlannedSample, data: bytes | memoryview) -> SampleState:
    """Return the state of a sample that a task sent."""
    grouped, rosters, parts, records = msgspec.msgpack.decode(
        data, type=tuple[bool, tuple[RosterSpec, ...], list[bytes], dict[str, Record]]
    )
    specs = planned.spec.kept if grouped else planned.spec.exact
    dictionaries = tuple(
        Dictionary.from_bytes(spec, part) if part else Dictionary.empty(spec)
        for spec, part in zip(specs, parts, strict=True)
    )
    return SampleState(planned.spec, grouped, dictionaries, tuple(each.roster() for each in rosters), records)


def pane_sections(panes: PaneSet) -> dict[str, bytes]:
    """Return a section for the newest pane's number, and one per slot: a new pane overwrites a dropped one."""
    count = panes.group.window.panes + 1
    samples = {planned.id: planned for planned in panes.group.layout.samples}
    shared = {
        name: _roster_specs(samples[name], state.rosters) for name, state in panes.sample_states.items()
    }
    newest = b"" if panes.newest is None else msgspec.msgpack.encode(_Newest(panes.newest, shared))
    sections = {panes.group.id: newest} | {f"{panes.group.id}/{slot}": b"" for slot in range(count)}
    for number, pane in panes.panes.items():
        content = msgspec.msgpack.encode(_Pane(number, to_sections(pane, is_pane=True)))
        sections[f"{panes.group.id}/{number % count}"] = content
    return sections


def from_sections(
    layout: Layout,
    sections: Sections,
    tallies: Mapping[str, Tally],
    shared: Mapping[str, tuple[RosterSpec, ...]] | None = None,
) -> Snapshot:
    """Return the snapshot that sections hold, or raise CorruptState where they do not fit the layout.

    shared: for a pane, the rosters of all panes, by sample.
    """
    counters: dict[str, Int64Array] = {}
    hints: dict[str, Int64Array] = {}
    labels: dict[str, KeyLabels] = {}
    samples = {
        planned.id: _sample(planned, sections, None if shared is None else shared.get(planned.id, ()))
        for planned in layout.samples
    }
    around = {k.id for s in layout.samples if not samples[s.id].grouped for k in s.sketches}
    for kept in _all_kept(layout):
        if kept.id in around:
            continue
        counters[kept.id] = _words(sections, kept.id, kept.spec.words)
        if kept.candidates is not None:
            hints[kept.id] = _words(sections, kept.id + HINTS, kept.candidates.words)
        if kept.has_labels:
            content = _section(sections, kept.id + LABELS)
            labels[kept.id] = KeyLabels.from_bytes(content, len(kept.demand.keys[0].columns))
            _check_key_labels(kept, labels[kept.id])
    windows = {group.id: _panes(group, sections) for group in layout.windows}
    tallied = {name: _tally(name, sections, counted) for name, counted in tallies.items()}
    return Snapshot(layout, counters, hints, tallied, windows, samples, labels, decoded=True)


def _section(sections: Sections, name: str) -> bytes:
    found = sections.get(name)
    if found is None:
        raise CorruptState(f"the state lacks {name!r}.")
    return found


def _words(sections: Sections, name: str, words: int) -> Int64Array:
    section = _section(sections, name)
    if len(section) != 8 * words:
        raise CorruptState(f"the state should hold {8 * words} bytes for {name!r} and holds {len(section)}.")
    return np.frombuffer(section, dtype="<i8").astype(np.int64)


def _sample(planned: PlannedSample, sections: Sections, shared: tuple[RosterSpec, ...] | None) -> SampleState:
    stage = codec.read_msgpack(f"the rosters of {planned.id!r}", _section(sections, planned.id), _Stage)
    rosters = _rosters(planned, stage.rosters if shared is None else shared)
    specs = planned.spec.kept if stage.grouped else planned.spec.exact
    if stage.dictionaries != len(specs):
        raise CorruptState(f"the sample {planned.id!r} does not fit its plan.")
    dictionaries = tuple(
        Dictionary.from_bytes(spec, _section(sections, f"{planned.id}/{i}")) for i, spec in enumerate(specs)
    )
    for elements, dictionary in zip(
        planned.kept if stage.grouped else planned.exact, dictionaries, strict=True
    ):
        _check_labels(elements, dictionary)
    return SampleState(planned.spec, stage.grouped, dictionaries, rosters, stage.records)


def _check_labels(elements: Elements, dictionary: Dictionary) -> None:
    """Raise CorruptState where the values of a group column are of another type than in the plan."""
    for position, labels in dictionary.labels.items():
        _check_label_type(elements.keys[position], labels.values.type)


def _check_key_labels(kept: KeptSynopsis, labels: KeyLabels) -> None:
    """Raise CorruptState where the values of candidate keys are of other types than in the plan."""
    for part, values in zip(kept.demand.keys[0].columns, labels.columns, strict=False):
        if not code_identifies(key := Key((part,))):
            _check_label_type(key, values.type)
        elif not pa.types.is_int64(values.type):
            raise CorruptState(f"the values of a group column are {values.type}, and codes are planned.")


def _check_label_type(key: Key, kind: pa.DataType) -> None:
    """Raise CorruptState where the values of a key of one column are of another type than in the plan."""
    wanted, found = key.columns[0].type, from_arrow(kind)
    if not pa.types.is_null(kind) and (
        found is None or (found.kind, found.scale) != (wanted.kind, wanted.scale)
    ):
        raise CorruptState(f"the values of a group column are {kind}, and the plan has {wanted}.")


def _panes(group: WindowGroup, sections: Sections) -> PaneSet:
    """Return the panes of a group; slots of dropped panes are left out."""
    newest = _section(sections, group.id)
    if not newest:
        return PaneSet(group)
    head = codec.read_msgpack(f"the panes of {group.id!r}", newest, _Newest)
    tallies = {stream.name: Tally() for stream in group.layout.streams}
    panes = {}
    count = group.window.panes + 1
    for slot in range(count):
        content = _section(sections, f"{group.id}/{slot}")
        if not content:
            continue
        pane = codec.read_msgpack(f"a pane of {group.id!r}", content, _Pane)
        if pane.number % count != slot or pane.number > head.number:
            raise CorruptState(f"a pane of {group.id!r} has the same number as another pane.")
        if pane.number >= head.number - group.window.panes:
            panes[pane.number] = from_sections(group.layout, pane.sections, tallies, head.rosters)
    return PaneSet(group, head.number, dict(sorted(panes.items())))


def to_bytes(snapshot: Snapshot) -> bytes:
    """Return a snapshot, its layout included, as bytes that any platform reads back exactly."""
    sections = to_sections(snapshot)
    lengths = {name: len(section) for name, section in sections.items()}
    header = msgspec.json.encode(
        _Header(snapshot.layout, dict(snapshot.tallies), lengths, snapshot.layout.digest)
    )
    return codec.pack(codec.KIND_STATE, header, *sections.values())


def from_bytes(data: bytes) -> Snapshot:
    """Return the snapshot that `to_bytes` wrote, or raise CorruptState or FormatVersion."""
    raw, body = codec.unpack(data, codec.KIND_STATE)
    header = codec.read_json("the header of this state", raw, _Header)
    written = codec.read_json("the header of this state", raw, dict[str, object])
    if min(header.lengths.values(), default=0) < 0 or sum(header.lengths.values()) != len(body):
        raise CorruptState(
            f"this state declares {sum(header.lengths.values()):,} bytes of counters and has {len(body):,}."
        )
    sections, at = {}, 0
    for name, length in header.lengths.items():
        sections[name] = bytes(body[at : at + length])
        at += length
    with plan_that_was_read(decoded=True):
        check_layout(header.layout, written["layout"], header.digest)
        return from_sections(header.layout, sections, header.tallies)
