"""Which vertices of a workload become one: the document's greedy, without trying every pair at every step."""

from collections.abc import Hashable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Literal, Protocol

from eddyline.plan.sharing.average_gain import AverageGain
from eddyline.plan.sharing.compute_space import Allocation, compute_space
from eddyline.plan.sharing.join_graph import JoinGraph
from eddyline.plan.sharing.largest_gain import LargestGain
from eddyline.plan.sharing.link_classes import LinkClasses
from eddyline.plan.sharing.max_error import minimise_largest_error

Objective = Literal["average", "largest"]
Pair = tuple[int, int]


def allocate(graph: JoinGraph, budget: float, objective: Objective) -> Allocation:
    """Return the sizes of a graph's sketches that minimise the average or the largest error."""
    return compute_space(graph, budget) if objective == "average" else minimise_largest_error(graph, budget)


def coalesce_join_graphs(
    graph: JoinGraph, budget: float, objective: Objective = "average"
) -> tuple[JoinGraph, Allocation]:
    """Return a well-formed graph with small error, and its sizes.

    At each step the pair of vertices that lowers the error most becomes one; of equal pairs, the first in
    canonical order. A coalesced pair frees the words of its smaller vertex, so that the error always falls, and
    the steps end when no pair is left that may coalesce.

    Paper: sharing, CoalesceJoinGraphs.
    Deviation: pairs are tried in the order of an upper bound of their gain; the result is the same.
    """
    vertices = list(graph.members)
    gain = AverageGain(graph) if objective == "average" else LargestGain(graph)
    for one, other in _Greedy(graph, gain).steps():
        graph = graph.coalesced(vertices[one], vertices[other])
    return graph, allocate(graph, budget, objective)


class _Gain(Protocol):
    """What coalescing two vertices gains: at most, exactly, and after each step."""

    def bound(self, one: int, other: int) -> float: ...
    def trial(self, one: int, other: int) -> tuple[int, frozenset[int]]: ...
    def coalesce(self, one: int, other: int) -> tuple[frozenset[int], set[int]]: ...


class _Greedy:
    """The pairs that may still coalesce, in a heap by their gain or, until that is asked for, by its bound.

    A bound is never below its gain, and ties are broken by the pair. Hence the first exact gain that surfaces is
    the best. Entries that are out of date stay in the heap with a stamp that no longer fits.
    """

    def __init__(self, graph: JoinGraph, gain: _Gain) -> None:
        self._vertices = list(graph.members)
        self._classes = LinkClasses(graph)
        self._gain = gain
        self._alike = _alike(graph)
        self._barred: set[Pair] = set()
        self._stamps: dict[Pair, int] = {}
        self._stamp = 0
        self._depending: dict[int, set[Pair]] = {}
        self._heap: list[tuple[float, Pair, bool, int]] = []
        self._refresh(self._pairs_of(range(len(self._vertices))))

    def steps(self) -> Iterator[Pair]:
        """Yield the pairs that become one, each after the last; the first of a pair keeps its number."""
        while self._heap:
            _, pair, exact, stamp = heappop(self._heap)
            if self._stamps.get(pair) != stamp:
                continue
            if self._clash(pair):
                self._bar(pair)
            elif exact:
                self._coalesce(pair)
                yield pair
            else:
                value, area = self._gain.trial(*pair)
                heappush(self._heap, (-value, pair, True, stamp))
                for component in area:
                    self._depending.setdefault(component, set()).add(pair)

    def _clash(self, pair: Pair) -> bool:
        one, other = (self._vertices[vertex] for vertex in pair)
        return self._classes.clash(one, other) is not None

    def _bar(self, pair: Pair) -> None:
        """Forget a pair for good: classes only grow, so that what clashes once always does."""
        self._barred.add(pair)
        self._stamps.pop(pair, None)

    def _coalesce(self, pair: Pair) -> None:
        one, other = pair
        self._classes.coalesce(self._vertices[one], self._vertices[other])
        self._alike[one].remove(other)
        del self._stamps[pair]
        for partner in self._alike[one]:
            gone = _ordered(partner, other)
            self._stamps.pop(gone, None)
            if gone in self._barred:
                self._bar(_ordered(partner, one))
        replaced, changed = self._gain.coalesce(one, other)
        stale = {stale for component in replaced for stale in self._depending.pop(component, ())}
        self._refresh(self._pairs_of(changed) | (stale & self._stamps.keys()))

    def _pairs_of(self, vertices: Iterable[int]) -> set[Pair]:
        pairs = {_ordered(one, other) for one in vertices for other in self._alike[one] if one != other}
        return pairs - self._barred

    def _refresh(self, pairs: set[Pair]) -> None:
        """Put back pairs whose gains have changed, with new bounds."""
        self._stamp += 1
        for pair in pairs:
            self._stamps[pair] = self._stamp
            heappush(self._heap, (-self._gain.bound(*pair), pair, False, self._stamp))


def _ordered(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _alike(graph: JoinGraph) -> list[list[int]]:
    """Return, for each vertex, the one list of all vertices of its kind."""
    kinds: dict[Hashable, list[int]] = {}
    for number, vertex in enumerate(graph.members):
        kinds.setdefault(graph.kind(vertex), []).append(number)
    return [kinds[graph.kind(vertex)] for vertex in graph.members]
