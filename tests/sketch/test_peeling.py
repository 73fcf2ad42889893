import itertools
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import SketchError
from eddyline.sketch.peeling import PeelingSpec
from tests.oracles.sets import counters_of

SPEC = PeelingSpec(cells=96, levels=4, seed=5, sample_seed=6)
KEYS = st.integers(-(2**63), 2**63 - 1)
WEIGHTS = st.integers(-1000, 1000).filter(bool)
UPDATES = st.lists(st.tuples(KEYS, WEIGHTS), max_size=40)


def build(updates, spec=SPEC):
    return counters_of(spec, [key for key, _ in updates], weights=[weight for _, weight in updates])


@given(UPDATES, UPDATES)
@settings(max_examples=40, deadline=None)
def test_parts_equal_the_whole_and_deletes_leave_nothing(one, two):
    a, b = build(one), build(two)
    assert np.array_equal(SPEC.add(a, b), build(one + two))
    assert np.array_equal(SPEC.add(a, b), SPEC.add(b, a))
    assert np.array_equal(SPEC.subtract(SPEC.add(a, b), b), a)
    assert not build(one + [(key, -weight) for key, weight in one]).any()


@given(UPDATES, UPDATES, st.lists(st.integers(1, SPEC.words - 1), max_size=8))
@settings(max_examples=40, deadline=None)
def test_chunks_of_any_size_combine_as_the_whole(one, two, cuts):
    a, b = build(one), build(two)
    edges = sorted({0, *cuts, SPEC.words})
    pieces = list(itertools.pairwise(edges))
    for operation in (SPEC.add, SPEC.subtract):
        chunks = [operation(a[i:j], b[i:j], i) for i, j in pieces]
        assert np.array_equal(np.concatenate(chunks), operation(a, b))


@given(UPDATES)
@settings(max_examples=60, deadline=None)
def test_complete_levels_give_back_keys_and_net_counts(updates):
    net = Counter()
    for key, weight in updates:
        net[key % 2**64] += weight
    sample = SPEC.decode(build(updates))
    found = dict(zip(sample.keys.tolist(), sample.counts.tolist(), strict=True))
    level = SPEC.level_of(np.array(list(net), dtype=np.uint64))
    expected = {
        key: count
        for (key, count), at in zip(net.items(), level, strict=True)
        if count and sample.complete[at]
    }
    assert found == expected
    assert sample.rate == SPEC.level_rates[sample.complete].sum()


def test_the_corners_of_the_key_range_come_back():
    keys = np.array([0, -1, 1, 2**61 - 1, 2**61 - 2, 2**61, -(2**61) - 1, -(2**63), 2**63 - 1])
    sample = SPEC.decode(counters_of(SPEC, keys, weights=np.arange(2, 11)))
    found = dict(zip(sample.keys.view(np.int64).tolist(), sample.counts.tolist(), strict=True))
    assert found == dict(zip(keys.tolist(), range(2, 11), strict=True))


def test_a_large_stream_is_sampled_at_its_rate():
    # 1,300 to 2,600 keys are sampled of 200,000; 5 standard errors: fails once in a million
    spec = PeelingSpec.sized(1536, 2**30, seed=9)
    keys = np.random.default_rng(9).integers(-(2**63), 2**63 - 1, 200_000)
    sample = spec.decode(counters_of(spec, keys, weights=np.full(len(keys), 3)))
    number = len(sample.keys)
    assert number > 1000
    assert abs(number / sample.rate - len(keys)) < 5 * number**0.5 / sample.rate
    assert set(sample.keys.tolist()) <= set(keys.view(np.uint64).tolist())
    assert (sample.counts == 3).all()
    assert np.array_equal(spec.level_of(sample.keys), sample.levels)


def test_the_level_can_come_from_another_value():
    spec = PeelingSpec.sized(96, 2**20, seed=1, sample_seed=2, edges=2)
    values = np.repeat(np.arange(400), 5)
    keys = np.arange(2000) + 10**6
    sample = spec.decode(counters_of(spec, keys, values))
    sampled = values[sample.keys.astype(np.int64) - 10**6]
    assert (np.bincount(sampled)[np.unique(sampled)] == 5).all()
    other = PeelingSpec.sized(192, 2**20, seed=3, sample_seed=2)
    levels = spec.level_of(np.unique(values).astype(np.uint64))
    most = other.levels - 1
    assert np.array_equal(np.minimum(levels, most), other.level_of(np.unique(values).astype(np.uint64)))


def test_folding_is_exact():
    rng = np.random.default_rng(2)
    keys, weights = rng.integers(0, 2**62, 3000), rng.integers(-5, 6, 3000)
    folded = SPEC.fold(counters_of(SPEC, keys, weights=weights))
    assert np.array_equal(folded, counters_of(SPEC.folded(), keys, weights=weights))


def test_capacity_exceeded_is_refused():
    with pytest.raises(SketchError, match="capacity"):
        SPEC.decode(counters_of(SPEC, np.arange(100_000)))


def test_a_count_beyond_32_bits_costs_its_level_and_no_more():
    keys = np.arange(30)
    weights = np.ones(30, dtype=np.int64)
    weights[7] = 2**33
    sample = SPEC.decode(counters_of(SPEC, keys, weights=weights))
    lost = SPEC.level_of(np.array([7], dtype=np.uint64))[0]
    assert not sample.complete[lost]
    assert sample.complete.sum() == SPEC.levels - 1


def test_sizing():
    spec = PeelingSpec.for_budget(540_672, 2**30, seed=5)
    assert (spec.cells, 8 * spec.words) == (1536, 540_672)
    assert PeelingSpec.for_sample(1000, 2**30, seed=5).cells == 1536
    with pytest.raises(SketchError, match="at least"):
        PeelingSpec.for_budget(1000, 2**30, seed=5)
    for cells, levels, edges in ((100, 3, 1), (96, 0, 1), (96, 3, 3)):
        with pytest.raises(SketchError):
            PeelingSpec(cells=cells, levels=levels, seed=1, sample_seed=1, edges=edges)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=PeelingSpec) == spec
