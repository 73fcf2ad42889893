"""Slow, obvious oracles of the sharing modules."""

from itertools import combinations
from math import isqrt

import numpy as np
from scipy.optimize import minimize

from eddyline.plan.sharing.gain import ROOT_BITS
from eddyline.plan.sharing.join_graph import End, GraphQuery, Vertex
from eddyline.plan.sharing.space import final_components, largest_weights, numbered_graph


def least_average_error(graph, budget, power=1.0, floors=None):
    """The least sum of weight / size ** power by a general solver over vertex and query sizes, as shares of the budget.

    floors: the least size of each vertex.
    """
    vertices, queries = list(graph.members), list(graph.queries)
    costs = np.array([graph.cost(vertex) for vertex in vertices])
    weights = np.array([graph.queries[query].weight for query in queries])
    edges = [(vertices.index(v), len(vertices) + queries.index(q)) for q, own in graph.parts() for v in own]
    above = np.zeros((len(edges), len(vertices) + len(queries)))
    for row, (vertex, query) in enumerate(edges):
        above[row, vertex], above[row, query] = 1, -1
    spent = np.concatenate([costs, np.zeros(len(queries))])
    start = np.full(len(spent), 1 / costs.sum())
    least = np.array([(floors or {}).get(vertex, 0.0) / budget for vertex in vertices])
    start[: len(vertices)] = np.maximum(start[: len(vertices)], least)
    start[len(vertices) :] *= 0.9
    solved = minimize(
        lambda x: float((weights / x[len(vertices) :] ** power).sum()) / weights.sum(),
        start,
        jac=lambda x: (
            np.concatenate([np.zeros(len(vertices)), -power * weights / x[len(vertices) :] ** (power + 1)])
            / weights.sum()
        ),
        bounds=[(max(each, 1e-4 / costs.sum()), None) for each in (*least, *np.zeros(len(queries)))],
        constraints=[
            {"type": "ineq", "fun": lambda x: 1 - spent @ x, "jac": lambda x: -spent},
            {"type": "ineq", "fun": lambda x: above @ x, "jac": lambda x: above},
        ],
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-10},
    )
    return solved.fun * weights.sum() / budget**power


def well_formed(graph):
    """Whether no two links of one query are equivalent, by spreading the relation until nothing changes."""
    links = [
        (name, end.link) for name, query in graph.queries.items() for v in query.vertices for end in v.ends
    ]
    label = {link: number for number, link in enumerate(dict.fromkeys(links))}
    changed = True
    while changed:
        changed = False
        for members in graph.members.values():
            for one, other in combinations(members, 2):
                for first, second in zip(graph.vertex(one).ends, graph.vertex(other).ends, strict=True):
                    pair = (one[0], first.link), (other[0], second.link)
                    least = min(label[link] for link in pair)
                    changed |= any(label[link] != least for link in pair)
                    label.update(dict.fromkeys(pair, least))
    held = [(query, number) for (query, _), number in label.items()]
    return len(held) == len(set(held))


def compared_error(graph, objective):
    """An integer that grows with the optimum error of a graph and is the same for equal errors."""
    flow_graph = numbered_graph(graph)
    largest = max(flow_graph.costs.values()) * max(flow_graph.weights.values())
    if objective == "largest":
        exact = {v: max(flow_graph.weights[q] for q in users) for v, users in flow_graph.uses.items()}
        return sum(flow_graph.costs[v] * weight for v, weight in exact.items())
    total = 0
    for component in final_components(flow_graph):
        weight, cost = component.graph.total_weight(), component.graph.total_cost()
        for own in component.graph.weights.values():
            total += isqrt((own * own * cost << 2 * ROOT_BITS) // (weight * largest))
    return total


def coalescing_steps(graph, objective):
    """The pairs that the greedy of the document coalesces, as it is written: every pair is tried at every step."""
    error = compared_error(graph, objective)
    while True:
        tried = []
        for one, other in combinations(sorted(graph.members), 2):
            if graph.kind(one) == graph.kind(other):
                joined = graph.coalesced(one, other)
                if well_formed(joined):
                    tried.append((compared_error(joined, objective), (one, other)))
        if not tried or min(tried)[0] > error:
            return
        error, pair = min(tried)
        graph = graph.coalesced(*pair)
        yield pair


def least_largest_error(graph, budget, sizes):
    """The least largest error by trying every assignment of allowed sizes that fits a budget."""
    weights = largest_weights(graph)
    vertices = list(graph.members)
    best = float("inf")

    def extend(place, left, worst):
        nonlocal best
        if place == len(vertices):
            best = min(best, worst)
            return
        for size in sizes:
            if size * graph.cost(vertices[place]) <= left:
                extend(
                    place + 1,
                    left - size * graph.cost(vertices[place]),
                    max(worst, weights[vertices[place]] / size),
                )

    extend(0, budget, 0.0)
    return best


def random_query(rng, name, relations, *, costs=(1.0,), weights=(1.0, 3.0, 0.1, 9.0)):
    """A query of one to four vertices: a row of links, one of which may join three; now and then a self-join."""
    number = int(rng.integers(1, 5))
    own = rng.integers(relations, size=number)
    ends = [[] for _ in range(number)]
    place = 0
    while place < number - 1:
        reach = 2 if rng.random() < 0.2 and place + 2 < number else 1
        for role in range(reach + 1):
            ends[place + role].append(End(f"link {place}", role if reach == 2 else 0))
        place += reach
    vertices = tuple(
        Vertex((int(relation), len(met)), tuple(met), costs[int(relation) % len(costs)])
        for relation, met in zip(own, ends, strict=True)
    )
    return GraphQuery(name, float(rng.choice(weights)), vertices)


def random_workload(rng, queries, relations=3, **options):
    """The queries of a workload with many equal signatures."""
    return [random_query(rng, f"query {number}", relations, **options) for number in range(queries)]
