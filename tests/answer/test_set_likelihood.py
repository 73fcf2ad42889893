from math import exp, log

import numpy as np
import pytest

from eddyline.answer.sets.likelihood import (
    Observation,
    _likelihood_at,
    _moves,
    element_rates,
    fit,
    observed_cells,
)
from eddyline.errors import SketchError
from eddyline.kernels.sets import log_likelihood
from eddyline.sketch.distinct import DistinctSpec
from tests.oracles.sets import counters_of, pattern_chances


def pattern_chance(rates, pattern, streams, resolvable):
    gradient, information = np.empty(1 << streams), np.empty((1 << streams, 1 << streams))
    one = np.array([1.0])
    levels = np.zeros(1, dtype=np.int64)
    seen = levels, np.array([pattern]), one, streams, resolvable
    return exp(log_likelihood(rates, one, *seen, *_moves(streams), gradient, information))


@pytest.mark.parametrize(
    ("streams", "rate", "most", "resolvable"),
    [(1, 1.5, 20, 1), (2, 0.9, 12, 0), (2, 0.9, 12, 1), (2, 0.9, 12, 3), (3, 0.08, 3, 0), (3, 0.08, 3, 7)],
)
def test_the_chance_of_every_pattern_is_the_enumerated_one(streams, rate, most, resolvable):
    rng = np.random.default_rng(streams)
    rates = np.concatenate([[0.0], rate * rng.uniform(0.3, 1.0, (1 << streams) - 1)])
    chances = pattern_chances(rates, streams, most, resolvable)
    assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
    for pattern, chance in chances.items():
        assert pattern_chance(rates, pattern, streams, resolvable) == pytest.approx(
            chance, rel=5e-3, abs=1e-6
        )


@pytest.mark.parametrize("streams", [1, 2, 3, 4, 5])
def test_the_gradient_is_the_slope(streams):
    rng = np.random.default_rng(streams)
    spec = DistinctSpec.sized(64, 2**20, 1)
    universe = rng.integers(0, 2**62, 3000)
    counters = tuple(counters_of(spec, universe[rng.random(3000) < 0.4]) for _ in range(streams))
    seen = observed_cells(spec, counters)
    logs = np.log(rng.uniform(50, 800, (1 << streams) - 1))
    gradient = _likelihood_at(logs, seen).gradient
    for index in range(0, len(logs), 3):
        step = np.zeros(len(logs))
        step[index] = 1e-5
        slope = (_likelihood_at(logs + step, seen).value - _likelihood_at(logs - step, seen).value) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_one_stream_is_the_textbook_likelihood():
    spec = DistinctSpec.sized(256, 2**20, 3)
    counters = counters_of(spec, np.arange(10_000))
    kinds = spec.cells_of(counters).kinds
    rates = element_rates(spec)

    def by_hand(number):
        total = 0.0
        for level in range(spec.levels):
            rate = number * rates[level]
            empty, pure, many = np.bincount(kinds[level], minlength=3)
            rest = max(1 - exp(-rate) * (1 + rate), 1e-300)
            total += empty * -rate + pure * (log(rate) - rate) + many * log(rest)
        return total

    best = fit(observed_cells(spec, (counters,))).numbers[1]
    assert by_hand(best) > max(by_hand(0.999 * best), by_hand(1.001 * best))


def test_capacity_exceeded_is_refused():
    spec = DistinctSpec(cells=64, levels=3, seed=1)
    with pytest.raises(SketchError, match="capacity exceeded"):
        observed_cells(spec, (counters_of(spec, np.arange(5000)),))


def test_an_observation_counts_union_singletons_by_class():
    spec = DistinctSpec.sized(64, 2**20, 1)
    seen = observed_cells(spec, (counters_of(spec, np.arange(40)), counters_of(spec, np.arange(20, 60))))
    assert isinstance(seen, Observation)
    assert (seen.singletons[1:] > 0).all()
    assert seen.singletons[1:].sum() <= seen.witnesses.sum() <= 60
