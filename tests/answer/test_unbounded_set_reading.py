"""A set reading without an upper bound is an unbounded estimate, not an OverflowError (fuzzer, seed 29000500)."""

from math import inf

from eddyline.answer.sets.expression import SetReading


def test_a_reading_without_an_upper_bound_is_an_unbounded_estimate():
    found = SetReading(5.4, 2.0, inf, exact=False, witnesses=3).estimate("q", 0.95, "sample", ())
    assert (found.value, found.low) == (5, 2)
    assert found.high in (None, inf)
    assert not found.exact
