"""The join graph of a workload: vertices, links that must hash alike, and their hash slots."""

from collections.abc import Hashable, Iterable, Iterator
from math import isfinite

import msgspec

from eddyline.errors import PlanError

# The graph describes what each query sketches, and which of its sketches are one. Every relation of a query
# is a vertex, every equality a link between two or more vertices. Sharing a sketch coalesces vertices of
# equal signature into one. The graph does not depend on SQL.


VertexId = tuple[str, int]
"""The query and the position in it of a vertex; for a coalesced vertex, those of its first member."""


class End(msgspec.Struct, frozen=True):
    """The link that a vertex meets with one of its join keys, its role there, and how many relations meet.

    Members of one link with different roles are sketched differently. The two members of a binary link are not.
    members: 0 means as many as vertices of the query name the link; a query that sketches a relation
    twice, for its count and for its sum, sets the number of relations explicitly.
    """

    link: str
    role: int = 0
    members: int = 0


class Vertex(msgspec.Struct, frozen=True):
    """One relation of a query.

    The signature determines completely what is sketched. There is one end for each join key, in the order of the
    keys. The cost is the number of words that each unit of size takes.
    """

    signature: Hashable
    ends: tuple[End, ...] = ()
    cost: float = 1.0


class GraphQuery(msgspec.Struct, frozen=True):
    """One query; its error is its weight over the size of its smallest sketch.

    Paper: sharing, join graph J(Q) and weight W_Q.
    """

    name: str
    weight: float
    vertices: tuple[Vertex, ...]

    def link_sizes(self) -> dict[str, int]:
        """Return the number of vertices that each link joins."""
        sizes: dict[str, int] = {}
        for vertex in self.vertices:
            for end in vertex.ends:
                sizes[end.link] = sizes.get(end.link, 0) + 1
        return sizes


class JoinGraph(msgspec.Struct, frozen=True):
    """The queries of a workload by name, and the members of each vertex, both in canonical order."""

    queries: dict[str, GraphQuery]
    members: dict[VertexId, tuple[VertexId, ...]]

    @classmethod
    def separate(cls, queries: Iterable[GraphQuery]) -> "JoinGraph":
        """Return the graph in which nothing is shared, the same for any order of the queries."""
        ordered = sorted(queries, key=lambda query: query.name)
        by_name = {query.name: query for query in ordered}
        _check(ordered, by_name)
        ids = [(query.name, place) for query in ordered for place in range(len(query.vertices))]
        return cls(by_name, {vertex: (vertex,) for vertex in ids})

    def coalesced(self, one: VertexId, other: VertexId) -> "JoinGraph":
        """Return the graph in which two vertices are one, under the id of the first of them."""
        kept, gone = sorted((one, other))
        members = {vertex: own for vertex, own in self.members.items() if vertex != gone}
        members[kept] = tuple(sorted(self.members[one] + self.members[other]))
        return JoinGraph(self.queries, members)

    def vertex(self, vertex: VertexId) -> Vertex:
        """Return the relation of a vertex as its query describes it."""
        query, place = vertex
        return self.queries[query].vertices[place]

    def cost(self, vertex: VertexId) -> float:
        """Return the words that each unit of a vertex's size takes."""
        return self.vertex(vertex).cost

    def users(self, vertex: VertexId) -> tuple[str, ...]:
        """Return the queries that read a vertex.

        Paper: sharing, Q(v).
        """
        return tuple(sorted({query for query, _ in self.members[vertex]}))

    def kind(self, vertex: VertexId) -> Hashable:
        """Return what two vertices must have in common to coalesce: signature, roles and sizes of their links."""
        return self.vertex(vertex).signature, self.roles(vertex)

    def roles(self, vertex: VertexId) -> tuple[tuple[int, int], ...]:
        """Return the role of a vertex on each of its links, and how many relations meet there."""
        sizes = self.queries[vertex[0]].link_sizes()
        return tuple((end.role, end.members or sizes[end.link]) for end in self.vertex(vertex).ends)

    def parts(self) -> Iterator[tuple[str, list[VertexId]]]:
        """Yield each query with the vertices that it reads.

        Paper: sharing, V(Q).
        """
        owner = {member: vertex for vertex, own in self.members.items() for member in own}
        for name, query in self.queries.items():
            yield name, sorted({owner[name, place] for place in range(len(query.vertices))})


def _check(queries: list[GraphQuery], by_name: dict[str, GraphQuery]) -> None:
    if len(queries) != len(by_name):
        raise PlanError("two queries of the workload have one name: give each its own.")
    costs: dict[Hashable, float] = {}
    for query in queries:
        if not query.vertices or not (isfinite(query.weight) and query.weight > 0):
            raise PlanError(
                f"query {query.name!r} has {len(query.vertices)} vertices and weight {query.weight}: it needs at "
                f"least one vertex and a positive, finite weight."
            )
        for vertex in query.vertices:
            if len({end.link for end in vertex.ends}) != len(vertex.ends):
                raise PlanError(
                    f"query {query.name!r} has a vertex {vertex.signature!r} that meets one link with two keys: make "
                    f"their equality part of its signature."
                )
            if not vertex.cost > 0 or costs.setdefault(vertex.signature, vertex.cost) != vertex.cost:
                raise PlanError(
                    f"query {query.name!r} gives signature {vertex.signature!r} the cost {vertex.cost}: costs are "
                    f"positive, and the same wherever a signature occurs."
                )


