"""Sizes that a sketch can really have: the optimum rounded down, and what is left over spent."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import fsum, inf, sqrt
from typing import NamedTuple

import msgspec

from eddyline.errors import PlanError
from eddyline.plan.sharing.join_graph import JoinGraph, VertexId
from eddyline.plan.sharing.space import EqualComponent, compute_space, largest_weights

Sizes = dict[VertexId, int]


class WholeSizes(msgspec.Struct, frozen=True):
    """Allowed sizes of all vertices, the smallest that each query reads, their error and the words they take."""

    sizes: Sizes
    query_sizes: dict[str, int]
    error: float
    words: float


def round_average(graph: JoinGraph, budget: float, allowed: Sequence[int]) -> WholeSizes:
    """Return sizes among the allowed ones, in ascending order, that nearly minimise the average error.

    Each component is rounded down as a whole. What is left raises components by one step, first the one whose
    error falls most for its words, while any can be paid for.

    Paper: sharing, paragraph 0081.
    Deviation: the document leaves what rounding frees unspent, and knows no smallest or largest size.
    """
    components = compute_space(graph, budget).components
    sizes, left = _round_down(graph, components, budget, allowed)
    parts = dict(graph.parts())
    while True:
        rises = [_rise(graph, component, sizes, parts, allowed) for component in components]
        useful = [rise for rise in rises if rise.fall > 0 and rise.words <= left]
        if not useful:
            break
        best = max(useful, key=lambda rise: rise.fall / rise.words)
        sizes |= dict.fromkeys(best.component.vertices, best.size)
        left -= best.words
    query_sizes = {query: min(sizes[vertex] for vertex in own) for query, own in parts.items()}
    error = fsum(graph.queries[query].weight / size for query, size in query_sizes.items())
    return WholeSizes(sizes, query_sizes, error, float(Fraction(budget) - left))


def round_largest(graph: JoinGraph, budget: float, allowed: Sequence[int]) -> WholeSizes:
    """Return sizes among the allowed ones, in ascending order, that minimise the largest error.

    Each vertex gets the smallest size that keeps its error below the least level that the budget pays for. What is
    left raises vertices by one step, first the one that is smallest for the heaviest of its queries, while any
    can be paid for.

    Paper: sharing, paragraph 0083.
    Deviation: the document rounds the optimum down and then spends what is left, which is not always best. Of 10
    words, weights 3, 1, 1 and 1 would get 5, 2, 2 and 1, with error 1; here they get 4, 2, 2 and 2, with 3/4.
    """
    weights = largest_weights(graph)
    costs = {vertex: Fraction(graph.cost(vertex)) for vertex in weights}
    sizes, left = _level(weights, costs, budget, allowed)
    waiting = [(sizes[vertex] / weight, vertex) for vertex, weight in weights.items()]
    heapify(waiting)
    while waiting:
        _, vertex = heappop(waiting)
        larger = _next(sizes[vertex], allowed)
        words = (larger - sizes[vertex]) * costs[vertex]
        if 0 < words <= left:
            sizes[vertex] = larger
            left -= words
            heappush(waiting, (larger / weights[vertex], vertex))
    query_sizes = {query: min(sizes[vertex] for vertex in own) for query, own in graph.parts()}
    error = max(graph.queries[query].weight / size for query, size in query_sizes.items())
    return WholeSizes(sizes, query_sizes, error, float(Fraction(budget) - left))


def _level(
    weights: Mapping[VertexId, float],
    costs: Mapping[VertexId, Fraction],
    budget: float,
    allowed: Sequence[int],
) -> tuple[Sizes, Fraction]:
    """Return the smallest allowed sizes of at least level x weight, for the highest level found, and the words left.

    The level is found by halving. Were it too low, nothing would be lost: what is left raises it.
    """

    def at(level: float) -> tuple[Sizes, Fraction]:
        sizes = {
            vertex: allowed[min(bisect_left(allowed, level * weight), len(allowed) - 1)]
            for vertex, weight in weights.items()
        }
        return sizes, Fraction(budget) - sum(costs[vertex] * size for vertex, size in sizes.items())

    _check_budget(list(costs.values()), budget, allowed)
    low, high = 0.0, allowed[-1] / min(weights.values())
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] >= 0 else (low, middle)
    return at(low)


def _check_budget(costs: Sequence[Fraction], budget: float, allowed: Sequence[int]) -> None:
    least = allowed[0] * sum(costs)
    if least > budget:
        raise PlanError(
            f"the sketches of the workload take {float(least):,.0f} words at their smallest size {allowed[0]}, and "
            f"the budget is {budget:,.0f}: raise it to that, or drop queries."
        )


def _round_down(
    graph: JoinGraph, components: Sequence[EqualComponent], budget: float, allowed: Sequence[int]
) -> tuple[Sizes, Fraction]:
    """Return the allowed sizes next below the optimum of all components, and the words left.

    No component is below the smallest allowed size or above the largest; the others share what that leaves.
    """
    costs = [sum((Fraction(graph.cost(vertex)) for vertex in own.vertices), Fraction()) for own in components]
    _check_budget(costs, budget, allowed)
    shapes = [sqrt(own.weight / own.cost) for own in components]
    scale = _scale(shapes, [float(cost) for cost in costs], budget, (allowed[0], allowed[-1]))
    while True:
        rounded = [allowed[max(0, bisect_right(allowed, scale * shape) - 1)] for shape in shapes]
        left = Fraction(budget) - sum(cost * size for cost, size in zip(costs, rounded, strict=True))
        if left >= 0:
            break
        scale *= 1 - 1e-12  # the scale was rounded up
    sizes = {vertex: size for own, size in zip(components, rounded, strict=True) for vertex in own.vertices}
    return dict(sorted(sizes.items())), left


def _scale(shapes: Sequence[float], costs: Sequence[float], budget: float, limits: tuple[int, int]) -> float:
    """Return the scale at which shapes, kept within limits, cost a budget; the largest useful one if none does."""

    def spent(scale: float) -> float:
        sizes = (min(max(scale * shape, limits[0]), limits[1]) for shape in shapes)
        return fsum(cost * size for cost, size in zip(costs, sizes, strict=True))

    knees = sorted({limit / shape for shape in shapes for limit in limits})
    place = bisect_right(knees, budget, key=spent)
    if place in (0, len(knees)):
        return knees[min(place, len(knees) - 1)]
    low, high = knees[place - 1], knees[place]
    return low + (budget - spent(low)) * (high - low) / (spent(high) - spent(low))


class _Rise(NamedTuple):
    """A component, its next size, the fall of the error that this brings, and the words that it takes."""

    component: EqualComponent
    size: int
    fall: float
    words: Fraction


def _rise(
    graph: JoinGraph,
    component: EqualComponent,
    sizes: Mapping[VertexId, int],
    parts: Mapping[str, Sequence[VertexId]],
    allowed: Sequence[int],
) -> _Rise:
    """Return what one step more does for a component; nothing where a query also reads a small vertex elsewhere."""
    size = sizes[component.vertices[0]]
    larger = _next(size, allowed)
    words = (larger - size) * sum((Fraction(graph.cost(vertex)) for vertex in component.vertices), Fraction())
    raised = dict.fromkeys(component.vertices, larger)
    fall = 0.0
    for query in component.queries:
        now = min(sizes[vertex] for vertex in parts[query])
        then = min(raised.get(vertex, sizes[vertex]) for vertex in parts[query])
        fall += graph.queries[query].weight * (1 / now - 1 / then)
    return _Rise(component, larger, fall, words)


def _next(size: int, allowed: Sequence[int]) -> int:
    """Return the allowed size after one, or the same at the end."""
    return allowed[min(bisect_right(allowed, size), len(allowed) - 1)]


# The document's own rounding, word by word, for vertices that cost one word for each unit of size.


def literal_average(graph: JoinGraph, budget: float) -> float:
    """Return the average error after rounding every size of the optimum down. Paper: sharing, paragraph 0081."""
    sizes = {vertex: int(size) for vertex, size in compute_space(graph, budget).sizes.items()}
    smallest = {query: min(sizes[vertex] for vertex in own) for query, own in graph.parts()}
    return fsum(graph.queries[query].weight / size if size else inf for query, size in smallest.items())


def literal_largest(graph: JoinGraph, budget: float) -> float:
    """Return the largest error after rounding down and spending the rest. Paper: sharing, paragraph 0083.

    Sizes are proportional to the largest weight of each vertex, rounded down; of the words that are left, the
    vertices with the smallest ratio of size to weight get one each.
    """
    weights = largest_weights(graph)
    scale = budget / fsum(weights.values())
    sizes = {vertex: int(scale * weight) for vertex, weight in weights.items()}
    left = int(budget) - sum(sizes.values())
    for vertex in sorted(sizes, key=lambda each: (sizes[each] / weights[each], each))[:left]:
        sizes[vertex] += 1
    smallest = {query: min(sizes[vertex] for vertex in own) for query, own in graph.parts()}
    return max(graph.queries[query].weight / size if size else inf for query, size in smallest.items())
