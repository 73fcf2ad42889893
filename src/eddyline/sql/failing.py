"""Row expressions that can fail: Spark raises an error on rows for which they have no value, as a division by zero.

Spark evaluates what a query selects on rows that WHERE let through, and not on others. So do we: such an expression is
evaluated only on rows that a query which reads it counts.
"""

from collections.abc import Iterable
from functools import lru_cache

import sqlglot
from sqlglot import exp

_SAFE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.HexString, exp.National, exp.Var,
        exp.DataType, exp.DataTypeParam, exp.Tuple,
        exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In,
        exp.Between, exp.Like, exp.ILike, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.IsNan,
        exp.Lower, exp.Upper, exp.Length, exp.Trim, exp.Concat, exp.ConcatWs, exp.StartsWith, exp.EndsWith,
        exp.Contains,
        exp.Year, exp.Month, exp.Day, exp.Quarter, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.Hour,
        exp.Minute, exp.Second, exp.TsOrDsToDate, exp.LastDay, exp.TryCast,
        exp.Extract, exp.TimestampTrunc, exp.DateTrunc, exp.DateDiff,
    }
)  # fmt: skip
"""What has a value, or is NULL, on every row; all else is taken to fail on some."""


def can_fail(node: exp.Expr) -> bool:
    """Return whether an expression has no value on some rows."""
    return any(type(part) not in _SAFE and not _is_of_literal(part) for part in node.walk())


def _is_of_literal(node: exp.Expr) -> bool:
    """Return whether a node only makes a constant of a literal: a sign, or a date."""
    return isinstance(node, exp.Neg | exp.Cast) and isinstance(node.this, exp.Literal)


@lru_cache(maxsize=4096)
def may_fail(text: str) -> bool:
    """Return whether an expression, as plans carry it, has no value on some rows.

    >>> may_fail("`a` / `b`"), may_fail("CASE WHEN `a` > 1 THEN `b` END")
    (True, False)
    """
    return can_fail(sqlglot.parse_one(text, dialect="spark"))


def safe_first(conjuncts: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of a conjunction in the order in which they are evaluated: those that can fail come last.

    Each is evaluated only where all before it are TRUE, so that it does not matter where the query has them.
    """
    return tuple(sorted(conjuncts, key=may_fail))


def row_failure(text: str, why: str) -> str:
    """Return the sentence on an expression without a value on a row, and what to do; text: empty if not known."""
    told = repr(text.replace("`", "")) if text else "an expression of a query"
    return (
        f"{told} fails on a row: {why.strip().rstrip('.')}; exclude such rows in WHERE, or let it be "
        "NULL there by NULLIF(divisor, 0), TRY_DIVIDE or TRY_CAST."
    )
