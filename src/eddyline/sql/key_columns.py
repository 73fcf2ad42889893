"""Key columns: expressions that may identify rows, and whether those of two sides can meet."""

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.expressions import Source, bare, fragment, text
from eddyline.sql.query import Expression
from eddyline.sql.typing import infer


def key_column(node: exp.Expr, sources: tuple[Source, ...]) -> Expression:
    """Return an expression as a key column, or raise UnsupportedQuery where its type has no exact equality."""
    kind = infer(node, sources)
    if kind is None or kind.key_class is None:
        found = "a type that eddyline cannot work out" if kind is None else f"type {kind}"
        raise UnsupportedQuery(
            f"the key {fragment(node)!r} has {found}: CAST it to an integer, DECIMAL, STRING, BINARY, DATE, "
            "TIMESTAMP or BOOLEAN."
        )
    return Expression(text(bare(node, sources)), kind)


def value_column(node: exp.Expr, sources: tuple[Source, ...]) -> Expression:
    """Return an expression as a column whose single values are held: a key column, or a FLOAT or DOUBLE."""
    kind = infer(node, sources)
    if kind is not None and kind.is_float:
        return Expression(text(bare(node, sources)), kind)
    return key_column(node, sources)


def check_meet(left: Expression, left_owner: str, right: Expression, right_owner: str) -> None:
    """Raise SqlError unless equal values of both columns get equal keys."""
    if left.type.key_class != right.type.key_class:
        raise SqlError(
            f"{left_owner}.{left.text} is {left.type} and {right_owner}.{right.text} is {right.type}: equal values "
            "cannot be recognised across these types; CAST one side."
        )
