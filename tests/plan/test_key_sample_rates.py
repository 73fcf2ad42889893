from itertools import product
from math import prod

import numpy as np
import pytest

from eddyline.plan.key_sample_rates import RelationSize, sampling_rates


def variance(rates, joined_values, join_size):
    return sum(1 / (p * d) for p, d in zip(rates, joined_values, strict=True)) + 1 / prod(rates) / join_size


def kept(relation, rates):
    return relation.elements * prod(rates[link] for link in relation.links)


def test_small_relations_are_kept_whole():
    relations = [RelationSize(25, 500, (0,), (25,)), RelationSize(400, 500, (0,), (25,))]
    assert sampling_rates(relations, (25,), 400) == (1.0,)


def test_a_chain_is_sampled_where_it_costs_least():
    relations = [
        RelationSize(3000, 5000, (0,), (3000,)),
        RelationSize(72_000, 5000, (0, 1), (10_000, 72_000)),
        RelationSize(100_000, 5000, (1,), (100_000,)),
    ]
    rates = sampling_rates(relations, (700, 1150), 3300)
    assert rates == pytest.approx((1.0, 0.05), rel=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_rates_fit_all_samples_and_beat_a_grid(seed):
    rng = np.random.default_rng(seed)
    elements = np.exp(rng.uniform(5, 13, 3))
    relations = [
        RelationSize(elements[0], 2000, (0,), (elements[0],)),
        RelationSize(elements[1], 2000, (0, 1), (elements[1], elements[1])),
        RelationSize(elements[2], 2000, (1,), (elements[2],)),
    ]
    joined_values, join_size = np.exp(rng.uniform(3, 9, 2)), np.exp(rng.uniform(5, 10))
    rates = sampling_rates(relations, joined_values, join_size)
    assert all(kept(relation, rates) <= relation.capacity * (1 + 1e-6) for relation in relations)
    assert all(0 < rate <= 1 for rate in rates)
    grid = [
        variance(point, joined_values, join_size)
        for point in product(np.exp(-np.linspace(0, 7, 60)), repeat=2)
        if all(kept(relation, point) <= relation.capacity / 1.1 for relation in relations)
    ]
    assert variance(rates, joined_values, join_size) <= 1.01 * min(grid)


def test_elements_in_few_groups_get_more_room():
    # 40 values of 1,000 elements each: how many are kept varies by a third
    groups = RelationSize(40_000, 5000, (0,), (40,))
    singles = RelationSize(40_000, 5000, (0,), (40_000,))
    (fewer,), (more,) = sampling_rates([groups], (40,), 1e6), sampling_rates([singles], (40,), 1e6)
    assert more == pytest.approx(0.125)
    assert fewer < 0.7 * more
