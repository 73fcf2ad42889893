"""Types of row expressions, by Spark's rules, as far as keys and measures need them."""

from sqlglot import exp

from eddyline.sql.expressions import Source, resolve
from eddyline.sql.schema import sql_type
from eddyline.types import SqlType

_BOOLEAN = SqlType("boolean")
_INT = SqlType("int")
_BIGINT = SqlType("bigint")
_DOUBLE = SqlType("double")
_STRING = SqlType("string")
_WIDTHS = ("tinyint", "smallint", "int", "bigint")
_PREDICATES = (
    exp.Predicate,
    exp.Not,
    exp.And,
    exp.Or,
    exp.Boolean,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)
_TO_INT = (exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Hour, exp.Minute, exp.DayOfWeek, exp.DayOfYear)
_TO_STRING = (
    exp.Lower,
    exp.Upper,
    exp.Substring,
    exp.Trim,
    exp.Concat,
    exp.ConcatWs,
    exp.DPipe,
    exp.Left,
    exp.Right,
)


def infer(node: exp.Expr, sources: tuple[Source, ...]) -> SqlType | None:  # noqa: C901, PLR0911 - one line per rule
    """Return the type that Spark gives an expression, or None where our rules do not reach."""
    if isinstance(node, exp.Paren | exp.Neg | exp.Abs):
        return infer(node.this, sources)
    if isinstance(node, exp.Column):
        return resolve(node, sources)[1].type
    if isinstance(node, exp.Literal):
        return _STRING if node.is_string else number_type(node.name)
    if isinstance(node, exp.Cast | exp.TryCast):
        return sql_type(node.to)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _arithmetic(node, sources)
    if isinstance(node, exp.Coalesce | exp.Least | exp.Greatest):
        return _common([node.this, *node.expressions], sources)
    if isinstance(node, exp.Case):
        return _common(
            [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")], sources
        )
    if isinstance(node, exp.If):
        return _common([node.args["true"], node.args.get("false")], sources)
    if isinstance(node, exp.TsOrDsToDate):
        return SqlType("date")
    if isinstance(node, (*_TO_INT, exp.Length)):
        return _INT
    if isinstance(node, _TO_STRING):
        return _STRING
    return _BOOLEAN if isinstance(node, _PREDICATES) else None


def number_type(digits: str) -> SqlType:
    """Return the type of an unsigned number as written."""
    if "e" in digits.lower():
        return _DOUBLE
    whole, _, fraction = digits.partition(".")
    if "." not in digits:
        value = int(digits)
        if value < 2**63:
            return _INT if value < 2**31 else _BIGINT
    return SqlType("decimal", max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))


def _bounded(precision: int, scale: int) -> SqlType:
    """Return the decimal that Spark settles on: beyond 38 digits the scale gives way, down to 6."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
    return SqlType("decimal", min(precision, 38), scale)


def _arithmetic(node: exp.Binary, sources: tuple[Source, ...]) -> SqlType | None:
    left, right = infer(node.left, sources), infer(node.right, sources)
    if left is None or right is None or not (left.is_numeric and right.is_numeric):
        return None
    if left.is_float or right.is_float:
        return _DOUBLE
    if left.is_integer and right.is_integer:
        return _DOUBLE if isinstance(node, exp.Div) else _wider(left, right)
    return decimal_result(type(node), _as_decimal(node.left, left), _as_decimal(node.right, right))


def _wider(left: SqlType, right: SqlType) -> SqlType:
    return max(left, right, key=lambda t: _WIDTHS.index(t.kind))


def _as_decimal(node: exp.Expr, kind: SqlType) -> SqlType:
    if isinstance(node, exp.Literal) and kind.is_integer:
        return SqlType("decimal", len(node.name), 0)
    return kind.as_decimal()


def decimal_result(operator: type[exp.Expr], left: SqlType, right: SqlType) -> SqlType:
    """Return the type of decimal arithmetic, by the table in Spark's DecimalPrecision."""
    if operator is exp.Mul:
        return _bounded(left.precision + right.precision + 1, left.scale + right.scale)
    if operator is exp.Div:
        scale = max(6, left.scale + right.precision + 1)
        return _bounded(left.precision - left.scale + right.scale + scale, scale)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _bounded(whole + scale + 1, scale)


def _common(nodes: list[exp.Expr | None], sources: tuple[Source, ...]) -> SqlType | None:
    """Return the type that all branches widen to, NULL branches aside."""
    found: SqlType | None = None
    for node in nodes:
        if node is None or isinstance(node, exp.Null):
            continue
        kind = infer(node, sources)
        if kind is None:
            return None
        found = kind if found is None else _least_common(found, kind)
        if found is None:
            return None
    return found


def _least_common(left: SqlType, right: SqlType) -> SqlType | None:
    if left == right:
        return left
    if not (left.is_numeric and right.is_numeric):
        return None
    if left.is_float or right.is_float:
        return _DOUBLE
    if left.is_integer and right.is_integer:
        return _wider(left, right)
    a, b = left.as_decimal(), right.as_decimal()
    scale = max(a.scale, b.scale)
    return _bounded(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)
