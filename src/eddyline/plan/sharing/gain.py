"""How much the error of a workload falls when two vertices coalesce: the average error or the largest."""

from math import isqrt, sqrt

import msgspec

from eddyline.plan.sharing.flow_graph import FlowGraph
from eddyline.plan.sharing.join_graph import JoinGraph
from eddyline.plan.sharing.space import FinalComponent, final_components, numbered_graph

# How much the optimum average error falls, without solving the whole workload.
#
# The optimum error is S² / budget, where S is the sum over the components of sqrt(weight x cost), so that
# only S counts and the budget does not. S is kept as an integer: sums then do not depend on their order,
# and equal gains are equal. Four facts make a step local.
#
# - Coalescing never makes a size smaller. Hence it changes the components of the two vertices, and beyond
#   them only those that hold a vertex which would become smaller than a query that reads it.
# - For the same reason a computed gain holds until one of the components that it looked at changes.
# - A vertex that joins a larger one gives up its own capacity and nothing else, if its queries still stay
#   below the larger one. That gain is computed once for a vertex, not for each pair.
# - S is also the largest sum of sqrt(weight x flow) that any flow reaches. Hence the present flow, cut down
#   to what one vertex can carry instead of two, bounds the gain from above.


ROOT_BITS = 96
SPLITS = 8
"""The number of ways in which a bound tries to divide one vertex's capacity between two."""
SLACK = 1e-9, 1e4
"""Added to a bound for floating-point error (relative) and for rounded roots (absolute)."""


Totals = tuple[int, int]
"""The weight and the cost of a component: its size is the square root of their ratio."""


class Trial(msgspec.Struct, frozen=True):
    """The gain of coalescing two vertices, the components it would replace, and their replacements."""

    gain: int
    area: frozenset[int]
    components: list[FinalComponent]


class Removal(msgspec.Struct, frozen=True):
    """The gain from removing a vertex, where it arises, and the weight and cost of its largest query then."""

    gain: int
    area: frozenset[int]
    largest: Totals


