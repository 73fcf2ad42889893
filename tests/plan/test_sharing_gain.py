"""Gains that are computed in a part of the workload against the whole workload solved twice."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.plan.sharing.gain import AverageGain, LargestGain
from eddyline.plan.sharing.join_graph import JoinGraph
from tests.oracles import sharing as naive

GAINS = {"average": AverageGain, "largest": LargestGain}
WEIGHTS = ((1.0,), (1.0, 3.0, 0.1, 9.0), tuple(10.0 ** np.arange(-12, 13, 3)))


@pytest.mark.parametrize("objective", GAINS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    queries=st.integers(2, 12),
    weights=st.sampled_from(WEIGHTS),
    costs=st.sampled_from([(1.0,), (1.0, 2.5, 0.3)]),
)
def test_gain_is_the_fall_of_the_whole_error_and_below_its_bounds(objective, seed, queries, weights, costs):
    """At every step of a random order of steps, for some of the pairs."""
    rng = np.random.default_rng(seed)
    graph = JoinGraph.separate(naive.random_workload(rng, queries, weights=weights, costs=costs))
    gain, numbers = GAINS[objective](graph), {vertex: number for number, vertex in enumerate(graph.members)}
    while alike := [
        pair for pair in combinations(graph.members, 2) if graph.kind(pair[0]) == graph.kind(pair[1])
    ]:
        error = naive.compared_error(graph, objective)
        for one, other in [alike[number] for number in rng.integers(len(alike), size=3)]:
            found, _ = gain.trial(numbers[one], numbers[other])
            assert found == error - naive.compared_error(graph.coalesced(one, other), objective)
            bound = gain.bound(numbers[one], numbers[other])
            assert found <= bound <= min(gain.most(numbers[one]), gain.most(numbers[other]))
        gain.coalesce(numbers[one], numbers[other])
        graph = graph.coalesced(one, other)
