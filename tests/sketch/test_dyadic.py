import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.answer.joins.document import dense_keys
from eddyline.errors import SketchError
from eddyline.sketch.dyadic import DyadicSpec
from tests.data.zipf import zipf

SPEC = DyadicSpec(bits=10, width=16, depth=3, seed=4)
ROWS = st.lists(st.tuples(st.integers(0, 1023), st.integers(-5, 5)), max_size=30)


def counters_of(spec, rows):
    counters = np.zeros(spec.words, dtype=np.int64)
    keys = np.array([[key for key, _ in rows]], dtype=np.uint64)
    spec.accumulate(counters, keys, np.array([weight for _, weight in rows], dtype=np.int64))
    return counters


@given(one=ROWS, other=ROWS)
@settings(max_examples=30, deadline=None)
def test_parts_equal_the_whole_and_deletes_leave_nothing(one, other):
    whole = counters_of(SPEC, one + other)
    np.testing.assert_array_equal(SPEC.add(counters_of(SPEC, one), counters_of(SPEC, other)), whole)
    np.testing.assert_array_equal(SPEC.subtract(whole, counters_of(SPEC, other)), counters_of(SPEC, one))
    undone = counters_of(SPEC, one + [(key, -weight) for key, weight in one])
    assert not undone.any()


def test_every_level_is_the_sketch_of_its_nodes():
    rows = [(5, 2), (600, 1), (1023, 7)]
    for level, part in enumerate(SPEC.levels(counters_of(SPEC, rows))):
        expected = np.zeros(SPEC.level(level).words, dtype=np.int64)
        nodes = np.array([[key >> level for key, _ in rows]], dtype=np.uint64)
        SPEC.level(level).accumulate(expected, nodes, np.array([2, 1, 7]))
        np.testing.assert_array_equal(part, expected)


def test_the_search_finds_the_dense_keys_without_visiting_the_domain():
    spec = DyadicSpec(bits=40, width=256, depth=7, seed=2)
    values = zipf(1.2)
    keys = np.random.default_rng(0).integers(0, 2**40, len(values)).astype(np.uint64)
    counters = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(counters, keys.reshape(1, -1), values)
    # The threshold is some 15 noise levels of the leaves: all dense keys are found, and next to nothing else.
    found = dense_keys(spec, counters, 0.02 * values.sum())
    dense = keys[values >= 0.025 * values.sum()]
    assert len(dense) >= 5
    assert np.isin(dense, found).all()
    assert len(found) <= 2 * len(dense)
    assert spec.words == 40 * 256 * 7 + 1


def test_a_dense_key_that_is_deleted_again_is_not_found():
    rows = [(5, 1000), (700, 900)]
    assert dense_keys(SPEC, counters_of(SPEC, rows), 500).tolist() == [5, 700]
    assert dense_keys(SPEC, counters_of(SPEC, [*rows, (5, -1000)]), 500).tolist() == [700]


def test_of_negative_keys_the_lowest_bits_count():
    negative = np.array([[-3, 5]], dtype=np.int64).view(np.uint64)
    counters = np.zeros(SPEC.words, dtype=np.int64)
    SPEC.accumulate(counters, negative, np.array([9, 1], dtype=np.int64))
    np.testing.assert_array_equal(counters, counters_of(SPEC, [(1021, 9), (5, 1)]))
    assert SPEC.total(counters) == 10


@pytest.mark.parametrize("is_scanned", [False, True])
def test_a_narrower_sketch_is_the_one_built_at_that_shape(is_scanned):
    wide = DyadicSpec(bits=10, width=64, depth=5, seed=4, is_scanned=is_scanned)
    rows = [(5, 2), (600, 1), (1023, 7)]
    spec, counters = wide.narrowed(counters_of(wide, rows), 16, 3)
    assert (spec.width, spec.depth) == (16, 3)
    np.testing.assert_array_equal(counters, counters_of(spec, rows))


def test_a_small_domain_is_scanned():
    spec = DyadicSpec(bits=10, width=64, depth=5, seed=4, is_scanned=True)
    assert spec.words == 64 * 5 + 1
    assert dense_keys(spec, counters_of(spec, [(5, 1000), (700, 900)]), 500).tolist() == [5, 700]


def test_numbers_of_several_words_are_sketched_word_by_word():
    spec, one = (DyadicSpec(bits=10, width=16, depth=3, seed=4, number_words=n) for n in (2, 1))
    counters, keys = np.zeros(spec.words, dtype=np.int64), np.array([[5, 600]], dtype=np.uint64)
    spec.accumulate(counters, keys, np.array([[3, 4], [1, 0]], dtype=np.int64))
    low, high = counters.reshape(2, -1)
    np.testing.assert_array_equal(low, counters_of(one, [(5, 3), (600, 4)]))
    np.testing.assert_array_equal(high, counters_of(one, [(5, 1), (600, 0)]))


def test_impossible_shapes_are_refused():
    with pytest.raises(SketchError, match="1 to 64"):
        DyadicSpec(bits=65, width=16, depth=3, seed=4)
