"""Other names of what we answer, written as the one that the rest of the reader knows.

APPROX_COUNT_DISTINCT(x)   COUNT(DISTINCT x)
COUNT_IF(c)                COUNT(*) FILTER (WHERE c)
try_divide(a, b)           a / NULLIF(b, 0)
dayofmonth(t)              day(t)
date_part('field', t)      EXTRACT(field FROM t)
"""

from collections.abc import Callable

from sqlglot import exp

from eddyline.sql.compose import operand
from eddyline.sql.filters import filtered_count
from eddyline.sql.typing import literal_number


def with_plain_spellings(select: exp.Select) -> exp.Select:
    """Return a SELECT in which other names of what we answer are gone."""
    made = select.copy()
    for node in reversed(list(made.walk())):  # what stands inside another comes first
        plain = _PLAIN[type(node)](node) if type(node) in _PLAIN else node
        if plain is not node:
            node.replace(plain)
    return made


def _distinct_count(node: exp.Expr) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[node.this]), big_int=True)


def _division(node: exp.Expr) -> exp.Expr:
    number = literal_number(node.expression)
    safe = number is not None and float(number) != 0
    divisor = node.expression if safe else exp.Nullif(this=node.expression, expression=exp.Literal.number(0))
    made = exp.Div(this=operand(node.this), expression=operand(divisor), typed=False, safe=True)
    return exp.Paren(this=made)


def _extraction(node: exp.Expr) -> exp.Expr:
    named = node.name.lower() in ("date_part", "datepart") and len(node.expressions) == 2
    if not named or not node.expressions[0].is_string:
        return node
    field, time = node.expressions
    return exp.Extract(this=exp.var(field.name.upper()), expression=time)


_PLAIN: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.ApproxDistinct: _distinct_count,
    exp.CountIf: filtered_count,
    exp.SafeDivide: _division,
    exp.DayOfMonth: lambda node: exp.Day(this=node.this),
    exp.Anonymous: _extraction,
}
