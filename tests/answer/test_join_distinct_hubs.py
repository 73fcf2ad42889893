"""Distinct counts over joins that one or a few join values carry, with unequal sides."""

import numpy as np
import pytest

from eddyline.answer.distinct_joins.filters import degrees_of
from eddyline.answer.distinct_joins.reading import read_form, samples_of
from eddyline.answer.distinct_joins.samples import SketchedSide, decode_side
from eddyline.sketch.join_distinct import JoinDistinctSpec
from tests.oracles.coverage import Coverage

SHAPES = {
    "9000 x 100": (9000, 100, 1, 10_000, 20_000),
    "100 x 9000": (100, 9000, 1, 20_000, 10_000),
    "five of 3000 x 50": (3000, 50, 5, 10_000, 20_000),
    "two of 15000 x 40": (15_000, 40, 2, 5000, 15_000),
    "20 of 1000 x 30": (1000, 30, 20, 10_000, 20_000),
    "50 of 400 x 10": (400, 10, 50, 10_000, 20_000),
    "100 of 200 x 200": (200, 200, 100, 10_000, 20_000),
}
HARD = {
    "one of 300 x 300": (300, 300, 1, 10_000, 20_000),
    "9000 x 1": (9000, 1, 1, 10_000, 20_000),
    "50 of 400 x 1": (400, 1, 50, 10_000, 20_000),
}
"""Joins that depend on a few join values, which 192 cells do not show, or not always."""


def tuples(rng, own, hubs, others):
    """Distinct tuples (x, b) of a side: `own` x's on each hub, and others on values that are no hubs."""
    x = [rng.integers(0, max(others, own), own) for _ in range(hubs)] + [rng.integers(0, others // 2, others)]
    b = [np.full(own, hub) for hub in range(hubs)] + [rng.integers(hubs, 10_000, others)]
    return np.unique(np.stack([np.concatenate(x), np.concatenate(b)]), axis=1)


def side_of(keys, seed, side, repeats=1):
    spec = JoinDistinctSpec.sized(192, 1 << 30, seed, side)
    counters = np.zeros(spec.words, dtype=np.int64)
    weights = np.broadcast_to(np.asarray(repeats, dtype=np.int64), keys.shape[1])
    spec.accumulate(counters, keys.astype(np.uint64), np.ascontiguousarray(weights))
    return SketchedSide(spec, counters)


def full_answer(left, right):
    one, two = (np.bincount(side[1], minlength=10_000) for side in (left, right))
    return int((one * two).sum())


def trials(shape, seeds, coverage, repeats=lambda rng, keys: 1):
    """(RMS error, share of answers with a note) of the full form, whose intervals go into `coverage`."""
    left_hub, right_hub, hubs, left_others, right_others = (SHAPES | HARD)[shape]
    errors, noted = [], []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 3])
        left, right = tuples(rng, left_hub, hubs, left_others), tuples(rng, right_hub, hubs, right_others)
        sides = tuple(
            side_of(keys, seed, place, repeats(rng, keys)) for place, keys in enumerate((left, right))
        )
        found, truth = read_form(samples_of(*sides), sides[1], "full"), full_answer(left, right)
        coverage.add((shape, seed), found.low <= truth <= found.high, shape)
        errors.append(found.value / truth - 1)
        noted.append(found.note is not None)
    return np.sqrt(np.mean(np.square(errors))), np.mean(noted)


@pytest.mark.calibration
def test_intervals_hold_and_are_narrow_where_a_few_join_values_carry_the_join():
    coverage = Coverage()
    errors = {shape: trials(shape, 40, coverage)[0] for shape in SHAPES}
    coverage.check()
    assert max(errors.values()) < 0.25, errors


@pytest.mark.calibration
def test_intervals_hold_where_what_join_values_meet_is_not_told_apart():
    coverage = Coverage()
    noted = {shape: trials(shape, 40, coverage)[1] for shape in HARD}
    coverage.check()
    assert noted.pop("one of 300 x 300") >= 0.1
    assert min(noted.values()) >= 0.9, noted


@pytest.mark.calibration
def test_repeated_rows_are_not_taken_for_more_tuples():
    coverage = Coverage()
    error, _ = trials("9000 x 100", 12, coverage, lambda rng, keys: 7)
    coverage.check(wrong=0.52)
    assert error < 0.25


def test_rows_repeated_at_random_are_not_taken_for_more_tuples():
    coverage = Coverage()
    for shape in ("20 of 1000 x 30", "one of 300 x 300"):
        trials(shape, 30, coverage, lambda rng, keys: rng.geometric(0.3, keys.shape[1]))
    coverage.check(wrong=0.8)


def test_a_few_rows_repeated_very_often_are_told_from_a_heavy_join_value_or_doubted():
    def repeats(rng, keys):
        times = np.ones(keys.shape[1], dtype=np.int64)
        times[rng.choice(np.flatnonzero(keys[1] < 20), 3, replace=False)] = 3000
        return times

    coverage = Coverage()
    _, noted = trials("20 of 1000 x 30", 30, coverage, repeats)
    coverage.check(wrong=0.71)
    assert noted >= 0.5


def test_degrees_are_exact_where_the_level_decodes_and_near_otherwise():
    rng, exact = np.random.default_rng(2), []
    right = tuples(rng, 100, 1, 20_000)
    for seed in range(30):
        side = side_of(right, seed, 1)
        spec = side.spec
        hub = fingerprint(spec)
        degrees, variances = degrees_of(decode_side(side), side, hub)
        true = int((right[1] == 0).sum())
        assert abs(degrees[0] - true) <= 5 * variances[0] ** 0.5 + 1e-9
        exact.append(variances[0] == 0)
    assert not all(exact)


def fingerprint(spec):
    """The fingerprint of join value 0, as the samples have it."""
    one = SketchedSide(spec, np.zeros(spec.words, dtype=np.int64))
    spec.accumulate(one.counters, np.array([[1], [0]], dtype=np.uint64), np.ones(1, dtype=np.int64))
    return np.unique(spec.tuples_by_x(one.counters).b)
