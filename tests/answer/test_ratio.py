from math import inf, isnan

import numpy as np
import pytest

from eddyline.answer.joins.quantities import ratio
from eddyline.answer.joins.two_way import RowEstimates, SketchedRelation, skimmed_join
from eddyline.sketch.hash_sketch import HashSketchSpec
from tests.data.zipf import DOMAIN, counters_of, heaviest, zipf
from tests.oracles.coverage import Coverage


def test_the_quotient_of_readings_that_move_together_is_sharp():
    noise = np.random.default_rng(1).normal(0, 10, 7)
    value, low, high = ratio(RowEstimates(300 + 3 * noise, 900.0), RowEstimates(100 + noise, 100.0), 0.95)
    assert value == pytest.approx(3.0)
    assert low < 3.0 < high
    assert high - low < 0.6  # apart, they would give an interval 1.4 times as wide as their errors: about 0.9


def test_readings_that_move_apart_give_a_wide_interval():
    noise = np.random.default_rng(1).normal(0, 10, 7)
    _, low, high = ratio(RowEstimates(300 - 3 * noise, 900.0), RowEstimates(100 + noise, 100.0), 0.95)
    assert high - low > 0.6


def test_a_denominator_that_may_be_zero_has_infinite_ends():
    rows = np.array([-50.0, 60.0, -40.0, 70.0, 5.0])
    value, low, high = ratio(RowEstimates(rows * 2, 4e4), RowEstimates(rows, 1e4), 0.95)
    assert value == pytest.approx(2.0)
    assert (low, high) == (-inf, inf)


def test_nothing_over_nothing_is_not_a_number():
    nothing = RowEstimates(np.zeros(7), 0.0)
    for end in ratio(nothing, nothing, 0.95):
        assert isnan(end)


def test_exact_readings_give_an_exact_quotient():
    assert ratio(RowEstimates(np.full(7, 6.0), 0.0), RowEstimates(np.full(7, 4.0), 0.0), 0.95) == (
        1.5,
        1.5,
        1.5,
    )


@pytest.mark.calibration
def test_averages_over_a_join_cover():
    # AVG(x) over a join, x by key
    counts, other = zipf(1.0), zipf(1.0, shift=10)
    measure = np.random.default_rng(3).integers(1, 100, DOMAIN)
    exact = float((counts * measure) @ other) / float(counts @ other)
    coverage, widths = Coverage(), []
    for seed in range(40):
        spec = HashSketchSpec(128, 7, (seed,))
        keys = heaviest(counts, 300)
        right = SketchedRelation(spec, counters_of(spec, other), heaviest(other, 300))
        total = skimmed_join(SketchedRelation(spec, counters_of(spec, counts * measure), keys), right)
        value, low, high = ratio(
            total, skimmed_join(SketchedRelation(spec, counters_of(spec, counts), keys), right), 0.95
        )
        assert low <= value <= high
        coverage.add(seed, low <= exact <= high)
        widths.append((high - low) / exact)
    coverage.check(right=0.98, wrong=0.84)  # measured 98%
    assert np.median(widths) < 0.3
