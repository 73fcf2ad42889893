"""Rounding to sizes that sketches can have."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import PlanError
from eddyline.plan.sharing.coalesce import allocate, coalesce_join_graphs
from eddyline.plan.sharing.join_graph import GraphQuery, JoinGraph, Vertex
from tests.oracles import sharing as naive
from tests.oracles.rounding import literal_average, literal_largest, round_average, round_largest

ROUNDINGS = {"average": round_average, "largest": round_largest}
seeds = st.integers(0, 2**32 - 1)
sizes_allowed = st.sampled_from(
    [range(1, 10_000), range(3, 3000, 3), [2, 4, 8, 16, 32, 64], [5], range(1, 12)]
)


def shared_graph(seed, queries, costs=(1.0,), **options):
    workload = naive.random_workload(np.random.default_rng(seed), queries, costs=costs, **options)
    return coalesce_join_graphs(JoinGraph.separate(workload), 100.0)[0]


def least_words(graph, allowed):
    return sum(Fraction(graph.cost(vertex)) * allowed[0] for vertex in graph.members)


@pytest.mark.parametrize("objective", ROUNDINGS)
@settings(max_examples=80, deadline=None)
@given(
    seed=seeds,
    queries=st.integers(1, 6),
    costs=st.sampled_from([(1.0,), (1.0, 2.5, 0.3)]),
    allowed=sizes_allowed,
    spare=st.floats(0, 500),
)
def test_sizes_are_allowed_and_never_exceed_the_budget(objective, seed, queries, costs, allowed, spare):
    graph = shared_graph(seed, queries, costs)
    budget = float(least_words(graph, allowed)) * (1 + 1e-12) + spare
    whole = ROUNDINGS[objective](graph, budget, allowed)
    spent = sum(Fraction(graph.cost(vertex)) * size for vertex, size in whole.sizes.items())
    assert spent <= Fraction(budget)
    assert whole.words == pytest.approx(float(spent))
    assert set(whole.sizes.values()) <= set(allowed)
    assert whole.sizes.keys() == graph.members.keys()
    assert whole.query_sizes == {q: min(whole.sizes[v] for v in own) for q, own in graph.parts()}


@pytest.mark.parametrize("objective", ROUNDINGS)
@settings(max_examples=60, deadline=None)
@given(seed=seeds, queries=st.integers(1, 6), budget=st.floats(500, 5000))
def test_rounding_to_units_costs_little(objective, seed, queries, budget):
    """Rounding down takes less than a unit of a size. The error grows by the ratio of sizes at most."""
    graph = shared_graph(seed, queries, weights=(1.0, 2.0, 3.0))
    best = allocate(graph, budget, objective)
    smallest = min(best.sizes.values())
    whole = ROUNDINGS[objective](graph, budget, range(1, 10_000))
    assert best.error * (1 - 1e-9) <= whole.error <= best.error * smallest / (smallest - 1)


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    queries=st.integers(1, 2),
    costs=st.sampled_from([(1.0,), (1.0, 2.5, 0.5)]),
    allowed=st.sampled_from([range(1, 30), [1, 2, 4, 8, 16], [2, 3, 7, 20]]),
    spare=st.integers(0, 14),
)
def test_largest_error_is_the_best_there_is(seed, queries, costs, allowed, spare):
    graph = shared_graph(seed, queries, costs, weights=(1.0, 2.0, 3.0))
    budget = float(least_words(graph, allowed)) + spare
    found = round_largest(graph, budget, allowed).error
    assert found == pytest.approx(naive.least_largest_error(graph, budget, allowed))


@settings(max_examples=40, deadline=None)
@given(seed=seeds, queries=st.integers(1, 5), allowed=sizes_allowed, budget=st.integers(100, 500))
def test_largest_error_leaves_nothing_that_would_pay_for_a_step(seed, queries, allowed, budget):
    graph = shared_graph(seed, queries, (1.0, 2.5, 0.5))
    whole = round_largest(graph, budget, allowed)
    for vertex, size in whole.sizes.items():
        steps = [(larger - size) * graph.cost(vertex) for larger in allowed if larger > size]
        assert not steps or steps[0] > budget - whole.words


def test_what_is_left_goes_to_the_smallest_ratio():
    """Weights 3 and 2 share 9: 5.4 and 3.6 before rounding; 5 and 4 have the ratios 5/3 and 2, 6 and 3 less."""
    graph = JoinGraph.separate([GraphQuery("a", 3.0, (Vertex("r"),)), GraphQuery("b", 2.0, (Vertex("s"),))])
    assert round_largest(graph, 9.0, range(1, 100)).query_sizes == {"a": 5, "b": 4}


def test_largest_error_where_rounding_down_wastes_words():
    queries = [
        GraphQuery("a", 1.0, (Vertex("r"), Vertex("s"), Vertex("t"))),
        GraphQuery("b", 3.0, (Vertex("u"),)),
    ]
    assert round_largest(JoinGraph.separate(queries), 10.0, range(1, 30)).query_sizes == {"a": 2, "b": 4}


def test_what_is_left_raises_a_whole_component():
    """Two vertices of one query and a budget of 7: raising one alone would not help."""
    graph = JoinGraph.separate(
        [GraphQuery("a", 1.0, (Vertex("r"), Vertex("s"))), GraphQuery("b", 1e-3, (Vertex("t"),))]
    )
    assert round_average(graph, 7.0, range(1, 100)).query_sizes == {"a": 3, "b": 1}


def test_what_is_left_goes_where_its_words_lower_the_average_most():
    """The optimum of all whole sizes. A step of the first takes three words, and lowers the error more than one of
    the others, yet less than three of them.
    """
    queries = [
        GraphQuery("a", 2.0, (Vertex("r", (), 3.0),)),
        *(GraphQuery(name, 1.0, (Vertex(name),)) for name in "bc"),
    ]
    whole = round_average(JoinGraph.separate(queries), 13.0, range(1, 100))
    assert whole.query_sizes == {"a": 2, "b": 4, "c": 3}


@pytest.mark.parametrize("objective", ROUNDINGS)
def test_a_limit_on_the_size_leaves_the_rest_to_others(objective):
    graph = JoinGraph.separate([GraphQuery("a", 100.0, (Vertex("r"),)), GraphQuery("b", 1.0, (Vertex("s"),))])
    assert ROUNDINGS[objective](graph, 15.0, range(1, 11)).query_sizes == {"a": 10, "b": 5}


@pytest.mark.parametrize("objective", ROUNDINGS)
def test_budget_below_the_smallest_sizes(objective):
    graph = JoinGraph.separate([GraphQuery("a", 1.0, (Vertex("r"), Vertex("s")))])
    with pytest.raises(PlanError, match="take 16 words at their smallest size 8"):
        ROUNDINGS[objective](graph, 15.0, [8, 16])


@pytest.mark.parametrize("objective", ROUNDINGS)
@pytest.mark.parametrize(("costs", "budget"), [((0.1, 1.1, 0.3), 48.0), ((0.7, 1.1, 0.7, 1.1), 90.0)])
def test_budget_is_kept_to_the_last_bit(objective, costs, budget):
    """The costs as floats are a little more than they seem, so that the sizes which seem to fit exactly do not."""
    graph = JoinGraph.separate(
        GraphQuery(str(number), cost if objective == "average" else 1.0, (Vertex(number, (), cost),))
        for number, cost in enumerate(costs)
    )
    whole = ROUNDINGS[objective](graph, budget, range(1, 100))
    assert sum(Fraction(graph.cost(vertex)) * size for vertex, size in whole.sizes.items()) <= Fraction(
        budget
    )


LITERAL = {"average": literal_average, "largest": literal_largest}


@pytest.mark.parametrize(
    ("objective", "words", "literal", "best"),
    [
        ("average", 10, 1.050, 1.003),
        ("average", 40, 1.012, 1.000),
        ("largest", 10, 1.044, 1.043),
        ("largest", 40, 1.008, 1.008),
    ],
)
def test_the_documents_rounding_next_to_what_is_best(objective, words, literal, best):
    """The error after rounding over that before, at few words a sketch; the table of docs/internals/workloads.md.

    The product rounds down as the document does for the average error: its sketches have hundreds of words.
    """
    found = []
    for seed in range(100):
        graph = shared_graph(seed, 5, weights=(1.0, 2.0, 3.0))
        budget = float(words * len(graph.members))
        before = allocate(graph, budget, objective).error
        whole = ROUNDINGS[objective](graph, budget, range(1, 10_000))
        found.append((LITERAL[objective](graph, budget) / before, whole.error / before))
    for own, other in found:
        assert other <= own * (1 + 1e-9)
    assert np.mean(found, axis=0) == pytest.approx([literal, best], abs=0.001)
