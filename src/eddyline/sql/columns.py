"""The columns that a stored expression reads."""

from functools import lru_cache

import sqlglot
from sqlglot import exp


@lru_cache(maxsize=4096)
def columns_of(text: str) -> frozenset[str]:
    """Return the names of the columns in an expression text."""
    return frozenset(column.name for column in sqlglot.parse_one(text, dialect="spark").find_all(exp.Column))


@lru_cache(maxsize=4096)
def names_in(text: str) -> frozenset[str]:
    """Return every name in a query text, those of its columns among them, in lower case."""
    return frozenset(
        name.name.lower() for name in sqlglot.parse_one(text, dialect="spark").find_all(exp.Identifier)
    )
