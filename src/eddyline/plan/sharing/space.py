"""How many words each sketch gets, so that the average or the largest error over a workload is least."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import fsum, isfinite, sqrt

import msgspec

from eddyline.errors import PlanError
from eddyline.plan.sharing.flow_graph import FlowGraph, MaxFlow, integer_ratios, select_edges
from eddyline.plan.sharing.join_graph import JoinGraph, VertexId

# For the least average error, the optimum splits into components within which all sketches have one size.
# They are found by maximum flows; their sizes then follow in closed form.


ErrorFunction = Callable[[float], float]
"""How the squared error of a query falls with the size of its smallest sketch, but for the query's weight: positive,
strictly decreasing and strictly convex. Paper: sharing, Φ."""
_HALVINGS = 60  # of the logarithm of an interval: accurate to about 1e-16 of it
_STEP = 1e-4  # relative: the error of a slope is about its square
_SMALLEST = 1e-9  # the least share of the budget that a component may get
_POWERS = 40  # powers of two at which an error function is checked: up to 4 TB of words


class EqualComponent(msgspec.Struct, frozen=True):
    """Sketches and queries that have one size in the optimum, their combined cost and weight.

    Paper: sharing, ≡-component.
    """

    vertices: tuple[VertexId, ...]
    queries: tuple[str, ...]
    cost: float
    weight: float


class Allocation(msgspec.Struct, frozen=True):
    """The size of each sketch, the smallest size that each query reads, and the error over the workload.

    A vertex of size m takes m times its cost in words. Components are listed if the average was minimized.

    Paper: sharing, m_v and M_Q.
    """

    sizes: dict[VertexId, float]
    query_sizes: dict[str, float]
    error: float
    components: tuple[EqualComponent, ...] = ()


class FinalComponent(msgspec.Struct, frozen=True):
    """A component that needs no edge deleted, and the flow that saturates it."""

    graph: FlowGraph
    flow: MaxFlow


def compute_space(graph: JoinGraph, budget: float, phi: ErrorFunction | None = None) -> Allocation:
    """Return the sizes that minimize the sum over queries of weight * phi(smallest size), within a budget of words.

    phi: 1 / size if it is not given. Which sketches have one size does not depend on it.

    Paper: sharing, ComputeSpace.
    """
    vertices, queries = list(graph.members), list(graph.queries)
    final = sorted(
        (sorted(found.graph.costs), sorted(found.graph.weights))
        for found in final_components(numbered_graph(graph))
    )
    components = [
        EqualComponent(
            tuple(vertices[vertex] for vertex in own),
            tuple(queries[query] for query in users),
            fsum(graph.cost(vertices[vertex]) for vertex in own),
            fsum(graph.queries[queries[query]].weight for query in users),
        )
        for own, users in final
    ]
    return compute_memory_and_error(components, budget, phi)


def numbered_graph(graph: JoinGraph) -> FlowGraph:
    """Return the vertices and queries of a graph by their position in it, with integer costs and weights.

    Paper: sharing, ComputeSpace, lines 1 to 3.
    """
    place = {query: number for number, query in enumerate(graph.queries)}
    costs = integer_ratios([graph.cost(vertex) for vertex in graph.members])
    weights = integer_ratios([query.weight for query in graph.queries.values()])
    uses = [[place[query] for query in graph.users(vertex)] for vertex in graph.members]
    return FlowGraph(dict(enumerate(costs)), dict(enumerate(weights)), dict(enumerate(uses)))


def final_components(graph: FlowGraph) -> list[FinalComponent]:
    """Return the components of the optimum, in any order.

    Paper: sharing, ComputeSpace, lines 4 to 14.
    """
    final, waiting = [], list(find_connected_components(graph))
    while waiting:
        component = waiting.pop()
        deleted, flow = select_edges(component)
        if deleted:
            waiting.extend(find_connected_components(_without(component, deleted)))
        else:
            final.append(FinalComponent(component, flow))
    return final


def _without(component: FlowGraph, deleted: set[tuple[int, int]]) -> FlowGraph:
    uses = {
        vertex: [query for query in users if (vertex, query) not in deleted]
        for vertex, users in component.uses.items()
    }
    return FlowGraph(component.costs, component.weights, uses)


def find_connected_components(graph: FlowGraph) -> Iterator[FlowGraph]:
    """Yield the connected components of a graph.

    Paper: sharing, FindConnectedComponents.
    """
    readers: dict[int, list[int]] = {query: [] for query in graph.weights}
    for vertex, users in graph.uses.items():
        for query in users:
            readers[query].append(vertex)
    seen = set[int]()
    for start in graph.weights:
        if start in seen:
            continue
        seen.add(start)
        queries, costs = [start], dict[int, int]()
        for query in queries:
            for vertex in readers[query]:
                if vertex not in costs:
                    costs[vertex] = graph.costs[vertex]
                    found = [other for other in graph.uses[vertex] if other not in seen]
                    seen.update(found)
                    queries.extend(found)
        yield FlowGraph(
            costs,
            {query: graph.weights[query] for query in queries},
            {vertex: graph.uses[vertex] for vertex in costs},
        )


def compute_memory_and_error(
    components: Sequence[EqualComponent], budget: float, phi: ErrorFunction | None = None
) -> Allocation:
    """Return the sizes of known components, the budget spent in full.

    For phi(size) = 1 / size they are proportional to sqrt(weight / cost). For another one, weight / cost * phi' is
    the same in all components.

    Paper: sharing, ComputeMemory&Error.
    """
    if not budget > 0:
        raise PlanError(f"the budget is {budget} words: it must be positive.")
    if phi is None:
        scale = budget / fsum(sqrt(component.weight * component.cost) for component in components)
        own = [scale * sqrt(component.weight / component.cost) for component in components]
        error = fsum(component.weight / size for component, size in zip(components, own, strict=True))
    else:
        own = _sizes_by(phi, components, budget)
        error = fsum(component.weight * phi(size) for component, size in zip(components, own, strict=True))
    own_sizes = list(zip(components, own, strict=True))
    sizes = {vertex: size for component, size in own_sizes for vertex in component.vertices}
    query_sizes = {query: size for component, size in own_sizes for query in component.queries}
    return Allocation(
        dict(sorted(sizes.items())), dict(sorted(query_sizes.items())), error, tuple(components)
    )


def _sizes_by(phi: ErrorFunction, components: Sequence[EqualComponent], budget: float) -> list[float]:
    """Return the sizes at which weight / cost * phi' is the same in all components and the budget is spent."""
    shapes = [(component.weight / component.cost, budget / component.cost) for component in components]

    def fall(size: float) -> float:
        return (phi(size * (1 - _STEP)) - phi(size * (1 + _STEP))) / (2 * _STEP * size)

    def sizes_at(price: float) -> list[float]:
        """Return the sizes at which the next word lowers the error by a price."""
        return [_crossing(fall, price / ratio, largest * _SMALLEST, largest) for ratio, largest in shapes]

    def spent(price: float) -> float:
        return fsum(
            component.cost * size for component, size in zip(components, sizes_at(price), strict=True)
        )

    low = min(ratio * fall(largest) for ratio, largest in shapes)
    high = max(ratio * fall(largest / len(shapes)) for ratio, largest in shapes)
    price = _crossing(spent, budget, low, high)
    return [size * budget / spent(price) for size in sizes_at(price)]


