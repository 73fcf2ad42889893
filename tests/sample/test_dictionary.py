"""Dictionaries are what Python dicts of net totals are, column by column."""

import contextlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline as el
from eddyline.sample.dictionary import Builder, Dictionary
from eddyline.sample.labels import Labels
from eddyline.sample.spec import DictionarySpec
from tests.data.dictionaries import dictionary, matrices, plain
from tests.oracles import stream_samples as naive

SPEC = DictionarySpec((0, -1), flags=3, measures=1)
LEAST, MOST = -(2**63), 2**63 - 1
KEYS = st.none() | st.integers(-3, 3) | st.sampled_from([LEAST, MOST, -1, 0, 2**31, -(2**15), 127, 128])
ELEMENTS = st.builds(
    naive.element, st.tuples(KEYS, KEYS), st.tuples(st.booleans(), st.booleans(), st.booleans())
)
ROWS = st.lists(st.tuples(ELEMENTS, st.tuples(st.integers(-4, 4), st.integers(-300, 300))), max_size=30)


@given(ROWS)
def test_rows_are_folded_into_net_totals(rows):
    held = dictionary(SPEC, rows)
    assert plain(held) == naive.net(rows)
    words = held.matrices()[0]
    assert [tuple(row) for row in words] == sorted({tuple(row) for row in words})
    assert held.same(dictionary(SPEC, reversed(rows)))
    assert held.nbytes <= dictionary(SPEC, rows).element_bytes * len(held)


@given(ROWS, ROWS)
def test_dictionaries_add_and_subtract(left, right):
    one, other = dictionary(SPEC, left), dictionary(SPEC, right)
    assert plain(one.plus(other)) == naive.net([*left, *right])
    assert one.plus(other).same(other.plus(one))
    assert plain(one.plus(other, -1)) == naive.minus(naive.net(left), naive.net(right))
    assert one.plus(other).plus(other, -1).same(one)
    assert len(one.plus(one, -1)) == 0


@given(ROWS, st.sampled_from([(0, 1), (1,), (0,), ()]), st.sampled_from([(0, 1, 2), (2,), ()]))
def test_fewer_columns_add_up_what_has_become_equal(rows, keys, flags):
    spec = DictionarySpec(tuple(SPEC.classes[k] for k in keys), len(flags), 1)
    made = dictionary(SPEC, rows).regrouped(spec, keys, flags, (0,))
    assert plain(made) == naive.regrouped(naive.net(rows), keys, flags, (0,))


@given(ROWS, st.randoms(use_true_random=False))
def test_masks_keep_elements(rows, random):
    held = dictionary(SPEC, rows)
    kept = np.array([random.random() < 0.5 for _ in range(len(held))], dtype=bool)
    wanted = {each: totals for (each, totals), keep in zip(plain(held).items(), kept, strict=True) if keep}
    assert plain(held.where(kept)) == wanted
    assert held.where(np.ones(len(held), dtype=bool)) is held


@given(ROWS)
def test_bytes_round_trip(rows):
    held = dictionary(SPEC, rows)
    again = Dictionary.from_bytes(SPEC, held.to_bytes())
    assert again.same(held)
    assert again.to_bytes() == held.to_bytes()
    assert again.nbytes == held.nbytes


@given(ROWS, st.integers(0, 200), st.integers(1, 255))
def test_damaged_bytes_are_corrupt_or_another_dictionary_but_never_a_crash(rows, place, change):
    data = bytearray(dictionary(SPEC, rows).to_bytes())
    data[place % len(data)] ^= change
    with contextlib.suppress(el.CorruptState):
        assert Dictionary.from_bytes(SPEC, bytes(data)).nbytes >= 0


