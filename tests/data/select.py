"""Expressions as the reader has them, from texts."""

import sqlglot

from eddyline.sql.parse import with_plain_spellings


def parsed_expression(text):
    """The expression of a text, in the spelling that the rest of the reader knows."""
    return with_plain_spellings(sqlglot.parse_one(f"SELECT {text}", dialect="spark")).expressions[0]