def _crossing(falling: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Return where a falling function has a value; an end of the interval if it has it nowhere inside."""
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if falling(middle) > value else (low, middle)
    return sqrt(low * high)


def checked_error_function(phi: ErrorFunction) -> None:
    """Raise PlanError unless a function is positive, strictly decreasing and strictly convex at the powers of two."""
    try:
        found = [float(phi(2.0**power)) for power in range(_POWERS)]
    except Exception as error:
        raise PlanError(f"the error function cannot be evaluated at a number of words: {error}.") from error
    falls = [(one - other) / 2.0**power for power, (one, other) in enumerate(pairwise(found))]
    positive = all(isfinite(each) and each > 0 for each in (*found, *falls))
    if not positive or any(one <= other for one, other in pairwise(falls)):
        raise PlanError(
            "the error function is not positive, strictly decreasing and strictly convex in the number of words: "
            "give one such as lambda words: words ** -0.5."
        )


# How many words each sketch gets when the largest error over a workload is to be least.


def largest_weights(graph: JoinGraph) -> dict[VertexId, float]:
    """Return the largest weight among the queries of each vertex.

    Paper: sharing, paragraph 0083, max of W_Q over Q(v).
    """
    return {
        vertex: max(graph.queries[query].weight for query in graph.users(vertex)) for vertex in graph.members
    }


def minimise_largest_error(graph: JoinGraph, budget: float) -> Allocation:
    """Return the sizes that minimize the largest weight / smallest size, within a budget of words.

    Each vertex is as large as the heaviest of its queries requires.

    Paper: sharing, paragraphs 0082 and 0083, before rounding.
    """
    if not budget > 0:
        raise PlanError(f"the budget is {budget} words: it must be positive.")
    weights = largest_weights(graph)
    error = fsum(weight * graph.cost(vertex) for vertex, weight in weights.items()) / budget
    sizes = {vertex: weight / error for vertex, weight in sorted(weights.items())}
    query_sizes = {name: min(sizes[vertex] for vertex in own) for name, own in graph.parts()}
    return Allocation(sizes, query_sizes, error)
