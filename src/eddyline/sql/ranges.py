"""What the bounds of a column tell about a predicate: whether it can be TRUE for any value between them."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import pyarrow as pa
import sqlglot
from sqlglot import exp

from eddyline.errors import PipelineError
from eddyline.sql.arrow_eval import evaluate
from eddyline.types import Column

Bounds = Mapping[str, tuple[pa.Array, pa.Array]]
"""The least and the greatest value of columns, each an array of one value in the declared type."""
_LOW, _HIGH = 0, 1
_ENDS: dict[type[exp.Expr], int] = {exp.LT: _LOW, exp.LTE: _LOW, exp.GT: _HIGH, exp.GTE: _HIGH}
"""Where an ordering must be TRUE if it is TRUE anywhere: what is less than a constant, at the least value."""
_FLIPPED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


def rules_out(predicate: str, bounds: Bounds, columns: tuple[Column, ...], timezone: str) -> bool:
    """Return whether a predicate is TRUE for no row whose columns lie within bounds; NULL is not TRUE.

    Only comparisons of a column with a constant rule anything out. Floats must have no bounds here: a NaN is greater
    than any of them, and they do not tell of it.
    """
    for column, end, text in _needed(predicate):
        if column not in bounds:
            continue
        try:
            value = evaluate(text, pa.table({column: bounds[column][end]}), columns, timezone)
        except PipelineError:
            continue
        if value[0].as_py() is False:
            return True
    return False


@lru_cache(maxsize=4096)
def _needed(predicate: str) -> tuple[tuple[str, int, str], ...]:
    """Return (column, end, comparison) that must hold at an end of the column for the predicate to be TRUE at all."""
    return tuple(_comparisons(sqlglot.parse_one(predicate, dialect="spark").unnest()))


def _comparisons(node: exp.Expr) -> Iterator[tuple[str, int, str]]:
    if isinstance(node, exp.Between):
        for order, side in ((exp.GTE, "low"), (exp.LTE, "high")):
            yield from _comparisons(order(this=node.this.copy(), expression=node.args[side].copy()))
        return
    if type(node) not in _FLIPPED:
        return
    left, right = node.this.unnest(), node.expression.unnest()
    if isinstance(right, exp.Column):
        node = _FLIPPED[type(node)](this=right.copy(), expression=left.copy())
        left, right = right, left
    if not isinstance(left, exp.Column) or right.find(exp.Column) is not None:
        return
    kinds: tuple[type[exp.Expr], ...] = (exp.LTE, exp.GTE) if isinstance(node, exp.EQ) else (type(node),)
    for kind in kinds:
        yield left.name, _ENDS[kind], kind(this=left.copy(), expression=right.copy()).sql(dialect="spark")
