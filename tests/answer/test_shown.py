"""How answers are shown: never outside their own interval, never with a digit too few where they are exact."""

from decimal import Decimal
from math import inf, isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.answer.estimate import Estimate, show, show_key

numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)


def read(text):
    return Decimal(text.replace(",", ""))


@given(numbers, numbers, numbers)
def test_ends_are_rounded_outwards_and_hold_the_value(a, b, c):
    low, value, high = sorted((a, b, c))
    shown = Estimate("q", value, low, high, 0.95, "m").shown
    assert read(shown[1]) <= read(shown[0]) <= read(shown[2])
    assert read(shown[1]) <= Decimal(repr(low))
    assert Decimal(repr(high)) <= read(shown[2])


@given(numbers)
def test_what_is_exact_is_shown_in_full(value):
    assert float(read(show(value))) == value


@pytest.mark.parametrize(
    ("value", "low", "high", "printed"),
    [
        (106.1341, 105.681, 106.592, "106.13  [105.68 .. 106.60]"),
        (717066211.3, 711958902.2, 722173520.9, "717,066,211  [711,958,902 .. 722,173,521]"),
        (-0.001, -25.0, 25.0, "0  [-25 .. 25]"),
        (3e-30, 1e-30, 5e-30, "3.0e-30  [1.0e-30 .. 5.0e-30]"),
        (1.5e300, 1e300, 2e300, "1.5e+300  [1e+300 .. 2e+300]"),
        (12, 3, inf, "12  [3 .. unbounded]"),
        (Decimal("5.25"), Decimal("5.10"), None, "5.25  [5.10 .. unbounded]"),
        (3.7987, 3.6312, 17.6553, "3.80  [3.63 .. 17.66]"),
        (-3.7987, -17.6553, -3.6312, "-3.80  [-17.66 .. -3.63]"),
        (1500.25, 1500.25, 1600.0, "1,500  [1,500 .. 1,600]"),
        (3e-30, 1e-30, 5.0, "0.0  [0.0 .. 5.0]"),
        (1 << 60, 1.1e18, 1.2e18, "1,152,921,504,606,846,976  [1.1e+18 .. 1.2e+18]"),
    ],
)
def test_some_that_went_wrong(value, low, high, printed):
    assert str(Estimate("q", value, low, high, 0.95, "m")) == f"{printed} at 95%, m"


@pytest.mark.parametrize(
    ("confidence", "printed"), [(0.95, "95%"), (0.999, "99.9%"), (0.996, "99.6%"), (0.5, "50%")]
)
def test_a_confidence_below_1_is_not_shown_as_100_percent(confidence, printed):
    assert f" at {printed}, m" in str(Estimate("q", 2.0, 1.0, 3.0, confidence, "m"))


def test_infinities_that_are_exact_are_values_and_not_missing_bounds():
    exact = Estimate.exactly("q", -inf, 0.95)
    assert exact.shown == ("-Infinity",) * 3
    assert exact.to_dict()["low"] == "-Infinity"
    assert Estimate("q", 1.0, -inf, inf, 0.95, "m").to_dict()["low"] is None


def test_what_a_terminal_would_obey_is_written_out():
    assert show("a\x1b[2Jb\nc\u202ed") == "a\\x1b[2Jb\\nc\\u202ed"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**20), max_value=10**20))
def test_plain_decimals_keep_all_their_digits(value):
    printed = Estimate.exactly("q", value, 0.95).to_dict()["value"]
    assert isinstance(printed, int | float | str)
    assert not isinstance(printed, float) or isfinite(printed)
    assert Decimal(str(printed)) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [(2026, "2026"), (-1234567, "-1234567"), (Decimal("1234.50"), "1234.50"), ("1,5", "1,5"), (None, "NULL")],
)
def test_a_key_of_a_group_is_no_amount(key, text):
    assert show_key(key) == text
