"""Which edges of a component lie between two groups of equal size, and are deleted."""

from eddyline.plan.sharing.flow_graph import FlowGraph, MaxFlow, max_flow

Marked = tuple[set[int], set[int]]
"""Marked vertices and marked queries."""


def select_edges(component: FlowGraph) -> tuple[set[tuple[int, int]], MaxFlow]:
    """Return the edges (v, Q) to delete from a component, none if it is final, and the flow that says so.

    Paper: sharing, SelectEdges.
    Deviation: the scan dropped half of the condition; it is restored from the definitions of the two marks.
    """
    flow = max_flow(component)
    if flow.saturated():
        return set(), flow
    forward_vertices, forward_queries = forward_mark(component, flow)
    backward_vertices, backward_queries = backward_mark(component, flow)
    between = {
        (vertex, query)
        for vertex, users in component.uses.items()
        for query in users
        if (vertex not in forward_vertices and query in forward_queries)
        or (vertex in backward_vertices and query not in backward_queries)
    }
    return between, flow


def forward_mark(component: FlowGraph, flow: MaxFlow) -> Marked:
    """Return what is reachable from unsaturated vertices: the part that is to be smaller than the average.

    Paper: sharing, Forward-Mark.
    """
    queue = [vertex for vertex, free in flow.free_vertices.items() if free]
    vertices, queries = set(queue), set[int]()
    for vertex in queue:
        for query in component.uses[vertex]:
            if query not in queries:
                queries.add(query)
                found = [
                    other for other, amount in flow.into[query].items() if amount and other not in vertices
                ]
                vertices.update(found)
                queue.extend(found)
    return vertices, queries


def backward_mark(component: FlowGraph, flow: MaxFlow) -> Marked:
    """Return what is reachable from unsaturated queries: the part that is to be larger than the average.

    Paper: sharing, Backward-Mark.
    """
    adjacent: dict[int, list[int]] = {query: [] for query in component.weights}
    for vertex, users in component.uses.items():
        for query in users:
            adjacent[query].append(vertex)
    queue = [query for query, free in flow.free_queries.items() if free]
    vertices, queries = set[int](), set(queue)
    for query in queue:
        for vertex in adjacent[query]:
            if vertex not in vertices:
                vertices.add(vertex)
                found = [
                    other
                    for other in component.uses[vertex]
                    if other not in queries and flow.into[other].get(vertex)
                ]
                queries.update(found)
                queue.extend(found)
    return vertices, queries
