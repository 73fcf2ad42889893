"""The streams of one set expression, made ready to be read together.

All are brought to one size; two synopses with equal counters are one stream; a stream without elements
drops out; and sub-expressions that are plain unions can become one stream, by adding their sketches.
"""

from collections import Counter
from dataclasses import dataclass
from functools import reduce

import numpy as np

from eddyline.answer.sets.condition import (
    Condition,
    Member,
    occurrences,
    only_unions,
    renamed,
    streams_of,
    truth_table,
    without,
)
from eddyline.errors import SketchError
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.distinct import DistinctSpec, at_common_size

_TABULATED = 10  # streams up to which all classes of elements are tried for a contradiction


@dataclass(frozen=True)
class Streams:
    """Non-empty streams of one size, and an expression whose members are 0 .. len(counters) - 1."""

    spec: DistinctSpec
    counters: tuple[Int64Array, ...]
    condition: Condition

    @property
    def wanted(self) -> tuple[bool, ...]:
        """For every mask of streams: whether an element in exactly these is in the expression."""
        return truth_table(self.condition, tuple(range(len(self.counters))))

    def union(self) -> Int64Array:
        """Return the counters of the union of all streams."""
        return reduce(self.spec.add, self.counters)


def gather(
    condition: Condition, specs: tuple[DistinctSpec, ...], counters: tuple[Int64Array, ...]
) -> Streams | None:
    """Return the streams of an expression, or None where it can hold nothing."""
    used = streams_of(condition)
    if len(specs) != len(counters) or used[-1] >= len(specs) or used[0] < 0:
        raise SketchError(
            f"this expression names the streams {list(used)}, and {len(specs)} specs with {len(counters)} "
            "arrays of counters were given."
        )
    spec, words = at_common_size([specs[i] for i in used], [counters[i] for i in used])
    own = dict(zip(used, words, strict=True))
    first = {i: next(j for j in used if np.array_equal(own[j], own[i])) for i in used}
    alive = without(renamed(condition, first), frozenset(i for i in used if not own[i].any()))
    if alive is None:
        return None
    kept = streams_of(alive)
    names = {stream: index for index, stream in enumerate(kept)}
    streams = Streams(spec, tuple(own[stream] for stream in kept), renamed(alive, names))
    possible = len(kept) > _TABULATED or any(streams.wanted)
    return streams if possible else None


def with_unions_merged(streams: Streams) -> Streams:
    """Return the streams with each plain union, of streams that occur nowhere else, added into one."""
    uses = Counter(occurrences(streams.condition))
    merged: list[Int64Array] = []
    names: dict[int, int] = {}

    def merge(condition: Condition) -> Condition:
        own = Counter(occurrences(condition))
        if isinstance(condition, Member):
            parts: tuple[int, ...] = (condition.stream,)
        elif only_unions(condition) and all(uses[stream] == own[stream] for stream in own):
            parts = tuple(own)
        else:
            return type(condition)(merge(condition.left), merge(condition.right))
        if parts[0] not in names:
            names[parts[0]] = len(merged)
            merged.append(reduce(streams.spec.add, [streams.counters[stream] for stream in parts]))
        return Member(names[parts[0]])

    condition = merge(streams.condition)
    return Streams(streams.spec, tuple(merged), condition)
