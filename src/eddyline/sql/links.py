"""Links: from the equalities of a query to the keys on which its relations meet, in a tree.

Equal columns form classes: a.x = b.x and b.x = c.x say that all three are one. A query is acyclic if its
relations can be laid out in a tree in which the relations that hold a class are always connected; then it is
enough to compare neighbours, on all classes that they share. Neighbours that meet on the same classes meet
in one link: a link has two members or more, each with its own spelling of the key.

Paper: multi-join, section 3.1, which replicates an attribute that occurs in several joins. Deviation: such an
attribute is one link of all its relations, whose noise is that of one hash rather than of several.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from eddyline.errors import UnsupportedQuery
from eddyline.sql.compose import equal
from eddyline.sql.query import Expression, Key, Link, Member

LinkEnd = tuple[int, Expression]
"""A relation, by index, and a key column of it."""


def find_links(
    aliases: Sequence[str], equalities: Sequence[tuple[LinkEnd, LinkEnd]]
) -> tuple[tuple[Link, ...], list[tuple[int, str]]]:
    """Return (links, predicates): columns of one relation that must be equal become a predicate of it.

    Raises UnsupportedQuery where a relation is not joined, or the joins form a cycle, which is shown.
    """
    classes, predicates = _classes(equalities)
    tree = _spanning_tree(len(aliases), classes)
    _check_connected(aliases, tree)
    shared = sum(len(_shared(classes, *edge)) for edge in tree)
    if shared < sum(len(columns) - 1 for columns in classes):
        raise UnsupportedQuery(
            f"the joins form a cycle: {_shown_cycle(aliases, classes)}; only joins without a cycle are answered: "
            "leave one of these equalities out, or join these streams before eddyline reads them."
        )
    links = [_link(classes, label, members) for label, members in _joined_neighbours(classes, tree)]
    return tuple(sorted(links, key=lambda link: [member.relation for member in link.members])), predicates


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


def _spanning_tree(relations: int, classes: list[dict[int, Expression]]) -> list[tuple[int, int]]:
    """Return the edges of a spanning tree (or forest) whose neighbours share as many classes as can be."""
    pairs = [edge for edge in combinations(range(relations), 2) if _shared(classes, *edge)]
    group = list(range(relations))
    tree = []
    for left, right in sorted(pairs, key=lambda edge: (-len(_shared(classes, *edge)), edge)):
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


def _shown_cycle(aliases: Sequence[str], classes: list[dict[int, Expression]]) -> str:
    """Return a shortest cycle as the equalities that close it."""
    for length in range(3, len(aliases) + 1):
        for path, used in _paths(classes, length):
            steps = zip(path, [*path[1:], path[0]], used, strict=True)
            return ", ".join(
                f"{_named(aliases, classes, i, a)} = {_named(aliases, classes, i, b)}" for a, b, i in steps
            )
    return "of " + ", ".join(aliases)  # pragma: no cover - every cyclic query has such a cycle


def _named(aliases: Sequence[str], classes: list[dict[int, Expression]], index: int, relation: int) -> str:
    return f"{aliases[relation]}.{classes[index][relation].text.replace('`', '')}"


def _paths(
    classes: list[dict[int, Expression]], length: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield (relations, classes) of closed walks over different relations and different classes."""

    def extend(
        path: tuple[int, ...], used: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        last = len(path) == length
        targets = [path[0]] if last else [r for r in range(path[0] + 1, _relations(classes)) if r not in path]
        for target in targets:
            for index in _shared(classes, path[-1], target):
                if index in used:
                    continue
                if last:
                    yield path, (*used, index)
                else:
                    yield from extend((*path, target), (*used, index))

    for start in range(_relations(classes)):
        yield from extend((start,), ())


def _relations(classes: list[dict[int, Expression]]) -> int:
    return 1 + max(relation for columns in classes for relation in columns)
