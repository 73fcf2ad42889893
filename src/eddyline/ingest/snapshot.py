"""A snapshot: everything that a plan keeps, at one moment, as a value.

Snapshots of one layout add and subtract; the bytes of a snapshot carry its layout, so that any process
can answer from them. Hints (candidate keys) and tallies (rows seen) travel along, but two snapshots are
equal if their counters are: neither takes part in an answer's correctness.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import msgspec
import numpy as np

from eddyline.errors import CorruptState, IncompatibleSpecs
from eddyline.ingest.accumulator import Accumulator
from eddyline.plan.layout import Kept, Layout
from eddyline.sketch import candidates, codec
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.synopsis import empty_counters


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
        )

    def plus_stream(self, stream: str, partial: Accumulator) -> Self:
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
        )

    def _combined(self, other: Self, combine: Callable[[Kept, Int64Array, Int64Array], Int64Array]) -> Self:
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
        return result

    def __add__(self, other: Self) -> Self:
        return self._combined(other, lambda kept, a, b: kept.spec.add(a, b))

    def __sub__(self, other: Self) -> Self:
        return self._combined(other, lambda kept, a, b: kept.spec.subtract(a, b))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return self.layout == other.layout and all(
            np.array_equal(values, other.counters[name]) for name, values in self.counters.items()
        )

    def __hash__(self) -> int:
        return hash((self.layout.digest, *(self.counters[kept.id].tobytes() for kept in self.layout.kept)))

    def to_bytes(self) -> bytes:
        """Return the snapshot, its layout included, as bytes that any platform reads back exactly."""
        arrays = [self.counters[kept.id] for kept in self.layout.kept]
        arrays += [self.hints[kept.id] for kept in self.layout.kept if kept.candidates is not None]
        body = b"".join(array.astype("<i8", copy=False).tobytes() for array in arrays)
        header = msgspec.json.encode(_Header(self.layout, dict(self.tallies)))
        return codec.pack(codec.KIND_STATE, header, body)

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
        at = 0

        def take(size: int) -> Int64Array:
            nonlocal at
            at += size
            return words[at - size : at]

        counters = {kept.id: take(kept.spec.words) for kept in header.layout.kept}
        hints = {k.id: take(k.candidates.words) for k in header.layout.kept if k.candidates is not None}
        return cls(header.layout, counters, hints, header.tallies)
