"""The relations of a query as a tree: blocks of inner joins, and branches by outer, semi and anti joins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import NamedTuple

from msgspec.structs import replace
from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.expressions.nodes import (
    Source,
    bare,
    fragment,
    only_where,
    rejects_nulls,
    tested_for_null,
    text,
    text_is_null_of_nulls,
)
from eddyline.sql.cross_conditions import closing_equality, read_cross_condition
from eddyline.sql.links import FoundLinks, LinkEnd, equality, find_links, needed_equality, relations_read
from eddyline.sql.query import (
    Aggregate,
    CrossCondition,
    Expression,
    Factor,
    Key,
    Link,
    Member,
    Relation,
    Role,
)

# Branches: how an outer, semi or anti join attaches a block of relations to a relation of another block.


@dataclass
class Branch:
    """A block that is attached to another block: its relation `child` joins the relation `parent` of the other.

    pairs: columns that must be equal, (of the parent, of the child). guards: conditions that the parent's rows need
    for a match; child_guards: the same for the child's rows, for FULL JOIN.
    """

    parent: int
    child: int
    role: Role
    pairs: list[tuple[Expression, Expression]]
    guards: list[str]
    child_guards: list[str] = field(default_factory=list)

    def turned(self) -> "Branch":
        """Return the branch with parent and child swapped."""
        pairs = [(child, parent) for parent, child in self.pairs]
        return Branch(self.child, self.parent, self.role, pairs, self.child_guards, self.guards)


@dataclass
class Tying:
    """The conditions of a branch: pairs of ends (of the tree, of its own side), and conditions on single relations.

    equalities: those between relations of its own side.
    """

    pairs: list[tuple[LinkEnd, LinkEnd]] = field(default_factory=list)
    equalities: list[tuple[LinkEnd, LinkEnd]] = field(default_factory=list)
    of_side: list[tuple[int, str]] = field(default_factory=list)
    of_tree: list[tuple[int, str]] = field(default_factory=list)

    @property
    def parent(self) -> int:
        """The relation of the tree that the branch joins."""
        return self.pairs[0][0][0]

    @property
    def child(self) -> int:
        """The relation of the side that the branch joins."""
        return self.pairs[0][1][0]


def read_tying(
    side: Sequence[int], conditions: Iterable[exp.Expr], sources: tuple[Source, ...], what: exp.Expr
) -> Tying:
    """Return how conditions tie a side to the other relations; what: the join or condition they come from."""
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
                f"{fragment(condition)!r} does not read the relation that {fragment(what)!r} joins, but decides "
                "whether there is a match: that is not supported. In another ON it would have another meaning."
            )
    _check_tying(found, what)
    return found


def _check_tying(found: Tying, what: exp.Expr) -> None:
    if not found.pairs:
        raise UnsupportedQuery(
            f"no equality joins {fragment(what)!r} to the other relations: only equi-joins are supported."
        )
    if len({p[0] for p, _ in found.pairs}) > 1 or len({c[0] for _, c in found.pairs}) > 1:
        raise UnsupportedQuery(
            f"{fragment(what)!r} is joined to several relations at once: outer, semi and anti joins are supported "
            "where they join one relation with one."
        )


def check_guards(found: Tying, what: exp.Expr) -> None:
    """Raise UnsupportedQuery where a branch has a condition on a relation that it is not attached to."""
    if any(relation != found.parent for relation, _ in found.of_tree):
        raise UnsupportedQuery(
            f"{fragment(what)!r} has a condition on a relation that it does not join: only conditions on the two "
            "relations that it joins are supported."
        )


def add_branch(links: list[Link], branch: Branch) -> None:
    """Add a branch as a link, or to the link in which its parent joins others on the same columns."""
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
    """Return a key column that is NULL, and matches nothing, where a guard does not hold."""
    return Expression(only_where(sorted(guards), column.text), column.type) if guards else column


# Optional sides of a query: what is attached behind each member of a link other than an inner join.
#
# Relations and links form a tree. A member whose role is outer, full, semi, anti or not in defines a side of
# the tree: the relations that are reached from it without crossing the link.


_ADVICE = {
    "the measure": "A SUM is the same without its COALESCE(x, 0) or ELSE 0, if any x is there; count rows without a "
    "match by LEFT ANTI JOIN, in a query of their own",
    "the group": "Group by the column as it is: rows without a match are in the group NULL",
    "the column": "Rows without a match are asked for by LEFT ANTI JOIN, in a query of their own",
}
"""What to write instead of an expression that has a value where its relation is missing."""
MAYBE_MISSING: tuple[Role, ...] = ("outer", "full")
"""Roles of sides whose columns may be NULL in rows of the join."""


@dataclass(frozen=True)
class Side:
    """A side: the link that attaches it, its first relation, its role there, and all its relations."""

    link: int
    relation: int
    role: Role
    relations: frozenset[int]


def sides_of(links: Sequence[Link]) -> list[Side]:
    """Return the sides of a query's links."""
    return [
        Side(i, member.relation, member.role, _reached(links, member.relation, i))
        for i, link in enumerate(links)
        for member in link.members
        if member.role not in ("inner", "preserved")
    ]


