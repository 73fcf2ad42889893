"""Filters of Spark frames as conditions, and whether a condition can be TRUE for any value in a range."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from eddyline.errors import PipelineError, SqlError, UnsupportedQuery
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.nodes import check_allowed, conjuncts, remembers_texts, text
from eddyline.expressions.schema import sql_type
from eddyline.sql.clauses import spelled_for_parser
from eddyline.types import Column, SqlType

# Conditions as Spark prints them: those of a frame's filter, as conjuncts over bare columns.


_BETWEEN = "between_"
"""The name under which the parser gets Spark's between(x, low, high): the keyword would not parse as a function."""


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
    """Return a node as in a query: with bare columns, and BETWEEN in SQL's form."""
    if isinstance(node, exp.Column):
        return exp.column(exp.to_identifier(node.name, quoted=True))
    if isinstance(node, exp.Anonymous) and node.name == _BETWEEN:
        value, low, high = node.expressions
        return exp.Paren(this=exp.Between(this=value, low=low, high=high))
    return node


def read_type(written: str) -> SqlType | None:
    """Return the type in a string such as `DECIMAL(12,2)`; None where we do not support it.

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


# Whether a predicate can be TRUE for any value between the bounds of a column.


Bounds = Mapping[str, tuple[pa.Array, pa.Array]]
"""The least and the greatest value of columns, each an array of one value in the declared type."""
_LOW, _HIGH = 0, 1
_ENDS: dict[type[exp.Expr], int] = {exp.LT: _LOW, exp.LTE: _LOW, exp.GT: _HIGH, exp.GTE: _HIGH}
"""The end at which an ordering is TRUE if it is TRUE anywhere: x < constant at the least value of x."""
_FLIPPED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


def rules_out(predicate: str, bounds: Bounds, columns: tuple[Column, ...], timezone: str) -> bool:
    """Return whether a predicate is TRUE for no row whose columns lie within bounds; NULL is not TRUE.

    Only comparisons of a column with a constant rule anything out. Floats must have no bounds here: a NaN is
    greater than any bound, and bounds do not include it.
    """
    for column, end, written in _needed(predicate):
        if column not in bounds:
            continue
        try:
            value = evaluate(written, pa.table({column: bounds[column][end]}), columns, timezone)
        except PipelineError:
            continue
        if value[0].as_py() is False:
            return True
    return False


@remembers_texts()
def _needed(predicate: str) -> tuple[tuple[str, int, str], ...]:
    """Return (column, end, comparison) that must hold at that end of the column for the predicate to be TRUE."""
    return tuple(_comparisons(sqlglot.parse_one(predicate, dialect="spark").unnest()))


def _comparisons(node: exp.Expr) -> Iterator[tuple[str, int, str]]:
    if isinstance(node, exp.Between):
        for order, side in ((exp.GTE, "low"), (exp.LTE, "high")):
            yield from _comparisons(order(this=node.this.copy(), expression=node.args[side].copy()))
        return
    if type(node) not in _FLIPPED:
        return
    left, right = node.this.unnest(), node.expression.unnest()
    if isinstance(right, exp.Column):
        node = _FLIPPED[type(node)](this=right.copy(), expression=left.copy())
        left, right = right, left
    if not isinstance(left, exp.Column) or right.find(exp.Column) is not None:
        return
    kinds: tuple[type[exp.Expr], ...] = (exp.LTE, exp.GTE) if isinstance(node, exp.EQ) else (type(node),)
    for kind in kinds:
        yield left.name, _ENDS[kind], kind(this=left.copy(), expression=right.copy()).sql(dialect="spark")
