"""The judge of intervals passes right methods and fails wrong ones as often as it says."""

import numpy as np
import pytest

from tests.oracles.coverage import TOGETHER, Coverage


def simulated(rng, states, names, chance):
    """Intervals that miss with `chance`, those of one state with the correlation that the judge takes."""
    coverage, scale = Coverage(), (1 - TOGETHER) / TOGETHER
    for state, misses in enumerate(rng.beta(chance * scale, (1 - chance) * scale, states)):
        for name in range(names):
            coverage.add(state, rng.random() >= misses, name)
    return coverage


def share_that_passes(states, names, chance, **shares):
    rng, passed = np.random.default_rng(states), 0
    for _ in range(400):
        try:
            simulated(rng, states, names, chance).check(**shares)
            passed += 1
        except AssertionError:
            pass
    return passed / 400


@pytest.mark.parametrize(
    ("states", "names", "wrong"), [(120, 1, 0.85), (40, 5, 0.85), (40, 1, 0.75), (12, 3, 0.7)]
)
def test_right_methods_pass_and_wrong_ones_fail(states, names, wrong):
    # 98% (all answers, and each by itself) and 10% of 400: each is off by more than three standard errors once in 700
    assert share_that_passes(states, names, 0.05, wrong=wrong) >= 0.98 - 3 * 0.007
    assert share_that_passes(states, names, 1 - wrong, wrong=wrong) <= 0.1 + 3 * 0.015


def test_too_few_trials_are_an_error_that_says_what_they_tell():
    coverage = Coverage()
    for seed in range(40):
        coverage.add(seed, True)
    coverage.check(wrong=0.75)
    with pytest.raises(ValueError, match=r"40 intervals of 40 states tell 95% only from 75%"):
        coverage.check()


def test_an_answer_that_misses_is_not_hidden_by_the_others():
    coverage = Coverage()
    for seed in range(40):
        for name in "abcdefgh":
            coverage.add(seed, name != "b" or seed % 4, name)
    with pytest.raises(AssertionError, match="10 intervals of b miss, 7 are allowed"):
        coverage.check()
