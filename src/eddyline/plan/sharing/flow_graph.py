"""The flow graph of a component, its maximum flow, and the edges to delete between two groups."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

import msgspec

# A maximum flow is computed in whole numbers. Saturation is compared for equality, so that nothing here may
# round. Weights and costs are scaled to integers once; the capacities of a component are multiplied by its
# weight, which leaves them integers.


class FlowGraph(msgspec.Struct, frozen=True):
    """Sketches with their costs, queries with their weights, and which query uses which sketch, all by number.

    Paper: sharing, the graph (V, E) of ComputeSpace and each of its components.
    """

    costs: Mapping[int, int]
    weights: Mapping[int, int]
    uses: Mapping[int, Sequence[int]]
    """The queries of each vertex."""

    def total_cost(self) -> int:
        """Return the words that one unit of size takes for all vertices: |V(C)| if every cost is one."""
        return sum(self.costs.values())

    def total_weight(self) -> int:
        """Return the combined weight of the queries.

        Paper: sharing, W(C).
        """
        return sum(self.weights.values())


class MaxFlow(msgspec.Struct):
    """The capacity that a flow leaves free at source and sink, and the flow from each vertex to each query."""

    free_vertices: dict[int, int]
    free_queries: dict[int, int]
    into: dict[int, dict[int, int]]

    def saturated(self) -> bool:
        """Return whether every edge of the source, hence every edge of the sink, is full."""
        return not any(self.free_vertices.values())


def integer_ratios(values: Sequence[float]) -> list[int]:
    """Return integers in exactly the ratios of some values."""
    exact = [Fraction(value) for value in values]
    scale = lcm(*(value.denominator for value in exact))
    return [int(value * scale) for value in exact]


def max_flow(component: FlowGraph) -> MaxFlow:
    """Return a maximum flow of F(C): source to v up to c_v, v to Q unbounded, Q to sink up to W_Q c(C) / W(C).

    All capacities are multiplied by W(C). Vertices with few queries push first, which leaves little to augment.

    Paper: sharing, Maxflow.
    Deviation: the document's capacity of a vertex is 1, and |V(C)| there is the sum of the costs here.
    """
    weight, cost = component.total_weight(), component.total_cost()
    flow = MaxFlow(
        {vertex: own * weight for vertex, own in component.costs.items()},
        {query: own * cost for query, own in component.weights.items()},
        {query: {} for query in component.weights},
    )
    for vertex in sorted(component.uses, key=lambda vertex: len(component.uses[vertex])):
        for query in component.uses[vertex]:
            pushed = min(flow.free_vertices[vertex], flow.free_queries[query])
            if pushed:
                _add(flow, vertex, query, pushed)
                flow.free_vertices[vertex] -= pushed
                flow.free_queries[query] -= pushed
    while _augment(component, flow):
        pass
    return flow


def _add(flow: MaxFlow, vertex: int, query: int, amount: int) -> None:
    own = flow.into[query]
    own[vertex] = own.get(vertex, 0) + amount


def _augment(component: FlowGraph, flow: MaxFlow) -> bool:
    """Return whether one breadth-first search from all free vertices found anything to push."""
    came_from: dict[int, int | None] = {vertex: None for vertex, free in flow.free_vertices.items() if free}
    reached_by: dict[int, int] = {}
    queue, pushed = list(came_from), False
    for vertex in queue:
        for query in component.uses[vertex]:
            if query in reached_by:
                continue
            reached_by[query] = vertex
            if flow.free_queries[query]:
                pushed |= _push(flow, query, came_from, reached_by)
            for other, amount in flow.into[query].items():
                if amount and other not in came_from:
                    came_from[other] = query
                    queue.append(other)
    return pushed


def _push(flow: MaxFlow, query: int, came_from: dict[int, int | None], reached_by: dict[int, int]) -> bool:
    """Return whether the path of the search to a query still carries flow, after pushing as much as possible."""
    path, most, last = [query], flow.free_queries[query], reached_by[query]
    while (before := came_from[last]) is not None:
        most = min(most, flow.into[before][last])
        path.append(before)
        last = reached_by[before]
    most = min(most, flow.free_vertices[last])
    if not most:
        return False
    flow.free_vertices[last] -= most
    flow.free_queries[query] -= most
    for step in path:
        _add(flow, reached_by[step], step, most)
    for before, step in zip(path[1:], path, strict=False):
        flow.into[before][reached_by[step]] -= most
    return True


# Which edges of a component lie between two groups of equal size, and are deleted.


Marked = tuple[set[int], set[int]]
"""Marked vertices and marked queries."""


def select_edges(component: FlowGraph) -> tuple[set[tuple[int, int]], MaxFlow]:
    """Return the edges (v, Q) to delete from a component, none if it is final, and the flow that shows this.

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
    """Return what is reachable from unsaturated vertices: the part that must be smaller than the average.

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
    """Return what is reachable from unsaturated queries: the part that must be larger than the average.

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