def _reached(links: Sequence[Link], start: int, without: int) -> frozenset[int]:
    reached, new = {start}, {start}
    while new:
        near = {
            member.relation
            for i, link in enumerate(links)
            if i != without and new & {member.relation for member in link.members}
            for member in link.members
        }
        new = near - reached
        reached |= new
    return frozenset(reached)


def with_constants_at_root(aggregate: Aggregate, relations: int, links: Sequence[Link]) -> Aggregate:
    """Return an aggregate whose constant factors belong to a relation that is present in every row of the join.

    It raises UnsupportedQuery where the measure has a value in rows in which its relation is missing.
    """
    sides = sides_of(links)
    if not sides:
        return aggregate
    below = frozenset().union(*(side.relations for side in sides))
    always = [relation for relation in range(relations) if relation not in below]
    arguments: list[list[Factor]] = [[] for _ in aggregate.arguments]
    for factors, made in zip(aggregate.arguments, arguments, strict=True):
        for factor in factors:
            is_constant = "`" not in factor.expression.text  # it only depends on whether there is a row
            owner = always[0] if always and is_constant else factor.relation
            check_missing_is_null(sides, owner, factor.expression, "the measure")
            made.append(Factor(owner, factor.expression))
    return Aggregate.of(aggregate.function, arguments)


def check_missing_is_null(sides: Sequence[Side], relation: int, expression: Expression, what: str) -> None:
    """Raise UnsupportedQuery where an expression is not NULL in the rows in which its relation is missing."""
    optional = any(side.role in MAYBE_MISSING and relation in side.relations for side in sides)
    if optional and not text_is_null_of_nulls(expression.text):
        raise UnsupportedQuery(
            f"{what} {expression.text.replace('`', '')!r} may have a value in rows where an outer join finds no "
            f"match: only expressions that are NULL there are supported. {_ADVICE[what]}."
        )


# The tree of relations.
#
# Relations that are joined by inner joins form a block; the order of its equalities does not matter. A branch
# ties a block to one relation of another block: its rows may be missing there (outer, full), or only decide
# whether there is a match (semi, anti, not in). A condition that rejects NULL, on a relation that may be
# missing, requires that it is present: its branch becomes an inner join. Other conditions on such a relation
# are refused, except for the test that it is missing.


class Joined(NamedTuple):
    """FROM and WHERE of a query; relations of subqueries are marked as hidden in the sources."""

    relations: tuple[Relation, ...]
    links: tuple[Link, ...]
    sources: tuple[Source, ...]
    conditions: tuple[CrossCondition, ...] = ()


