from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.sketch.keys import HASH_FAMILIES
from eddyline.sketch.two_level import TwoLevelSpec, at_common_shape
from tests.oracles.sets import counters_of

SPECS = [
    TwoLevelSpec(copies=3, levels=5, seed=2, key_bits=16, spread=spread, hash=family)
    for spread, family in product((False, True), HASH_FAMILIES)
]
UPDATES = st.lists(st.tuples(st.integers(0, 2**16 - 1), st.integers(-5, 5)), max_size=40)


def build(spec, updates):
    return counters_of(spec, [key for key, _ in updates], weights=[weight for _, weight in updates])


@pytest.mark.parametrize("spec", SPECS)
@given(UPDATES, UPDATES)
@settings(max_examples=30, deadline=None)
def test_the_sketch_is_linear(spec, one, two):
    a, b, whole = build(spec, one), build(spec, two), build(spec, one + two)
    assert np.array_equal(spec.add(a, b), whole)
    assert np.array_equal(spec.subtract(whole, a), b)


@pytest.mark.parametrize("spec", SPECS)
def test_a_key_leaves_its_bits(spec):
    buckets = spec.buckets(counters_of(spec, [0b1011], weights=[7]))
    touched = np.argwhere(buckets[..., 0] == 7)
    assert len(touched) == (1 if spec.spread else spec.copies)
    for copy, level in touched:
        assert buckets[copy, level, 1:].tolist() == [7, 7, 0, 7] + [0] * 12


@pytest.mark.parametrize("family", HASH_FAMILIES)
def test_half_of_the_keys_draw_the_first_level(family):
    # 20,000 fair coins: 5 standard deviations are 354
    spec = TwoLevelSpec(copies=1, levels=20, seed=4, hash=family)
    totals = spec.buckets(counters_of(spec, np.arange(20_000)))[0, :, 0]
    assert abs(int(totals[0]) - 10_000) < 354
    assert totals.sum() == 20_000


@pytest.mark.parametrize("family", HASH_FAMILIES)
def test_keys_spread_evenly_over_the_copies_and_fold_to_fewer(family):
    # 32,000 keys over 64 copies: 500 each, 5 standard deviations are 112; a fold adds neighbors
    keys = np.arange(32_000) * 7
    wide, narrow = (TwoLevelSpec(c, 12, 4, 32, spread=True, hash=family) for c in (64, 8))
    totals = wide.buckets(counters_of(wide, keys))[:, :, 0].sum(axis=1)
    assert np.abs(totals - 500).max() < 112
    folded = wide.narrowed(wide.buckets(counters_of(wide, keys)), 8, 12)
    assert np.array_equal(folded, narrow.buckets(counters_of(narrow, keys)))


def test_sketches_of_two_hash_families_are_not_read_together():
    specs = [TwoLevelSpec(4, 5, 1, 16, hash=family) for family in HASH_FAMILIES]
    with pytest.raises(IncompatibleSpecs, match="hash family"):
        at_common_shape([(spec, np.zeros(spec.words, dtype=np.int64)) for spec in specs])


def test_impossible_shapes_are_refused():
    with pytest.raises(SketchError, match="unknown hash family"):
        TwoLevelSpec(copies=1, levels=5, seed=1, hash="sha")
    with pytest.raises(SketchError):
        TwoLevelSpec(copies=0, levels=5, seed=1)
