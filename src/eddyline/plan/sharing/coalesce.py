"""Which vertices of a workload's join graphs become one sketch: the document's greedy algorithm."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Literal, Protocol

from msgspec.structs import replace

from eddyline.plan.demands import WorkloadQuery, links_of
from eddyline.plan.layout import Demand
from eddyline.plan.sharing import join_graph as graphs
from eddyline.plan.sharing.gain import AverageGain, LargestGain
from eddyline.plan.sharing.join_graph import JoinGraph, LinkClasses, VertexId, hash_slots
from eddyline.plan.sharing.space import Allocation, ErrorFunction, compute_space, minimise_largest_error

# The greedy algorithm runs without trying every pair at every step.


ObjectiveName = Literal["average", "largest"]
Objective = ObjectiveName | ErrorFunction
"""Which error over the workload is least; with a function phi, the sum over queries of weight * phi(smallest size)."""
Pair = tuple[int, int]
ANY = -1
"""Replaces the other vertex in the entry of a vertex; it comes before all pairs of the same value."""


def allocate(graph: JoinGraph, budget: float, objective: Objective) -> Allocation:
    """Return the sizes of a graph's sketches that minimize the average or the largest error."""
    if objective == "largest":
        return minimise_largest_error(graph, budget)
    return compute_space(graph, budget, objective if callable(objective) else None)


def coalesce_join_graphs(
    graph: JoinGraph, budget: float, objective: Objective = "average"
) -> tuple[JoinGraph, Allocation]:
    """Return a well-formed graph with small error, and its sizes.

    At each step the pair of vertices that lowers the error most becomes one; of equal pairs, the first in
    canonical order. A coalesced pair frees the words of its smaller vertex, so that the error always falls, and
    the steps end when no pair is left that may coalesce. Which pairs coalesce does not depend on the budget.

    Paper: sharing, CoalesceJoinGraphs.
    Deviation: pairs are tried in the order of an upper bound of their gain; the result is the same. With an error
    function of one's own, pairs coalesce as for 1 / size, and the sizes are those of the function.
    """
    for one, other in coalescing_steps(graph, objective):
        graph = graph.coalesced(one, other)
    return graph, allocate(graph, budget, objective)


def coalescing_steps(graph: JoinGraph, objective: Objective) -> Iterator[tuple[VertexId, VertexId]]:
    """Yield the pairs of vertices that become one, best first, each under the id of the first in the pair."""
    vertices = list(graph.members)
    gain = LargestGain(graph) if objective == "largest" else AverageGain(graph)
    for one, other in _Greedy(graph, gain).steps():
        yield vertices[one], vertices[other]


class _Gain(Protocol):
    """The gain of coalescing two vertices: at most, exactly, and after each step."""

    def most(self, vertex: int) -> float: ...
    def bound(self, one: int, other: int) -> float: ...
    def trial(self, one: int, other: int) -> tuple[int, frozenset[int]]: ...
    def coalesce(self, one: int, other: int) -> tuple[frozenset[int], set[int]]: ...


