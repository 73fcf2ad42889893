"""Which clauses, literals and kinds of join of a SELECT are supported; everything else is refused by name."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import fragment
from eddyline.types import Column

_ADVICE = {
    "with_": "WITH: FROM names declared streams",
    "distinct": "SELECT DISTINCT",
    "group": "GROUP BY here: groups are those of the outermost SELECT",
    "order": "ORDER BY: the answer is one row",
    "limit": "LIMIT: the answer is one row",
    "laterals": "LATERAL VIEW",
    "sample": "TABLESAMPLE",
    "by_name": "BY NAME: put the columns in order",
}


def check_clauses(node: exp.Expr, read: set[str]) -> None:
    """Raise UnsupportedQuery at the first clause that is not among those that the caller reads."""
    for clause, value in node.args.items():
        if value and clause not in read:
            raise UnsupportedQuery(
                f"eddyline does not support queries with {_ADVICE.get(clause, clause.upper())}."
            )


# Literals as Spark reads them: spellings that the parser does not know, and strings in double quotes.
#
# Spark SQL reads "location" as a string, where most databases read the column of that name. A condition that
# compares such a string with constants only is refused: it is the same for all rows, so that COUNT(*) would
# be 0 and called exact. Elsewhere the string may be intended, and the answer has a note.


def spelled_for_parser(text: str) -> str:
    r"""Return a query in which the parser reads literals as Spark does.

    A doubled quote inside a string is one quote, which the parser would read as two strings; `1.5BD` is a decimal
    literal of its own digits, which older parsers read as DECIMAL(10,0).

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


def double_quoted_columns(text: str, columns: Iterable[Column]) -> list[str]:
    """Return the columns whose names are double-quoted literals in a query; aliases are left out."""
    names = {column.name.lower(): column.name for column in columns}
    tokens = sqlglot.tokenize(text, dialect="spark")
    written = [
        text[token.start + 1 : token.end].lower()
        for before, token in pairwise(tokens)
        if token.token_type == TokenType.STRING
        and text[token.start] == '"'
        and before.token_type != TokenType.ALIAS
    ]
    return [names[name] for name in dict.fromkeys(written) if name in names]


def quoted_column_note(name: str) -> str:
    """Return the note on a column's name that a query has in double quotes."""
    return (
        f'"{name}" in double quotes is a text in Spark SQL, not the column of that name: write {name} or `{name}` for '
        f"the column, '{name}' for the text."
    )


def check_double_quotes(text: str, select: exp.Query, columns: Iterable[Column]) -> None:
    """Raise SqlError where a condition on constants only has a column's name in double quotes."""
    quoted = {name.lower(): name for name in double_quoted_columns(text, columns)}
    for node in select.find_all(exp.Predicate) if quoted else ():
        if node.find(exp.Column, exp.Select):
            continue
        texts = (literal.name.lower() for literal in node.find_all(exp.Literal) if literal.is_string)
        name = next((quoted[each] for each in texts if each in quoted), None)
        if name is not None:
            raise SqlError(f"{fragment(node)!r} compares constants only. {quoted_column_note(name)}")


# Kinds of joins that a FROM clause may name.


JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
_KINDS: dict[str, JoinKind] = {
    "": "inner",
    "INNER": "inner",
    "CROSS": "inner",
    "LEFT": "left",
    "LEFT OUTER": "left",
    "RIGHT": "right",
    "RIGHT OUTER": "right",
    "FULL": "full",
    "FULL OUTER": "full",
    "SEMI": "semi",
    "LEFT SEMI": "semi",
    "ANTI": "anti",
    "LEFT ANTI": "anti",
}


def join_kind(join: exp.Join) -> JoinKind:
    """Return the kind of a join, or raise UnsupportedQuery."""
    kind = " ".join(str(join.args[key]) for key in ("method", "side", "kind") if join.args.get(key)).upper()
    if kind not in _KINDS:
        raise UnsupportedQuery(
            f"{fragment(join)!r} is a {kind} JOIN, which is not supported: write it as JOIN, LEFT JOIN, RIGHT JOIN, "
            "FULL JOIN, LEFT SEMI JOIN or LEFT ANTI JOIN with ON or USING."
        )
    return _KINDS[kind]


def rows_are_not_kept(select: str) -> str:
    """Return why a query for rows is refused, and what to ask instead."""
    return (
        f"{select!r} selects rows, and rows are not kept, only aggregates of them: select COUNT(*), SUM, AVG or "
        "another aggregate, or GROUP BY the columns and count them. SELECT ... TABLESAMPLE (100 ROWS), or LIMIT 100, "
        "shows rows of a sample with their weights, in state.sql(), `eddyline ask --sql` and SQL clients."
    )


_TESTS = (exp.Between, exp.Escape, exp.In, exp.Like, exp.ILike, exp.RegexpLike)
_EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ)
_ORDERS = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def check_precedence(tree: exp.Expr) -> None:
    """Raise UnsupportedQuery where the parser groups comparisons differently from Spark, which goes from left to right.

    `a = b LIKE c` is `(a = b) LIKE c` in Spark, `a = (b LIKE c)` for the parser; IN, BETWEEN and `a = b < c` likewise.
    """
    for node in tree.find_all(*_EQUALITIES, *_ORDERS):
        right = node.expression
        tested = right.this if isinstance(right, exp.Not) else right
        if isinstance(tested, _TESTS) or (isinstance(node, _EQUALITIES) and isinstance(tested, _ORDERS)):
            raise UnsupportedQuery(
                f"{fragment(node)!r} compares and tests without parentheses, and Spark reads that from left to right: "
                "write parentheses around what belongs together."
            )
