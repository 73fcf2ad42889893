"""Which vertices of a workload become one: the document's greedy, without trying every pair at every step."""

from collections.abc import Hashable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Literal, Protocol

from eddyline.plan.sharing.average_gain import AverageGain
from eddyline.plan.sharing.compute_space import Allocation, compute_space
from eddyline.plan.sharing.join_graph import JoinGraph, VertexId
from eddyline.plan.sharing.largest_gain import LargestGain
from eddyline.plan.sharing.link_classes import LinkClasses
from eddyline.plan.sharing.max_error import minimise_largest_error

Objective = Literal["average", "largest"]
Pair = tuple[int, int]
ANY = -1
"""Stands for the other vertex in the entry of a vertex; it comes before all pairs of the same value."""


def allocate(graph: JoinGraph, budget: float, objective: Objective) -> Allocation:
    """Return the sizes of a graph's sketches that minimise the average or the largest error."""
    return compute_space(graph, budget) if objective == "average" else minimise_largest_error(graph, budget)


def coalesce_join_graphs(
    graph: JoinGraph, budget: float, objective: Objective = "average"
) -> tuple[JoinGraph, Allocation]:
    """Return a well-formed graph with small error, and its sizes.

    At each step the pair of vertices that lowers the error most becomes one; of equal pairs, the first in
    canonical order. A coalesced pair frees the words of its smaller vertex, so that the error always falls, and
    the steps end when no pair is left that may coalesce. Which pairs do does not depend on the budget.

    Paper: sharing, CoalesceJoinGraphs.
    Deviation: pairs are tried in the order of an upper bound of their gain; the result is the same.
    """
    for one, other in coalescing_steps(graph, objective):
        graph = graph.coalesced(one, other)
    return graph, allocate(graph, budget, objective)


def coalescing_steps(graph: JoinGraph, objective: Objective) -> Iterator[tuple[VertexId, VertexId]]:
    """Yield the pairs of vertices that become one, best first, each under the id of the first in the pair."""
    vertices = list(graph.members)
    gain = AverageGain(graph) if objective == "average" else LargestGain(graph)
    for one, other in _Greedy(graph, gain).steps():
        yield vertices[one], vertices[other]


class _Gain(Protocol):
    """What coalescing two vertices gains: at most, exactly, and after each step."""

    def most(self, vertex: int) -> float: ...
    def bound(self, one: int, other: int) -> float: ...
    def trial(self, one: int, other: int) -> tuple[int, frozenset[int]]: ...
    def coalesce(self, one: int, other: int) -> tuple[frozenset[int], set[int]]: ...


class _Greedy:
    """The pairs that may still coalesce, in a heap by their gain or, until that is asked for, by its bound.

    A vertex is in the heap by the most that any pair of it gains; when it surfaces it is open, and its pairs with
    other open vertices enter. No bound is below the gains that it stands for, and ties are broken by the pair.
    Hence the first exact gain that surfaces is the best. Entries that are out of date stay in the heap with a
    version that no longer fits.
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
        """Yield the pairs that become one, each after the last; the first of a pair keeps its number."""
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
        """Withdraw all pairs of vertices whose gains have changed, until the vertices surface again."""
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
        """Return whether a pair may not coalesce; it never will then, since classes only grow."""
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
