"""How many words each sketch gets when the largest error over a workload is to be least."""

from math import fsum

from eddyline.errors import PlanError
from eddyline.plan.sharing.compute_space import Allocation
from eddyline.plan.sharing.join_graph import JoinGraph, VertexId


def largest_weights(graph: JoinGraph) -> dict[VertexId, float]:
    """Return the largest weight among the queries of each vertex.

    Paper: sharing, paragraph 0083, max of W_Q over Q(v).
    """
    return {
        vertex: max(graph.queries[query].weight for query in graph.users(vertex)) for vertex in graph.members
    }


def minimise_largest_error(graph: JoinGraph, budget: float) -> Allocation:
    """Return the sizes that minimise the largest weight / smallest size, within a budget of words.

    Each vertex is as large as the heaviest of its queries demands.

    Paper: sharing, paragraphs 0082 and 0083, before rounding.
    """
    if not budget > 0:
        raise PlanError(f"the budget is {budget} words: it must be positive.")
    weights = largest_weights(graph)
    error = fsum(weight * graph.cost(vertex) for vertex, weight in weights.items()) / budget
    sizes = {vertex: weight / error for vertex, weight in sorted(weights.items())}
    query_sizes = {name: min(sizes[vertex] for vertex in own) for name, own in graph.parts()}
    return Allocation(sizes, query_sizes, error)
