"""CoalesceJoinGraphs against the greedy as it is written, and the laws of a coalesced graph."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.plan.sharing.coalesce import allocate, coalesce_join_graphs, coalescing_steps
from eddyline.plan.sharing.join_graph import End, GraphQuery, JoinGraph, Vertex, is_well_formed
from tests.oracles import sharing as naive

OBJECTIVES = ("average", "largest")
seeds = st.integers(0, 2**32 - 1)


def graph_of(seed, queries, **options):
    return JoinGraph.separate(naive.random_workload(np.random.default_rng(seed), queries, **options))


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=60, deadline=None)
@given(
    seed=seeds, queries=st.integers(1, 5), costs=st.sampled_from([(1.0,), (1.0, 2.5)]), equal=st.booleans()
)
def test_is_the_greedy_that_tries_every_pair(objective, seed, queries, costs, equal):
    weights = (2.0,) if equal else (1.0, 3.0, 0.1, 9.0)
    start = graph = graph_of(seed, queries, costs=costs, weights=weights)
    steps = list(naive.coalescing_steps(graph, objective))
    assert list(coalescing_steps(graph, objective)) == steps
    for one, other in steps:
        graph = graph.coalesced(one, other)
    assert coalesce_join_graphs(start, 100.0, objective)[0] == graph


@pytest.mark.parametrize(
    ("weights", "private"),
    [
        ((6, 25, 29, 19, 20, 22), (0, 0, 2, 1, 2, 1)),
        ((25, 12, 4, 28, 22, 16), (2, 0, 0, 0, 1, 2)),
        ((5, 26, 18, 13, 24, 10), (0, 0, 0, 0, 2, 0)),
    ],
)
def test_a_gain_that_rises_with_a_neighbour_is_computed_again(weights, private):
    """A and X share a vertex: what A gains with B depends on the size of X, which another step changes."""
    queries = [
        GraphQuery(name, weight, (*map(Vertex, shared), *(Vertex((name, place)) for place in range(alone))))
        for name, weight, shared, alone in zip(
            "ABXYPR", weights, ("UZ", "U", "ZT", "T", "P", "P"), private, strict=True
        )
    ]
    graph = JoinGraph.separate(queries).coalesced(("A", 1), ("X", 0))
    assert list(coalescing_steps(graph, "average")) == list(naive.coalescing_steps(graph, "average"))


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, queries=st.integers(1, 12))
def test_graph_is_well_formed_and_nothing_more_may_coalesce(objective, seed, queries):
    graph, _ = coalesce_join_graphs(graph_of(seed, queries), 100.0, objective)
    assert naive.well_formed(graph)
    for one, other in combinations(graph.members, 2):
        if graph.kind(one) == graph.kind(other):
            assert not naive.well_formed(graph.coalesced(one, other))


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=30, deadline=None)
@given(seed=seeds, queries=st.integers(2, 12), order=st.randoms(use_true_random=False))
def test_order_of_the_queries_does_not_matter(objective, seed, queries, order):
    workload = naive.random_workload(np.random.default_rng(seed), queries)
    shuffled = order.sample(workload, len(workload))
    expected = coalesce_join_graphs(JoinGraph.separate(workload), 100.0, objective)
    found = coalesce_join_graphs(JoinGraph.separate(shuffled), 100.0, objective)
    assert found == expected
    assert list(found[0].members) == list(expected[0].members)


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, queries=st.integers(1, 6), data=st.data())
def test_no_well_formed_pair_raises_the_error(objective, seed, queries, data):
    graph = graph_of(seed, queries)
    error = allocate(graph, 100.0, objective).error
    while pairs := [
        joined
        for one, other in combinations(graph.members, 2)
        if graph.kind(one) == graph.kind(other) and is_well_formed(joined := graph.coalesced(one, other))
    ]:
        graph = data.draw(st.sampled_from(pairs))
        lower = allocate(graph, 100.0, objective).error
        assert lower < error
        error = lower


def test_figure_4_shares_the_first_relation_or_the_last_and_never_both():
    two_joins = GraphQuery(
        "two joins",
        1.0,
        (
            Vertex("r1.a1", (End("e1"),)),
            Vertex("r2.a1,a2", (End("e1"), End("e2"))),
            Vertex("r3.a2", (End("e2"),)),
        ),
    )
    one_join = GraphQuery("one join", 1.0, (Vertex("r1.a1", (End("e3"),)), Vertex("r3.a2", (End("e3"),))))
    graph, _ = coalesce_join_graphs(JoinGraph.separate([two_joins, one_join]), 4.0)
    assert len(graph.members) == 4


def test_equal_queries_become_one():
    vertices = (Vertex("a", (End("x"),)), Vertex("b", (End("x"), End("y"))), Vertex("c", (End("y"),)))
    graph, allocation = coalesce_join_graphs(
        JoinGraph.separate(GraphQuery(name, 2.0, vertices) for name in "pqrs"), 30.0
    )
    assert [len(members) for members in graph.members.values()] == [4, 4, 4]
    assert allocation.sizes == pytest.approx(dict.fromkeys(graph.members, 10.0))
