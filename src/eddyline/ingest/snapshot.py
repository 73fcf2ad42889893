"""A snapshot: everything that a plan keeps, at one moment, as a value.

Snapshots of one layout add and subtract; the bytes of a snapshot carry its layout, so that any process
can answer from them. Hints (candidate keys) and tallies (rows seen) travel along, but two snapshots are
equal if their counters and samples are: neither takes part in an answer's correctness. Hints depend on the
order in which rows came, so that equal snapshots may differ in their bytes and, within their intervals, in
skimmed answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from eddyline.errors import IncompatibleSpecs
from eddyline.ingest.accumulator import Accumulator
from eddyline.ingest.memo import Memo
from eddyline.ingest.pane_set import PaneSet
from eddyline.ingest.sample_pass import SamplePass, sketch_elements
from eddyline.ingest.settling import settle
from eddyline.ingest.sketching import Sketches
from eddyline.ingest.stream_pass import StreamPass
from eddyline.ingest.stream_spec import StreamSpec, stream_spec
from eddyline.ingest.tally import Tally
from eddyline.kernels import doubles
from eddyline.plan.layout import KeptSynopsis, Layout
from eddyline.sample.state import SampleState
from eddyline.sketch import candidates
from eddyline.sketch.counters import Int64Array

Words = Mapping[str, Int64Array]


def _add(kept: KeptSynopsis, left: Int64Array, right: Int64Array) -> Int64Array:
    return kept.spec.add(left, right)


def _subtract(kept: KeptSynopsis, left: Int64Array, right: Int64Array) -> Int64Array:
    return kept.spec.subtract(left, right)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Counters, hints, stream samples and tallies of a layout.

    Sketches that stand beside a sample have counters only in the sample's second stage. Nothing here is ever changed
    in place; `memo` keeps what answers read off it.
    """

    layout: Layout
    counters: Words
    hints: Words
    tallies: Mapping[str, Tally]
    windows: Mapping[str, PaneSet] = field(default_factory=dict)
    samples: Mapping[str, SampleState] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @classmethod
    def empty(cls, layout: Layout, like: Mapping[str, SampleState] | None = None) -> "Snapshot":
        """Return the snapshot of streams without a row; like: samples whose stage and rosters it takes over."""
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
        )

    def stream_spec(self, stream: str) -> StreamSpec:
        """Return what the next pass over a stream fills."""
        panes = {name: each.sample_states for name, each in self.windows.items()}
        return stream_spec(self.layout, stream, self.floor(stream), self.samples, panes)

    def plus_stream(self, stream: str, partial: StreamPass, *, settle: bool = True) -> "Snapshot":
        """Return the snapshot after adding what a pass over one stream saw.

        settle: bring samples back into their budgets. Left to the last of several streams that are added together, what
        is kept does not depend on their order.
        """
        windows = dict(self.windows)
        for pane in partial.spec.panes:
            added = {n: each for (group, n), each in partial.panes.items() if group == pane.group}
            panes, newest = windows[pane.group], partial.newest.get(pane.group)
            empty = self.empty(panes.group.layout, panes.sample_states)
            windows[pane.group] = panes.plus_pass(newest, added, empty)
        whole = self.plus_accumulated(partial.whole).tallied(stream, partial.tally)
        return replace(whole.settled() if settle else whole, windows=windows)

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
        """Return the snapshot after adding what an accumulator saw of one stream, but for its tally."""
        result = self.with_words(partial.sketches.counters, partial.sketches.hints, _add)
        for name, part in partial.samples.items():
            result = result.plus_sample(name, part)
        return result

    def plus_sample(self, name: str, part: SamplePass) -> "Snapshot":
        """Return the snapshot after adding what a pass saw for one sample, both in the later of their stages."""
        mine = self.in_second_stage(name) if part.grouped else self
        if mine.samples[name].grouped:
            part.go_over()
        state = mine.samples[name].combined(part.state())
        with_words = mine.with_words(part.sketches.counters, part.sketches.hints, _add)
        return replace(with_words, samples={**mine.samples, name: state})

    def in_second_stage(self, name: str) -> "Snapshot":
        """Return the snapshot with one sample in its second stage: its sketches built, its elements regrouped."""
        state, planned = self.samples[name], self.layout.sample(name)
        if state.grouped:
            return self
        made = Sketches(planned.sketches)
        for elements, dictionary in zip(planned.exact, state.dictionaries, strict=True):
            mine = [kept for kept in planned.sketches if kept.stream == elements.stream]
            sketch_elements(mine, elements, dictionary, made)
        return replace(
            self,
            counters={**self.counters, **made.counters},
            hints={**self.hints, **made.hints},
            samples={**self.samples, name: state.in_second_stage()},
        )

    def total(self, name: str) -> int:
        """Return an exact total, in units of its measure."""
        counters = self.counters[name].tolist()
        return counters[0] if len(counters) == 1 else doubles.whole(counters)

    def weighed_total(self, name: str) -> float:
        """Return an exact total as joins weigh rows: of a FLOAT or DOUBLE its value, of others in units."""
        measure = self.layout.by_id[name].demand.measure
        return self.total(name) / (1 << -measure.lowest) if measure is not None else float(self.total(name))

    def is_rounded(self, name: str) -> bool:
        """Return whether rows of an exact total had digits beyond the lowest that are held."""
        return len(self.counters[name]) > 1 and bool(self.counters[name][0] != 0)

    def settled(self) -> "Snapshot":
        """Return the snapshot with every sample within its budget."""
        return settle([self])[0]

    def with_words(
        self,
        counters: Words,
        hints: Words,
        combine: Callable[[KeptSynopsis, Int64Array, Int64Array], Int64Array],
    ) -> "Snapshot":
        """Return the snapshot after combining counters and hints with its own, by id."""
        by_id = self.layout.by_id
        added = {name: combine(by_id[name], self.counters[name], words) for name, words in counters.items()}
        merged = {}
        for name, words in hints.items():
            spec = by_id[name].candidates
            assert spec is not None
            merged[name] = candidates.merge(spec, self.hints[name], words)
        return replace(self, counters={**self.counters, **added}, hints={**self.hints, **merged})

    def tallied(self, stream: str, tally: Tally) -> "Snapshot":
        """Return the snapshot after counting rows of a stream."""
        return replace(self, tallies={**self.tallies, stream: self.tallies[stream] + tally})

    def combined(self, other: "Snapshot", sign: int) -> "Snapshot":
        """Return both, or the other one subtracted: synopsis by synopsis, sample by sample, pane by pane."""
        if self.layout.digest != other.layout.digest:
            raise IncompatibleSpecs(
                f"these states belong to different plans ({self.layout.digest[:12]} and {other.layout.digest[:12]}): "
                "only states of one plan, same queries, budget and seed, can be combined."
            )
        left, right = self, other
        for name in self.samples:
            if left.samples[name].grouped != right.samples[name].grouped:
                left, right = left.in_second_stage(name), right.in_second_stage(name)
        words = left.with_words(right.counters, right.hints, _add if sign > 0 else _subtract)
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
        return self.combined(other, 1).settled().with_windows(self, other, 1)

    def __sub__(self, other: "Snapshot") -> "Snapshot":
        return self.combined(other, -1).settled().with_windows(self, other, -1)

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
        words = sum(each.nbytes for each in (*self.counters.values(), *self.hints.values()))
        samples = sum(state.nbytes for state in self.samples.values())
        return words + samples + sum(panes.nbytes for panes in self.windows.values())
