"""Classes of links, conflicts and hash slots."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.plan.sharing.coalesce import coalesce_join_graphs
from eddyline.plan.sharing.join_graph import (
    Conflict,
    DifferentRoles,
    End,
    GraphQuery,
    JoinGraph,
    Vertex,
    conflict,
    hash_slots,
    is_well_formed,
    link_classes,
)
from tests.oracles import sharing as naive

seeds = st.integers(0, 2**32 - 1)


def figure_3():
    """Q1 joins R1, R2 and R3 by e1 and e2; Q2 joins R1 and R3 by e3."""
    first = GraphQuery(
        "Q1",
        1.0,
        (Vertex("R1", (End("e1"),)), Vertex("R2", (End("e1"), End("e2"))), Vertex("R3", (End("e2"),))),
    )
    return JoinGraph.separate(
        [first, GraphQuery("Q2", 1.0, (Vertex("R1", (End("e3"),)), Vertex("R3", (End("e3"),))))]
    )


def coalesced_at_random(seed, queries, steps):
    rng = np.random.default_rng(seed)
    graph = JoinGraph.separate(naive.random_workload(rng, queries))
    for _ in range(steps):
        alike = [
            pair for pair in combinations(graph.members, 2) if graph.kind(pair[0]) == graph.kind(pair[1])
        ]
        if alike:
            graph = graph.coalesced(*alike[int(rng.integers(len(alike)))])
    return graph


def test_figure_4_is_well_formed_with_one_shared_vertex_and_not_with_two():
    graph = figure_3().coalesced(("Q1", 0), ("Q2", 0))
    assert is_well_formed(graph)
    assert link_classes(graph) == [(("Q1", "e1"), ("Q2", "e3")), (("Q1", "e2"),)]
    assert not is_well_formed(graph.coalesced(("Q1", 2), ("Q2", 1)))


def test_conflict_names_the_query_and_its_links():
    graph = figure_3()
    assert conflict(graph, ("Q1", 2), ("Q2", 1)) is None
    found = conflict(graph.coalesced(("Q1", 0), ("Q2", 0)), ("Q1", 2), ("Q2", 1))
    assert isinstance(found, Conflict)
    assert (found.query, set(found.links)) == ("Q1", {"e1", "e2"})


def test_conflict_between_two_keys_of_one_pair():
    """Each key alone may use one slot; both together would tie the two links of a query."""
    crossed = GraphQuery("Q1", 1.0, (Vertex("R", (End("a"), End("b"))), Vertex("S", (End("a"), End("b")))))
    swapped = GraphQuery("Q2", 1.0, (Vertex("R", (End("c"), End("d"))), Vertex("S", (End("d"), End("c")))))
    graph = JoinGraph.separate([crossed, swapped]).coalesced(("Q1", 0), ("Q2", 0))
    found = conflict(graph, ("Q1", 1), ("Q2", 1))
    assert isinstance(found, Conflict)
    assert set(found.links) in ({"a", "b"}, {"c", "d"})


def test_two_sides_of_a_self_join_are_one_sketch():
    graph = JoinGraph.separate([GraphQuery("Q", 1.0, (Vertex("R", (End("a"),)), Vertex("R", (End("a"),))))])
    assert conflict(graph, ("Q", 0), ("Q", 1)) is None


def test_one_relation_on_two_links_of_a_query_is_two_sketches():
    vertices = (Vertex("R", (End("a"),)), Vertex("S", (End("a"), End("b"))), Vertex("R", (End("b"),)))
    graph = JoinGraph.separate([GraphQuery("Q", 1.0, vertices)])
    assert conflict(graph, ("Q", 0), ("Q", 2)) == Conflict("Q", ("a", "b"))


@pytest.mark.parametrize(
    "other",
    [
        (Vertex("R", (End("b", 1),)), Vertex("S", (End("b", 0),)), Vertex("T", (End("b", 2),))),
        (Vertex("R", (End("b", 0),)), Vertex("S", (End("b", 0),))),
    ],
    ids=["another role", "another size"],
)
def test_members_of_wide_links_share_only_in_the_same_role_and_size(other):
    wide = (Vertex("R", (End("a", 0),)), Vertex("S", (End("a", 1),)), Vertex("T", (End("a", 2),)))
    graph = JoinGraph.separate([GraphQuery("Q1", 1.0, wide), GraphQuery("Q2", 1.0, other)])
    assert conflict(graph, ("Q1", 0), ("Q2", 0)) == DifferentRoles(0)
    shared, _ = coalesce_join_graphs(graph, 10.0)
    assert ("Q2", 0) in shared.members


@settings(max_examples=100, deadline=None)
@given(seed=seeds, queries=st.integers(1, 6), steps=st.integers(0, 8))
def test_well_formed_is_the_definition(seed, queries, steps):
    graph = coalesced_at_random(seed, queries, steps)
    assert is_well_formed(graph) == naive.well_formed(graph)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, queries=st.integers(1, 5), steps=st.integers(0, 4))
def test_conflict_says_whether_the_pair_would_be_well_formed(seed, queries, steps):
    graph = coalesced_at_random(seed, queries, steps)
    if naive.well_formed(graph):
        for one, other in combinations(graph.members, 2):
            if graph.kind(one) == graph.kind(other):
                expected = naive.well_formed(graph.coalesced(one, other))
                assert (conflict(graph, one, other) is None) == expected


@settings(max_examples=60, deadline=None)
@given(seed=seeds, queries=st.integers(1, 10))
def test_families_agree_within_a_class_and_differ_within_a_query(seed, queries):
    graph, _ = coalesce_join_graphs(
        JoinGraph.separate(naive.random_workload(np.random.default_rng(seed), queries)), 9.0
    )
    slot = hash_slots(graph)
    for own in link_classes(graph):
        assert len({slot[link] for link in own}) == 1
    for name, query in graph.queries.items():
        links = query.link_sizes()
        assert len({slot[name, link] for link in links}) == len(links)


def test_families_are_reused_where_nothing_forbids_it():
    queries = [
        GraphQuery(
            f"Q{number}", 1.0, (Vertex(("R", number), (End("a"),)), Vertex(("S", number), (End("a"),)))
        )
        for number in range(5)
    ]
    assert set(hash_slots(JoinGraph.separate(queries)).values()) == {0}
