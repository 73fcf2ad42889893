"""Conditions of ON and WHERE: which relations they read, and equalities between two of them."""

from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.sql.expressions import Source, check_allowed, fragment, relations_of
from eddyline.sql.key_columns import check_meet, key_column
from eddyline.sql.links import LinkEnd
from eddyline.sql.typing import check_predicate


def relations_read(condition: exp.Expr, sources: tuple[Source, ...]) -> list[int]:
    """Return the relations that a condition reads, once it is checked."""
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
    """Return the two sides of an equality by which a relation hangs on another, or raise UnsupportedQuery."""
    ends = equality(condition, used, sources)
    if ends is None:
        raise UnsupportedQuery(
            f"{fragment(condition)!r} ties {' and '.join(sources[i].alias for i in used)} together by something other "
            "than one equality: outer, semi and anti joins are answered by equalities and by predicates on one "
            "relation."
        )
    return ends
