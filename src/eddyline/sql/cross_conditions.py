"""Cross conditions and values: they read several relations, and are not the equalities of the join tree.

Examples in WHERE and ON: `o.day < s.day`, `o.a <> s.b`, a disjunction over two relations, or the equality that
would close a cycle of joins. What they read is held with the elements like group columns, in parts of one relation
each, as large as possible: for `year(o.day) = year(s.day) OR o.vip`, the two years and `o.vip`. The rest of the
condition is evaluated on these parts when the query is answered. Quantiles of a value such as `o.a - s.b` are read in
the same way.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import sqlglot
from sqlglot import exp

from eddyline.errors import PipelineError, SqlError, UnsupportedQuery
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.nodes import (
    Source,
    bare,
    check_allowed,
    fragment,
    relations_of,
    text,
    unparenthesised,
)
from eddyline.expressions.times import TIMES, depends_on_zone
from eddyline.expressions.typing import infer, wider_decimal
from eddyline.sql.links import LinkEnd
from eddyline.sql.query import Comparison, Computed, CrossCondition, Expression, GroupColumn
from eddyline.types import Column, SqlType

_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.In, exp.Between)


def closing_equality(left: LinkEnd, right: LinkEnd, aliases: Sequence[str]) -> CrossCondition:
    """Return the condition that two columns are equal in the sense of a join; aliases: those of the relations."""
    columns = tuple(
        GroupColumn(f"c{place}", relation, column) for place, (relation, column) in enumerate((left, right))
    )
    written = " = ".join(f"{aliases[relation]}.{column.text}" for relation, column in (left, right))
    return CrossCondition(written.replace("`", ""), "`c0` = `c1`", columns, "=")


def read_cross_condition(condition: exp.Expr, sources: tuple[Source, ...]) -> CrossCondition:
    """Return a condition on several relations; raise SqlError or UnsupportedQuery if it cannot be evaluated."""
    parts: list[tuple[int, Expression]] = []
    made = over_parts(unparenthesised(condition).copy(), sources, parts)
    columns = tuple(GroupColumn(f"c{i}", relation, part) for i, (relation, part) in enumerate(parts))
    typed = tuple(Column(column.name, column.expression.type) for column in columns)
    written = _plain(condition)
    _check_compared(written, made, typed)
    found = CrossCondition(written, text(made), columns, _comparison(made, columns))
    _check_evaluated(written, found.text, typed)
    return found


def computed_value(
    whole: exp.Expr, sides: Sequence[exp.Expr], sources: tuple[Source, ...]
) -> tuple[tuple[GroupColumn, ...], Computed]:
    """Return the columns that a value of several relations reads, and how it is computed from them.

    sides: the value, or the two times whose difference it is. Raises SqlError or UnsupportedQuery like
    `read_cross_condition`.
    """
    check_allowed(whole)
    kind = infer(whole, sources) if len(sides) == 1 else SqlType("interval")
    if kind is None:
        raise UnsupportedQuery(
            f"{_plain(whole)!r} has a type that eddyline cannot work out: CAST it to a number, DATE or TIMESTAMP."
        )
    parts: list[tuple[int, Expression]] = []
    texts = [text(over_parts(unparenthesised(side).copy(), sources, parts, of_floats=True)) for side in sides]
    columns = tuple(GroupColumn(f"c{i}", relation, part) for i, (relation, part) in enumerate(parts))
    typed = tuple(Column(column.name, column.expression.type) for column in columns)
    for each in texts:
        _check_evaluated(_plain(whole), each, typed)
    return columns, Computed(texts[0], kind, len(columns), "".join(texts[1:]))


def _comparison(node: exp.Expr, columns: tuple[GroupColumn, ...]) -> Comparison | None:
    """Return the operator of a condition that only compares the first column with the second, else None."""
    found = _COMPARISONS.get(type(node))
    if found is None or not all(isinstance(part, exp.Column) for part in (node.this, node.expression)):
        return None
    left, right = (column.expression.type for column in columns)
    if left.key_class != right.key_class or (
        left.key_class == "numeric" and wider_decimal(left, right) is None
    ):
        return None
    return found


def _plain(node: exp.Expr) -> str:
    return fragment(node).replace("`", "")


def over_parts(
    node: exp.Expr,
    sources: tuple[Source, ...],
    parts: list[tuple[int, Expression]],
    *,
    of_floats: bool = False,
) -> exp.Expr:
    """Return an expression over columns c0, c1, ... for parts of one relation each, which are added to `parts`.

    of_floats: parts may be FLOAT or DOUBLE.
    """
    if not node.find(exp.Column):
        return node
    part = _part(node, sources, of_floats=of_floats)
    if part is not None:
        if part not in parts:
            parts.append(part)
        return exp.column(exp.to_identifier(f"c{parts.index(part)}", quoted=True))
    if isinstance(node, exp.Column):
        raise UnsupportedQuery(
            f"{_plain(node)!r} of type {infer(node, sources)} is compared between relations, which needs exact "
            "values: CAST it to an integer, DECIMAL, STRING, DATE or TIMESTAMP."
        )
    for child in list(node.iter_expressions()):
        made = over_parts(child, sources, parts, of_floats=of_floats)
        if made is not child:
            child.replace(made)
    return node


def _part(node: exp.Expr, sources: tuple[Source, ...], *, of_floats: bool) -> tuple[int, Expression] | None:
    """Return (relation, expression) of a node that depends on one relation and that elements can hold."""
    used = relations_of(node, sources)
    is_value = not isinstance(node, exp.If) or not isinstance(node.parent, exp.Case)
    kind = infer(node, sources) if len(used) == 1 and is_value else None
    if kind is None or (kind.key_class is None and not (of_floats and kind.is_float)):
        return None
    return min(used), Expression(text(bare(node, sources)), kind)


def _check_compared(written: str, node: exp.Expr, columns: tuple[Column, ...]) -> None:
    """Raise SqlError where strings are compared with other types, which needs a cast."""
    source = (Source("", "", columns),)
    for comparison in node.find_all(*_COMPARED):
        kinds = {
            str(kind): kind
            for part in _operands(comparison)
            if part.find(exp.Column) and (kind := infer(part, source)) is not None
        }
        if "STRING" in kinds and len(kinds) > 1:
            raise SqlError(
                f"{written!r} compares {' with '.join(sorted(kinds))}: equal values cannot be recognized across these "
                "types; CAST one side."
            )


def _times_in(comparison: exp.Expr, source: tuple[Source, ...]) -> set[str]:
    """Return which types of dates and times a comparison mixes."""
    kinds = (infer(part, source) for part in _operands(comparison))
    return {kind.kind for kind in kinds if kind is not None and kind.kind in TIMES}


def _without_plain_comparison(node: exp.Expr) -> exp.Expr:
    """Return TRUE instead of a comparison of columns, which have one type and compare the same in every zone."""
    plain = isinstance(node, _COMPARED) and all(isinstance(part, exp.Column) for part in _operands(node))
    return exp.true() if plain else node


def _operands(comparison: exp.Expr) -> Iterator[exp.Expr]:
    names = ("this", "expression", "low", "high")
    yield from (part for name in names if (part := comparison.args.get(name)) is not None)
    yield from comparison.expressions


def _check_evaluated(written: str, over_columns: str, columns: tuple[Column, ...]) -> None:
    """Raise UnsupportedQuery where an expression over columns cannot be evaluated on what elements hold."""
    tree, source = sqlglot.parse_one(over_columns, dialect="spark"), (Source("", "", columns),)
    if any(len(_times_in(comparison, source)) > 1 for comparison in tree.find_all(*_COMPARED)):
        raise UnsupportedQuery(
            f"{written!r} compares times of different kinds, which depends on the time zone: CAST one side "
            "to the type of the other."
        )
    if tree.find(exp.Interval):
        raise UnsupportedQuery(
            f"{written!r} has an interval between columns of two relations: add an interval of one unit to one of "
            "them, as in a.t < b.t + INTERVAL 1 HOUR."
        )
    if depends_on_zone(text(tree.transform(_without_plain_comparison)), columns):
        raise UnsupportedQuery(
            f"{written!r} reads several relations and depends on the time zone, in which joined rows are not "
            "evaluated: compute what it reads in the frames and declare it as columns."
        )
    nothing = pa.table({column.name: pa.array([], to_arrow(column.type)) for column in columns})
    try:
        evaluate(over_columns, nothing, columns)
    except PipelineError as error:
        raise UnsupportedQuery(
            f"{written!r} reads several relations, and joined rows are evaluated without Spark, which cannot be done "
            "with it: compute what it reads in the frames and declare it as columns."
        ) from error
