"""Literals that Spark and the parser spell differently, rewritten in the text before it is parsed."""

from itertools import pairwise

import sqlglot
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from eddyline.errors import UnsupportedQuery


def spelled_for_parser(text: str) -> str:
    r"""Return a text in which literals mean to the parser what they mean to Spark.

    A doubled quote inside a string is one quote, which the parser would take for two strings; `1.5BD` is a decimal
    literal of its own digits, which older parsers take for DECIMAL(10,0).

    >>> spelled_for_parser("c = 'it''s' AND d > 1.5BD")
    "c = 'it\\'s' AND d > 1.5"
    """
    tokens = sqlglot.tokenize(text, dialect="spark")
    for left, right in reversed(list(pairwise(tokens))):
        quote = text[left.end]
        if _doubles_a_quote(left, right, text):
            text = f"{text[: left.end]}\\{quote}{text[right.start + 1 :]}"
    tokens = sqlglot.tokenize(text, dialect="spark")
    for number, suffix in reversed(list(zip(tokens, tokens[2:], strict=False))):
        if number.token_type == TokenType.NUMBER and suffix.start == number.start:
            text = _without_suffix(text, number)
    return text


def _doubles_a_quote(left: Token, right: Token, text: str) -> bool:
    strings = left.token_type == right.token_type == TokenType.STRING
    return strings and right.start == left.end + 1 and text[left.end] == text[right.start]


def _without_suffix(text: str, number: Token) -> str:
    written = text[number.start : number.end + 1]
    if not written.upper().endswith("BD"):
        return text
    digits = written[:-2]
    if "e" in digits.lower():
        raise UnsupportedQuery(f"{written!r}: write a decimal number without an exponent.")
    return text[: number.start] + (digits if "." in digits else digits + ".") + text[number.end + 1 :]
