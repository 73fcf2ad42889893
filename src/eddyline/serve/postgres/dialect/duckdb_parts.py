"""What the rules of `duckdb_forms` share: refusals, calls and casts of DuckDB, and tests of a query's parts."""

from collections.abc import Callable

from sqlglot import exp

from eddyline.serve.postgres.dialect.kinds import FRACTIONS, TIME_KINDS, WHOLE, kind_of
from eddyline.serve.postgres.dialect.to_duckdb import CHECKED

Rule = Callable[[exp.Expr], exp.Expr]
"""Returns what a part becomes, or raises Unclear."""
WIDE = "wide"
"""The mark of a number with 18 decimal places: a product of two has no room for the digits before the point."""
PLACE = "place"
ON_THE_LIST = (
    "docs/how-to/sql-clients.md has the functions and forms that mean the same here and in PostgreSQL."
)


class Unclear(Exception):  # noqa: N818 - it becomes a Refusal
    """A part whose meaning is not certain; `{}` in the sentence stands for the part as it was written."""

    def __init__(self, node: exp.Expr, state: str, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.node, self.state, self.sentence, self.hint = node, state, sentence, hint


def refused(node: exp.Expr, hint: str) -> Unclear:
    """Return the refusal of a part; hint: what to write."""
    return Unclear(node, "0A000", "{} over planned queries is not supported", hint)


def unknown(node: exp.Expr, sentence: str, hint: str) -> Unclear:
    """Return the refusal of a function or an operator that does not exist for such arguments."""
    return Unclear(node, "42883", sentence, hint)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of a function of DuckDB's."""
    made = exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])
    made.meta[CHECKED] = True
    return made


def cast(node: exp.Expr, kind: str) -> exp.Expr:
    """Return a part cast to a type of DuckDB's."""
    return exp.Cast(this=node.copy(), to=exp.DataType.build(kind, dialect="duckdb"))


def double(node: exp.Expr) -> exp.Expr:
    """Return a part in floating point."""
    return cast(node, "DOUBLE")


def exact(node: exp.Expr) -> exp.Expr:
    """Return a floating point number as a DECIMAL of its 15 certain digits."""
    made = cast(call("printf", exp.Literal.string("%.15g"), double(node)), "DECIMAL(38, 18)")
    made.meta[WIDE] = True
    return made


def is_wide(node: exp.Expr) -> bool:
    """Return whether a number may have 18 decimal places: it contains a quotient that is not rounded."""
    if isinstance(node, exp.Column | exp.Round | exp.Trunc | exp.Floor | exp.Ceil | exp.Literal):
        return isinstance(node, exp.Column) and kind_of(node) == "numeric"
    return bool(node.meta.get(WIDE)) or any(is_wide(each) for each in node.iter_expressions())


def error_if(condition: exp.Expr, message: str, otherwise: exp.Expr) -> exp.Expr:
    """Return an expression that raises an error where a condition holds, as in PostgreSQL."""
    raised = call("error", exp.Literal.string(message))
    return exp.Case(ifs=[exp.If(this=condition, true=raised)], default=otherwise)


def whole_number(node: exp.Expr | None) -> int | None:
    """Return the value of a literal that is a whole number."""
    if isinstance(node, exp.Neg):
        inner = whole_number(node.this)
        return None if inner is None else -inner
    is_whole = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if is_whole and node is not None else None


def text_of(node: exp.Expr | None) -> str | None:
    """Return the value of a string."""
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def is_open(node: exp.Expr | None) -> bool:
    """Return whether the type of an operand is that of the other: NULL, or a string without a type."""
    return node is None or isinstance(node, exp.Null) or text_of(node) is not None


def class_of(kind: str | None) -> str | None:
    """Return what a kind is compared with: numbers with numbers, times with times."""
    if kind in WHOLE or kind in FRACTIONS:
        return "number"
    return "moment" if kind in TIME_KINDS else kind
