"""Sorted columns are found, ordered, merged and numbered as NumPy does it; the factor that fits as by sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.sample import packing
from eddyline.sample import packing as sorting
from eddyline.sample.packing import AT_ONCE, find, narrow_numbers, order_of, places_among, summed, united
from eddyline.sample.reduction import Fitting, Part

LEAST, MOST = -(2**63), 2**63 - 1
NUMBERS = st.integers(-3, 3) | st.sampled_from([LEAST, MOST, -(2**31), 2**31, 127, 128])
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=40)
SETS = st.lists(st.sets(NUMBERS | st.integers(-50, 50)).map(sorted), min_size=1, max_size=4)


@pytest.fixture(autouse=True)
def kernels_at_any_size(monkeypatch):
    """Let small arrays take the way of large ones, in small chunks."""
    for module in (packing, sorting):
        monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(packing, "CHUNK", 7)


def columns(rows):
    return [np.array([row[k] for row in rows], dtype=np.int64) for k in range(3)]


@given(ROWS)
def test_rows_are_ordered_column_after_column(rows):
    order, first = order_of(columns(rows), len(rows))
    assert order.tolist() == sorted(range(len(rows)), key=rows.__getitem__)
    ordered = sorted(rows)
    assert first.tolist() == [i == 0 or ordered[i] != ordered[i - 1] for i in range(len(rows))]


@given(ROWS, ROWS)
def test_rows_are_found_among_others(left, right):
    left, right = sorted(set(left)), sorted(set(right))
    places, same = find(columns(left), columns(right), len(left), len(right))
    assert places.tolist() == [sum(other < row for other in left) for row in right]
    assert same.tolist() == [row in left for row in right]


@given(SETS)
def test_ascending_arrays_are_united(arrays):
    values, places = united([np.array(each, dtype=np.int64) for each in arrays])
    assert values.tolist() == sorted(set().union(*arrays))
    for array, at in zip(arrays, places, strict=True):
        assert values[at].tolist() == array
        assert places_among(values, np.array(array, dtype=np.int64)).tolist() == at.tolist()


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.booleans())
def test_values_are_numbered(values, is_sorted):
    values = np.array(sorted(values) if is_sorted else values, dtype=np.int64)
    known, places = narrow_numbers(values, is_sorted=is_sorted)
    wanted, inverse = np.unique(values, return_inverse=True)
    assert known.tolist() == wanted.tolist()
    assert places.tolist() == inverse.tolist()


PARTS = st.lists(
    st.tuples(
        st.lists(st.floats(0, 2) | st.sampled_from([0.0, 1.0, np.inf]), max_size=12), st.integers(1, 9)
    ),
    max_size=4,
)


@given(PARTS, st.integers(-3, 120))
def test_the_factor_is_that_of_the_first_element_that_does_not_fit(parts, budget):
    parts = [Part(np.array(factors, dtype=np.float64), float(size)) for factors, size in parts]
    fitting = Fitting()
    for part in parts:
        fitting.count(part)
    elements = sorted((factor, part.bytes) for part in parts for factor in part.factors.tolist())
    used, wanted = 0.0, 0.0
    for factor, size in elements:
        used, wanted = used + size, factor
        if used > budget:
            break
    assert fitting.factor(parts, float(budget)) == wanted


@pytest.mark.parametrize("span", [1 << 10, 1 << 17, 1 << 19, 1 << 21, 1 << 40])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("least", [0, -(1 << 16), (1 << 31) - (1 << 19) - 7])
def test_many_values_are_numbered(span, kind, least):
    info, rng = np.iinfo(kind), np.random.default_rng(span)
    values = np.clip(rng.integers(0, span, 20_000) + least, info.min, info.max).astype(kind)
    known, places = narrow_numbers(values)
    wanted, inverse = np.unique(values, return_inverse=True)
    assert np.array_equal(known, wanted)
    assert np.array_equal(places, inverse)


@pytest.mark.parametrize("rows", [0, 1, 7, 130, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE + 13, 1_000_003])
def test_a_sum_of_parts_has_the_bits_of_the_sum_of_the_whole(rows):
    column = np.random.default_rng(rows).lognormal(0.0, 9.0, rows)
    assert summed(rows, lambda at: column[at]) == column.sum()
    parts = []
    summed(rows, lambda at: parts.append(at) or column[at])
    assert max(at.stop - at.start for at in parts) <= AT_ONCE
