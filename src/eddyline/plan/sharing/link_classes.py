"""Which links must hash with one slot, and whether two vertices may become one.

A sketch that two queries share hashes each join key once, so that their links at that key use one slot.
The links of one query must use different slots: their product would be biased otherwise.
"""

from collections.abc import Iterator

import msgspec

from eddyline.plan.sharing.join_graph import JoinGraph, VertexId

Link = tuple[str, str]
"""A query and the name of one of its links."""


class Conflict(msgspec.Struct, frozen=True):
    """A query, and two of its links that would have to use one slot."""

    query: str
    links: tuple[str, str]


class DifferentRoles(msgspec.Struct, frozen=True):
    """The join key in which two vertices play different parts, or meet links of different size."""

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
        """The first conflict that a coalesced pair has made: the graph is well-formed while there is none."""
        for vertex, members in graph.members.items():
            for member in members[1:]:
                self.coalesce(vertex, member)

    def find(self, link: Link) -> Link:
        """Return the link that stands for the class of a link."""
        while (above := self._parent[link]) != link:
            self._parent[link] = link = self._parent[above]
        return link

    def clash(self, one: VertexId, other: VertexId) -> Conflict | None:
        """Return a query that forbids two vertices to coalesce, with its two links; None if they may.

        Keys can be looked at one by one: a class that two keys have in common holds links of both keys of one of
        the vertices, and these clash at the first key already. The cost is that of the smaller classes.
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
        """Make one class of the links that two vertices meet at the same key."""
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
