"""Formulas of aggregates: SUM(a) / COUNT(*), 100.0 * COUNT_IF(c) / COUNT(*), SUM(a) - SUM(b).

Each aggregate is one of the query; what is read here is how they are put together. A SUM or COUNT over the COUNT of the
same rows is an average, which is known better than its two parts: 100 * COUNT_IF(c) / COUNT(*) is 100 times one.
"""

from collections.abc import Callable
from typing import TypeGuard

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.expressions import fragment, unparenthesised
from eddyline.sql.query import Formula, FormulaNode, FormulaNumber, FormulaPart
from eddyline.sql.schema import sql_type
from eddyline.sql.typing import literal_number

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_FUNCTIONS = (exp.Neg, exp.Cast, exp.Round, exp.Coalesce, exp.Nullif)
_AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Filter)
_MOST_PLACES = 15


def is_formula(node: exp.Expr) -> bool:
    """Return whether an expression of the SELECT list puts aggregates together, or something to one."""
    node = unparenthesised(node.this if isinstance(node, exp.Alias) else node)
    return isinstance(node, (*_OPERATORS, *_FUNCTIONS)) and node.find(exp.AggFunc) is not None


def read_formula(
    node: exp.Expr, name_of: Callable[[exp.Expr], str], is_average: Callable[[str, str], bool]
) -> Formula:
    """Return the formula that an expression is.

    name_of: the name of an aggregate of the query. is_average: whether one of them over another is an average.
    """

    def read(part: exp.Expr) -> Formula:  # noqa: PLR0911 - one line per kind
        part = unparenthesised(part)
        number = literal_number(part)
        if number is not None:
            return FormulaNumber(number)
        if isinstance(part, _AGGREGATES):
            return FormulaPart(name_of(part))
        if isinstance(part, exp.Div):
            return _divided(read(part.left), read(part.right), is_average)
        if isinstance(part, exp.Binary) and type(part) in _OPERATORS:
            return FormulaNode(_OPERATORS[type(part)], read(part.left), read(part.right))  # type: ignore[arg-type]
        if isinstance(part, exp.Neg):
            return FormulaNode("-", FormulaNumber("0"), read(part.this))
        if isinstance(part, exp.Cast) and _is_double(part):
            return read(part.this)
        if isinstance(part, exp.Round | exp.Coalesce | exp.Nullif):
            return FormulaNode(type(part).__name__.lower(), read(part.this), _second(part))  # type: ignore[arg-type]
        if not part.find(exp.AggFunc):
            raise SqlError(f"{fragment(part)!r} beside aggregates is neither an aggregate nor a number.")
        raise UnsupportedQuery(
            f"{fragment(part)!r}: aggregates are put together by + - * / and ROUND, COALESCE, NULLIF and CAST to "
            "DOUBLE; ask them in columns of their own."
        )

    return read(node)


def _is_double(node: exp.Cast) -> bool:
    kind = sql_type(node.to)
    return kind is not None and kind.kind == "double"


def _second(node: exp.Expr) -> FormulaNumber:
    """Return the number that ROUND, COALESCE and NULLIF take."""
    given = node.args.get("decimals") if isinstance(node, exp.Round) else node.args.get("expression")
    if isinstance(node, exp.Coalesce):
        given = node.expressions[0] if len(node.expressions) == 1 else None
    number = "0" if given is None and isinstance(node, exp.Round) else literal_number(given or exp.Null())
    places = isinstance(node, exp.Round) and number is not None
    if number is None or (places and not (number.isdigit() and int(number) <= _MOST_PLACES)):
        raise UnsupportedQuery(
            f"{fragment(node)!r}: beside an aggregate COALESCE and NULLIF take one number, ROUND places from 0 to "
            f"{_MOST_PLACES}."
        )
    return FormulaNumber(number)


def _divided(left: Formula, right: Formula, is_average: Callable[[str, str], bool]) -> Formula:
    """Return a quotient; a number before it stays before it, so that averages are seen."""
    if isinstance(left, FormulaNode) and left.operator == "*":
        if isinstance(left.left, FormulaNumber):
            return FormulaNode("*", left.left, _divided(left.right, right, is_average))
        if isinstance(left.right, FormulaNumber):
            return FormulaNode("*", _divided(left.left, right, is_average), left.right)
    guarded = (
        isinstance(right, FormulaNode) and right.operator == "nullif" and right.right == FormulaNumber("0")
    )
    count = right.left if guarded and isinstance(right, FormulaNode) else right
    if _is_aggregate(left) and _is_aggregate(count) and is_average(left.name, count.name):
        return FormulaPart(left.name, count.name, guarded)
    return FormulaNode("/", left, right)


def _is_aggregate(formula: Formula) -> TypeGuard[FormulaPart]:
    """Return whether a formula is one aggregate; an average is two."""
    return isinstance(formula, FormulaPart) and formula.over is None
