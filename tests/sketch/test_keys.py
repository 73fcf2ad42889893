"""Keys: golden values, equality across types and scales, NULLs apart, and xxhash64 against its own oracle."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import SketchError
from eddyline.sketch.keys import NULL_KEY, column_key, set_key, tuple_key, unscaled, values_of_keys

GOLDEN = [
    (pa.array([5], pa.int8()), 5),
    (pa.array([-(2**63)], pa.int64()), -(2**63)),
    (pa.array([True]), 1),
    (pa.array([dt.date(2024, 2, 29)]), 19782),
    (pa.array([dt.datetime(2024, 2, 29, 12, 0, 0, 123456)], pa.timestamp("us", "UTC")), 1709208000123456),
    (pa.array([dt.datetime(2024, 2, 29, 12, 0, 0)], pa.timestamp("s")), 1709208000000000),
    (pa.array([Decimal("5.00")], pa.decimal128(12, 2)), 5),
    (pa.array([Decimal(-5)], pa.decimal128(38, 0)), -5),
    (pa.array([Decimal("5.10")], pa.decimal128(12, 2)), 3975962257873002064),
    (pa.array([Decimal("5.1000")], pa.decimal128(38, 4)), 3975962257873002064),
    (pa.array([""]), -7444071767201028348),
    (pa.array(["héllo"]), 501425390238239234),
    (pa.array(["héllo"]).dictionary_encode(), 501425390238239234),
    (pa.array([b"\x00\xff"]), 879945414100663330),
]


@pytest.mark.parametrize(("array", "key"), GOLDEN, ids=lambda value: str(getattr(value, "type", value)))
def test_golden_keys(array, key):
    keys, valid = column_key(array)
    assert (keys.tolist(), valid.tolist()) == ([key], [True])


def test_golden_composite_key_is_sparks_xxhash64():
    keys, _ = tuple_key([pa.array([1]), pa.array([2], pa.int32())])
    assert keys.tolist() == [-8198029865082835910]


@given(st.lists(st.binary(max_size=80), max_size=10))
def test_strings_hash_as_xxh64_seed_42(values):
    keys, _ = column_key(pa.array(values, pa.binary()))
    assert keys.view(np.uint64).tolist() == [xxhash.xxh64(value, seed=42).intdigest() for value in values]


@given(st.integers(-(10**30), 10**30), st.integers(0, 8), st.integers(0, 8))
def test_equal_decimals_of_any_scale_have_equal_keys(digits, scale, extra):
    value = Decimal(digits).scaleb(-scale)
    narrow = pa.array([value], pa.decimal128(38, scale))
    wide = pa.array([value], pa.decimal128(38, min(scale + extra, 38 - 31 + scale)))
    assert column_key(narrow)[0].tolist() == column_key(wide)[0].tolist()
    if value == int(value) and -(2**63) <= value < 2**63:
        assert column_key(narrow)[0].tolist() == [int(value)]


def test_different_decimals_have_different_keys():
    values = [Decimal(n).scaleb(-2) for n in range(-2000, 2000)] + [
        Decimal(10) ** 20,
        Decimal(10) ** 21,
        -(Decimal(10) ** 20),
    ]
    keys, _ = column_key(pa.array(values, pa.decimal128(38, 2)))
    assert len(set(keys.tolist())) == len(values)


def test_null_is_carried_apart():
    keys, valid = tuple_key([pa.array([1, None, 3]), pa.array(["a", "b", None])])
    assert valid.tolist() == [True, False, False]
    assert column_key(pa.nulls(3))[1].tolist() == [False] * 3
    assert len(keys) == 3


def test_slices_and_chunks_do_not_matter():
    whole = pa.array(["a", "bb", None, "dddd"] * 3)
    parts = pa.chunked_array([whole.slice(0, 5), whole.slice(5)])
    assert column_key(parts)[0].tolist() == column_key(whole)[0].tolist()
    assert column_key(whole.slice(3, 4))[0].tolist() == column_key(whole)[0].tolist()[3:7]
    money = pa.array([Decimal("1.25"), None, Decimal("-3.50")], pa.decimal128(10, 2))
    assert column_key(money.slice(2))[0].tolist() == column_key(money)[0].tolist()[2:]


def test_codes_of_floats_are_their_bits_and_no_other_types_have_codes():
    """Elements hold floats of explored columns; SQL refuses to join on them (tests/sql/test_parse.py)."""
    for kind in (pa.float32(), pa.float64()):
        values = pa.array([1.5, None, -0.0, 0.0, float("inf"), float("nan"), -3e-5], kind)
        codes, valid = column_key(values.slice(1))
        assert valid.tolist() == [False, True, True, True, True, True]
        assert len(set(codes.tolist())) == 4  # NULL holds 0, as 0.0 and -0.0 do, which are equal in SQL
        back = values_of_keys(codes, valid, kind)
        assert back.type == kind
        assert str(back.to_pylist()) == str(values.slice(1).to_pylist()).replace("-0.0", "0.0")
    other_nan = pa.array(np.array([0x7FF8000000000001], dtype=np.int64).view(np.float64))
    assert column_key(other_nan)[0] == column_key(pa.array([float("nan")]))[0]
    with pytest.raises(SketchError, match="list"):
        column_key(pa.array([[1]]))


def test_measures_beyond_64_bits_are_refused():
    assert unscaled(pa.array([Decimal("-1.25"), None], pa.decimal128(10, 2))).tolist() == [-125, 0]
    with pytest.raises(SketchError, match="64 bits"):
        unscaled(pa.array([Decimal(10) ** 20], pa.decimal128(38, 0)))


@given(
    values=st.lists(st.none() | st.sampled_from(["", "a", "ä", "a" * 40, "b"]), max_size=12),
    repeated=st.integers(1, 4),
    start=st.integers(0, 5),
    null_inside=st.booleans(),
)
def test_a_dictionary_has_the_keys_of_its_values(values, repeated, start, null_inside):
    plain = pa.array(values * repeated, pa.string())
    encoded = plain.dictionary_encode("encode" if null_inside else "mask")
    for one, other in ((plain, encoded), (plain[start:], encoded[start:])):
        for (keys, valid), (found, known) in zip(
            [column_key(one), set_key([one])], [column_key(other), set_key([other])], strict=True
        ):
            assert np.array_equal(valid, known)
            assert np.array_equal(keys[valid], found[known])


def test_no_number_is_taken_for_null_in_a_tuple():
    """A composite key once had a number for NULL, and a column could hold that very number."""
    held = [None, 0, NULL_KEY, 1, None, None]
    other = [5, 5, 5, 1, None, 0]
    found, valid = set_key([pa.array(held, pa.int64()), pa.array(other, pa.int64())])
    assert valid.all()
    assert len(set(found.tolist())) == len(held)
    assert found[3] == tuple_key([pa.array([1]), pa.array([1])])[0][0]