@pytest.mark.parametrize("cut", [0, 5, 8, 12, -1])
def test_bytes_of_another_length_are_corrupt(cut):
    data = dictionary(SPEC, [(naive.element((1, 2), (0, 0, 0)), (1, 5))]).to_bytes()
    with pytest.raises(el.CorruptState):
        Dictionary.from_bytes(SPEC, data[:cut])
    with pytest.raises(el.CorruptState):
        Dictionary.from_bytes(SPEC, data + b"0")


@given(st.lists(st.tuples(st.tuples(KEYS), st.integers(0, 2**130 - 1)), max_size=8))
def test_flags_beyond_one_word(elements):
    spec = DictionarySpec((0,), flags=130)
    assert spec.flag_words == 3
    rows = [
        (naive.element(keys, [bits >> place & 1 for place in range(130)]), (1,)) for keys, bits in elements
    ]
    held = dictionary(spec, rows)
    assert plain(held) == naive.net(rows)
    assert plain(Dictionary.from_bytes(spec, held.to_bytes())) == naive.net(rows)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-9, 9)), max_size=9))
def test_without_keys_there_is_one_element(totals):
    spec = DictionarySpec((), measures=1)
    rows = [(naive.element((), ()), total) for total in totals]
    assert plain(dictionary(spec, rows)) == naive.net(rows)
    assert plain(dictionary(spec, rows).plus(dictionary(spec, rows))) == naive.net([*rows, *rows])


OVERFLOWS = {
    "beyond the most": [MOST, 1],
    "beyond the least": [LEAST, -1],
    "halves": [2**62, 2**62],
}


@pytest.mark.parametrize("case", OVERFLOWS)
@pytest.mark.parametrize("measure", [0, 1])
def test_totals_that_overflow_are_refused_and_change_nothing(case, measure):
    one = naive.element((1, None), (True, False, True))
    left, right = ([(one, (total, 0) if measure == 0 else (1, total))] for total in OVERFLOWS[case])
    with pytest.raises(el.SketchError, match="overflow"):
        dictionary(SPEC, [*left, *right])
    held = dictionary(SPEC, left)
    with pytest.raises(el.SketchError, match="overflow"):
        held.plus(dictionary(SPEC, right))
    assert plain(held) == naive.net(left)
    assert plain(held.plus(dictionary(SPEC, right), -1)) == naive.minus(naive.net(left), naive.net(right))


def test_the_least_total_has_no_opposite():
    one = naive.element((1, 1), (False, False, False))
    with pytest.raises(el.SketchError, match="overflow"):
        dictionary(SPEC, []).plus(dictionary(SPEC, [(one, (LEAST, 0))]), -1)


def test_the_builder_says_never_less_than_the_bytes_that_it_makes():
    rng = np.random.default_rng(3)
    rows = [
        (naive.element((int(a), int(b)), (True, False, False)), (1, int(a)))
        for a, b in rng.integers(LEAST, MOST, (500, 2))
    ]
    builder = Builder(SPEC, 2)
    builder.add(*matrices(SPEC, rows))
    assert builder.nbytes >= builder.build().nbytes > 0


@given(ROWS)
def test_indexes_give_distinct_values_and_places(rows):
    held = dictionary(SPEC, rows)
    for key in range(2):
        values, places = held.index(key)
        assert values.tolist() == sorted(set(held.key(key).tolist()))
        assert values[places].tolist() == held.key(key).tolist()


def test_a_label_of_null_gives_way_to_the_value_of_the_same_code():
    """0.00 has the code 0, which NULL holds, too: a state of NULLs alone must not name the value of another one."""
    spec = DictionarySpec((-1,), labelled=(0,))
    nulls = Dictionary.of(spec, np.array([[0, 1]]), np.array([[1]]))
    value = Labels.of(np.array([0]), pa.array([Decimal("0.00")]))
    zeros = Dictionary.of(spec, np.array([[0, 0]]), np.array([[1]]), {0: value})
    for both in (nulls.plus(zeros), zeros.plus(nulls)):
        assert both.labels[0].values.to_pylist() == [Decimal("0.00")]
        assert both.is_null(0).tolist() == [False, True]
