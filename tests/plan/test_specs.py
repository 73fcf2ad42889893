"""Shares of the budget: never over it, every demand served, families in steps all of one size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import PlanError
from eddyline.plan.demands import Demand
from eddyline.plan.sizing import parse_bytes, shape_for
from eddyline.plan.specs import Settings, least_words, share_words, spec_for

FAMILIES = st.lists(
    st.sampled_from(["total", "hash", "agms", "distinct", "join-distinct", "peeling"]),
    min_size=1,
    max_size=12,
)


def demands_of(families):
    return [
        Demand(f"s{i}", family, sample=100 if family == "peeling" else 0) for i, family in enumerate(families)
    ]


@given(FAMILIES, st.integers(10_000, 50_000_000), st.sampled_from([1 << 12, 1 << 20, 1 << 30]))
def test_shares_keep_the_budget_and_the_least(families, budget, most):
    demands, settings = demands_of(families), Settings(budget, max_distinct=most)
    needed = sum(least_words(demand, settings) for demand in demands)
    if 8 * needed > budget:
        with pytest.raises(PlanError, match="at least"):
            share_words(demands, settings)
        return
    shares = share_words(demands, settings)
    assert set(shares) == set(demands)
    assert 8 * sum(shares.values()) <= budget
    for demand, words in shares.items():
        assert words >= least_words(demand, settings)
        assert spec_for(demand, words, settings).words <= words
    for family in ("distinct", "join-distinct"):
        assert len({words for demand, words in shares.items() if demand.family == family}) <= 1


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
