"""Distinct counts over joins that one or a few join values carry, with unequal sides."""

import numpy as np
import pytest

from eddyline.answer.distinct_joins.hubs import degrees_of
from eddyline.answer.distinct_joins.reading import read_form, samples_of
from eddyline.answer.distinct_joins.samples import JdSide, decode
from eddyline.sketch.join_distinct import JoinDistinctSpec

SHAPES = {
    "9000 x 100": (9000, 100, 1, 10_000, 20_000),
    "100 x 9000": (100, 9000, 1, 20_000, 10_000),
    "five of 3000 x 50": (3000, 50, 5, 10_000, 20_000),
    "two of 15000 x 40": (15_000, 40, 2, 5000, 15_000),
}


def tuples(rng, own, hubs, others):
    """Distinct tuples (x, b) of a side: `own` x's on each hub, and others on values that are no hubs."""
    x = [rng.integers(0, max(others, own), own) for _ in range(hubs)] + [rng.integers(0, others // 2, others)]
    b = [np.full(own, hub) for hub in range(hubs)] + [rng.integers(hubs, 10_000, others)]
    return np.unique(np.stack([np.concatenate(x), np.concatenate(b)]), axis=1)


def side_of(keys, seed, side, repeats=1):
    spec = JoinDistinctSpec.sized(192, 1 << 30, seed, side)
    counters = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(counters, keys.astype(np.uint64), np.full(keys.shape[1], repeats, dtype=np.int64))
    return JdSide(spec, counters)


def full_answer(left, right):
    one, two = (np.bincount(side[1], minlength=10_000) for side in (left, right))
    return int((one * two).sum())


def trials(shape, seeds, repeats=1):
    left_hub, right_hub, hubs, left_others, right_others = SHAPES[shape]
    held, errors = [], []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 3])
        left, right = tuples(rng, left_hub, hubs, left_others), tuples(rng, right_hub, hubs, right_others)
        sides = side_of(left, seed, 0, repeats), side_of(right, seed, 1, repeats)
        found, truth = read_form(samples_of(*sides), sides[1], "full"), full_answer(left, right)
        held.append(found.low <= truth <= found.high)
        errors.append(found.value / truth - 1)
    return np.mean(held), np.sqrt(np.mean(np.square(errors)))


@pytest.mark.calibration
@pytest.mark.parametrize("shape", list(SHAPES))
def test_intervals_hold_and_are_narrow_where_a_few_join_values_carry_the_join(shape):
    held, error = trials(shape, 24)
    assert held >= 0.9
    assert error < 0.25


@pytest.mark.calibration
def test_repeated_rows_are_not_taken_for_more_tuples():
    held, error = trials("9000 x 100", 12, repeats=7)
    assert held >= 0.9
    assert error < 0.25


def test_degrees_are_exact_where_the_level_decodes_and_near_otherwise():
    rng, exact = np.random.default_rng(2), []
    right = tuples(rng, 100, 1, 20_000)
    for seed in range(30):
        side = side_of(right, seed, 1)
        spec = side.spec
        hub = fingerprint(spec)
        degrees, variances = degrees_of(decode(side), side, hub)
        true = int((right[1] == 0).sum())
        assert abs(degrees[0] - true) <= 5 * variances[0] ** 0.5 + 1e-9
        exact.append(variances[0] == 0)
    assert not all(exact)


def fingerprint(spec):
    """The fingerprint of join value 0, as the samples have it."""
    one = JdSide(spec, np.zeros(spec.words, dtype=np.int64))
    spec.accumulate(one.counters, np.array([[1], [0]], dtype=np.uint64), np.ones(1, dtype=np.int64))
    return np.unique(spec.tuples_by_x(one.counters).b)
