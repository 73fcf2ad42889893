"""The relations of a query as a tree: blocks of inner joins, and what hangs on them by outer, semi and anti joins.

Relations that are joined by inner joins form a block; its equalities are all of equal rank. A branch ties a block to
one relation of another: its rows may be missing there (outer, full), or only decide that there is a match or none
(semi, anti, not in). A condition that no NULL meets, on a relation that may be missing, asks for it to be there: its
branch becomes an inner join. Other conditions on such a relation are refused, except for the test that it is missing.
"""

from collections.abc import Sequence
from dataclasses import replace as with_fields
from typing import NamedTuple

from msgspec.structs import replace
from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.sql.branches import Branch, add_branch, check_guards, read_tying
from eddyline.sql.conditions import equality, relations_read
from eddyline.sql.cross_conditions import closing_equality, read_cross_condition
from eddyline.sql.expressions import Source, bare, fragment, text
from eddyline.sql.links import FoundLinks, LinkEnd, find_links
from eddyline.sql.nulls import rejects_nulls, tested_for_null, text_is_null_of_nulls
from eddyline.sql.query import CrossCondition, Expression, Link, Relation, Role
from eddyline.sql.sides import MAYBE_MISSING


class Joined(NamedTuple):
    """FROM and WHERE of a query; relations of subqueries are hidden among the sources."""

    relations: tuple[Relation, ...]
    links: tuple[Link, ...]
    sources: tuple[Source, ...]
    conditions: tuple[CrossCondition, ...] = ()


class JoinTree:
    """The relations of a query while they are read, and at last its relations and links."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.root = 0
        self._predicates: list[set[str]] = []
        self._equalities: list[tuple[LinkEnd, LinkEnd]] = []
        self._block: list[int] = []
        self._branches: list[Branch] = []
        self._crossing: list[CrossCondition] = []

    def add(self, source: Source) -> int:
        """Add a relation, a block of its own, and return its index."""
        self.sources.append(source)
        self._predicates.append(set())
        self._block.append(len(self.sources) - 1)
        return len(self.sources) - 1

    @property
    def is_full(self) -> bool:
        """Whether the last join is a FULL JOIN, behind which no other is read."""
        return any(branch.role == "full" for branch in self._branches)

    def hide(self, relations: Sequence[int], why: str) -> None:
        """Hide relations from the columns that are read from here on."""
        for i in relations:
            self.sources[i] = with_fields(self.sources[i], hidden=why)

    def join(self, relation: int, conditions: Sequence[exp.Expr]) -> None:
        """Take an inner join."""
        self._merge(relation, self.root)
        self.filter(conditions)

    def preserve(self, relation: int, conditions: Sequence[exp.Expr], what: exp.Expr) -> None:
        """Take a RIGHT JOIN: the relation is preserved, and all that was read before may be missing."""
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
        """Take an outer, full, semi or anti join with a side of one relation, or of several that it joins itself."""
        found = read_tying(side, conditions, self._scope, what)
        check_guards(found, what)
        if role == "not in" and (len(found.pairs) > 1 or len(side) > 1 or found.of_tree):
            raise UnsupportedQuery(
                f"{fragment(what)!r}: NOT IN is answered for one column and a subquery of one stream that does not "
                "read the outer query: NOT EXISTS with its columns equal is the same where none of them is NULL, and "
                "only there."
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
        """Take a branch on a relation that may be missing: a semi-join needs it, an outer join matches no NULL."""
        relation = ends[0][0]
        alias = self.sources[relation].alias
        if role in ("anti", "not in"):
            raise UnsupportedQuery(
                f"{fragment(what)!r} asks that nothing matches {alias!r}, which an outer join may leave missing: "
                "that is answered of relations that are always there."
            )
        if not any(text_is_null_of_nulls(column.text) for _, column in ends):
            raise UnsupportedQuery(
                f"{fragment(what)!r} compares a value of {alias!r} that is not NULL where an outer join leaves it "
                "missing: only columns, which match nothing there, are answered."
            )
        if role == "semi":
            self._require(relation)

    def filter(self, conditions: Sequence[exp.Expr]) -> None:
        """Keep the rows that meet conditions. Those that ask that a relation is missing are read last."""
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
        """Take a condition on several relations: an equality of two joins them, others are met by joined rows."""
        ends = equality(condition, used, self._scope)
        if ends is None:
            self._crossing.append(read_cross_condition(condition, self._scope))
            return
        self._equalities.append(ends)
        for relation, column in ends:
            self._require_by_key(relation, column, condition)
        self._merge(used[0], used[1])

    def _restrict(self, used: Sequence[int], condition: exp.Expr) -> None:
        """Take a condition on one relation, or on none: then on all that have rows of their own in the join."""
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
        """Take it that a relation is there: the outer joins above it become inner ones."""
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
        """Make a FULL JOIN a LEFT JOIN: its parent is there, and conditions on the child are its predicates."""
        branch.role = "outer"
        self._predicates[branch.child].update(branch.child_guards)
        branch.child_guards = []

    def _leave_missing(self, relation: int, condition: exp.Expr) -> None:
        """Take the condition that a relation is missing, a test of one of its join columns for NULL: an anti-join."""
        if not self.may_be_missing(relation):  # another condition has said that it is there
            self._restrict([relation], condition)
            return
        branch, tested = self._above(relation), tested_for_null(condition)
        if branch is None or branch.role == "full" or branch.child != relation:
            raise self._not_answered(
                relation, condition
            )  # of a FULL JOIN a row's own column may be NULL as well
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
            "conditions only '<join column> IS NULL' after a LEFT or RIGHT JOIN is answered. Ask the rows with a match "
            "by JOIN and the same WHERE, those without by LEFT ANTI JOIN if it holds for NULL, and add them up; in ON "
            "the condition would mean something else."
        )

    def may_be_missing(self, relation: int) -> bool:
        """Return whether a relation may be missing in rows of the join that it belongs to."""
        branch = self._above(relation)
        hangs = branch is not None and branch.role in MAYBE_MISSING
        return hangs or self._full_below(relation) is not None

    def _above(self, relation: int) -> Branch | None:
        """Return the branch by which a relation's block hangs on another."""
        mine = self._block[relation]
        return next((b for b in self._branches if self._block[b.child] == mine), None)

    def _full_below(self, relation: int) -> Branch | None:
        return next((b for b in self._branches if b.role == "full" and b.parent == relation), None)

    def _hanging(self, relation: int) -> list[int]:
        """Return the relations of a block and of all that hangs on it."""
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
        """Return the relations, the links of all blocks and branches, and the conditions beyond them."""
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
                "query has an outer, semi or anti join, too: such conditions are answered over inner joins alone."
            )
        relations = tuple(
            Relation(source.alias, source.stream, tuple(sorted(self._predicates[i])))
            for i, source in enumerate(self.sources)
        )
        ordered = sorted(links, key=lambda link: [member.relation for member in link.members])
        return Joined(relations, tuple(ordered), self._scope, tuple(dict.fromkeys(conditions)))

    def _links_of_block(self, block: list[int]) -> FoundLinks:
        """Return the links of a block; what it implies of single relations becomes their predicates."""
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
