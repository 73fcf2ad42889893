"""Which queries share sketches: the join graphs of a workload, coalesced, give each link its hash slot."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from eddyline.plan.demands import WorkloadQuery, links_of
from eddyline.plan.layout import Demand, Place
from eddyline.plan.sharing import join_graph as graphs
from eddyline.plan.sharing.coalesce import Objective, coalesce_join_graphs
from eddyline.plan.sharing.hash_slots import hash_slots
from eddyline.sql.query import Query


def workload_graph(asked: Sequence[WorkloadQuery], weights: Mapping[str, float]) -> graphs.JoinGraph:
    """Return the join graph of the queries with joins, nothing shared. Paper: sharing, J(Q)."""
    return graphs.JoinGraph.separate(
        graphs.Query(each.name, weights[each.name], vertices(each))
        for each in asked
        if isinstance(each.query, Query) and each.query.links
    )


def vertices(asked: WorkloadQuery) -> tuple[graphs.Vertex, ...]:
    """Return what a query sketches: each relation of each quantity, equal ones once."""
    query = asked.query
    assert isinstance(query, Query)
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
    """Return what a demand asks for whatever the hash slots: relations of equal ones may share a sketch."""
    places = tuple(Place(0, place.member, place.members) for place in demand.places)
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
        if isinstance(each.query, Query)
    }
    return chosen, graph
