import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import SketchError
from eddyline.sketch.key_sample import EVERYTHING, KeySampleSpec, limit_of
from eddyline.sketch.key_sample_sizes import capacity_of
from eddyline.sketch.synopsis import Synopsis
from tests.naive_key_sample import net_elements, place_of
from tests.naive_sets import counters_of

HALF = EVERYTHING // 2
SPECS = [
    KeySampleSpec((96, 64, 48), (1,), (EVERYTHING,), seed=5),
    KeySampleSpec((96, 64), (1, 2), (EVERYTHING, HALF), seed=5, bits=30),
    KeySampleSpec((96, 64), (1, 2), (limit_of(0.7), EVERYTHING), seed=5, wide=True, bits=30),
    KeySampleSpec((96, 48), (1, 2, 3), (EVERYTHING,) * 3, seed=5, wide=True, bits=30),
    KeySampleSpec((96, 48), (1, 2, 3), (EVERYTHING,) * 3, seed=6),
]
KEYS = st.one_of(st.integers(0, 20), st.integers(-(2**63), 2**63 - 1))
WEIGHTS = st.integers(-1000, 1000).filter(bool)
ROWS = st.lists(st.tuples(st.tuples(KEYS, KEYS, KEYS), WEIGHTS), max_size=30)
ANY = st.sampled_from(SPECS)


def build(spec, rows):
    columns = [[keys[edge] for keys, _ in rows] for edge in range(spec.edges)]
    return counters_of(spec, *columns, weights=[weight for _, weight in rows])


def random_keys(edges, number, seed):
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, (edges, number))


def as_dict(sample):
    return dict(zip(map(tuple, sample.hashes.tolist()), sample.values.tolist(), strict=True))


@given(ANY, ROWS, ROWS, ROWS)
@settings(max_examples=60, deadline=None)
def test_parts_equal_the_whole_and_deletes_leave_nothing(spec, one, two, three):
    a, b, c = (build(spec, rows) for rows in (one, two, three))
    assert np.array_equal(spec.add(a, b), build(spec, one + two))
    assert np.array_equal(spec.add(a, b), spec.add(b, a))
    assert np.array_equal(spec.add(spec.add(a, b), c), spec.add(a, spec.add(b, c)))
    assert np.array_equal(spec.subtract(spec.add(a, b), b), a)
    assert not build(spec, one + [(keys, -weight) for keys, weight in one]).any()


@given(ANY, ROWS, ROWS, st.lists(st.integers(1, 240), max_size=8))
@settings(max_examples=40, deadline=None)
def test_chunks_of_any_size_combine_as_the_whole(spec, one, two, cuts):
    a, b = build(spec, one), build(spec, two)
    pieces = list(itertools.pairwise(sorted({0, *cuts, spec.words})))
    for operation in (spec.add, spec.subtract):
        chunks = [operation(a[i:j], b[i:j], i) for i, j in pieces]
        assert np.array_equal(np.concatenate(chunks), operation(a, b))


@given(ANY, ROWS)
@settings(max_examples=100, deadline=None)
def test_decoded_levels_hold_exactly_the_net_elements(spec, rows):
    sample = spec.decode(build(spec, rows))
    first = len(spec.cells) if sample.first is None else sample.first
    expected = {}
    for level, elements in net_elements(spec, rows).items():
        if level >= first:
            expected |= elements
    assert as_dict(sample) == expected


@pytest.mark.parametrize("spec", SPECS)
def test_a_few_rows_come_back_whole(spec):
    # Two of ten elements share all their cells with a chance of 10^2/2 / 16^4 at most, on fixed seeds
    rows = [(tuple(map(int, keys)), weight) for weight, keys in enumerate(random_keys(3, 10, 3).T, 1)]
    sample = spec.decode(build(spec, rows))
    assert sample.first == 0
    kept = [weight for keys, weight in rows if place_of(spec, keys[: spec.edges]) is not None]
    assert sorted(sample.values.tolist()) == kept
    assert sample.limits == spec.limits


def test_a_stream_that_outgrows_its_tables_leaves_the_sample_below_smaller_limits():
    spec = KeySampleSpec((96,) * 6, (1, 2), (EVERYTHING, HALF), seed=4, bits=30)
    keys = random_keys(2, 3000, 4)
    rows = [(tuple(map(int, row)), 2) for row in keys.T]
    sample = spec.decode(build(spec, rows))
    assert 0 < sample.first < 5
    assert sample.limits == tuple(limit >> sample.first for limit in spec.limits)
    expected = [elements for level, elements in net_elements(spec, rows).items() if level >= sample.first]
    assert as_dict(sample) == {key: 2 for elements in expected for key in elements}
    assert (sample.hashes < np.array(sample.limits, dtype=np.uint64)).all()


def test_a_stream_that_outgrows_the_last_level_leaves_nothing():
    spec = KeySampleSpec((64, 32), (1,), (EVERYTHING,), seed=4)
    sample = spec.decode(counters_of(spec, *random_keys(1, 5000, 4)))
    assert sample.first is None
    assert len(sample.values) == 0


