"""A plan as a picture: join graphs before and after sharing, as a value that Mermaid and SVG are drawn from."""

from collections.abc import Iterator
from itertools import combinations
from math import inf

import msgspec

from eddyline.plan.demands import links_of
from eddyline.plan.layout import Demand, KeptSynopsis, Layout, PlannedQuery, PlannedSample
from eddyline.plan.sharing.join_graph import End, JoinGraph, Vertex, VertexId
from eddyline.plan.sharing.join_graph import Query as GraphQuery
from eddyline.plan.sharing.link_classes import Conflict, DifferentRoles, conflict
from eddyline.plan.sharing.workload_graph import without_slots
from eddyline.plan.statistics import held_of
from eddyline.sql.query import Link, Query


class Meeting(msgspec.Struct, frozen=True):
    """A link of a query: the relations that meet, on which key, and by which hash slot."""

    relations: tuple[int, ...]
    key: str
    slot: int


class Asking(msgspec.Struct, frozen=True):
    """A query before sharing: its relations by alias, their links, and the error that is expected."""

    name: str
    text: str
    relations: tuple[str, ...]
    meetings: tuple[Meeting, ...]
    error: float


class Shown(msgspec.Struct, frozen=True):
    """A synopsis after sharing: its stream, what it holds, its bytes, and who reads it."""

    id: str
    stream: str
    holds: str
    nbytes: int
    readers: tuple[str, ...]


class Apart(msgspec.Struct, frozen=True):
    """Two synopses that hold the same and could not be one, and why."""

    ids: tuple[str, str]
    why: str


class Picture(msgspec.Struct, frozen=True):
    """Everything that a picture of a plan shows."""

    queries: tuple[Asking, ...]
    synopses: tuple[Shown, ...]
    apart: tuple[Apart, ...]
    costs: dict[str, int]


def picture_of(layout: Layout) -> Picture:
    """Return the picture of a plan; windows are not in it."""
    readers = readers_of(layout)
    synopses = tuple(
        Shown(kept.id, kept.stream, holds_of(kept), kept.nbytes, tuple(readers.get(kept.id, ())))
        for kept in layout.by_id.values()
        if kept.id in readers or kept.demand.sample
    )
    synopses += tuple(shown for sample in layout.samples for shown in _dictionaries(sample, layout))
    costs = {stream.name: layout.update_cost(stream.name) for stream in layout.streams}
    drawn = tuple(_asking(each) for each in layout.queries)
    return Picture(drawn, synopses, could_not_share(layout), costs)


def readers_of(layout: Layout) -> dict[str, list[str]]:
    """Return the queries that read each synopsis, by its id."""
    readers: dict[str, list[str]] = {}
    for planned in layout.queries:
        for identifier in planned.ids:
            readers.setdefault(identifier, []).append(planned.name)
    return readers


def _dictionaries(sample: PlannedSample, layout: Layout) -> Iterator[Shown]:
    """Yield the dictionaries of a stream sample, each with an equal part of the memory that they share."""
    readers = tuple(each.name for each in layout.queries if each.sample == sample.id)
    for elements in sample.exact:
        keys = ", ".join(str(key).replace("`", "") for key in elements.keys)
        share = sample.spec.kept_budget // len(sample.exact)
        yield Shown(f"{sample.id}-{elements.stream}", elements.stream, f"sample by {keys}", share, readers)


def holds_of(kept: KeptSynopsis) -> str:
    """Return what a synopsis holds, with its hash slots, as a picture has room for."""
    slots = sorted({place.slot for place in kept.demand.places})
    by = f", slot {', '.join(map(str, slots))}" if slots else ""
    return f"{kept.demand.kind} {held_of(kept.demand)}{by}".replace("  ", " ").strip()


def _asking(planned: PlannedQuery) -> Asking:
    query, text = planned.query, " ".join(planned.query.text.split())
    error = inf if planned.expected_error is None else planned.expected_error
    if not isinstance(query, Query):
        return Asking(planned.name, text, (), (), error)
    slots = planned.shape.classes if planned.shape is not None else planned.decision.hash_slots
    meetings = tuple(
        Meeting(tuple(member.relation for member in link.members), _spelled(link), slots[index])
        for index, link in enumerate(query.links)
    )
    return Asking(planned.name, text, tuple(relation.alias for relation in query.relations), meetings, error)


def _spelled(link: Link) -> str:
    """Return the key of a link, in the spellings of all its members."""
    return " = ".join(dict.fromkeys(str(member.key).replace("`", "") for member in link.members))


def could_not_share(layout: Layout) -> tuple[Apart, ...]:
    """Return the pairs of sketches that hold the same, are read by different queries, and why they are two."""
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
    one, other = (_spelled(query.links[int(link)]) for link in sorted(why.links))
    return f"query {why.query} would hash its joins on {one} and on {other} alike, and count rows that do not join"


def _shared_graph(layout: Layout) -> tuple[JoinGraph, dict[VertexId, str]]:
    """Return the join graph as the plan shares it, and the synopsis of each of its vertices."""
    queries: list[GraphQuery] = []
    names: dict[VertexId, str] = {}
    for each in layout.queries:
        if not isinstance(each.query, Query) or not each.query.links or not each.quantities:
            continue
        vertices: dict[str, Vertex] = {}
        for quantity in each.quantities.values():
            for part in quantity.sketches:
                for index, name in enumerate(part):
                    demand = layout.by_id[name].demand
                    ends = tuple(
                        End(str(link), place.member, place.members)
                        for link, place in zip(links_of(each.query, index), demand.places, strict=True)
                    )
                    vertices.setdefault(name, Vertex(without_slots(demand), ends))
        queries.append(GraphQuery(each.name, 1.0, tuple(vertices.values())))
        names |= {(each.name, place): name for place, name in enumerate(vertices)}
    graph = JoinGraph.separate(queries)
    groups: dict[str, list[VertexId]] = {}
    for vertex in graph.members:
        groups.setdefault(names[vertex], []).append(vertex)
    shared = JoinGraph(graph.queries, {group[0]: tuple(group) for group in groups.values()})
    return shared, {group[0]: name for name, group in groups.items()}
