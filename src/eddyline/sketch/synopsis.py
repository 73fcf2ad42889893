"""A synopsis: a frozen spec and its counters, as a value.

Every kind follows one contract: counters are a flat int64 array of `spec.words` words, zero for the
empty stream; `accumulate` adds weighted keys in place; `add` and `subtract` combine blocks of counters,
so that partial results of tasks, batches and sites merge in any order and an undone batch leaves no trace.
"""

from typing import Protocol, Self

import msgspec
import numpy as np

from eddyline.errors import CorruptState, IncompatibleSpecs, SketchError
from eddyline.sketch import codec
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.counters import Int64Array, KeyArray, TotalSpec, key_array
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from eddyline.sketch.two_level import TwoLevelSpec

Spec = (
    HashSketchSpec
    | AgmsSpec
    | TotalSpec
    | DistinctSpec
    | PeelingSpec
    | JoinDistinctSpec
    | DyadicSpec
    | TwoLevelSpec
    | JdSketchSpec
)
"""Every kind of synopsis: ours, and the documents' own (DyadicSpec, AgmsSpec, TwoLevelSpec, JdSketchSpec)."""


class LinearSpec(Protocol):
    """What other packages need to know about a kind."""

    @property
    def words(self) -> int:
        """The number of 8-byte words of its counters."""

    @property
    def edges(self) -> int:
        """The number of key arrays that an update takes."""

    @property
    def touched(self) -> int:
        """The number of counters that a row touches."""

    def accumulate(self, counters: Int64Array, keys: KeyArray, weights: Int64Array) -> None:
        """Add weighted keys to the counters in place; raise, with nothing changed, if one might overflow."""

    def add(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the sum of two blocks of counters that begin at word `start`."""

    def subtract(self, left: Int64Array, right: Int64Array, start: int = 0) -> Int64Array:
        """Return the difference of two blocks of counters that begin at word `start`."""


def empty_counters(spec: LinearSpec) -> Int64Array:
    """Return the counters of the empty stream."""
    return np.zeros(spec.words, dtype=np.int64)


class Synopsis:
    """A spec and its counters; operations return new values and do not change their operands.

    >>> spec = HashSketchSpec(width=8, depth=3, seeds=(1,))
    >>> one = Synopsis(spec).update(np.array([5, 5, 9]))
    >>> one - one.update(np.array([7])) + Synopsis(spec).update(np.array([7])) == Synopsis(spec)
    True
    """

    __slots__ = ("counters", "spec")

    def __init__(self, spec: Spec, counters: Int64Array | None = None) -> None:
        if counters is None:
            counters = empty_counters(spec)
        if counters.shape != (spec.words,) or counters.dtype != np.int64:
            raise SketchError(
                f"this spec takes {spec.words} int64 counters, not {counters.dtype} of {counters.shape}."
            )
        self.spec = spec
        self.counters = counters

    def update(self, *keys: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the synopsis after adding rows: one int64 key array per edge, weights 1 unless given."""
        if len(keys) != self.spec.edges:
            raise SketchError(f"this synopsis takes {self.spec.edges} key arrays, not {len(keys)}.")
        if weights is None:
            weights = np.ones(len(keys[0]) if keys else 1, dtype=np.int64)
        hashed = key_array(*keys) if keys else np.empty((0, len(weights)), dtype=np.uint64)
        counters = self.counters.copy()
        self.spec.accumulate(counters, hashed, np.ascontiguousarray(weights, dtype=np.int64))
        return type(self)(self.spec, counters)

    def fold(self) -> Self:
        """Return the synopsis at half its width (or cells): exactly the one built at that size."""
        if not isinstance(self.spec, HashSketchSpec | DistinctSpec | PeelingSpec):
            raise SketchError("this kind of synopses has no width to fold.")
        return type(self)(self.spec.folded(), self.spec.fold(self.counters))

    def _check(self, other: Self) -> None:
        if self.spec != other.spec:
            raise IncompatibleSpecs(
                f"these synopses differ in kind, shape or seeds and cannot be combined: {self.spec} and "
                f"{other.spec}; build both from one plan."
            )

    def __add__(self, other: Self) -> Self:
        self._check(other)
        return type(self)(self.spec, self.spec.add(self.counters, other.counters))

    def __sub__(self, other: Self) -> Self:
        self._check(other)
        return type(self)(self.spec, self.spec.subtract(self.counters, other.counters))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Synopsis):
            return NotImplemented
        return self.spec == other.spec and bool(np.array_equal(self.counters, other.counters))

    def __hash__(self) -> int:
        return hash((self.spec, self.counters.tobytes()))

    def __repr__(self) -> str:
        return f"Synopsis({self.spec}, {self.spec.words} words)"

    def to_bytes(self) -> bytes:
        """Return the synopsis as bytes that any platform reads back exactly."""
        body = self.counters.astype("<i8", copy=False).tobytes()
        return codec.pack(codec.KIND_SYNOPSIS, msgspec.json.encode(self.spec), body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the synopsis that `to_bytes` wrote, or raise CorruptState or FormatVersion."""
        header, body = codec.unpack(data, codec.KIND_SYNOPSIS)
        spec: Spec = codec.read_json("the header of this synopsis", header, Spec)  # type: ignore[arg-type]
        if len(body) != 8 * spec.words:
            raise CorruptState(f"this synopsis needs {8 * spec.words} bytes of counters and has {len(body)}.")
        return cls(spec, np.frombuffer(body, dtype="<i8").astype(np.int64))