class _Greedy:
    """The pairs that may still coalesce, in a heap by their gain or, until it is computed, by its bound.

    A vertex is in the heap with the largest gain of any of its pairs; when it is popped it is open, and its pairs
    with other open vertices enter. No bound is below the gains that it represents, and ties are broken by the pair.
    Hence the first exact gain that is popped is the best. Outdated entries stay in the heap with a version that no
    longer matches.
    """

    def __init__(self, graph: JoinGraph, gain: _Gain) -> None:
        self._vertices = list(graph.members)
        self._classes = LinkClasses(graph)
        self._gain = gain
        self._alike = _alike(graph)
        self._open: set[int] = set()
        self._barred: set[Pair] = set()
        self._versions = dict.fromkeys((ANY, *range(len(self._vertices))), 0)
        self._depending: dict[int, set[Pair]] = {}
        self._heap: list[tuple[float, Pair, bool, Pair]] = []
        self._close(range(len(self._vertices)))

    def steps(self) -> Iterator[Pair]:
        """Yield the pairs that become one, in order; the first of a pair keeps its number."""
        while self._heap:
            _, pair, exact, versions = heappop(self._heap)
            one, other = pair
            if versions != (self._versions[one], self._versions[other]):
                continue
            if one == ANY:
                self._unfold(other)
            elif self._clash(pair):
                self._barred.add(pair)
            elif exact:
                self._coalesce(pair)
                yield pair
            else:
                self._try(pair)

    def _push(self, value: float, pair: Pair, *, exact: bool) -> None:
        versions = self._versions[pair[0]], self._versions[pair[1]]
        heappush(self._heap, (-value, pair, exact, versions))

    def _close(self, vertices: Iterable[int]) -> None:
        """Withdraw all pairs of vertices whose gains have changed, until the vertices are popped again."""
        for vertex in vertices:
            self._open.discard(vertex)
            self._versions[vertex] += 1
            self._push(self._gain.most(vertex), (ANY, vertex), exact=False)

    def _unfold(self, vertex: int) -> None:
        for other in self._alike[vertex]:
            pair = _ordered(vertex, other)
            if other in self._open and pair not in self._barred:
                self._push(self._gain.bound(*pair), pair, exact=False)
        self._open.add(vertex)

    def _try(self, pair: Pair) -> None:
        value, area = self._gain.trial(*pair)
        self._push(value, pair, exact=True)
        for component in area:
            self._depending.setdefault(component, set()).add(pair)

    def _clash(self, pair: Pair) -> bool:
        """Return whether a pair may not coalesce; this is final, since classes only grow."""
        one, other = (self._vertices[vertex] for vertex in pair)
        return self._classes.clash(one, other) is not None

    def _coalesce(self, pair: Pair) -> None:
        one, other = pair
        self._classes.coalesce(self._vertices[one], self._vertices[other])
        self._alike[one].remove(other)
        self._versions[other] += 1
        self._barred |= {
            _ordered(partner, one) for partner in self._alike[one] if _ordered(partner, other) in self._barred
        }
        replaced, changed = self._gain.coalesce(one, other)
        self._open -= changed | {other}
        stale = {pair for component in replaced for pair in self._depending.pop(component, ())}
        self._close(changed | {first for first, second in stale if {first, second} <= self._open})


def _ordered(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _alike(graph: JoinGraph) -> list[list[int]]:
    """Return, for each vertex, the one list of all vertices of its kind."""
    kinds: dict[Hashable, list[int]] = {}
    for number, vertex in enumerate(graph.members):
        kinds.setdefault(graph.kind(vertex), []).append(number)
    return [kinds[graph.kind(vertex)] for vertex in graph.members]


# Which queries share sketches: the join graphs of a workload, coalesced, give each link its hash slot.


def workload_graph(asked: Sequence[WorkloadQuery], weights: Mapping[str, float]) -> graphs.JoinGraph:
    """Return the join graph of the queries with joins, nothing shared. Paper: sharing, J(Q)."""
    return graphs.JoinGraph.separate(
        graphs.GraphQuery(each.name, weights[each.name], vertices(each))
        for each in asked
        if each.query.is_scalar and each.query.links
    )


def vertices(asked: WorkloadQuery) -> tuple[graphs.Vertex, ...]:
    """Return what a query sketches: each relation of each quantity, equal ones once."""
    query = asked.query
    found: dict[graphs.Vertex, None] = {}
    for quantity in asked.quantities.values():
        for index, demand in enumerate(quantity.whole):
            ends = tuple(
                graphs.End(str(link), place.member, place.members)
                for link, place in zip(links_of(query, index), demand.places, strict=True)
            )
            found[graphs.Vertex(without_slots(demand), ends)] = None
    return tuple(found)


def without_slots(demand: Demand) -> Demand:
    """Return what a demand needs regardless of the hash slots: relations of equal demands may share a sketch."""
    places = tuple(replace(place, slot=0) for place in demand.places)
    return replace(demand, places=places)


def chosen_slots(
    asked: Sequence[WorkloadQuery], weights: Mapping[str, float], objective: Objective
) -> tuple[dict[str, tuple[int, ...]], graphs.JoinGraph]:
    """Return the slot of each link of each query, and the coalesced graph that they come from."""
    graph = workload_graph(asked, weights)
    if graph.queries:
        graph, _ = coalesce_join_graphs(graph, 1.0, objective)
    found = hash_slots(graph)
    chosen = {
        each.name: tuple(found[each.name, str(link)] for link in range(len(each.query.links)))
        for each in asked
        if each.query.is_scalar
    }
    return chosen, graph
