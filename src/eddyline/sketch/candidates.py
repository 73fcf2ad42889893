"""The candidate table: a bounded hint of which keys may be dense, next to a linear sketch.

A hint only determines which keys to test; the sketch decides. So the table may forget, guess and depend on
order: that costs accuracy, never correctness. It is not part of the linear state or of its equality.

    words 0, 1   lowest and highest key seen, as signed integers (lowest > highest: no key)
    word 2       state of the random numbers
    then         sets of 8 slots, 10 words each: 8 keys and 8 signed votes of 16 bits (kernels/candidates.py)

A relation of several join keys has tuples instead of keys: a slot then holds a hash of the tuple, and the
tuple's parts follow the votes.

Deletes are negative votes, so a key that was inserted and deleted again loses its slot; if partial
tables saw the inserts and the deletes separately, merging them corrects it.
"""

from typing import Self

import msgspec
import numpy as np

from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.kernels import candidates as kernel
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.keys import derive_seed, parameters

UInt64Array = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]

HEADER = 3
_NONE_LOW, _NONE_HIGH = np.iinfo(np.int64).max, np.iinfo(np.int64).min
_FIRST_STATE = 0x9E3779B97F4A7C15
_FOLD = np.uint64(0x9E3779B97F4A7C15)


class CandidateSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="candidates"):
    """Size and seed of a candidate table; slots is a multiple of 8, edges the keys of a tuple."""

    slots: int
    seed: int
    edges: int = 1

    def __post_init__(self) -> None:
        if self.slots < kernel.WAYS or self.slots % kernel.WAYS:
            raise SketchError(f"a candidate table has a multiple of {kernel.WAYS} slots, not {self.slots}.")

    @property
    def sets(self) -> int:
        """The number of sets of 8 slots."""
        return self.slots // kernel.WAYS

    @property
    def words(self) -> int:
        """The number of 8-byte words of the table, including the header."""
        return HEADER + self.sets * self.set_words

    @property
    def parts(self) -> int:
        """The words of a tuple besides its slot key: 0 for single keys, which are their own slot keys."""
        return self.edges if self.edges > 1 else 0

    @property
    def set_words(self) -> int:
        """The words of a set of 8 slots."""
        return kernel.SET_WORDS + kernel.WAYS * self.parts

    @classmethod
    def within(cls, words: int, seed: int, edges: int = 1) -> Self:
        """Return the largest table that takes at most `words` words."""
        one = cls(kernel.WAYS, seed, edges)
        return cls(kernel.WAYS * max((words - HEADER) // one.set_words, 1), seed, edges)


def empty(spec: CandidateSpec) -> Int64Array:
    """Return a table that has seen nothing."""
    table = np.zeros(spec.words, dtype=np.int64)
    table[0], table[1] = _NONE_LOW, _NONE_HIGH
    table[2:HEADER].view(np.uint64)[0] = _FIRST_STATE
    return table


def observe(spec: CandidateSpec, table: Int64Array, keys: UInt64Array, weights: Int64Array) -> None:
    """Let weighted keys, (n,) or (edges, n), vote in place; a delete is a weight of -1."""
    _check(spec, table)
    tuples = np.atleast_2d(keys)
    if tuples.shape[1] == 0:
        return
    slot_keys = _slot_keys(tuples)
    signed = slot_keys.view(np.int64)
    table[0], table[1] = min(table[0], signed.min()), max(table[1], signed.max())
    state = table[2:HEADER].view(np.uint64)
    parts = np.ascontiguousarray(tuples[: spec.parts])
    state[0] = kernel.observe_keys(_body(spec, table), slot_keys, parts, weights, _params(spec), state[0])


def _slot_keys(tuples: UInt64Array) -> UInt64Array:
    """Return the slot key of each tuple: a single key itself, otherwise a hash of its parts."""
    folded: UInt64Array = np.ascontiguousarray(tuples[0])
    for part in tuples[1:]:
        folded = (folded ^ (folded >> np.uint64(32))) * _FOLD + part
    return folded


def merge_tables(spec: CandidateSpec, one: Int64Array, other: Int64Array) -> Int64Array:
    """Return the table of both streams: votes of equal keys are added, each set keeps its 8 strongest.

    merge(a, b) equals merge(b, a), and merging with an empty table changes nothing.
    """
    _check(spec, one)
    _check(spec, other)
    both = np.concatenate([tuples(spec, one), tuples(spec, other)], axis=1)
    counts = np.concatenate([votes(spec, one), votes(spec, other)])
    _, first, index = np.unique(_slot_keys(both), return_index=True, return_inverse=True)
    sums = np.zeros(len(first), dtype=np.int64)
    np.add.at(sums, index, counts)
    table = _filled(spec, both[:, first], sums)
    table[0], table[1] = min(one[0], other[0]), max(one[1], other[1])
    states = np.array([one[2], other[2]]).view(np.uint64)
    table[2:HEADER].view(np.uint64)[0] = int(states[0]) ^ int(states[1]) ^ _FIRST_STATE or _FIRST_STATE
    return table


def tuples(spec: CandidateSpec, table: Int64Array) -> UInt64Array:
    """Return the candidates, (edges, n), in the order of their slots."""
    if spec.parts == 0:
        return keys(spec, table).reshape(1, -1)
    parts = _body(spec, table)[:, kernel.SET_WORDS :].reshape(spec.slots, spec.parts).view(np.uint64)
    filled: UInt64Array = np.ascontiguousarray(parts[_codes(spec, table) != 0].T)
    return filled


def keys(spec: CandidateSpec, table: Int64Array) -> UInt64Array:
    """Return the candidates' slot keys, in the order of their slots: the keys themselves if they are single."""
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


def key_range(spec: CandidateSpec, table: Int64Array) -> tuple[int, int] | None:
    """Return the lowest and highest key ever seen, as signed integers, or None."""
    _check(spec, table)
    low, high = int(table[0]), int(table[1])
    return (low, high) if low <= high else None


def _filled(spec: CandidateSpec, distinct: UInt64Array, counts: Int64Array) -> Int64Array:
    """Return a table that holds the 8 tuples with the most votes of the distinct tuples of each set."""
    distinct, counts = distinct[:, counts != 0], counts[counts != 0]
    slot_keys = _slot_keys(distinct)
    sets = np.empty(len(counts), dtype=np.int64)
    kernel.sets_of(slot_keys, _params(spec), spec.sets, sets)
    order = np.lexsort((slot_keys, -np.abs(counts), sets))
    rank = np.arange(len(sets)) - np.searchsorted(sets[order], sets[order])
    order, rank = order[rank < kernel.WAYS], rank[rank < kernel.WAYS]
    sets = sets[order]
    codes = np.empty(len(sets), dtype=np.int64)
    kernel.encode_votes(counts[order], codes)
    table = empty(spec)
    body = _body(spec, table)
    body[sets, rank] = slot_keys[order].view(np.int64)
    np.bitwise_or.at(body, (sets, kernel.WAYS + rank // 4), codes << 16 * (rank % 4))
    for part in range(spec.parts):
        body[sets, kernel.SET_WORDS + rank * spec.parts + part] = distinct[part, order].view(np.int64)
    return table


def _check(spec: CandidateSpec, table: Int64Array) -> None:
    if table.shape != (spec.words,) or table.dtype != np.int64:
        raise IncompatibleSpecs(
            f"a table of {spec.slots} slots has {spec.words} int64 words, not {table.dtype} of {table.shape}."
        )


def _body(spec: CandidateSpec, table: Int64Array) -> Int64Array:
    """Return a view of the sets, (sets, set_words)."""
    return table[HEADER:].reshape(spec.sets, spec.set_words)


def _codes(spec: CandidateSpec, table: Int64Array) -> Int64Array:
    """Return the 16-bit votes of all slots, 0 if empty."""
    words = _body(spec, table)[:, kernel.WAYS : kernel.SET_WORDS]
    codes: Int64Array = (words[:, :, None] >> np.arange(0, 64, 16)) & 0xFFFF
    return codes.reshape(-1)


def _params(spec: CandidateSpec) -> UInt64Array:
    functions: UInt64Array = parameters("mix", (derive_seed(spec.seed, "candidates"),), 1)
    return functions.reshape(-1)
