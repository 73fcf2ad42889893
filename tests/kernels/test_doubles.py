"""Words of floats: what is cut into digits and added up is the sum itself, in any order, squares as well."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels import doubles

UNIT = Fraction(1, 1 << -doubles.LOWEST)
FLOATS = st.floats(-doubles.LARGEST, doubles.LARGEST, exclude_min=True, exclude_max=True)
SMALLER = st.floats(-doubles.LARGEST_SQUARED, doubles.LARGEST_SQUARED, exclude_min=True, exclude_max=True)


def cut(value):
    """A float without what is smaller than the lowest digit."""
    return Fraction(int(Fraction(value) / UNIT)) * UNIT


@given(st.lists(FLOATS, max_size=20))
def test_words_add_up_to_the_sum(values):
    words = doubles.split(np.array(values, dtype=np.float64))
    assert np.all(np.abs(words[1:-1]) < 1 << doubles.BITS)
    assert words[0].tolist() == [int(cut(value) != Fraction(value)) for value in values]
    assert doubles.whole(words.astype(object).sum(axis=1)) * UNIT == sum(map(cut, values), Fraction(0))


@given(st.lists(SMALLER, max_size=20))
def test_words_of_squares_add_up_to_the_sum_of_squares(values):
    words = doubles.split(np.array(values, dtype=np.float64))
    squares = doubles.product(words, words)
    assert np.all((squares[1:-1] >= 0) & (squares[1:-1] < 1 << doubles.BITS))
    assert squares[0].tolist() == words[0].tolist()
    assert doubles.whole(squares.astype(object).sum(axis=1)) * UNIT**2 == sum(
        (cut(v) ** 2 for v in values), Fraction(0)
    )


@given(st.lists(st.tuples(SMALLER, SMALLER, st.integers(-(2**63) + 1, 2**63 - 1)), max_size=20))
def test_words_of_products_add_up_to_the_sum_of_products(rows):
    left, right = (doubles.split(np.array([row[k] for row in rows], dtype=np.float64)) for k in (0, 1))
    whole = doubles.split_integers(np.array([row[2] for row in rows], dtype=np.int64))
    for found, truth, unit in (
        (doubles.product(left, right), [cut(x) * cut(y) for x, y, _ in rows], UNIT**2),
        (doubles.product(whole, left), [cut(x) * n for x, _, n in rows], UNIT),
        (
            doubles.product(doubles.product(left, right), left),
            [cut(x) ** 2 * cut(y) for x, y, _ in rows],
            UNIT**3,
        ),
        (
            doubles.product(doubles.product(whole, whole), whole),
            [Fraction(n) ** 3 for *_, n in rows],
            Fraction(1),
        ),
    ):
        assert doubles.whole(found.astype(object).sum(axis=1)) * unit == sum(truth, Fraction(0))
        assert np.all(np.abs(found[1:-1]) < 1 << doubles.BITS)


def test_the_largest_numbers_have_squares():
    largest = np.nextafter(doubles.LARGEST_SQUARED, 0.0)
    full = float(2**31 - 1) + float(2**22 - 1) / 2**22
    for value in (largest, -largest, full, 1.5, 2.0**-68, -0.0):
        words = doubles.split(np.array([value]))
        found = doubles.whole(doubles.product(words, words)[:, 0])
        assert found * UNIT**2 == Fraction(value) ** 2


@given(st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=6, max_size=6), min_size=1, max_size=4))
def test_carried_words_are_the_same_sum_in_one_form(rows):
    words = np.array(rows, dtype=np.int64).sum(axis=0)
    found = doubles.carried(words)
    assert doubles.whole(found) == doubles.whole(words)
    assert found[0] == words[0]
    assert np.all(np.abs(found[1:-1]) <= 1 << (doubles.BITS - 1))
    again = np.zeros(6, dtype=np.int64)
    for row in rows:
        again = doubles.carried(again + np.array(row))
    assert again.tolist() == found.tolist()


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_words_are_nearly_the_floats_that_they_were(values):
    words = doubles.split(np.array(values))
    found = doubles.as_floats(words[1:], doubles.LOWEST)
    assert np.all(np.abs(found - np.array(values)) <= 1e-15 * np.abs(values) + float(UNIT))