@pytest.mark.parametrize("edges", [1, 2, 3])
@pytest.mark.parametrize(("wide", "words"), [(False, 2500), (True, 20_480)])
def test_the_capacity_decodes_and_sixteen_times_it_leaves_a_sample(edges, wide, words):
    # A level at its capacity fails about once in 100; three of 20 about once in 1,000
    number = capacity_of(words, edges, wide=wide)
    whole, grown = 0, 0
    for seed in range(20):
        spec = KeySampleSpec.sized(
            words, range(edges), seed, elements=number + 1, rates=(0.5,) * edges, wide=wide
        )
        assert words - 8 < spec.words <= words
        keys = random_keys(edges, 16 * number << edges, seed)
        whole += spec.decode(counters_of(spec, *keys[:, : number << edges])).first == 0
        if seed < 5:
            grown += len(spec.decode(counters_of(spec, *keys)).values) > 0.02 * number
    assert whole >= 18
    assert grown >= 4


@pytest.mark.parametrize("number", [300, 20_000, 400_000])
def test_without_statistics_streams_of_any_size_are_sampled(number):
    spec = KeySampleSpec.sized(5120, (7,), seed=2)
    sample = spec.decode(counters_of(spec, *random_keys(1, number, 2)))
    rate = sample.limits[0] / EVERYTHING
    assert len(sample.values) >= min(40, number / 4)
    # Binomial within 5 standard deviations
    assert abs(len(sample.values) - rate * number) <= 5 * (rate * number) ** 0.5


def test_wide_values_and_narrow_counts():
    keys = random_keys(2, 12, 8)
    weights = np.full(12, 2**60 - 1)
    weights[5] = -(2**62) + 7
    wide = KeySampleSpec((96,), (1, 2), (EVERYTHING,) * 2, seed=3, wide=True, bits=30)
    assert sorted(wide.decode(counters_of(wide, *keys, weights=weights)).values) == sorted(weights)
    narrow = KeySampleSpec((96,), (1, 2), (EVERYTHING,) * 2, seed=3, bits=30)
    small = np.arange(2, 14) - 2**31
    small[5] = 2**31 - 2
    assert sorted(narrow.decode(counters_of(narrow, *keys, weights=small)).values) == sorted(small)
    # A net count that does not fit costs its level; it is never taken for another
    assert narrow.decode(counters_of(narrow, *keys, weights=weights)).first is None


def test_two_relations_keep_the_same_values_of_a_link():
    keys = random_keys(1, 2000, 6)[0]
    alone = KeySampleSpec((1500, 600), (9,), (EVERYTHING // 4,), seed=1)
    paired = KeySampleSpec((1500, 600), (8, 9), (EVERYTHING, EVERYTHING // 4), seed=2, bits=30)
    one = alone.decode(counters_of(alone, keys))
    two = paired.decode(counters_of(paired, keys[::-1], keys))
    drop = np.uint64(max(one.shifts[0], two.shifts[1]))
    assert set((one.hashes[:, 0] >> drop).tolist()) == set((two.hashes[:, 1] >> drop).tolist())


def test_rates_keep_eight_bits():
    assert limit_of(1.0) == EVERYTHING
    assert limit_of(0.25) == EVERYTHING // 4
    for rate in (0.9, 0.3, 1e-3, 7e-8):
        assert 0 <= rate - limit_of(rate) / EVERYTHING < rate / 128
    for rate in (0.0, 1.5):
        with pytest.raises(SketchError, match="rate"):
            limit_of(rate)


def test_sixty_bits_where_they_are_free_or_make_answers_exact():
    assert KeySampleSpec.sized(5120, (1,), 1, elements=10, rates=(0.1,)).bits == 60
    assert KeySampleSpec.sized(5120, (1, 2), 1, elements=500).bits == 60
    assert KeySampleSpec.sized(5120, (1, 2), 1, elements=500, rates=(0.1, 1.0)).bits == 30
    assert KeySampleSpec.sized(5120, (1, 2), 1, elements=1200).bits == 30


def test_what_is_refused():
    good = SPECS[1]
    for change in (
        {"cells": ()},
        {"cells": (16,)},
        {"limits": (EVERYTHING,)},
        {"limits": (EVERYTHING, EVERYTHING - 1)},
        {"limits": (EVERYTHING, 0)},
        {"limits": (EVERYTHING, 2 * EVERYTHING)},
        {"bits": 31},
    ):
        with pytest.raises(SketchError):
            msgspec.structs.replace(good, **change)
    with pytest.raises(SketchError, match="too few"):
        KeySampleSpec.sized(100, (1,), 1, elements=10)
    assert capacity_of(100, 1) == 0


@pytest.mark.parametrize("spec", SPECS)
def test_bytes_bring_back_the_same_synopsis(spec):
    one = Synopsis(spec).update(*random_keys(spec.edges, 50, 1))
    again = Synopsis.from_bytes(one.to_bytes())
    assert again == one
    assert again - one == Synopsis(spec)
