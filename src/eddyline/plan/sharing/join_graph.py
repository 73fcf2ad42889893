"""The join graph of a workload: what each query sketches, and which of its sketches are one.

Every relation of a query is a vertex, every equality a link between two or more vertices. Sharing a sketch
coalesces vertices of equal signature into one. The graph knows nothing of SQL.
"""

from collections.abc import Hashable, Iterable, Iterator
from math import isfinite

import msgspec

from eddyline.errors import PlanError

VertexId = tuple[str, int]
"""The query and the position in it of a vertex; of a coalesced one, those of its first member."""


class End(msgspec.Struct, frozen=True):
    """The link that a vertex meets with one of its join keys, its role there, and how many relations meet.

    Members of one link with different roles are sketched differently. The two of a binary link are not.
    members: 0 stands for as many as vertices of the query name the link; a query that sketches a relation
    twice, for its count and for its sum, says how many relations there are.
    """

    link: str
    role: int = 0
    members: int = 0


class Vertex(msgspec.Struct, frozen=True):
    """One relation of a query.

    The signature is all that decides what is sketched. There is one end for each join key, in its order.
    The cost is the number of words that each unit of size takes.
    """

    signature: Hashable
    ends: tuple[End, ...] = ()
    cost: float = 1.0


class Query(msgspec.Struct, frozen=True):
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

    queries: dict[str, Query]
    members: dict[VertexId, tuple[VertexId, ...]]

    @classmethod
    def separate(cls, queries: Iterable[Query]) -> "JoinGraph":
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
        """Return what the query of a vertex says of it."""
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


def _check(queries: list[Query], by_name: dict[str, Query]) -> None:
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
