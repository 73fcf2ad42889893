"""ComputeSpace and the maximum-error allocation against a general solver and the document's example."""

from itertools import combinations
from math import exp, fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import Workload
from eddyline.errors import PlanError
from eddyline.plan.sharing.flow_graph import (
    FlowGraph,
    backward_mark,
    forward_mark,
    integer_ratios,
    max_flow,
    select_edges,
)
from eddyline.plan.sharing.join_graph import End, GraphQuery, JoinGraph, Vertex
from eddyline.plan.sharing.space import (
    compute_space,
    final_components,
    minimise_largest_error,
    numbered_graph,
)
from tests.oracles import sharing as naive

# Paragraph 0074: V(Q1) = {v1, v2, v4}, V(Q2) = {v2, v3}, V(Q3) = {v4, v5}, weights 3, 3, 9; from zero on here.
FIGURE_5 = FlowGraph(
    dict.fromkeys(range(5), 1), {0: 3, 1: 3, 2: 9}, {0: [0], 1: [0, 1], 2: [1], 3: [0, 2], 4: [2]}
)


def figure_5():
    queries = [
        GraphQuery("Q1", 3, (Vertex("v1"), Vertex("v2"), Vertex("v4"))),
        GraphQuery("Q2", 3, (Vertex("v2"), Vertex("v3"))),
        GraphQuery("Q3", 9, (Vertex("v4"), Vertex("v5"))),
    ]
    return JoinGraph.separate(queries).coalesced(("Q1", 1), ("Q2", 0)).coalesced(("Q1", 2), ("Q3", 0))


def random_graph(seed, **options):
    """A workload with vertices coalesced at random, without regard to hash slots: space does not ask for them."""
    rng = np.random.default_rng(seed)
    graph = JoinGraph.separate(naive.random_workload(rng, int(rng.integers(1, 7)), **options))
    for _ in range(int(rng.integers(12))):
        alike = [
            pair for pair in combinations(graph.members, 2) if graph.kind(pair[0]) == graph.kind(pair[1])
        ]
        if alike:
            graph = graph.coalesced(*alike[int(rng.integers(len(alike)))])
    return graph


def test_worked_example():
    allocation = compute_space(figure_5(), 60.0)
    assert allocation.query_sizes == pytest.approx({"Q1": 10, "Q2": 10, "Q3": 15})
    assert list(allocation.sizes.values()) == pytest.approx([10, 10, 15, 10, 15])
    assert [(own.vertices, own.queries) for own in allocation.components] == [
        ((("Q1", 0), ("Q1", 1), ("Q2", 1)), ("Q1", "Q2")),
        ((("Q1", 2), ("Q3", 1)), ("Q3",)),
    ]
    assert allocation.error == pytest.approx(3 / 10 + 3 / 10 + 9 / 15)


def test_marks_of_the_worked_example():
    flow = max_flow(FIGURE_5)
    assert {vertex for vertex, free in flow.free_vertices.items() if free} <= {0, 1, 2}
    assert forward_mark(FIGURE_5, flow) == ({0, 1, 2}, {0, 1})
    assert backward_mark(FIGURE_5, flow) == ({3, 4}, {2})
    assert select_edges(FIGURE_5)[0] == {(3, 0)}


def test_edges_are_deleted_below_and_above_a_middle_that_is_full():
    """Sizes 1 : 2 : 3 in weight: the first query reads the second vertex too, the second query the third."""
    row = FlowGraph(dict.fromkeys(range(3), 1), {0: 1, 1: 2, 2: 3}, {0: [0], 1: [0, 1], 2: [1, 2]})
    assert select_edges(row)[0] == {(1, 0), (2, 1)}


@pytest.mark.parametrize("seed", range(80))
def test_average_error_is_the_optimum_of_a_general_solver(seed):
    costs = [(1.0,), (1.0, 2.5, 0.3)][seed % 2]
    weights = tuple(np.random.default_rng(seed).uniform(0.2, 10, 12)) if seed % 4 < 2 else (1.0, 3.0, 9.0)
    graph = random_graph(seed, costs=costs, weights=weights)
    assert compute_space(graph, 50.0).error == pytest.approx(naive.least_average_error(graph, 50.0), rel=1e-5)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_other_error_functions_reach_the_optimum_of_a_general_solver(seed, power):
    graph = random_graph(seed, costs=[(1.0,), (1.0, 2.5, 0.3)][seed % 2])
    found = compute_space(graph, 50.0, lambda size: size**-power)
    assert fsum(graph.cost(v) * size for v, size in found.sizes.items()) == pytest.approx(50.0)
    # the solver stops with constraints violated by up to 1e-4; the next test has the condition of the optimum
    assert found.error == pytest.approx(naive.least_average_error(graph, 50.0, power), rel=2e-3)
    assert [own.vertices for own in found.components] == [
        own.vertices for own in compute_space(graph, 50.0).components
    ]


