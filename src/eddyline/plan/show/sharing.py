"""What the queries of a plan share: weights, sizes, components of equal size, and sketches that could not be one."""

from itertools import combinations
from statistics import fmean

import msgspec

from eddyline.plan.demands import links_of
from eddyline.plan.layout import Demand, KeptSynopsis, Layout, PlannedQuery
from eddyline.plan.sharing.coalesce import without_slots
from eddyline.plan.sharing.join_graph import (
    Conflict,
    DifferentRoles,
    End,
    JoinGraph,
    Vertex,
    VertexId,
    conflict,
)
from eddyline.plan.sharing.join_graph import Query as GraphQuery
from eddyline.plan.sharing.space import compute_space
from eddyline.plan.statistics import held_of
from eddyline.sql.query import Link, Query


class Apart(msgspec.Struct, frozen=True):
    """Two synopses that hold the same data but could not be merged, and why."""

    ids: tuple[str, str]
    why: str


class Weighed(msgspec.Struct, frozen=True):
    """A query with sketches: W, and M, the counters of the smallest sketch (or bundle of parts) that it reads.

    Its expected squared error is W / M, times its weight. Paper: sharing, W_Q and M_Q.
    """

    query: str
    weight: float
    size: int


class Component(msgspec.Struct, frozen=True):
    """Sketches that have one size in the optimum, the queries that decide it, and the size, in counters.

    The size is the optimum of the shared graph before floors and rounding; for an error function that was given, the
    mean of the sizes in the plan. Paper: sharing, ≡-component.
    """

    sketches: tuple[str, ...]
    queries: tuple[str, ...]
    weight: float
    size: float


class Sharing(msgspec.Struct, frozen=True):
    """How the sketches of a plan's joins were sized, and which of them could not be shared."""

    objective: str
    queries: tuple[Weighed, ...]
    components: tuple[Component, ...]
    apart: tuple[Apart, ...]


def sharing_of(layout: Layout) -> Sharing:
    """Return the weights, sizes and components of a plan's joins; empty if no join has sketches."""
    weighed = tuple(
        Weighed(each.name, each.sketch_weight, _smallest(each, layout))
        for each in layout.queries
        if each.sketch_weight is not None and isinstance(each.query, Query) and each.quantities
    )
    return Sharing(layout.objective, weighed, _components(layout), could_not_share(layout))


def _smallest(planned: PlannedQuery, layout: Layout) -> int:
    """Return the counters of the smallest relation of a query, all its parts together."""
    return min(
        sum(layout.by_id[name].size for name in set(relation))
        for quantity in planned.quantities.values()
        for relation in zip(*quantity.sketches, strict=True)
    )


def _components(layout: Layout) -> tuple[Component, ...]:
    """Return the components of equal size, if the average error is least and all weights are known."""
    graph, ids = _shared_graph(layout)
    known = all(each.sketch_weight is not None for each in layout.queries if each.name in graph.queries)
    if layout.objective == "largest" or not graph.queries or not known:
        return ()
    budget = sum(layout.by_id[name].size for name in ids.values())
    found = compute_space(graph, budget)
    return tuple(
        Component(
            tuple(ids[vertex] for vertex in each.vertices),
            each.queries,
            each.weight,
            found.sizes[each.vertices[0]]
            if layout.objective == "average"
            else fmean(layout.by_id[ids[vertex]].size for vertex in each.vertices),
        )
        for each in found.components
    )


def readers_of(layout: Layout) -> dict[str, list[str]]:
    """Return the queries that read each synopsis, by its id."""
    readers: dict[str, list[str]] = {}
    for planned in layout.queries:
        for identifier in planned.ids:
            readers.setdefault(identifier, []).append(planned.name)
    return readers


def holds_of(kept: KeptSynopsis) -> str:
    """Return what a synopsis holds, with its hash slots, short enough for a picture."""
    slots = sorted({place.slot for place in kept.demand.places})
    by = f", slot {', '.join(map(str, slots))}" if slots else ""
    return f"{kept.demand.kind} {held_of(kept.demand)}{by}".replace("  ", " ").strip()


def could_not_share(layout: Layout) -> tuple[Apart, ...]:
    """Return the pairs of sketches that hold the same data for different queries, and why they are not one."""
    graph, ids = _shared_graph(layout)
    alike: dict[Demand, list[VertexId]] = {}
    for vertex, name in ids.items():
        alike.setdefault(without_slots(layout.by_id[name].demand), []).append(vertex)
    found = []
    for group in alike.values():
        for one, other in combinations(group, 2):
            why = conflict(graph, one, other)
            if why is not None:
                found.append(Apart((ids[one], ids[other]), _told(why, layout)))
    return tuple(found)


def _told(why: Conflict | DifferentRoles, layout: Layout) -> str:
    if isinstance(why, DifferentRoles):
        return "they stand at different places of a link of three relations or more"
    query = next(each.query for each in layout.queries if each.name == why.query)
    assert isinstance(query, Query)
    one, other = (spelled(query.links[int(link)]) for link in sorted(why.links))
    return f"query {why.query} would hash its joins on {one} and on {other} alike, and count rows that do not join"


def _shared_graph(layout: Layout) -> tuple[JoinGraph, dict[VertexId, str]]:
    """Return the join graph as shared by the plan, and the synopsis of each of its vertices."""
    queries: list[GraphQuery] = []
    names: dict[VertexId, str] = {}
    for each in layout.queries:
        if not isinstance(each.query, Query) or not each.query.links or not each.quantities:
            continue
        vertices: dict[str, Vertex] = {}
        shares = each.decision.shares
        for quantity in each.quantities.values():
            for share, part in zip(shares, quantity.sketches, strict=True):
                for index, name in enumerate(part):
                    demand = layout.by_id[name].demand
                    ends = tuple(
                        End(str(link), place.member, place.members)
                        for link, place in zip(links_of(each.query, index), demand.places, strict=True)
                    )
                    vertices.setdefault(name, Vertex(without_slots(demand), ends, share))
        queries.append(GraphQuery(each.name, each.sketch_weight or 1.0, tuple(vertices.values())))
        names |= {(each.name, place): name for place, name in enumerate(vertices)}
    graph = JoinGraph.separate(queries)
    groups: dict[str, list[VertexId]] = {}
    for vertex in graph.members:
        groups.setdefault(names[vertex], []).append(vertex)
    shared = JoinGraph(graph.queries, {group[0]: tuple(group) for group in groups.values()})
    return shared, {group[0]: name for name, group in groups.items()}


def spelled(link: Link) -> str:
    """Return the key of a link, in the spellings of all its members."""
    return " = ".join(dict.fromkeys(str(member.key).replace("`", "") for member in link.members))
