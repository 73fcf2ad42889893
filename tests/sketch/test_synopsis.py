"""Synopses are linear, exact, and equal to their naive oracles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import CorruptState, FormatVersion, IncompatibleSpecs, SketchError
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.counters import TotalSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.synopsis import Synopsis
from eddyline.sketch.two_level import TwoLevelSpec
from tests.oracles import sketches as naive

KEYS = st.integers(-(2**63), 2**63 - 1)
WEIGHTS = st.integers(-1000, 1000)
HASH_FAMILIES = st.sampled_from(["mix", "poly4"])
ONE_EDGE = st.one_of(
    st.builds(
        HashSketchSpec,
        st.sampled_from([2, 8, 32]),
        st.integers(1, 4),
        st.tuples(st.integers(0, 9)),
        HASH_FAMILIES,
    ),
    st.builds(AgmsSpec, st.integers(1, 6), st.integers(1, 3), st.tuples(st.integers(0, 9)), HASH_FAMILIES),
)
ROWS = st.lists(st.tuples(KEYS, WEIGHTS), max_size=30)


def build(spec, rows):
    keys = np.array([key for key, _ in rows], dtype=np.int64)
    weights = np.array([weight for _, weight in rows], dtype=np.int64)
    return Synopsis(spec).update(keys, weights=weights)


@given(ONE_EDGE, ROWS)
def test_counters_equal_the_naive_oracle(spec, rows):
    oracle = naive.agms if isinstance(spec, AgmsSpec) else naive.hash_sketch
    assert build(spec, rows).counters.tolist() == oracle(spec, [((key,), weight) for key, weight in rows])


@given(HASH_FAMILIES, st.lists(st.tuples(KEYS, KEYS, WEIGHTS), max_size=20))
def test_two_edges_equal_the_naive_oracle(family, rows):
    for spec, oracle in (
        (HashSketchSpec(8, 3, (1, 2), family), naive.hash_sketch),
        (AgmsSpec(3, 2, (1, 2), family), naive.agms),
    ):
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        built = Synopsis(spec).update(columns[0], columns[1], weights=columns[2])
        assert built.counters.tolist() == oracle(spec, [((a, b), weight) for a, b, weight in rows])


@given(ONE_EDGE, ROWS, ROWS, ROWS)
def test_merge_is_commutative_and_associative(spec, a, b, c):
    x, y, z = (build(spec, rows) for rows in (a, b, c))
    assert x + y == y + x
    assert (x + y) + z == x + (y + z)
    assert x + y + z == build(spec, a + b + c)
    assert x + y - y == x


@given(ONE_EDGE, ROWS, ROWS)
def test_insert_then_delete_leaves_no_trace(spec, rows, churn):
    gone = [(key, -weight) for key, weight in churn]
    assert build(spec, rows + churn + gone) == build(spec, rows)
    assert build(spec, list(naive.net(*zip(*rows, strict=True)).items()) if rows else []) == build(spec, rows)


@given(ONE_EDGE, ROWS)
def test_bytes_round_trip(spec, rows):
    built = build(spec, rows)
    assert Synopsis.from_bytes(built.to_bytes()) == built


@given(st.sampled_from([4, 16, 64]), st.integers(1, 3), HASH_FAMILIES, ROWS)
def test_folding_gives_the_sketch_of_half_the_width(width, depth, family, rows):
    spec = HashSketchSpec(width, depth, (3,), family)
    assert build(spec, rows).fold() == build(spec.folded(), rows)


def test_total_is_the_net_sum():
    assert Synopsis(TotalSpec()).update(weights=np.array([5, -2, 4])).counters.tolist() == [7]


@pytest.mark.parametrize(
    "other",
    [
        HashSketchSpec(8, 2, (2,)),
        HashSketchSpec(8, 3, (1,)),
        HashSketchSpec(8, 2, (1,), "poly4"),
        AgmsSpec(8, 2, (1,)),
    ],
)
def test_mismatched_specs_raise(other):
    mine = Synopsis(HashSketchSpec(8, 2, (1,)))
    with pytest.raises(IncompatibleSpecs, match="seeds"):
        mine + Synopsis(other)
    with pytest.raises(IncompatibleSpecs):
        mine - Synopsis(other)


def test_overflow_is_an_error_and_changes_nothing():
    spec = HashSketchSpec(2, 1, (1,))
    full = Synopsis(spec).update(np.array([1]), weights=np.array([2**62]))
    with pytest.raises(SketchError, match="overflow"):
        full.update(np.array([1]), weights=np.array([2**62]))
    with pytest.raises(SketchError, match="overflow"):
        full + full
    lowest = Synopsis(spec) - full
    with pytest.raises(SketchError, match="overflow"):
        lowest - full - full
    assert (
        full.counters.tolist()
        == Synopsis(spec).update(np.array([1]), weights=np.array([2**62])).counters.tolist()
    )


def test_every_flipped_or_missing_byte_is_noticed():
    data = build(HashSketchSpec(4, 2, (1,)), [(5, 3), (7, -1)]).to_bytes()
    for at in range(len(data)):
        with pytest.raises((CorruptState, FormatVersion)):
            Synopsis.from_bytes(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :])
        with pytest.raises(CorruptState):
            Synopsis.from_bytes(data[:at])
    with pytest.raises(CorruptState):
        Synopsis.from_bytes(data + b"x")


@pytest.mark.parametrize(("width", "depth"), [(3, 1), (1, 1), (0, 1), (8, 0)])
def test_impossible_shapes_are_refused(width, depth):
    with pytest.raises(SketchError):
        HashSketchSpec(width, depth, (1,))


GOLDEN_MIX = [-9, 0, 1000, -100, -1001, 10, 100, 0]
GOLDEN_POLY4 = [0, 10, -100, -999, 100, -1001, -10, 0]


def test_golden_counters_guard_the_format():
    spec = HashSketchSpec(4, 2, (7,))
    built = Synopsis(spec).update(np.array([0, 1, -1, 2**62]), weights=np.array([1, 10, 100, 1000]))
    assert built.counters.tolist() == GOLDEN_MIX
    poly = Synopsis(HashSketchSpec(4, 2, (7,), "poly4")).update(
        np.array([0, 1, -1, 2**62]), weights=np.array([1, 10, 100, 1000])
    )
    assert poly.counters.tolist() == GOLDEN_POLY4


@pytest.mark.parametrize(
    "spec",
    [
        DyadicSpec(8, 16, 3, 1, "poly4"),
        DyadicSpec(8, 16, 3, 1, is_scanned=True),
        TwoLevelSpec(4, 5, 1, 16, spread=True),
        TwoLevelSpec(4, 5, 1, 16, hash="poly4"),
        JdSketchSpec(2, 2, 4, 4, 1, key_bits=16, hash="poly4"),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_the_documents_synopses_are_synopses_like_all_others(spec):
    rng = np.random.default_rng(3)
    keys = [rng.integers(0, 200, 60) for _ in range(spec.edges)]
    whole, empty = Synopsis(spec).update(*keys), Synopsis(spec)
    first, rest = (empty.update(*(key[part] for key in keys)) for part in (slice(0, 20), slice(20, None)))
    assert first + rest == whole
    assert whole - rest == first
    assert whole.update(*keys, weights=np.full(60, -1)) == empty
    assert Synopsis.from_bytes(whole.to_bytes()) == whole
    assert spec.touched > 0