class AverageGain:
    """The components of a workload's optimum, updated as vertices coalesce."""

    def __init__(self, graph: JoinGraph) -> None:
        start = numbered_graph(graph)
        self._costs, self._weights = dict(start.costs), start.weights
        self._uses = {vertex: set(users) for vertex, users in start.uses.items()}
        self._readers: dict[int, set[int]] = {query: set() for query in start.weights}
        for vertex, users in start.uses.items():
            for query in users:
                self._readers[query].add(vertex)
        self._largest = max(self._costs.values()), max(self._weights.values())
        self._components: dict[int, FinalComponent] = {}
        self._of_vertex: dict[int, int] = {}
        self._totals: dict[int, Totals] = {}
        self._removals: dict[int, Removal] = {}
        self._losses: dict[int, list[float]] = {}
        self._added = 0
        for component in final_components(start):
            self._add(component)

    def most(self, vertex: int) -> float:
        """Return an upper bound of all gains of a vertex, whatever it coalesces with."""
        return self._lost({vertex: 1.0}) * (1 + SLACK[0]) + SLACK[1]

    def bound(self, one: int, other: int) -> float:
        """Return an upper bound of the gain of two vertices."""
        if self._of_vertex[one] != self._of_vertex[other]:
            first, second = self._loss(one), self._loss(other)
            loss = min(map(sum, zip(first, reversed(second), strict=True)))
        else:
            loss = min(
                self._lost({one: split / SPLITS, other: 1 - split / SPLITS}) for split in range(SPLITS + 1)
            )
        return loss * (1 + SLACK[0]) + SLACK[1]

    def trial(self, one: int, other: int) -> tuple[int, frozenset[int]]:
        """Return the gain of coalescing two vertices, and the components on which it depends."""
        small, large = (
            (one, other)
            if _is_below(self._totals[self._of_vertex[one]], self._totals[self._of_vertex[other]])
            else (other, one)
        )
        home = self._of_vertex[large]
        removal = self._removed(small)
        if not _is_below(self._totals[home], removal.largest):
            return removal.gain, removal.area | {home}
        solved = self._solve(one, other)
        return solved.gain, solved.area

    def coalesce(self, one: int, other: int) -> tuple[frozenset[int], set[int]]:
        """Merge the second vertex into the first; return the components removed and the vertices changed.

        The gains that depended on those components, and all gains of those vertices, have to be computed again.
        """
        trial = self._solve(one, other)
        self._uses[one] |= self._uses.pop(other)
        for query in self._uses[one]:
            self._readers[query].discard(other)
            self._readers[query].add(one)
        del self._costs[other]
        return self._replace(trial, one, other)

    def _replace(self, trial: Trial, one: int, other: int) -> tuple[frozenset[int], set[int]]:
        """Return the components of a trial's area that are gone, and the vertices of those that replace them.

        A component that has only taken in a vertex without giving it flow counts as unchanged.
        """
        before = {}
        for number in trial.area:
            graph = self._components[number].graph
            own = frozenset(one if vertex == other else vertex for vertex in graph.costs)
            before[own, frozenset(graph.weights)] = number
        kept, changed = set[int](), {one}
        for component in trial.components:
            same = before.get((frozenset(component.graph.costs), frozenset(component.graph.weights)))
            if same is None or self._totals[same][1] != component.graph.total_cost():
                changed |= component.graph.costs.keys()
                self._add(component)
            else:
                kept.add(same)
                self._components[same] = component
                if one in component.graph.costs:
                    self._of_vertex[one] = same
        self._losses.pop(one, None)
        self._removals.pop(one, None)
        for number in trial.area - kept:
            del self._components[number], self._totals[number]
        return trial.area - kept, changed

    def _solve(self, one: int | None, other: int) -> Trial:
        """Return the optimum after two vertices are merged, or after the second is removed if there is no first."""
        area = {self._of_vertex[vertex] for vertex in (one, other) if vertex is not None}
        while True:
            found = final_components(self._coalesced(area, one, other))
            wider = self._overtaken(found, area)
            if not wider:
                before = sum(self._roots(self._components[component].graph) for component in area)
                after = sum(self._roots(component.graph) for component in found)
                return Trial(before - after, frozenset(area), found)
            area |= wider

    def _removed(self, vertex: int) -> Removal:
        """Return what a vertex gives up if its queries no longer use it."""
        known = self._removals.get(vertex)
        if known is None or not known.area <= self._components.keys():
            trial = self._solve(None, vertex)
            largest = (0, 1)
            for component in trial.components:
                totals = component.graph.total_weight(), component.graph.total_cost()
                if not self._uses[vertex].isdisjoint(component.graph.weights) and _is_below(largest, totals):
                    largest = totals
            known = self._removals[vertex] = Removal(trial.gain, trial.area, largest)
        return known

    def _add(self, component: FinalComponent) -> None:
        self._components[self._added] = component
        self._of_vertex.update(dict.fromkeys(component.graph.costs, self._added))
        self._totals[self._added] = component.graph.total_weight(), component.graph.total_cost()
        for vertex in component.graph.costs:
            self._losses.pop(vertex, None)
        self._added += 1

    def _coalesced(self, area: set[int], one: int | None, other: int) -> FlowGraph:
        """Return the part of the workload in some components, with two vertices made one, or one removed."""
        graphs = [self._components[component].graph for component in area]
        weights = {query: weight for graph in graphs for query, weight in graph.weights.items()}
        costs = {vertex: cost for graph in graphs for vertex, cost in graph.costs.items() if vertex != other}
        uses = {vertex: [query for query in self._uses[vertex] if query in weights] for vertex in costs}
        if one is not None:
            uses[one] = [query for query in self._uses[one] | self._uses[other] if query in weights]
        return FlowGraph(costs, weights, uses)

    def _overtaken(self, found: list[FinalComponent], area: set[int]) -> set[int]:
        """Return the components outside an area with a vertex that a query inside would outgrow."""
        overtaken = set[int]()
        for component in found:
            totals = component.graph.total_weight(), component.graph.total_cost()
            outside = {
                self._of_vertex[vertex]
                for query in component.graph.weights
                for vertex in self._readers[query]
            } - area
            overtaken |= {other for other in outside if _is_below(self._totals[other], totals)}
        return overtaken

    def _roots(self, component: FlowGraph) -> int:
        """Return what a component adds to S, the sum of sqrt(weight x flow) over its queries, in tiny units.

        Each query is rounded separately. The result then depends only on the sizes, and not on whether two
        components of one size were found together or separately.
        """
        weight, cost = component.total_weight(), component.total_cost()
        unit = weight * self._largest[0] * self._largest[1]
        return sum(isqrt((own * own * cost << 2 * ROOT_BITS) // unit) for own in component.weights.values())

    def _loss(self, vertex: int) -> list[float]:
        """Return the most that S loses when a vertex loses 0/8, 1/8, ... 8/8 of its capacity."""
        if vertex not in self._losses:
            self._losses[vertex] = [self._lost({vertex: split / SPLITS}) for split in range(SPLITS + 1)]
        return self._losses[vertex]

    def _lost(self, shares: dict[int, float]) -> float:
        """Return what S loses when vertices of one component lose shares of their flow, and no flow is rerouted."""
        component = self._components[self._of_vertex[next(iter(shares))]]
        weight = component.graph.total_weight()
        lost = 0.0
        for query in {
            query for vertex in shares for query in self._uses[vertex] & component.flow.into.keys()
        }:
            into = component.flow.into[query]
            flow = sum(into.values())
            gone = sum(share * (into.get(vertex, 0) / flow) for vertex, share in shares.items())
            full = sqrt(self._weights[query] / self._largest[1] * (flow / (weight * self._largest[0])))
            lost += full * gone / (1 + sqrt(max(0.0, 1 - gone)))
        return lost * 2.0**ROOT_BITS


def _is_below(one: Totals, other: Totals) -> bool:
    """Return whether components of some weight and cost have a smaller size than others."""
    return one[0] * other[1] < other[0] * one[1]


# How much the least largest error falls when two vertices coalesce.


class LargestGain:
    """The heaviest query of each vertex; the least largest error is the sum of these weights times the costs."""

    def __init__(self, graph: JoinGraph) -> None:
        start = numbered_graph(graph)
        self._costs = start.costs
        self._weights = {
            vertex: max(start.weights[query] for query in users) for vertex, users in start.uses.items()
        }

    def most(self, vertex: int) -> int:
        """Return an upper bound of all gains of a vertex, whatever it coalesces with."""
        return self._costs[vertex] * self._weights[vertex]

    def bound(self, one: int, other: int) -> int:
        """Return the exact gain of two vertices, which costs no more than a bound."""
        return self._costs[one] * min(self._weights[one], self._weights[other])

    def trial(self, one: int, other: int) -> tuple[int, frozenset[int]]:
        """Return the gain of coalescing two vertices, which depends on nothing but them."""
        return self.bound(one, other), frozenset()

    def coalesce(self, one: int, other: int) -> tuple[frozenset[int], set[int]]:
        """Merge the second vertex into the first; return no component, and the first, whose gains have changed."""
        self._weights[one] = max(self._weights[one], self._weights.pop(other))
        return frozenset(), {one}
