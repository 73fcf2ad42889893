"""A snapshot: everything that a plan keeps, as a value, with the panes of its windows and samples within budget."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Self, TypeVar

import numpy as np

from eddyline.errors import IncompatibleSpecs
from eddyline.ingest.changes import Tally
from eddyline.ingest.projection import StreamSpec, stream_spec
from eddyline.ingest.sample_pass import SamplePass, of_every_row, sketch_dropped, sketch_elements
from eddyline.ingest.sketching import Sketches
from eddyline.ingest.stream_pass import Accumulator, StreamPass
from eddyline.kernels import doubles
from eddyline.plan.layout import KeptSynopsis, Layout, WindowGroup
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.labels import KeyLabels
from eddyline.sample.packing import return_freed
from eddyline.sample.reduction import bytes_of, shrink_to_fit
from eddyline.sample.state import Roster, SampleState, under_one_roster
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array

# A memo caches results that were computed from an immutable value.
#
# It is an attribute of the value. A new value (after a batch, a sum, a difference) begins with an empty memo,
# so a memo never has stale results. It is not part of the value: not compared, not written, not pickled.


T = TypeVar("T")
MOST_RESULTS = 256
MOST_BYTES = 32 << 20
"""Limit on results whose size is given. Chosen: hundreds of answers of 10,000 groups, or all of a dashboard."""


def _no_bytes(_made: object) -> int:
    return 0


class Memo:
    """The results used last: at most 256, and at most 32 MB of those whose size is given."""

    def __init__(self, most: int = MOST_RESULTS, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._results: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._turn = Lock()
        self.nbytes = 0
        """The bytes of all results whose size is given."""

    def recall(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int] = _no_bytes) -> T:
        """Return the result for a key, computed where it is not known; an error of `make` is not cached.

        size: returns the bytes of a result, for results that clients choose and can make large. Two threads that
        ask for the same result at once may both compute it. Neither waits for the other.
        """
        with self._turn:
            if key in self._results:
                self._results.move_to_end(key)
                known: T = self._results[key][0]
                return known
        made = make()
        nbytes = size(made)
        with self._turn:
            if nbytes <= self._most_bytes // 8:
                self._drop(key)
                self._results[key] = made, nbytes
                self.nbytes += nbytes
            while len(self._results) > self._most or self.nbytes > self._most_bytes:
                self._drop(next(iter(self._results)))
        return made

    def known(self, key: Hashable) -> Any | None:
        """Return the result for a key if it is known, else None; used last from now on."""
        with self._turn:
            if key not in self._results:
                return None
            self._results.move_to_end(key)
            return self._results[key][0]

    def _drop(self, key: Hashable) -> None:
        _, nbytes = self._results.pop(key, (None, 0))
        self.nbytes -= nbytes

    def __len__(self) -> int:
        return len(self._results)

    def __reduce__(self) -> "tuple[type[Memo], tuple[int, int]]":
        """Return how to make a copy, here or in another process: the copy is empty."""
        return Memo, (self._most, self._most_bytes)


# Samples within their budgets: the second stage at the first overflow, a reduction at every later one.


def settle_samples(snapshots: "list[Snapshot]") -> "list[Snapshot]":
    """Return snapshots whose samples fit their budgets together: one state, or the panes of a window.

    The given list is emptied, so that each of its objects is freed as soon as it is replaced.
    """
    settled = snapshots.copy()
    snapshots.clear()
    for planned in settled[0].layout.samples if settled else ():
        name, spec = planned.id, planned.spec
        if any(each.samples[name].grouped for each in settled) or (
            bytes_of([each.samples[name] for each in settled]) > spec.budget
        ):
            settled = [each.in_second_stage(name) for each in settled]
            states = under_one_roster([each.samples[name] for each in settled])
            labels = sum(each.labels[kept.id].nbytes for each in settled for kept in planned.labelled)
            left = max(spec.kept_budget - labels, 0)
            if bytes_of(states) > left:
                states = shrink_to_fit(states, left)
                return_freed(spec.kept_budget)
            settled = [each.lowered(name, state) for each, state in zip(settled, states, strict=True)]
    return settled


def held_bytes(snapshot: "Snapshot") -> dict[str, int]:
    """Return the bytes that each sample of a state holds, the sketches next to it included: its least budget."""
    return {
        planned.id: bytes_of([snapshot.samples[planned.id]])
        + (sum(kept.nbytes for kept in planned.sketches) if snapshot.samples[planned.id].grouped else 0)
        for planned in snapshot.layout.samples
    }


# The panes of a window group: snapshots by pane number, the newest few of them.
#
# What is kept depends only on the rows, not on their order: a pane is dropped once there is a pane `panes` +
# 1 later. Panes of two states add up pane by pane. The stream samples of all panes share their rosters.


@dataclass(frozen=True, eq=False)
class PaneSet:
    """The panes of one group; `newest` is None before the first row."""

    group: WindowGroup
    newest: int | None = None
    panes: "Mapping[int, Snapshot]" = field(default_factory=dict)

    @property
    def sample_states(self) -> Mapping[str, SampleState]:
        """The samples of one pane, whose stage and rosters all panes share; empty before the first pane."""
        first = next(iter(self.panes.values()), None)
        return {} if first is None else first.samples

    def _advanced(self, newest: int | None, panes: "Mapping[int, Snapshot]") -> Self:
        """Return the panes that windows still reach, their samples under the same rosters and within the budget."""
        if newest is None:
            return self
        oldest = newest - self.group.window.panes
        numbers = [number for number in sorted(panes) if number >= oldest]
        settled = settle_samples([panes[number] for number in numbers])
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
        """The time, in microseconds, before which rows no longer fall into any pane."""
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


# A snapshot is what a plan keeps at one moment.
#
# Snapshots of one layout add and subtract; the bytes of a snapshot carry its layout, so that any process can
# answer from them. Hints (candidate keys) and tallies (rows seen) are included, but two snapshots are equal
# if their counters and samples are: neither hints nor tallies affect an answer's correctness. Hints depend on
# the order of rows, so equal snapshots may differ in their bytes and, within their intervals, in skimmed
# answers.


Words = Mapping[str, Int64Array]


def _add(kept: KeptSynopsis, left: Int64Array, right: Int64Array) -> Int64Array:
    return kept.spec.add(left, right)


def _subtract(kept: KeptSynopsis, left: Int64Array, right: Int64Array) -> Int64Array:
    return kept.spec.subtract(left, right)


def _same_length(one: Dictionary, other: Dictionary) -> bool:
    return len(one) == len(other)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Counters, hints, stream samples and tallies of a layout; labels: values of candidate keys, by sketch.

    Sketches that complement a sample have counters only in the sample's second stage. Nothing here is ever changed
    in place; `memo` caches what answers compute from it. decoded: it was read from bytes, which anyone can write.
    """

    layout: Layout
    counters: Words
    hints: Words
    tallies: Mapping[str, Tally]
    windows: Mapping[str, PaneSet] = field(default_factory=dict)
    samples: Mapping[str, SampleState] = field(default_factory=dict)
    labels: Mapping[str, KeyLabels] = field(default_factory=dict)
    decoded: bool = False
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @classmethod
    def empty(cls, layout: Layout, like: Mapping[str, SampleState] | None = None) -> "Snapshot":
        """Return the snapshot of streams without a row; like: samples whose stage and rosters it copies."""
        states = like or {}
        grouped = {name for name, state in states.items() if state.grouped}
        sketches = [kept for s in layout.samples if s.id in grouped for kept in s.sketches]
        empty = Sketches([*layout.kept, *sketches])
        samples = {
            each.id: SampleState.empty(each.spec, grouped=each.id in grouped) for each in layout.samples
        }
        for name in grouped:
            samples[name] = replace(samples[name], rosters=states[name].rosters)
        return cls(
            layout,
            empty.counters,
            empty.hints,
            {stream.name: Tally() for stream in layout.streams},
            {group.id: PaneSet(group) for group in layout.windows},
            samples,
            empty.labels,
        )

    def stream_spec(self, stream: str) -> StreamSpec:
        """Return what the next pass over a stream fills."""
        panes = {name: each.sample_states for name, each in self.windows.items()}
        return stream_spec(self.layout, stream, self.floor(stream), self.samples, panes)

    def plus_stream(self, stream: str, partial: StreamPass, *, settle: bool = True) -> "Snapshot":
        """Return the snapshot after adding what a pass over one stream saw.

        settle: bring samples back into their budgets. If only the last of several streams that are added together
        settles, the result does not depend on their order.
        """
        windows = dict(self.windows)
        for pane in partial.spec.panes:
            added = {n: each for (group, n), each in partial.panes.items() if group == pane.group}
            panes, newest = windows[pane.group], partial.newest.get(pane.group)
            empty = self.empty(panes.group.layout, panes.sample_states)
            windows[pane.group] = panes.plus_pass(newest, added, empty)
        whole = [self.plus_accumulated(partial.whole).tallied(stream, partial.tally)]
        if settle:
            whole = settle_samples(whole)
        return replace(whole[0], windows=windows)

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

    def plus_accumulated(self, partial: Accumulator) -> "Snapshot":
        """Return the snapshot after adding what an accumulator saw of one stream, except its tally."""
        result = self.with_sketches(partial.sketches, _add)
        for name, part in partial.samples.items():
            result = result.plus_sample(name, part)
        return result

    def plus_sample(self, name: str, part: SamplePass) -> "Snapshot":
        """Return the snapshot after adding what a pass saw for one sample, both in the later of their stages."""
        mine = self.in_second_stage(name) if part.grouped else self
        if mine.samples[name].grouped:
            part.go_over()
            part.lower(mine.samples[name].rosters)
            mine = mine.under(name, part.rosters)
        state = mine.samples[name].combined(part.state())
        return replace(mine.with_sketches(part.sketches, _add), samples={**mine.samples, name: state})

    def under(self, name: str, rosters: tuple[Roster, ...]) -> "Snapshot":
        """Return the snapshot with a sample under lower rosters: sketches of unfollowed keys get what it drops."""
        return self.lowered(name, self.samples[name].under(rosters))

    def lowered(self, name: str, lowered: SampleState) -> "Snapshot":
        """Return the snapshot with what a sample is under lower rosters."""
        state, planned = self.samples[name], self.layout.sample(name)
        result = replace(self, samples={**self.samples, name: lowered})
        if not state.grouped or all(map(_same_length, state.dictionaries, lowered.dictionaries)):
            return result
        made = Sketches(kept for kept in planned.sketches if kept.unfollowed)
        sketch_dropped(planned, made.kept, state, lowered.rosters, made)
        return result.with_sketches(made, _add)

    def in_second_stage(self, name: str) -> "Snapshot":
        """Return the snapshot with one sample in its second stage: its sketches built, its elements regrouped."""
        state, planned = self.samples[name], self.layout.sample(name)
        if state.grouped:
            return self
        made = Sketches(planned.sketches)
        for elements, dictionary in zip(planned.exact, state.dictionaries, strict=True):
            mine = [kept for kept in of_every_row(planned.sketches) if kept.stream == elements.stream]
            sketch_elements(mine, elements, dictionary, made)
        regrouped = replace(
            self,
            counters={**self.counters, **made.counters},
            hints={**self.hints, **made.hints},
            labels={**self.labels, **made.labels},
            samples={**self.samples, name: state.regrouped()},
        )
        return regrouped.lowered(name, regrouped.samples[name].filtered(state.rosters))

    def total(self, name: str) -> int:
        """Return an exact total, in units of its measure."""
        counters = self.counters[name].tolist()
        return counters[0] if len(counters) == 1 else doubles.whole(counters)

    def weighed_total(self, name: str) -> float:
        """Return an exact total as joins weight rows: the value of a FLOAT or DOUBLE, units for other types."""
        measure = self.layout.by_id[name].demand.measure
        return self.total(name) / (1 << -measure.lowest) if measure is not None else float(self.total(name))

    def is_rounded(self, name: str) -> bool:
        """Return whether rows of an exact total had digits below the lowest digit that is held."""
        return len(self.counters[name]) > 1 and bool(self.counters[name][0] != 0)

    def settled(self) -> "Snapshot":
        """Return the snapshot with every sample within its budget."""
        return settle_samples([self])[0]

    def with_sketches(
        self,
        others: "Sketches | Snapshot",
        combine: Callable[[KeptSynopsis, Int64Array, Int64Array], Int64Array],
    ) -> "Snapshot":
        """Return the snapshot after combining counters, hints and labels with its own, by id."""
        by_id = self.layout.by_id
        added = {
            name: combine(by_id[name], self.counters[name], words) for name, words in others.counters.items()
        }
        merged, labels = {}, {}
        for name, words in others.hints.items():
            spec = by_id[name].candidates
            assert spec is not None
            merged[name] = candidates.merge_tables(spec, self.hints[name], words)
            if name in others.labels:
                both = self.labels[name].plus(others.labels[name])
                labels[name] = both.only(candidates.keys(spec, merged[name]).view(np.int64))
        return replace(
            self,
            counters={**self.counters, **added},
            hints={**self.hints, **merged},
            labels={**self.labels, **labels},
        )

    def tallied(self, stream: str, tally: Tally) -> "Snapshot":
        """Return the snapshot after counting rows of a stream."""
        return replace(self, tallies={**self.tallies, stream: self.tallies[stream] + tally})

    def combined(self, other: "Snapshot", sign: int) -> "Snapshot":
        """Return the sum of both, or their difference: synopsis by synopsis, sample by sample, pane by pane."""
        if self.layout.digest != other.layout.digest:
            raise IncompatibleSpecs(
                f"these states belong to different plans ({self.layout.digest[:12]} and {other.layout.digest[:12]}): "
                "only states of one plan, same queries, budget and seed, can be combined."
            )
        left, right = self, other
        for name in self.samples:
            if left.samples[name].grouped != right.samples[name].grouped:
                left, right = left.in_second_stage(name), right.in_second_stage(name)
        for name in self.samples:
            theirs = right.samples[name].rosters
            right = right.under(name, left.samples[name].rosters)
            left = left.under(name, theirs)
        words = left.with_sketches(right, _add if sign > 0 else _subtract)
        result = replace(
            words,
            samples={name: left.samples[name].combined(right.samples[name], sign) for name in left.samples},
        )
        for stream in self.layout.streams:
            result = result.tallied(stream.name, other.tallies[stream.name])
        return result

    def with_windows(self, left: "Snapshot", right: "Snapshot", sign: int) -> "Snapshot":
        """Return the snapshot with the panes of two others, combined."""
        windows = {
            name: panes.combined(right.windows[name], sign, self.empty)
            for name, panes in left.windows.items()
        }
        return replace(self, windows=windows)

    def __add__(self, other: "Snapshot") -> "Snapshot":
        return settle_samples([self.combined(other, 1)])[0].with_windows(self, other, 1)

    def __sub__(self, other: "Snapshot") -> "Snapshot":
        return settle_samples([self.combined(other, -1)])[0].with_windows(self, other, -1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return (
            self.layout.digest == other.layout.digest
            and self.counters.keys() == other.counters.keys()
            and all(np.array_equal(values, other.counters[name]) for name, values in self.counters.items())
            and all(state.same(other.samples[name]) for name, state in self.samples.items())
            and all(
                panes.same(other.windows[name], self.empty(panes.group.layout, panes.sample_states))
                for name, panes in self.windows.items()
            )
        )

    def __hash__(self) -> int:
        return hash((self.layout.digest, *(self.counters[kept.id].tobytes() for kept in self.layout.kept)))

    @property
    def nbytes(self) -> int:
        """The bytes of all counters, hints, samples and panes as they are now."""
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, int]:
        """The same by part; labels: values of candidate keys."""
        return {
            "counters": sum(words.nbytes for words in self.counters.values()),
            "candidates": sum(words.nbytes for words in self.hints.values()),
            "labels": sum(labels.nbytes for labels in self.labels.values()),
            "samples": sum(state.nbytes for state in self.samples.values()),
            "windows": sum(panes.nbytes for panes in self.windows.values()),
        }
