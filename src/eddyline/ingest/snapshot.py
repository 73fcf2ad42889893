"""A snapshot: everything that a plan keeps, at one moment, as a value.

Snapshots of one layout add and subtract; the bytes of a snapshot carry its layout, so that any process
can answer from them. Hints (candidate keys) and tallies (rows seen) travel along, but two snapshots are
equal if their counters are: neither takes part in an answer's correctness. Hints depend on the order in which rows
came, so that equal snapshots may differ in their bytes and, within their intervals, in skimmed answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec
import numpy as np

from eddyline.errors import CorruptState, IncompatibleSpecs
from eddyline.ingest.accumulator import Accumulator
from eddyline.ingest.pane_set import PaneSet
from eddyline.ingest.stream_pass import StreamPass
from eddyline.plan.layout import Kept, Layout, WindowGroup
from eddyline.sketch import candidates, codec
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.synopsis import empty_counters

_NONE = np.iinfo(np.int64).min
"""In place of a pane's number, where there is no pane."""


class Tally(msgspec.Struct, frozen=True):
    """Rows of a stream that went by, and how many of them took rows away."""

    rows: int = 0
    deletes: int = 0


class _Header(msgspec.Struct, frozen=True):
    layout: Layout
    tallies: dict[str, Tally]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Counters, hints and tallies of a layout."""

    layout: Layout
    counters: Mapping[str, Int64Array]
    hints: Mapping[str, Int64Array]
    tallies: Mapping[str, Tally]
    windows: Mapping[str, PaneSet] = field(default_factory=dict)

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the snapshot of streams without a row."""
        return cls(
            layout,
            {kept.id: empty_counters(kept.spec) for kept in layout.kept},
            {
                kept.id: candidates.empty(kept.candidates)
                for kept in layout.kept
                if kept.candidates is not None
            },
            {stream.name: Tally() for stream in layout.streams},
            {group.id: PaneSet(group) for group in layout.windows},
        )

    def plus_stream(self, stream: str, partial: StreamPass) -> Self:
        """Return the snapshot after adding what a pass over one stream saw."""
        windows = dict(self.windows)
        for pane in partial.spec.panes:
            added = {n: each for (group, n), each in partial.panes.items() if group == pane.group}
            panes, newest = windows[pane.group], partial.newest.get(pane.group)
            windows[pane.group] = panes.plus_pass(stream, newest, added, self.empty(panes.group.layout))
        return replace(self.plus_accumulated(stream, partial.whole), windows=windows)

    def floor(self, stream: str) -> int | None:
        """Return the event time (microseconds) before which rows of a stream are late for every window."""
        floors = [
            panes.floor
            for panes in self.windows.values()
            if any(each.name == stream for each in panes.group.layout.streams)
        ]
        known = [floor for floor in floors if floor is not None]
        return min(known) if known and len(known) == len(floors) else None

    def panes_of(self, query: str) -> PaneSet | None:
        """Return the panes that a windowed query reads, None for any other query."""
        for panes in self.windows.values():
            if any(planned.name == query for planned in panes.group.layout.queries):
                return panes
        return None

    def plus_accumulated(self, stream: str, partial: Accumulator) -> Self:
        """Return the snapshot after adding what an accumulator saw of one stream."""
        return self._replaced(
            stream,
            partial.counters,
            partial.hints,
            Tally(partial.rows, partial.deletes),
            lambda k, a, b: k.spec.add(a, b),
        )

    def _replaced(
        self,
        stream: str,
        counters: Mapping[str, Int64Array],
        hints: Mapping[str, Int64Array],
        tally: Tally,
        combine: Callable[[Kept, Int64Array, Int64Array], Int64Array],
    ) -> Self:
        mine = self.layout.kept_for(stream)
        new_counters = {k.id: combine(k, self.counters[k.id], counters[k.id]) for k in mine}
        new_hints = {
            k.id: candidates.merge(k.candidates, self.hints[k.id], hints[k.id])
            for k in mine
            if k.candidates is not None
        }
        old = self.tallies[stream]
        new_tally = Tally(old.rows + tally.rows, old.deletes + tally.deletes)
        return type(self)(
            self.layout,
            {**self.counters, **new_counters},
            {**self.hints, **new_hints},
            {**self.tallies, stream: new_tally},
            self.windows,
        )

    def combined(self, other: Self, combine: Callable[[Kept, Int64Array, Int64Array], Int64Array]) -> Self:
        """Return both, synopsis by synopsis and pane by pane."""
        if self.layout != other.layout:
            raise IncompatibleSpecs(
                f"these states belong to different plans ({self.layout.digest[:12]} and {other.layout.digest[:12]}): "
                "only states of one plan, same queries, budget and seed, can be combined."
            )
        result = self
        for stream in self.layout.streams:
            result = result._replaced(
                stream.name, other.counters, other.hints, other.tallies[stream.name], combine
            )
        windows = {
            name: panes.combined(
                other.windows[name], lambda a, b: a.combined(b, combine), self.empty(panes.group.layout)
            )
            for name, panes in self.windows.items()
        }
        return replace(result, windows=windows)

    def __add__(self, other: Self) -> Self:
        return self.combined(other, lambda kept, a, b: kept.spec.add(a, b))

    def __sub__(self, other: Self) -> Self:
        return self.combined(other, lambda kept, a, b: kept.spec.subtract(a, b))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return (
            self.layout == other.layout
            and all(np.array_equal(values, other.counters[name]) for name, values in self.counters.items())
            and all(
                panes.same(other.windows[name], self.empty(panes.group.layout))
                for name, panes in self.windows.items()
            )
        )

    def __hash__(self) -> int:
        return hash((self.layout.digest, *(self.counters[kept.id].tobytes() for kept in self.layout.kept)))

    def to_words(self) -> Int64Array:
        """Return counters, hints and panes as one array of `layout.nbytes` bytes."""
        arrays = [self.counters[kept.id] for kept in self.layout.kept]
        arrays += [self.hints[kept.id] for kept in self.layout.kept if kept.candidates is not None]
        for group in self.layout.windows:
            panes = self.windows[group.id]
            arrays.append(newest_word(panes))
            arrays += [slot_words(panes, slot) for slot in range(group.window.panes + 1)]
        return np.concatenate(arrays)

    @classmethod
    def from_words(cls, layout: Layout, words: Int64Array, tallies: Mapping[str, Tally]) -> Self:
        """Return the snapshot whose words these are."""
        at = 0

        def take(size: int) -> Int64Array:
            nonlocal at
            at += size
            return words[at - size : at]

        counters = {kept.id: take(kept.spec.words) for kept in layout.kept}
        hints = {k.id: take(k.candidates.words) for k in layout.kept if k.candidates is not None}
        windows = {}
        for group in layout.windows:
            newest = take(1)
            slots = [take(1 + group.layout.nbytes // 8) for _ in range(group.window.panes + 1)]
            windows[group.id] = panes_from(group, newest, slots)
        return cls(layout, counters, hints, tallies, windows)

    def to_bytes(self) -> bytes:
        """Return the snapshot, its layout included, as bytes that any platform reads back exactly."""
        header = msgspec.json.encode(_Header(self.layout, dict(self.tallies)))
        return codec.pack(codec.KIND_STATE, header, self.to_words().astype("<i8", copy=False).tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the snapshot that `to_bytes` wrote, or raise CorruptState or FormatVersion."""
        raw, body = codec.unpack(data, codec.KIND_STATE)
        try:
            header = msgspec.json.decode(raw, type=_Header)
        except (msgspec.DecodeError, ValueError) as error:
            raise CorruptState(f"the header of this state cannot be read: {error}.") from error
        if len(body) != header.layout.nbytes:
            raise CorruptState(
                f"this state needs {header.layout.nbytes:,} bytes of counters and has {len(body):,}."
            )
        words = np.frombuffer(body, dtype="<i8").astype(np.int64)
        return cls.from_words(header.layout, words, header.tallies)


def newest_word(panes: PaneSet) -> Int64Array:
    """Return the number of the newest pane as one word."""
    return np.array([_NONE if panes.newest is None else panes.newest], dtype=np.int64)


def slot_words(panes: PaneSet, slot: int) -> Int64Array:
    """Return the pane of a slot, its number (modulo the panes kept) first, as words; an empty one as zeros."""
    layout, count = panes.group.layout, panes.group.window.panes + 1
    for number, pane in panes.panes.items():
        if number % count == slot:
            return np.concatenate([np.array([number], dtype=np.int64), pane.to_words()])
    words = np.zeros(1 + layout.nbytes // 8, dtype=np.int64)
    words[0] = _NONE
    return words


def panes_from(group: WindowGroup, newest: Int64Array, slots: Sequence[Int64Array]) -> PaneSet:
    """Return the panes whose words these are; slots of panes long dropped are left out."""
    if newest[0] == _NONE:
        return PaneSet(group)
    oldest = int(newest[0]) - group.window.panes
    tallies = {stream.name: Tally() for stream in group.layout.streams}
    panes = {
        int(words[0]): Snapshot.from_words(group.layout, words[1:], tallies)
        for words in slots
        if words[0] != _NONE and words[0] >= oldest
    }
    return PaneSet(group, int(newest[0]), dict(sorted(panes.items())))
