"""How much the least largest error falls when two vertices coalesce."""

from eddyline.plan.sharing.compute_space import numbered
from eddyline.plan.sharing.join_graph import JoinGraph


class LargestGain:
    """The heaviest query of each vertex; the least largest error is the sum of these weights times the costs."""

    def __init__(self, graph: JoinGraph) -> None:
        start = numbered(graph)
        self._costs = start.costs
        self._weights = {
            vertex: max(start.weights[query] for query in users) for vertex, users in start.uses.items()
        }

    def most(self, vertex: int) -> int:
        """Return a number that no gain of a vertex exceeds, whatever it coalesces with."""
        return self._costs[vertex] * self._weights[vertex]

    def bound(self, one: int, other: int) -> int:
        """Return the gain of two vertices, which costs no more than a bound of it."""
        return self._costs[one] * min(self._weights[one], self._weights[other])

    def trial(self, one: int, other: int) -> tuple[int, frozenset[int]]:
        """Return the gain of coalescing two vertices, and that it depends on nothing but them."""
        return self.bound(one, other), frozenset()

    def coalesce(self, one: int, other: int) -> tuple[frozenset[int], set[int]]:
        """Make one vertex of two, under the first's number; return that its gains have changed."""
        self._weights[one] = max(self._weights[one], self._weights.pop(other))
        return frozenset(), {one}
