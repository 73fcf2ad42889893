"""Links: the keys on which the relations of a query are joined, in a tree, from its conditions."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import Source, bare, check_allowed, equal, fragment, relations_of, text
from eddyline.expressions.typing import check_predicate, infer
from eddyline.sql.query import Expression, Key, Link, Member

# Equal columns form classes: a.x = b.x and b.x = c.x make all three one class. A query is acyclic if its
# relations can be arranged in a tree in which the relations of each class are connected; then it is enough to
# compare neighbors, on all classes that they share. Neighbors that share the same classes form one link: a
# link has two members or more, each with its own spelling of the key. For a cyclic query we take the tree
# whose neighbors share most; equalities that it does not imply are left over, and close a cycle
# (`cross_conditions`).
#
# Paper: multi-join, section 3.1, which replicates an attribute that occurs in several joins. Deviation: such
# an attribute is one link of all its relations, with the noise of one hash instead of several.


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
    links = [_link(classes, label, members) for label, members in _joined_neighbors(classes, tree)]
    closing = [pair for columns in classes for pair in _closing(columns, tree)]
    ordered = sorted(links, key=lambda link: [member.relation for member in link.members])
    return FoundLinks(tuple(ordered), predicates, closing)


def _closing(
    columns: dict[int, Expression], tree: list[tuple[int, int]]
) -> Iterator[tuple[LinkEnd, LinkEnd]]:
    """Yield equalities between relations of a class that the tree does not connect within the class."""
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
    """Return the edges of a spanning tree (or forest) whose neighbors share as many classes as possible.

    Among edges that share equally many, those that the query has first come first. Without a cycle all such trees
    are equivalent. In a cycle, joins by keys are mostly written before mere comparisons, and a tree of keys has
    fewer rows.
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
            f"no equality joins {lost!r} to the other relations: a cross product is not supported."
        )


def _joined_neighbors(
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


# Key columns: expressions that may identify rows, and whether those of two sides can be equal.


def key_column(node: exp.Expr, sources: tuple[Source, ...]) -> Expression:
    """Return an expression as a key column, or raise UnsupportedQuery where its type has no exact equality."""
    kind = infer(node, sources)
    if kind is None or kind.key_class is None:
        found = "a type that eddyline cannot work out" if kind is None else f"type {kind}"
        raise UnsupportedQuery(
            f"the key {fragment(node)!r} has {found}: CAST it to an integer, DECIMAL, STRING, BINARY, DATE, "
            "TIMESTAMP or BOOLEAN."
        )
    return Expression(text(bare(node, sources)), kind)


def value_column(node: exp.Expr, sources: tuple[Source, ...]) -> Expression:
    """Return an expression as a column whose values are held: a key column, or a FLOAT or DOUBLE."""
    kind = infer(node, sources)
    if kind is not None and kind.is_float:
        return Expression(text(bare(node, sources)), kind)
    return key_column(node, sources)


def check_meet(left: Expression, left_owner: str, right: Expression, right_owner: str) -> None:
    """Raise SqlError unless equal values of both columns get equal keys."""
    if left.type.key_class != right.type.key_class:
        raise SqlError(
            f"{left_owner}.{left.text} is {left.type} and {right_owner}.{right.text} is {right.type}: equal values "
            "cannot be recognized across these types; CAST one side."
        )


# Conditions of ON and WHERE: which relations they read, and equalities between two of them.


def relations_read(condition: exp.Expr, sources: tuple[Source, ...]) -> list[int]:
    """Return the relations that a condition reads, after checking it."""
    check_allowed(condition)
    used = sorted(relations_of(condition, sources))
    check_predicate(condition, sources)
    return used


def equality(
    condition: exp.Expr, used: list[int], sources: tuple[Source, ...]
) -> tuple[LinkEnd, LinkEnd] | None:
    """Return the two sides of an equality between two relations, None for anything else."""
    if not isinstance(condition, exp.EQ) or len(used) != 2:
        return None
    sides = {tuple(relations_of(side, sources)): side for side in (condition.left, condition.right)}
    if set(sides) != {(used[0],), (used[1],)}:
        return None
    left, right = (key_column(sides[(i,)], sources) for i in used)
    check_meet(left, sources[used[0]].alias, right, sources[used[1]].alias)
    return (used[0], left), (used[1], right)


def needed_equality(
    condition: exp.Expr, used: list[int], sources: tuple[Source, ...]
) -> tuple[LinkEnd, LinkEnd]:
    """Return the two sides of an equality that joins a relation to another, or raise UnsupportedQuery."""
    ends = equality(condition, used, sources)
    if ends is None:
        raise UnsupportedQuery(
            f"{fragment(condition)!r} relates {' and '.join(sources[i].alias for i in used)} by something other than "
            "one equality: outer, semi and anti joins are supported by equalities and by predicates on one "
            "relation."
        )
    return ends