class JoinTree:
    """The relations of a query while they are read, and finally its relations and links."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.root = 0
        self._predicates: list[set[str]] = []
        self._equalities: list[tuple[LinkEnd, LinkEnd]] = []
        self._block: list[int] = []
        self._branches: list[Branch] = []
        self._crossing: list[CrossCondition] = []

    def add(self, source: Source) -> int:
        """Add a relation as its own block, and return its index."""
        self.sources.append(source)
        self._predicates.append(set())
        self._block.append(len(self.sources) - 1)
        return len(self.sources) - 1

    @property
    def is_full(self) -> bool:
        """Whether there is a FULL JOIN, after which no other join is supported."""
        return any(branch.role == "full" for branch in self._branches)

    def hide(self, relations: Sequence[int], why: str) -> None:
        """Hide the columns of relations from what is read from now on."""
        for i in relations:
            self.sources[i] = with_fields(self.sources[i], hidden=why)

    def join(self, relations: Sequence[int], conditions: Sequence[exp.Expr]) -> None:
        """Add an inner join of relations."""
        for relation in relations:
            self._merge(relation, self.root)
        self.filter(conditions)

    def preserve(self, relation: int, conditions: Sequence[exp.Expr], what: exp.Expr) -> None:
        """Add a RIGHT JOIN: the relation is preserved, and all earlier relations may be missing."""
        of_tree = [each for each in conditions if self._is_outside(relation, each)]
        tying = [each for each in conditions if each not in of_tree]
        found = read_tying([relation], tying, self._scope, what)
        if self.may_be_missing(found.parent):
            self._hang_on_missing("semi", [end for end, _ in found.pairs], what)
        self.filter(of_tree)
        pairs = [(mine, theirs) for (_, theirs), (_, mine) in found.pairs]
        guards = [guard for _, guard in found.of_side]
        self._branches.append(Branch(relation, found.parent, "outer", pairs, guards))
        self.root = relation

    def _is_outside(self, relation: int, condition: exp.Expr) -> bool:
        used = relations_read(condition, self._scope)
        return bool(used) and relation not in used

    def branch(self, role: Role, side: Sequence[int], conditions: Sequence[exp.Expr], what: exp.Expr) -> None:
        """Add an outer, full, semi or anti join with a side of one relation, or of several joined ones."""
        found = read_tying(side, conditions, self._scope, what)
        check_guards(found, what)
        if role == "not in" and (len(found.pairs) > 1 or len(side) > 1 or found.of_tree):
            raise UnsupportedQuery(
                f"{fragment(what)!r}: NOT IN is supported for one column and a subquery of one stream that does not "
                "read the outer query: NOT EXISTS gives the same result only if none of the columns is NULL."
            )
        if self.may_be_missing(found.parent):
            self._hang_on_missing(role, [end for end, _ in found.pairs], what)
        for other in side[1:]:
            self._merge(other, side[0])
        self._equalities += found.equalities
        pairs = [(mine, theirs) for (_, mine), (_, theirs) in found.pairs]
        made = Branch(found.parent, found.child, role, pairs, [guard for _, guard in found.of_tree])
        if role == "full":
            made.child_guards = [guard for _, guard in found.of_side]
        else:
            for relation, predicate in found.of_side:
                self._predicates[relation].add(predicate)
        self._branches.append(made)

    def _hang_on_missing(self, role: Role, ends: Sequence[LinkEnd], what: exp.Expr) -> None:
        """Add a branch on a relation that may be missing: a semi-join needs it, an outer join matches no NULL."""
        relation = ends[0][0]
        alias = self.sources[relation].alias
        if role in ("anti", "not in"):
            raise UnsupportedQuery(
                f"{fragment(what)!r} tests that no row of {alias!r} matches, and an outer join may leave {alias!r} "
                "without a row: this is only supported for relations that always have one."
            )
        if not any(text_is_null_of_nulls(column.text) for _, column in ends):
            raise UnsupportedQuery(
                f"{fragment(what)!r} compares a value of {alias!r} that is not NULL in rows where an outer join "
                "finds no match: only columns are supported there."
            )
        if role == "semi":
            self._require(relation)

    def filter(self, conditions: Sequence[exp.Expr]) -> None:
        """Add conditions on rows. Those that require that a relation is missing are read last."""
        missing = []
        for condition in conditions:
            used = relations_read(condition, self._scope)
            if len(used) > 1:
                self._tie(used, condition)
            elif used and self.may_be_missing(used[0]) and not rejects_nulls(condition):
                missing.append((used[0], condition))
            else:
                self._restrict(used, condition)
        for relation, condition in missing:
            self._leave_missing(relation, condition)

    def _tie(self, used: list[int], condition: exp.Expr) -> None:
        """Add a condition on several relations: an equality of two joins them, others apply to joined rows."""
        ends = equality(condition, used, self._scope)
        if ends is None:
            self._crossing.append(read_cross_condition(condition, self._scope))
            return
        self._equalities.append(ends)
        for relation, column in ends:
            self._require_by_key(relation, column, condition)
        self._merge(used[0], used[1])

    def _restrict(self, used: Sequence[int], condition: exp.Expr) -> None:
        """Add a condition on one relation; a constant one applies to all with their own rows in the join."""
        written = text(bare(condition, self._scope))
        if used:
            self._require(used[0])
        full = [branch.child for branch in self._branches if branch.role == "full"]
        for relation in used or [self.root, *full]:
            self._predicates[relation].add(written)

    def _require_by_key(self, relation: int, column: Expression, condition: exp.Expr) -> None:
        if not self.may_be_missing(relation):
            return
        if not text_is_null_of_nulls(column.text):
            raise self._not_answered(relation, condition)
        self._require(relation)

    def _require(self, relation: int) -> None:
        """Require that a relation is present: the outer joins above it become inner joins."""
        full = self._full_below(relation)
        if full is not None:
            self._make_left(full)
        branch = self._above(relation)
        if branch is not None and branch.role == "full":
            self._branches.remove(branch)
            branch = branch.turned()
            self._branches.append(branch)
            self._make_left(branch)
            self.root = relation
            return
        while branch is not None and branch.role == "outer":
            self._branches.remove(branch)
            for mine, theirs in branch.pairs:
                self._equalities.append(((branch.parent, mine), (branch.child, theirs)))
            self._predicates[branch.parent].update(branch.guards)
            self._merge(branch.parent, branch.child)
            branch = self._above(relation)

    def _make_left(self, branch: Branch) -> None:
        """Make a FULL JOIN a LEFT JOIN: its parent is present, and conditions on the child are its predicates."""
        branch.role = "outer"
        self._predicates[branch.child].update(branch.child_guards)
        branch.child_guards = []

    def _leave_missing(self, relation: int, condition: exp.Expr) -> None:
        """Add the condition that a relation is missing, a NULL test of one of its join columns: an anti-join."""
        if not self.may_be_missing(relation):  # another condition requires that it is present
            self._restrict([relation], condition)
            return
        branch, tested = self._above(relation), tested_for_null(condition)
        if branch is None or branch.role == "full" or branch.child != relation:
            raise self._not_answered(
                relation, condition
            )  # in a FULL JOIN a row's own column may be NULL as well
        if tested is None or self._above(branch.parent):
            raise self._not_answered(relation, condition)
        if text(bare(tested, self._scope)) not in [child.text for _, child in branch.pairs]:
            raise self._not_answered(relation, condition)
        branch.role = "anti"
        self.hide(
            self._hanging(relation), "which WHERE asks to be missing: its columns are NULL in every row"
        )

    def _not_answered(self, relation: int, condition: exp.Expr) -> UnsupportedQuery:
        alias = self.sources[relation].alias
        return UnsupportedQuery(
            f"{fragment(condition)!r} may hold in rows where an outer join leaves {alias!r} missing: of such "
            "conditions only '<join column> IS NULL' after a LEFT or RIGHT JOIN is supported. Ask the rows with a "
            "match by JOIN and the same WHERE, those without by LEFT ANTI JOIN if it holds for NULL, and add them up; "
            "in ON the condition would mean something else."
        )

    def may_be_missing(self, relation: int) -> bool:
        """Return whether a relation may be missing in rows of the join that it belongs to."""
        branch = self._above(relation)
        hangs = branch is not None and branch.role in MAYBE_MISSING
        return hangs or self._full_below(relation) is not None

    def _above(self, relation: int) -> Branch | None:
        """Return the branch that attaches a relation's block to another."""
        mine = self._block[relation]
        return next((b for b in self._branches if self._block[b.child] == mine), None)

    def _full_below(self, relation: int) -> Branch | None:
        return next((b for b in self._branches if b.role == "full" and b.parent == relation), None)

    def _hanging(self, relation: int) -> list[int]:
        """Return the relations of a block and of all blocks attached to it."""
        blocks = {self._block[relation]}
        for _ in self._branches:
            blocks |= {self._block[b.child] for b in self._branches if self._block[b.parent] in blocks}
        return [i for i, block in enumerate(self._block) if block in blocks]

    def _merge(self, one: int, other: int) -> None:
        old, new = self._block[one], self._block[other]
        self._block = [new if each == old else each for each in self._block]

    @property
    def _scope(self) -> tuple[Source, ...]:
        return tuple(self.sources)

    def joined(self) -> "Joined":
        """Return the relations, the links of all blocks and branches, and the other conditions."""
        links: list[Link] = []
        conditions = list(self._crossing)
        for block in dict.fromkeys(self._block):
            members = [i for i in range(len(self.sources)) if self._block[i] == block]
            found = self._links_of_block(members)
            links += found.links
            conditions += [closing_equality(*ends, [s.alias for s in self.sources]) for ends in found.closing]
        for branch in self._branches:
            add_branch(links, branch)
        if conditions and self._branches:
            raise UnsupportedQuery(
                f"{conditions[0].written!r} is a condition between relations beyond those that join them, and the "
                "query has an outer, semi or anti join, too: such conditions are supported over inner joins alone."
            )
        relations = tuple(
            Relation(source.alias, source.stream, tuple(sorted(self._predicates[i])))
            for i, source in enumerate(self.sources)
        )
        ordered = sorted(links, key=lambda link: [member.relation for member in link.members])
        return Joined(relations, tuple(ordered), self._scope, tuple(dict.fromkeys(conditions)))

    def _links_of_block(self, block: list[int]) -> FoundLinks:
        """Return the links of a block; what it implies for single relations becomes their predicates."""
        equalities = [
            ((block.index(a[0]), a[1]), (block.index(b[0]), b[1]))
            for a, b in self._equalities
            if a[0] in block
        ]
        found = find_links([self.sources[i].alias for i in block], equalities)
        for relation, predicate in found.predicates:
            self._predicates[block[relation]].add(predicate)
        links = [
            Link(tuple(replace(m, relation=block[m.relation]) for m in link.members)) for link in found.links
        ]
        closing = [((block[a], one), (block[b], other)) for (a, one), (b, other) in found.closing]
        return FoundLinks(tuple(links), [], closing)
