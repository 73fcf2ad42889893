"""Specs and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import PlanError
from eddyline.plan.size.specs import parse_bytes, shape_for


@given(st.integers(16 * 7, 10**7))
def test_shapes_use_most_of_their_words(words):
    width, depth = shape_for(words)
    assert width & (width - 1) == 0
    assert 7 <= depth <= 13
    assert 0.85 * words < width * depth <= words or depth == 13


@pytest.mark.parametrize(
    ("text", "size"), [("8 MB", 8 * 10**6), ("64KiB", 65536), ("1.5 kb", 1500), (77, 77), ("12", 12)]
)
def test_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", 0, -5, True, "8 parsecs"])
def test_no_sizes(text):
    with pytest.raises(PlanError):
        parse_bytes(text)
