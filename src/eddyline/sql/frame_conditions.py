"""Conditions that Spark wrote down: those of a frame's filter, as conjuncts over bare columns."""

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.expressions import check_allowed, conjuncts, text
from eddyline.sql.literals import spelled_for_parser
from eddyline.sql.schema import sql_type
from eddyline.types import SqlType

_BETWEEN = "between_"
"""How the parser is told of Spark's between(x, low, high): as a keyword it would not be a function."""


def read_conjuncts(written: str) -> tuple[str, ...] | None:
    """Return the conjuncts of a condition, without qualifiers of columns; None where it cannot be read.

    >>> read_conjuncts("((spark_catalog.default.t.x > 1L) AND (`y` IS NOT NULL))")
    ('`x` > CAST(1 AS BIGINT)', 'NOT `y` IS NULL')
    """
    try:
        node = sqlglot.parse_one(_with_functions(spelled_for_parser(written)), dialect="spark").transform(
            _plain
        )
        check_allowed(node)
    except (SqlglotError, SqlError, UnsupportedQuery):
        return None
    return tuple(text(each) for each in conjuncts(node))


def _with_functions(written: str) -> str:
    for token in reversed(sqlglot.tokenize(written, dialect="spark")):
        if token.token_type == TokenType.BETWEEN:
            written = written[: token.start] + _BETWEEN + written[token.end + 1 :]
    return written


def _plain(node: exp.Expr) -> exp.Expr:
    """Return a node as a query would have it: columns bare, BETWEEN as SQL writes it."""
    if isinstance(node, exp.Column):
        return exp.column(exp.to_identifier(node.name, quoted=True))
    if isinstance(node, exp.Anonymous) and node.name == _BETWEEN:
        value, low, high = node.expressions
        return exp.Paren(this=exp.Between(this=value, low=low, high=high))
    return node


def read_type(written: str) -> SqlType | None:
    """Return the type of a text such as `DECIMAL(12,2)`; None where it says more than a type that we have.

    >>> read_type("STRING"), read_type("STRING COLLATE UTF8_LCASE")
    (SqlType(kind='string', precision=0, scale=0), None)
    """
    try:
        node = sqlglot.parse_one(written, into=exp.DataType, dialect="spark")
    except SqlglotError:
        return None
    if not isinstance(node, exp.DataType) or text(node).replace(" ", "") != written.replace(" ", ""):
        return None
    return sql_type(node)
