"""What an expression is where all columns of its relation are NULL, as they are in rows that an outer join adds.

Everything here errs to one side: an expression of which it is not known is taken for one that may be anything.
"""

from functools import lru_cache

import sqlglot
from sqlglot import exp

from eddyline.sql.expressions import unparenthesised

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_OF_BOTH = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe)
_OF_FIRST = (
    exp.Neg, exp.Not, exp.Abs, exp.Cast, exp.Lower, exp.Upper, exp.Length, exp.Year, exp.Month, exp.Day, exp.Quarter,
    exp.Hour, exp.Minute, exp.Second, exp.TsOrDsToDate, exp.Floor, exp.Ceil, exp.Round, exp.Sqrt, exp.Substring,
    exp.Trim, exp.DateTrunc, exp.TimestampTrunc, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear, exp.LastDay,
    exp.TsOrDsAdd, exp.Nullif,
)  # fmt: skip
_PATTERNS = (
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.In,
    exp.Between,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)


def is_null_of_nulls(node: exp.Expr) -> bool:
    """Return whether an expression, or a condition, is certainly NULL where all its columns are."""
    node = unparenthesised(node)
    if isinstance(node, _COMPARISONS + _OF_BOTH):
        return is_null_of_nulls(node.left) or is_null_of_nulls(node.right)
    if isinstance(node, _OF_FIRST + _PATTERNS):
        return is_null_of_nulls(node.this)
    if isinstance(node, exp.And | exp.Or):
        return is_null_of_nulls(node.left) and is_null_of_nulls(node.right)
    if isinstance(node, exp.Case | exp.If):
        return _is_null_choice(node)
    return isinstance(node, exp.Column)


def _is_null_choice(node: exp.Case | exp.If) -> bool:
    """Return the same of a CASE or IF: no branch is taken, or the one that is taken is NULL."""
    if isinstance(node, exp.If):
        return _is_nothing(node.args.get("false")) and _is_not_taken(node)
    if node.this is not None:
        return False
    return _is_nothing(node.args.get("default")) and all(_is_not_taken(each) for each in node.args["ifs"])


def _is_nothing(default: exp.Expr | None) -> bool:
    return default is None or isinstance(default, exp.Null) or is_null_of_nulls(default)


def _is_not_taken(branch: exp.If) -> bool:
    return rejects_nulls(branch.this) or is_null_of_nulls(branch.args["true"])


def rejects_nulls(condition: exp.Expr) -> bool:
    """Return whether a condition certainly does not hold where all its columns are NULL.

    >>> [rejects_nulls(sqlglot.parse_one(text)) for text in ("x > 1 OR x IS NOT NULL", "x > 1 OR y IS NULL")]
    [True, False]
    """
    condition = unparenthesised(condition)
    if is_null_of_nulls(condition):
        return True
    if isinstance(condition, exp.And):
        return rejects_nulls(condition.left) or rejects_nulls(condition.right)
    if isinstance(condition, exp.Or):
        return rejects_nulls(condition.left) and rejects_nulls(condition.right)
    return isinstance(condition, exp.Not) and tested_for_null(condition.this) is not None


def tested_for_null(condition: exp.Expr) -> exp.Expr | None:
    """Return x of a condition x IS NULL whose x is NULL where all its columns are; None for other conditions."""
    condition = unparenthesised(condition)
    if isinstance(condition, exp.Is) and isinstance(condition.expression, exp.Null):
        return unparenthesised(condition.this) if is_null_of_nulls(condition.this) else None
    return None


@lru_cache(maxsize=4096)
def text_is_null_of_nulls(text: str) -> bool:
    """Return the same of an expression's text."""
    return is_null_of_nulls(sqlglot.parse_one(text, dialect="spark"))
