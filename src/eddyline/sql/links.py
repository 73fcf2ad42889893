"""Links: from the equalities of a query to the keys on which its relations meet, in a tree.

Equal columns form classes: a.x = b.x and b.x = c.x say that all three are one. A query is acyclic if its
relations can be laid out in a tree in which the relations that hold a class are always connected; then it is
enough to compare neighbours, on all classes that they share. Neighbours that meet on the same classes meet
in one link: a link has two members or more, each with its own spelling of the key. Of a cyclic query the tree is the
one whose neighbours share most; equalities that it does not say are left over, and close a cycle (`cross_conditions`).

Paper: multi-join, section 3.1, which replicates an attribute that occurs in several joins. Deviation: such an
attribute is one link of all its relations, whose noise is that of one hash rather than of several.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from eddyline.errors import UnsupportedQuery
from eddyline.sql.compose import equal
from eddyline.sql.query import Expression, Key, Link, Member

LinkEnd = tuple[int, Expression]
"""A relation, by index, and a key column of it."""


class FoundLinks(NamedTuple):
    """The links of a query; predicates: columns of one relation that must be equal, as a predicate of it.

    closing: equalities that would close a cycle of joins.
    """

    links: tuple[Link, ...]
    predicates: list[tuple[int, str]]
    closing: list[tuple[LinkEnd, LinkEnd]]


def find_links(aliases: Sequence[str], equalities: Sequence[tuple[LinkEnd, LinkEnd]]) -> FoundLinks:
    """Return the links of a query, or raise UnsupportedQuery where a relation is not joined."""
    classes, predicates = _classes(equalities)
    tree = _spanning_tree(len(aliases), classes, [])
    _check_connected(aliases, tree)
    if any([*_closing(columns, tree)] for columns in classes):  # a cycle
        tree = _spanning_tree(len(aliases), classes, [(a[0], b[0]) for a, b in equalities])
    links = [_link(classes, label, members) for label, members in _joined_neighbours(classes, tree)]
    closing = [pair for columns in classes for pair in _closing(columns, tree)]
    ordered = sorted(links, key=lambda link: [member.relation for member in link.members])
    return FoundLinks(tuple(ordered), predicates, closing)


def _closing(
    columns: dict[int, Expression], tree: list[tuple[int, int]]
) -> Iterator[tuple[LinkEnd, LinkEnd]]:
    """Yield equalities between relations that hold a class and that the tree does not connect within the class."""
    parts = [{relation} for relation in sorted(columns)]
    for edge in tree:
        if set(edge) <= columns.keys():
            joined = [part for part in parts if part & set(edge)]
            parts = [part for part in parts if part not in joined] + [set().union(*joined)]
    first, *others = sorted(map(min, parts))
    yield from (((first, columns[first]), (other, columns[other])) for other in others)


def _classes(
    equalities: Sequence[tuple[LinkEnd, LinkEnd]],
) -> tuple[list[dict[int, Expression]], list[tuple[int, str]]]:
    """Return the classes of equal columns, one column for each relation, and the predicates that this needs."""
    groups: list[set[LinkEnd]] = []
    for pair in equalities:
        joined = set(pair).union(*(group for group in groups if group & set(pair)))
        groups = [group for group in groups if not group & set(pair)] + [joined]
    classes, predicates = [], []
    for group in groups:
        columns: dict[int, Expression] = {}
        for relation, column in sorted(group):
            if relation in columns:
                predicates.append((relation, equal(columns[relation].text, column.text)))
            else:
                columns[relation] = column
        classes.append(columns)
    return sorted(classes, key=_spelling), predicates


def _spelling(columns: dict[int, Expression]) -> list[str]:
    return sorted(column.text for column in columns.values())


def _shared(classes: list[dict[int, Expression]], left: int, right: int) -> tuple[int, ...]:
    return tuple(i for i, columns in enumerate(classes) if left in columns and right in columns)


def _spanning_tree(
    relations: int, classes: list[dict[int, Expression]], written: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the edges of a spanning tree (or forest) whose neighbours share as many classes as can be.

    Of edges that share as many, those come first that the query writes first. Without a cycle every such tree says the
    same; of a cycle, what joins by keys is mostly written before what only compares, and a tree of keys has fewer rows.
    """
    pairs = [edge for edge in combinations(range(relations), 2) if _shared(classes, *edge)]
    order = {(min(edge), max(edge)): place for place, edge in reversed(list(enumerate(written)))}
    group = list(range(relations))
    tree = []
    for left, right in sorted(
        pairs, key=lambda edge: (-len(_shared(classes, *edge)), order.get(edge, len(written)), edge)
    ):
        if group[left] != group[right]:
            tree.append((left, right))
            group = [group[left] if each == group[right] else each for each in group]
    return tree


def _check_connected(aliases: Sequence[str], tree: list[tuple[int, int]]) -> None:
    reached = {0}
    for _ in aliases:
        reached |= {side for edge in tree if reached & set(edge) for side in edge}
    if len(reached) < len(aliases):
        lost = next(alias for i, alias in enumerate(aliases) if i not in reached)
        raise UnsupportedQuery(
            f"no equality joins {lost!r} to the other relations: a cross product is not answered."
        )


def _joined_neighbours(
    classes: list[dict[int, Expression]], tree: list[tuple[int, int]]
) -> Iterator[tuple[tuple[int, ...], set[int]]]:
    """Yield (classes, relations) of each link: edges of the tree that touch and share the same classes."""
    by_label: dict[tuple[int, ...], list[set[int]]] = defaultdict(list)
    for edge in tree:
        label, members = _shared(classes, *edge), set(edge)
        touching = [group for group in by_label[label] if group & members]
        by_label[label] = [group for group in by_label[label] if not group & members]
        by_label[label].append(members.union(*touching))
    for label, groups in by_label.items():
        for group in groups:
            yield label, group


def _link(classes: list[dict[int, Expression]], label: tuple[int, ...], members: set[int]) -> Link:
    ordered = sorted(
        label,
        key=lambda i: (
            _spelling({m: classes[i][m] for m in members}),
            [classes[i][m].text for m in sorted(members)],
        ),
    )
    return Link(tuple(Member(m, Key(tuple(classes[i][m] for i in ordered))) for m in sorted(members)))
