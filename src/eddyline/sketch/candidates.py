"""The candidate table: a bounded hint of which keys may be dense, beside a linear sketch.

A hint only says which keys to test; the sketch decides. So the table may forget, guess and depend on
order: that costs accuracy, never correctness. It is no part of the linear state nor of its equality.

    words 0, 1   lowest and highest key seen, as signed integers (lowest > highest: none)
    word 2       state of the random numbers
    then         sets of 8 slots, 10 words each: 8 keys and 8 signed votes of 16 bits (kernels/candidates.py)

Deletes are votes against, so a key that was inserted and deleted again loses its slot; where partial
tables saw the inserts and the deletes apart, merging them settles it; and `revote` replaces votes by
what the sketch says of the keys.
"""

from typing import Self

import msgspec
import numpy as np

from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.kernels import candidates as kernel
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.families import derive_seed, parameters

UInt64Array = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]

HEADER = 3
_NONE_LOW, _NONE_HIGH = np.iinfo(np.int64).max, np.iinfo(np.int64).min
_FIRST_STATE = 0x9E3779B97F4A7C15


class CandidateSpec(msgspec.Struct, frozen=True, tag_field="family", tag="candidates"):
    """Size and seed of a candidate table; slots is a multiple of 8."""

    slots: int
    seed: int

    def __post_init__(self) -> None:
        if self.slots < kernel.WAYS or self.slots % kernel.WAYS:
            raise SketchError(f"a candidate table has a multiple of {kernel.WAYS} slots, not {self.slots}.")

    @property
    def sets(self) -> int:
        """The number of sets of 8 slots."""
        return self.slots // kernel.WAYS

    @property
    def words(self) -> int:
        """The number of 8-byte words of the table, all counted."""
        return HEADER + self.sets * kernel.SET_WORDS

    @classmethod
    def within(cls, words: int, seed: int) -> Self:
        """Return the largest table that takes at most so many words."""
        return cls(kernel.WAYS * ((words - HEADER) // kernel.SET_WORDS), seed)


def empty(spec: CandidateSpec) -> Int64Array:
    """Return a table that has seen nothing."""
    table = np.zeros(spec.words, dtype=np.int64)
    table[0], table[1] = _NONE_LOW, _NONE_HIGH
    table[2:HEADER].view(np.uint64)[0] = _FIRST_STATE
    return table


def observe(spec: CandidateSpec, table: Int64Array, keys: UInt64Array, weights: Int64Array) -> None:
    """Let weighted keys vote, in place; a delete is a weight of -1."""
    _check(spec, table)
    if len(keys) == 0:
        return
    signed = keys.view(np.int64)
    table[0], table[1] = min(table[0], signed.min()), max(table[1], signed.max())
    state = table[2:HEADER].view(np.uint64)
    state[0] = kernel.observe_keys(_body(spec, table), keys, weights, _params(spec), state[0])


def merge(spec: CandidateSpec, one: Int64Array, other: Int64Array) -> Int64Array:
    """Return the table of both streams: votes of equal keys are added, each set keeps its 8 strongest.

    merge(a, b) equals merge(b, a), and merging with an empty table changes nothing.
    """
    _check(spec, one)
    _check(spec, other)
    both = np.concatenate([keys(spec, one), keys(spec, other)])
    counts = np.concatenate([votes(spec, one), votes(spec, other)])
    distinct, index = np.unique(both, return_inverse=True)
    sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(sums, index, counts)
    table = _filled(spec, distinct, sums)
    table[0], table[1] = min(one[0], other[0]), max(one[1], other[1])
    states = np.array([one[2], other[2]]).view(np.uint64)
    table[2:HEADER].view(np.uint64)[0] = int(states[0]) ^ int(states[1]) ^ _FIRST_STATE or _FIRST_STATE
    return table


def keys(spec: CandidateSpec, table: Int64Array) -> UInt64Array:
    """Return the candidate keys, in the order of their slots."""
    slots: UInt64Array = _body(spec, table)[:, : kernel.WAYS].reshape(-1).view(np.uint64)
    filled: UInt64Array = slots[_codes(spec, table) != 0]
    return filled


def votes(spec: CandidateSpec, table: Int64Array) -> Int64Array:
    """Return the votes of the candidate keys, in the order of `keys`."""
    codes = _codes(spec, table)
    codes = codes[codes != 0]
    out = np.empty(len(codes), dtype=np.int64)
    kernel.decode_votes(codes, out)
    return out


def revote(spec: CandidateSpec, table: Int64Array, new_votes: np.ndarray) -> Int64Array:
    """Return the table with other votes for its keys, in the order of `keys`; votes of 0 free the slot.

    With the sketch's point estimates as votes, keys that are gone make room at once.
    """
    out = _filled(spec, keys(spec, table), np.rint(new_votes).astype(np.int64))
    out[:HEADER] = table[:HEADER]
    return out


def key_range(spec: CandidateSpec, table: Int64Array) -> tuple[int, int] | None:
    """Return the lowest and highest key ever seen, as signed integers, or None."""
    _check(spec, table)
    low, high = int(table[0]), int(table[1])
    return (low, high) if low <= high else None


def _filled(spec: CandidateSpec, distinct: UInt64Array, counts: Int64Array) -> Int64Array:
    """Return a table that holds, of the distinct keys of each set, the 8 with the most votes."""
    distinct, counts = distinct[counts != 0], counts[counts != 0]
    sets = np.empty(len(distinct), dtype=np.int64)
    kernel.sets_of(distinct, _params(spec), spec.sets, sets)
    order = np.lexsort((distinct, -np.abs(counts), sets))
    sets, distinct, counts = sets[order], distinct[order], counts[order]
    rank = np.arange(len(sets)) - np.searchsorted(sets, sets)
    kept = rank < kernel.WAYS
    sets, rank = sets[kept], rank[kept]
    codes = np.empty(len(sets), dtype=np.int64)
    kernel.encode_votes(counts[kept], codes)
    table = empty(spec)
    body = _body(spec, table)
    body[sets, rank] = distinct[kept].view(np.int64)
    np.bitwise_or.at(body, (sets, kernel.WAYS + rank // 4), codes << 16 * (rank % 4))
    return table


def _check(spec: CandidateSpec, table: Int64Array) -> None:
    if table.shape != (spec.words,) or table.dtype != np.int64:
        raise IncompatibleSpecs(
            f"a table of {spec.slots} slots has {spec.words} int64 words, not {table.dtype} of {table.shape}."
        )


def _body(spec: CandidateSpec, table: Int64Array) -> Int64Array:
    """Return a view of the sets, (sets, SET_WORDS)."""
    return table[HEADER:].reshape(spec.sets, kernel.SET_WORDS)


def _codes(spec: CandidateSpec, table: Int64Array) -> Int64Array:
    """Return the 16-bit votes of all slots, 0 where empty."""
    words = _body(spec, table)[:, kernel.WAYS :]
    codes: Int64Array = (words[:, :, None] >> np.arange(0, 64, 16)) & 0xFFFF
    return codes.reshape(-1)


def _params(spec: CandidateSpec) -> UInt64Array:
    functions: UInt64Array = parameters("mix", (derive_seed(spec.seed, "candidates"),), 1)
    return functions.reshape(-1)
