"""The sides of a query that need not be there: what hangs behind each member of a link that is no plain match.

Relations and links form a tree. A member whose role is outer, full, semi, anti or not in cuts off a side of it: the
relations that are reached from it without crossing the link.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.errors import UnsupportedQuery
from eddyline.sql.nulls import text_is_null_of_nulls
from eddyline.sql.query import Aggregate, Expression, Factor, Link, Role

_ADVICE = {
    "the measure": "A SUM is the same without its COALESCE(x, 0) or ELSE 0, if any x is there; count rows without a "
    "match by LEFT ANTI JOIN, in a query of their own",
    "the group": "Group by the column as it is: rows without a match are in the group NULL",
    "the column": "Rows without a match are asked for by LEFT ANTI JOIN, in a query of their own",
}
"""What to ask instead of an expression that has a value where its relation is missing."""
MAYBE_MISSING: tuple[Role, ...] = ("outer", "full")
"""Roles of sides whose columns may be NULL in rows of the join."""


@dataclass(frozen=True)
class Side:
    """A side: the link where it hangs, the relation that it begins with, its role there, all its relations."""

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
    """Return an aggregate whose constant factors belong to a relation that is there in every row of the join.

    Raises UnsupportedQuery where the measure has a value in rows in which its relation is missing.
    """
    sides = sides_of(links)
    if not sides:
        return aggregate
    below = frozenset().union(*(side.relations for side in sides))
    always = [relation for relation in range(relations) if relation not in below]
    factors = []
    for factor in aggregate.factors:
        is_constant = "`" not in factor.expression.text  # all that it reads is that there is a row
        owner = always[0] if always and is_constant else factor.relation
        check_missing_is_null(sides, owner, factor.expression, "the measure")
        factors.append(Factor(owner, factor.expression))
    return Aggregate(aggregate.function, tuple(factors))


def check_missing_is_null(sides: Sequence[Side], relation: int, expression: Expression, what: str) -> None:
    """Raise UnsupportedQuery where an expression is not NULL in the rows in which its relation is missing."""
    optional = any(side.role in MAYBE_MISSING and relation in side.relations for side in sides)
    if optional and not text_is_null_of_nulls(expression.text):
        raise UnsupportedQuery(
            f"{what} {expression.text.replace('`', '')!r} may have a value in rows where an outer join finds no "
            f"match: only expressions that are NULL there are answered. {_ADVICE[what]}."
        )