@pytest.mark.parametrize("seed", range(10))
def test_the_inverse_as_a_function_is_the_closed_form(seed):
    graph = random_graph(seed, costs=(1.0, 2.5, 0.3))
    assert compute_space(graph, 50.0, lambda size: 1 / size).sizes == pytest.approx(
        compute_space(graph, 50.0).sizes
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_word_more_is_worth_the_same_in_all_components(seed):
    """The condition of the optimum, for an error function that is not a power."""
    graph = random_graph(seed, costs=(1.0, 2.5, 0.3))
    found = compute_space(graph, 50.0, lambda size: exp(-size / 10) + 1 / size)
    sized = [(own, found.sizes[own.vertices[0]]) for own in found.components]
    slopes = [own.weight / own.cost * (exp(-size / 10) / 10 + size**-2) for own, size in sized]
    assert slopes == pytest.approx([slopes[0]] * len(slopes), rel=1e-5)
    assert fsum(own.cost * size for own, size in sized) == pytest.approx(50.0)


@pytest.mark.parametrize(
    "phi", [lambda _: 1.0, lambda size: size, lambda size: -size, lambda size: 1e12 - size, lambda _: 1 / 0]
)
def test_functions_that_are_not_convex_and_decreasing_are_refused(phi):
    with pytest.raises(PlanError, match="the error function"):
        Workload(objective=phi)


def test_a_workload_is_planned_by_its_own_error_function():
    """With phi steeper than 1 / M, light queries lose less; the plan says which error is least."""
    plans = {}
    for name, objective in (("average", "average"), ("same", lambda m: 1 / m), ("steep", lambda m: m**-4.0)):
        made = Workload(budget="400 KB", samples=False, objective=objective)
        made.stream("r", "a INT, b INT").stream("s", "a INT, b INT")
        made.query("heavy", "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a", weight=100)
        made.query("light", "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b")
        plans[name] = made.plan()
    sizes = {name: [each.size for each in plan.layout.kept if each.size > 1] for name, plan in plans.items()}
    assert sizes["average"] == sizes["same"]
    assert max(sizes["steep"]) / min(sizes["steep"]) < 3 < max(sizes["average"]) / min(sizes["average"])
    assert "W phi(M), phi as given" in plans["steep"].explain()
    assert plans["average"].layout.digest == plans["same"].layout.digest


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), costs=st.sampled_from([(1.0,), (1.0, 2.5, 0.3)]))
def test_average_error_satisfies_the_conditions_of_the_optimum(seed, costs):
    """Paragraphs 0062 to 0065: within a component the flow is saturated, between two the sizes are ordered."""
    graph = random_graph(seed, costs=costs)
    allocation = compute_space(graph, 50.0)
    assert fsum(graph.cost(v) * size for v, size in allocation.sizes.items()) == pytest.approx(50.0)
    for query, own in graph.parts():
        assert allocation.query_sizes[query] == pytest.approx(min(allocation.sizes[vertex] for vertex in own))
    for component in final_components(numbered_graph(graph)):
        weight, cost = component.graph.total_weight(), component.graph.total_cost()
        for query, own in component.graph.weights.items():
            assert sum(component.flow.into[query].values()) == own * cost
        for vertex, own in component.graph.costs.items():
            assert sum(into.get(vertex, 0) for into in component.flow.into.values()) == own * weight


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-250, 250))
def test_scale_of_the_weights_does_not_matter(seed, exponent):
    graph = random_graph(seed)
    scaled = JoinGraph(
        {
            name: GraphQuery(name, query.weight * 2.0**exponent, query.vertices)
            for name, query in graph.queries.items()
        },
        graph.members,
    )
    assert compute_space(scaled, 50.0).sizes == pytest.approx(compute_space(graph, 50.0).sizes)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), costs=st.sampled_from([(1.0,), (1.0, 2.5, 0.3)]))
def test_largest_error_is_the_same_at_every_vertex_and_spends_the_budget(seed, costs):
    """All vertices are equally tight and the budget is spent: no size can grow but at another's cost."""
    graph = random_graph(seed, costs=costs)
    allocation = minimise_largest_error(graph, 50.0)
    tight = [
        max(graph.queries[query].weight for query in graph.users(vertex)) / size
        for vertex, size in allocation.sizes.items()
    ]
    assert tight == pytest.approx([allocation.error] * len(tight))
    assert fsum(graph.cost(v) * size for v, size in allocation.sizes.items()) == pytest.approx(50.0)
    errors = [graph.queries[query].weight / size for query, size in allocation.query_sizes.items()]
    assert max(errors) == pytest.approx(allocation.error)


def test_whole_numbers_keep_their_ratios():
    assert integer_ratios([0.5, 0.75, 3.0]) == [2, 3, 12]


@pytest.mark.parametrize("space", [compute_space, minimise_largest_error])
def test_budget_must_be_positive(space):
    with pytest.raises(PlanError, match="must be positive"):
        space(figure_5(), 0.0)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([GraphQuery("a", 1.0, (Vertex("r"),))] * 2, "one name"),
        ([GraphQuery("a", 0.0, (Vertex("r"),))], "positive, finite weight"),
        ([GraphQuery("a", float("inf"), (Vertex("r"),))], "positive, finite weight"),
        ([GraphQuery("a", 1.0, ())], "at least one vertex"),
        ([GraphQuery("a", 1.0, (Vertex("r", (), 1.0), Vertex("r", (), 2.0)))], "the same wherever"),
        ([GraphQuery("a", 1.0, (Vertex("r", (), 0.0),))], "costs are positive"),
        (
            [GraphQuery("a", 1.0, (Vertex("r", (End("x"), End("x"))), Vertex("s", (End("x"),))))],
            "one link with two keys",
        ),
    ],
)
def test_workloads_that_cannot_be_planned(queries, message):
    with pytest.raises(PlanError, match=message):
        JoinGraph.separate(queries)
