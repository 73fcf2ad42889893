"""Distinct counts over the equi-join of two streams: which columns are counted, and in which form.

two-sided   columns of both sides                          COUNT(DISTINCT r.a, s.c)
semi        columns of one side, join columns among them   COUNT(DISTINCT r.a)
full        both sides and the whole join key              COUNT(DISTINCT r.a, r.b, s.c)
"""

from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.sql.expressions import Source, check_allowed, fragment, relations_of
from eddyline.sql.key_columns import key_column
from eddyline.sql.query import Expression, Join, JoinDistinctQuery, Key, Link, ProjectionForm, Relation


def read_join_distinct(
    text: str,
    counted: list[exp.Expr],
    relations: tuple[Relation, ...],
    links: tuple[Link, ...],
    sources: tuple[Source, ...],
    *,
    null_is_value: bool,
) -> JoinDistinctQuery:
    """Return the distinct count of columns over a join."""
    if len(relations) > 2:
        raise UnsupportedQuery(
            f"SELECT DISTINCT over a join of {len(relations)} relations is not answered; COUNT(DISTINCT ...) is, "
            "which leaves tuples with a NULL out."
        )
    left, right = links[0].members
    join = Join(0, 1, left.key, right.key)
    sides = _by_side(counted, join, sources)
    own = [
        [c for c in columns if c not in key.columns] for columns, key in zip(sides, _keys(join), strict=True)
    ]
    matched = {
        index
        for columns, key in zip(sides, _keys(join), strict=True)
        for index, column in enumerate(key.columns)
        if column in columns
    }
    whole_key = len(matched) == len(join.left_key.columns)
    if own[0] and own[1]:
        form: ProjectionForm = "full" if whole_key else "two-sided"
        extra = [] if whole_key else [join.left_key.columns[index] for index in sorted(matched)]
        projected = [own[0] + extra, own[1]]
    else:
        form = "semi"
        counted_side = 1 if own[1] else 0
        columns = own[counted_side] + [_keys(join)[counted_side].columns[index] for index in sorted(matched)]
        projected = [columns, list(join.right_key.columns)]
        if counted_side == 1:
            relations, join = (relations[1], relations[0]), Join(0, 1, join.right_key, join.left_key)
            projected = [columns, list(join.right_key.columns)]
    keys = tuple(Key(_ordered(columns), null_is_value) for columns in projected)
    return JoinDistinctQuery(text, form, relations, join, keys[0], keys[1])


def _keys(join: Join) -> tuple[Key, Key]:
    return join.left_key, join.right_key


def _ordered(columns: list[Expression]) -> tuple[Expression, ...]:
    return tuple(sorted(dict.fromkeys(columns), key=lambda column: column.text))


def _by_side(
    counted: list[exp.Expr], join: Join, sources: tuple[Source, ...]
) -> tuple[list[Expression], list[Expression]]:
    """Return the counted columns of the left and of the right relation."""
    sides: tuple[list[Expression], list[Expression]] = ([], [])
    for node in counted:
        value = node.this if isinstance(node, exp.Alias) else node
        check_allowed(value)
        used = relations_of(value, sources)
        if len(used) != 1:
            raise UnsupportedQuery(
                f"{fragment(value)!r} must read one relation to be counted over a join, and name a column of it."
            )
        sides[0 if min(used) == join.left else 1].append(key_column(value, sources))
    return sides
