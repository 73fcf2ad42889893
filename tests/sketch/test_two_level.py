import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import SketchError
from eddyline.sketch.two_level import TwoLevelSpec
from tests.oracles.sets import counters_of

SPECS = [TwoLevelSpec(copies=3, levels=5, seed=2, key_bits=16, spread=spread) for spread in (False, True)]
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


def test_half_of_the_keys_draw_the_first_level():
    # 20,000 fair coins: 5 standard deviations are 354
    spec = TwoLevelSpec(copies=1, levels=20, seed=4)
    totals = spec.buckets(counters_of(spec, np.arange(20_000)))[0, :, 0]
    assert abs(int(totals[0]) - 10_000) < 354
    assert totals.sum() == 20_000


def test_impossible_shapes_are_refused():
    with pytest.raises(SketchError):
        TwoLevelSpec(copies=0, levels=5, seed=1)
