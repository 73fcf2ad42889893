from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.answer.sets.document import (
    atomic_diff_estimator,
    atomic_intersect_estimator,
    document_cardinality,
    empty_bucket,
    identical_singleton_bucket,
    set_difference_estimator,
    set_expression_estimator,
    set_intersection_estimator,
    set_union_estimator,
    singleton_bucket,
    singleton_union_bucket,
    union_singletons,
    witness_index,
)
from eddyline.answer.sets.expression import Except, Intersect, StreamLeaf, Union
from eddyline.sketch.two_level import TwoLevelSpec
from tests.oracles.coverage import Coverage
from tests.oracles.sets import counters_of

ONE = TwoLevelSpec(copies=1, levels=1, seed=1, key_bits=8)  # a single bucket
SETS = st.dictionaries(st.integers(0, 255), st.integers(1, 3), max_size=4)


def bucket(net):
    return ONE.buckets(counters_of(ONE, list(net), weights=list(net.values())))[:, 0]


@given(SETS, SETS, SETS)
@settings(max_examples=150, deadline=None)
def test_the_bucket_tests_say_what_buckets_hold(one, two, three):
    a, b, c = bucket(one), bucket(two), bucket(three)
    assert empty_bucket(a)[0] == (len(one) == 0)
    assert singleton_bucket(a)[0] == (len(one) == 1)
    assert identical_singleton_bucket(a, b)[0] == (len(one) == 1 and set(one) == set(two))
    assert singleton_union_bucket(a, b)[0] == (len(set(one) | set(two)) == 1)
    assert union_singletons([a, b, c])[0] == (len(set(one) | set(two) | set(three)) == 1)


def streams(spec, union, share, seed):
    rng = np.random.default_rng(seed)
    keys = rng.choice(2**30, union, replace=False)
    inside = int(union * share)
    half = inside + (union - inside) // 2
    sets = keys[:half], np.concatenate([keys[:inside], keys[half:]])
    return [spec.buckets(counters_of(spec, own)) for own in sets]


@pytest.mark.parametrize("spread", [False, True])
def test_estimators_agree_with_the_general_one(spread):
    spec = TwoLevelSpec(copies=128, levels=20, seed=3, key_bits=30, spread=spread)
    left, right = sketches = streams(spec, 4000, 0.5, 3)
    union = set_union_estimator(sketches, 0.1, spread=spread)
    general = set_expression_estimator(Except(StreamLeaf(0), StreamLeaf(1)), sketches, spread=spread)
    assert set_difference_estimator(left, right, union, spread=spread) == general
    general = set_expression_estimator(Intersect(StreamLeaf(0), StreamLeaf(1)), sketches, spread=spread)
    assert set_intersection_estimator(left, right, union, spread=spread) == general
    whole = set_expression_estimator(Union(StreamLeaf(0), StreamLeaf(1)), sketches, spread=spread)
    assert whole == pytest.approx(union)


def test_atomic_estimates_are_the_loop_of_the_document():
    spec = TwoLevelSpec(copies=64, levels=16, seed=5, key_bits=30)
    left, right = sketches = streams(spec, 1000, 0.5, 5)
    index = witness_index(set_union_estimator(sketches, 0.1, spread=False), 0.1, 64, 16, spread=False)
    estimate, known = atomic_diff_estimator(left, right, index)
    both, _ = atomic_intersect_estimator(left, right, index)
    for copy in range(64):
        a, b = left[copy, index], right[copy, index]
        assert known[copy] == singleton_union_bucket(a, b)
        assert estimate[copy] == (known[copy] and singleton_bucket(a) and empty_bucket(b))
        assert both[copy] == (known[copy] and singleton_bucket(a) and singleton_bucket(b))


@pytest.mark.parametrize("spread", [False, True])
def test_the_union_is_near(spread):
    # one level of 512 sketches: a standard error of about 12% and a bias of a few percent
    spec = TwoLevelSpec(copies=512, levels=20, seed=7, key_bits=30, spread=spread)
    assert set_union_estimator(streams(spec, 5000, 0.5, 7), 0.1, spread=spread) == pytest.approx(
        5000, rel=0.5
    )


def test_nothing_seen_is_no_estimate():
    spec = TwoLevelSpec(copies=4, levels=4, seed=7, key_bits=30)
    empty = spec.buckets(counters_of(spec, []))
    assert set_expression_estimator(StreamLeaf(0), [empty], spread=False) is None
    assert set_difference_estimator(empty, empty, 1.0) is None
    assert set_intersection_estimator(empty, empty, 1.0) is None


@pytest.mark.calibration
def test_intervals_of_the_documents_estimators_hold():
    # 95-100% of 150 seeds each in docs/reference/documents/settings.md
    one, two, coverage = StreamLeaf(0), StreamLeaf(1), Coverage(together=0.6)
    for spread, seed in product([False, True], range(40)):
        spec = TwoLevelSpec.of_copies(128, 1 << 16, seed, 30, spread=spread)
        keys = np.random.default_rng(seed).choice(2**30, 2000, replace=False)
        own = [counters_of(spec, keys[:1125]), counters_of(spec, np.concatenate([keys[:250], keys[1125:]]))]
        truths = (("union", Union(one, two), 2000), ("both", Intersect(one, two), 250))
        for name, condition, truth in (*truths, ("except", Except(one, two), 875)):
            reading, _ = document_cardinality(condition, [(spec, each) for each in own], 0.95)
            inside = reading is None or reading.low <= truth <= reading.high
            coverage.add((spread, seed), inside, f"{name}, spread" if spread else name)
    coverage.check()


@pytest.mark.parametrize("spread", [False, True])
def test_a_narrower_sketch_is_the_one_built_at_that_shape(spread):
    keys = np.random.default_rng(2).integers(0, 2**30, 500)
    wide = TwoLevelSpec(copies=16, levels=9, seed=3, key_bits=30, spread=spread)
    small = TwoLevelSpec(copies=4, levels=5, seed=3, key_bits=30, spread=spread)
    narrowed = wide.narrowed(wide.buckets(counters_of(wide, keys)), 4, 5)
    np.testing.assert_array_equal(narrowed, small.buckets(counters_of(small, keys)))
