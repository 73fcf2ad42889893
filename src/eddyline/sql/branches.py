"""Branches: how a block of relations hangs on a relation of another by an outer, semi or anti join."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace
from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.sql.compose import only_where
from eddyline.sql.conditions import needed_equality, relations_read
from eddyline.sql.expressions import Source, bare, fragment, text
from eddyline.sql.links import LinkEnd
from eddyline.sql.query import Expression, Key, Link, Member, Role


@dataclass
class Branch:
    """A block that hangs on a relation of another one: `child` of the one meets `parent` of the other.

    pairs: columns that must be equal, (of the parent, of the child). guards: conditions on the parent's rows without
    which they have no match; child_guards: the same of the child's rows, for FULL JOIN.
    """

    parent: int
    child: int
    role: Role
    pairs: list[tuple[Expression, Expression]]
    guards: list[str]
    child_guards: list[str] = field(default_factory=list)

    def turned(self) -> "Branch":
        """Return the branch as the other side sees it."""
        pairs = [(child, parent) for parent, child in self.pairs]
        return Branch(self.child, self.parent, self.role, pairs, self.child_guards, self.guards)


@dataclass
class Tying:
    """The conditions of a branch: pairs of ends (of the tree, of its own side), and conditions on one relation each.

    equalities: between relations of its own side.
    """

    pairs: list[tuple[LinkEnd, LinkEnd]] = field(default_factory=list)
    equalities: list[tuple[LinkEnd, LinkEnd]] = field(default_factory=list)
    of_side: list[tuple[int, str]] = field(default_factory=list)
    of_tree: list[tuple[int, str]] = field(default_factory=list)

    @property
    def parent(self) -> int:
        """The relation of the tree that is tied."""
        return self.pairs[0][0][0]

    @property
    def child(self) -> int:
        """The relation of the side that is tied."""
        return self.pairs[0][1][0]


def read_tying(
    side: Sequence[int], conditions: Iterable[exp.Expr], sources: tuple[Source, ...], what: exp.Expr
) -> Tying:
    """Return how conditions tie a side to the rest of the relations; what: the join or condition that says so."""
    found = Tying()
    for condition in conditions:
        used = relations_read(condition, sources)
        inside = set(used) & set(side)
        if len(used) <= 1:
            written = (used[0] if used else side[0], text(bare(condition, sources)))
            (found.of_tree if used and not inside else found.of_side).append(written)
            continue
        ends = needed_equality(condition, used, sources)
        if len(inside) == 2:
            found.equalities.append(ends)
        elif inside:
            found.pairs.append(ends if ends[1][0] in side else (ends[1], ends[0]))
        else:
            raise UnsupportedQuery(
                f"{fragment(condition)!r} does not read the relation that {fragment(what)!r} joins, and still decides "
                "whether there is a match: that is not answered, and in another ON it would mean something else."
            )
    _check_tying(found, what)
    return found


def _check_tying(found: Tying, what: exp.Expr) -> None:
    if not found.pairs:
        raise UnsupportedQuery(
            f"no equality ties {fragment(what)!r} to the other relations: only equi-joins are answered."
        )
    if len({p[0] for p, _ in found.pairs}) > 1 or len({c[0] for _, c in found.pairs}) > 1:
        raise UnsupportedQuery(
            f"{fragment(what)!r} is tied to several relations at once: outer, semi and anti joins are answered where "
            "they join one relation with one."
        )


def check_guards(found: Tying, what: exp.Expr) -> None:
    """Raise UnsupportedQuery where a branch has a condition on a relation that it does not hang on."""
    if any(relation != found.parent for relation, _ in found.of_tree):
        raise UnsupportedQuery(
            f"{fragment(what)!r} has a condition on a relation that it does not join: only conditions on the two "
            "relations that it joins are answered."
        )


def add_branch(links: list[Link], branch: Branch) -> None:
    """Add a branch as a link, or to the link in which its parent meets others on the same columns."""
    pairs = [
        (_guarded(parent, branch.guards), _guarded(child, branch.child_guards))
        for parent, child in branch.pairs
    ]
    pairs = sorted(dict.fromkeys(pairs), key=lambda pair: (sorted(e.text for e in pair), pair[0].text))
    of_parent = dict(pairs)
    alone = branch.role == "full" or len(of_parent) < len(pairs)
    for i, link in enumerate(links):
        mine = next((m for m in link.members if m.relation == branch.parent), None)
        if mine is None or alone or mine.role not in ("inner", "preserved"):
            continue
        if set(mine.key.columns) == set(of_parent):
            key = Key(tuple(of_parent[column] for column in mine.key.columns))
            links[i] = _link([*map(_preserved, link.members), Member(branch.child, key, branch.role)])
            return
    role: Role = "full" if branch.role == "full" else "preserved"
    parent = Member(branch.parent, Key(tuple(parent for parent, _ in pairs)), role)
    links.append(_link([parent, Member(branch.child, Key(tuple(child for _, child in pairs)), branch.role)]))


def _link(members: Sequence[Member]) -> Link:
    return Link(tuple(sorted(members, key=lambda member: member.relation)))


def _preserved(member: Member) -> Member:
    return replace(member, role="preserved") if member.role == "inner" else member


def _guarded(column: Expression, guards: Sequence[str]) -> Expression:
    """Return a key column that is NULL, and meets nothing, where a guard does not hold."""
    return Expression(only_where(sorted(guards), column.text), column.type) if guards else column