# Which links must hash with one slot, and whether two vertices may become one.
#
# A sketch that two queries share hashes each join key once, so that their links at that key use one slot.
# The links of one query must use different slots: their product would be biased otherwise.


Link = tuple[str, str]
"""A query and the name of one of its links."""


class Conflict(msgspec.Struct, frozen=True):
    """A query, and two of its links that would have to use one slot."""

    query: str
    links: tuple[str, str]


class DifferentRoles(msgspec.Struct, frozen=True):
    """The join key in which two vertices have different roles, or meet links of different size."""

    key: int


class LinkClasses:
    """The classes of links that use one slot, which grow as vertices coalesce.

    Paper: sharing, ξ-equivalence.
    """

    def __init__(self, graph: JoinGraph) -> None:
        self._graph = graph
        links = [(name, link) for name, query in graph.queries.items() for link in query.link_sizes()]
        self._parent = {link: link for link in links}
        self._held: dict[Link, dict[str, str]] = {link: dict([link]) for link in links}
        self.conflict: Conflict | None = None
        """The first conflict that a coalesced pair has caused: the graph is well-formed if there is no conflict."""
        for vertex, members in graph.members.items():
            for member in members[1:]:
                self.coalesce(vertex, member)

    def find(self, link: Link) -> Link:
        """Return the link that represents the class of a link."""
        while (above := self._parent[link]) != link:
            self._parent[link] = link = self._parent[above]
        return link

    def clash(self, one: VertexId, other: VertexId) -> Conflict | None:
        """Return a query that does not allow two vertices to coalesce, with its two links; None if they may.

        Keys can be checked one by one: a class that two keys have in common holds links of both keys of one of
        the vertices, and these already clash at the first key. The cost is that of the smaller classes.
        """
        for small, large in self._met(one, other):
            if small != large:
                held = self._held[large]
                for query, link in self._held[small].items():
                    if query in held:
                        first, second = sorted((held[query], link))
                        return Conflict(query, (first, second))
        return None

    def coalesce(self, one: VertexId, other: VertexId) -> None:
        """Merge the classes of the links that two vertices meet at the same key."""
        self.conflict = self.conflict or self.clash(one, other)
        for small, large in self._met(one, other):
            if small != large:
                self._parent[small] = large
                self._held[large] |= self._held.pop(small)

    def _met(self, one: VertexId, other: VertexId) -> Iterator[tuple[Link, Link]]:
        """Yield the classes that two vertices meet at each key, the smaller one first."""
        ends = zip(self._graph.vertex(one).ends, self._graph.vertex(other).ends, strict=True)
        for first, second in ends:
            met = self.find((one[0], first.link)), self.find((other[0], second.link))
            yield met if len(self._held[met[0]]) <= len(self._held[met[1]]) else (met[1], met[0])


def link_classes(graph: JoinGraph) -> list[tuple[Link, ...]]:
    """Return the classes of links that use one slot, in canonical order."""
    classes = LinkClasses(graph)
    found: dict[Link, list[Link]] = {}
    for name, query in graph.queries.items():
        for link in sorted(query.link_sizes()):
            found.setdefault(classes.find((name, link)), []).append((name, link))
    return [tuple(own) for own in found.values()]


def is_well_formed(graph: JoinGraph) -> bool:
    """Return whether no class holds two links of one query, in time nearly linear in the links.

    Paper: sharing, well-formed join graph.
    """
    return LinkClasses(graph).conflict is None


def conflict(graph: JoinGraph, one: VertexId, other: VertexId) -> Conflict | DifferentRoles | None:
    """Return why two vertices of equal signature cannot share a sketch in a graph; None if they can."""
    sides = [graph.roles(vertex) for vertex in (one, other)]
    for key, (first, second) in enumerate(zip(*sides, strict=True)):
        if first != second:
            return DifferentRoles(key)
    return LinkClasses(graph).clash(one, other)


# Which hash slot each link uses: few slots, and different slots for the links of one query.


def hash_slots(graph: JoinGraph) -> dict[Link, int]:
    """Return the slot of each link, small numbers starting at zero.

    Links that a shared sketch connects have one slot. Unconnected links may also have the same slot, unless
    one query holds both: reuse costs no accuracy and keeps more sketches comparable. The class with the fewest
    slots left is assigned next, then the one with the most rivals.
    """
    classes = link_classes(graph)
    rivals = _rivals(classes)
    taken: list[set[int]] = [set() for _ in classes]
    chosen: dict[int, int] = {}
    while len(chosen) < len(classes):
        waiting = [number for number in range(len(classes)) if number not in chosen]
        served = max(waiting, key=lambda number: (len(taken[number]), len(rivals[number]), -number))
        chosen[served] = next(slot for slot in range(len(classes)) if slot not in taken[served])
        for rival in rivals[served]:
            taken[rival].add(chosen[served])
    return {link: chosen[number] for number, own in enumerate(classes) for link in own}


def _rivals(classes: list[tuple[Link, ...]]) -> list[set[int]]:
    """Return, for each class, the classes that share a query with it, including itself."""
    by_query: dict[str, set[int]] = {}
    for number, own in enumerate(classes):
        for query, _ in own:
            by_query.setdefault(query, set()).add(number)
    return [{rival for query, _ in own for rival in by_query[query]} for own in classes]
