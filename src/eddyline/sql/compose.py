"""New expressions out of given ones: built as trees, so that no operator of one binds into another."""

from collections.abc import Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp


def operand(node: exp.Expr) -> exp.Expr:
    """Return a node that any operator may take as an operand: in parentheses unless it is one token or a call."""
    plain = isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Null | exp.Boolean)
    return node.copy() if plain else exp.Paren(this=node.copy())


@lru_cache(maxsize=4096)
def operand_text(text: str) -> str:
    """Return an expression's text as an operand.

    >>> operand_text("`a` OR `b`"), operand_text("`a`")
    ('(`a` OR `b`)', '`a`')
    """
    return _written(operand(sqlglot.parse_one(text, dialect="spark")))


def equal(left: str, right: str) -> str:
    """Return the text of an equality of two expressions."""
    sides = [operand(sqlglot.parse_one(text, dialect="spark")) for text in (left, right)]
    return _written(exp.EQ(this=sides[0], expression=sides[1]))


def is_not_null(node: exp.Expr) -> exp.Expr:
    """Return the condition that an expression is not NULL."""
    return exp.Not(this=exp.Is(this=operand(node), expression=exp.Null()))


def one_where_not_null(node: exp.Expr) -> exp.Expr:
    """Return an expression that is 1 where another is not NULL, and NULL elsewhere."""
    return exp.Case(ifs=[exp.If(this=is_not_null(node), true=exp.Literal.number(1))])


def only_where(conditions: Sequence[str], text: str) -> str:
    """Return the text of an expression that is NULL where not all of some conditions hold.

    >>> only_where(["`x` > 1", "`y` OR `z`"], "`k`")
    'CASE WHEN `x` > 1 AND (`y` OR `z`) THEN `k` END'
    """
    parsed = [sqlglot.parse_one(each, dialect="spark") for each in conditions]
    value = sqlglot.parse_one(text, dialect="spark")
    return _written(exp.Case(ifs=[exp.If(this=exp.and_(*parsed), true=value)]))


def negative(node: exp.Expr) -> exp.Expr:
    """Return an expression with the opposite sign."""
    return exp.Neg(this=operand(node))


def product(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return the product of two expressions."""
    return exp.Mul(this=operand(left), expression=operand(right))


def _written(node: exp.Expr) -> str:
    return node.sql(dialect="spark", comments=False)
