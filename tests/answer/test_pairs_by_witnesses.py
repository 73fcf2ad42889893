"""Pairs of a join by their followed witnesses: the moments against a slow version, exactness, and honest intervals.

Chance of failing of the statistical tests: seeds are fixed, so that they fail always or never.
"""

from itertools import combinations, product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.answer.distinct_joins.followed import _Moments, _nonnegative, count_pairs_by_witnesses
from tests.oracles.coverage import Coverage

RATES = (0.25, 0.4, 0.5, 0.8, 1.0)


def counted(pairs, rates, followed, confidence=0.95):
    """The count from the followed ones among the witnesses of each pair."""
    shown = [(pair, value) for pair, values in enumerate(pairs) for value in values if followed[value]]
    at = np.array(shown, dtype=np.int64).reshape(-1, 2)
    return count_pairs_by_witnesses(at[:, 0], at[:, 1], np.array(rates), min(rates), confidence)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=6))
def test_moments_are_those_of_missed_pairs_whatever_the_rates(pairs):
    """Over all sets of followed values, each with its chance: the mean of a moment is the sum that it estimates."""
    steps = 5  # each number of witnesses up to five is a step of its own
    rate, mean = min(RATES), np.zeros(steps)
    odds = (1 - rate) / rate
    for followed in product((False, True), repeat=len(RATES)):
        chance = prod(p if there else 1 - p for p, there in zip(RATES, followed, strict=True))
        shown = [(i, u) for i, values in enumerate(pairs) for u in values if followed[u]]
        if chance and shown:
            names = {i: k for k, i in enumerate(sorted({i for i, _ in shown}))}
            of_witness, values = np.array([(names[i], u) for i, u in shown]).T
            moments = _Moments.of(of_witness, values, np.array(RATES), rate, len(names))
            mean += chance * moments.first[:steps] * odds ** np.arange(1, steps + 1)
    missed = [prod(1 - RATES[u] for u in values) for values in pairs]
    wanted = [
        sum(q * comb(len(v), k) for q, v in zip(missed, pairs, strict=True)) for k in range(1, steps + 1)
    ]
    assert mean == pytest.approx(wanted)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(st.integers(0, 5)), max_size=20))
def test_pairs_are_counted_where_every_value_is_followed(pairs):
    found = counted(pairs, [1.0] * 6, [True] * 6)
    assert found.value == found.low == found.high == found.seen == sum(map(bool, pairs))


def test_nonnegative_solution_is_the_best_of_all_sets_of_columns():
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows, target = rng.random((5, 6)), rng.normal(size=5)
        found, left = _nonnegative(rows, target)
        best = float(target @ target)
        for some in (c for size in range(1, 6) for c in combinations(range(6), size)):
            x = np.linalg.lstsq(rows[:, some], target, rcond=None)[0]
            if (x >= 0).all():
                best = min(best, float(((target - rows[:, some] @ x) ** 2).sum()))
        assert (found >= 0).all()
        assert left == pytest.approx(best, abs=1e-9)
        assert left == pytest.approx(float(((target - rows @ found) ** 2).sum()), abs=1e-9)


def drawn(seed, mean):
    """Pairs with about a given number of witnesses, heavy values among them, and rates by weight."""
    rng = np.random.default_rng(seed)
    values, number = 600, 1500
    weights = np.arange(1, values + 1) ** -0.8
    sizes = (
        np.minimum(1 + rng.geometric(1 / mean, number) - 1, 60) if mean > 1 else np.ones(number, dtype=int)
    )
    pairs = [set(rng.choice(values, size, p=weights / weights.sum()).tolist()) for size in sizes]
    rates = np.clip(0.1 * np.sqrt(weights / weights[-1]), 0.1, 1.0)
    return pairs, rates, rng


@pytest.mark.parametrize("mean", [1, 2, 6])
def test_intervals_hold_and_estimates_are_near(mean):
    held, errors = 0, []
    for seed in range(12):
        pairs, rates, rng = drawn(seed, mean)
        found = counted(pairs, rates, rng.random(len(rates)) < rates)
        held += found.low <= len(pairs) <= found.high
        errors.append(found.value / len(pairs) - 1)
    assert held >= 11
    assert np.sqrt(np.mean(np.square(errors))) < 0.2


@pytest.mark.calibration
@pytest.mark.parametrize("mean", [1, 2, 6])
def test_estimates_are_unbiased_and_intervals_hold_over_many_seeds(mean):
    errors, coverage = [], Coverage()
    for seed in range(200):
        pairs, rates, rng = drawn(1000 + seed, mean)
        found = counted(pairs, rates, rng.random(len(rates)) < rates)
        errors.append(found.value / len(pairs) - 1)
        coverage.add(seed, found.low <= len(pairs) <= found.high)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(len(errors)) + 0.02
    coverage.check()
    assert min(coverage.shares.values()) >= 0.93, coverage


def test_nothing_seen_leaves_the_number_open():
    none = np.empty(0, dtype=np.int64)
    found = count_pairs_by_witnesses(none, none, np.array([0.1]), 0.1, 0.95)
    assert found.seen == found.low == 0
    assert found.high >= 20
    assert count_pairs_by_witnesses(none, none, np.array([]), 0.0, 0.95).high == np.inf
