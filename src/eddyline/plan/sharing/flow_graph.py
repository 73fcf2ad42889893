"""The flow graph of a component and a maximum flow through it, in whole numbers.

Saturation is compared for equality, so that nothing here may round. Weights and costs are scaled to integers
once; the capacities of a component are multiplied by its weight, which leaves them integers.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

import msgspec


class FlowGraph(msgspec.Struct, frozen=True):
    """Sketches with their costs, queries with their weights, and who uses which, all by number.

    Paper: sharing, the graph (V, E) of ComputeSpace and each of its components.
    """

    costs: Mapping[int, int]
    weights: Mapping[int, int]
    uses: Mapping[int, Sequence[int]]
    """The queries of each vertex."""

    def total_cost(self) -> int:
        """Return what one unit of size takes for all vertices: |V(C)| where every cost is one."""
        return sum(self.costs.values())

    def total_weight(self) -> int:
        """Return the combined weight of the queries.

        Paper: sharing, W(C).
        """
        return sum(self.weights.values())


class MaxFlow(msgspec.Struct):
    """What a flow leaves free at the source's and the sink's edges, and what each query gets from each vertex."""

    free_vertices: dict[int, int]
    free_queries: dict[int, int]
    into: dict[int, dict[int, int]]

    def saturated(self) -> bool:
        """Return whether every edge of the source, hence every edge of the sink, is full."""
        return not any(self.free_vertices.values())


def whole_numbers(values: Sequence[float]) -> list[int]:
    """Return integers in exactly the ratios of some values."""
    exact = [Fraction(value) for value in values]
    scale = lcm(*(value.denominator for value in exact))
    return [int(value * scale) for value in exact]


def max_flow(component: FlowGraph) -> MaxFlow:
    """Return a maximum flow of F(C): source to v up to c_v, v to Q unbounded, Q to sink up to W_Q c(C) / W(C).

    All capacities are multiplied by W(C). Vertices of few queries push first, which leaves little to augment.

    Paper: sharing, Maxflow.
    Deviation: the document's capacity of a vertex is 1, and |V(C)| stands for the sum of the costs.
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
    """Return whether the path of the search to a query still carries anything, after pushing all that it can."""
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
