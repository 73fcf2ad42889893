"""Numbers over views: a numeric is a DECIMAL, and what is undefined is an error, as in PostgreSQL."""

from decimal import Decimal

from sqlglot import exp

from eddyline.serve.postgres.dialect.duckdb_parts import (
    Rule,
    call,
    cast,
    class_of,
    double,
    error_if,
    exact,
    is_wide,
    refused,
    unknown,
    whole_number,
)
from eddyline.serve.postgres.dialect.kinds import FLOATS, TIME_KINDS, WHOLE, kind_of

_MOST_DIGITS = 18
"""The largest power of ten of a constant that is written with one."""


def _arithmetic(node: exp.Expr) -> exp.Expr:
    left, right = kind_of(node.this), kind_of(node.expression)
    if class_of(left) == class_of(right) == "number":
        if isinstance(node, exp.Mod) and {left, right} & set(FLOATS):
            sentence = "operator does not exist: {} takes the remainder of a double precision"
            raise unknown(node, sentence, "Cast it to numeric.")
        is_product = isinstance(node, exp.Mul) and kind_of(node) == "numeric"
        if is_product and is_wide(node.this) and is_wide(node.expression):
            return exact(exp.Mul(this=double(node.this), expression=double(node.expression)))
        return node
    if isinstance(node, exp.Add | exp.Sub):
        if left == "date" and right in ("smallint", "int"):
            return node
        if left in TIME_KINDS and (right == "interval" or (right == left and isinstance(node, exp.Sub))):
            return node
        if isinstance(node, exp.Sub) and left in TIME_KINDS and right in TIME_KINDS:
            return exp.Sub(
                this=cast(node.this, "TIMESTAMPTZ"), expression=cast(node.expression, "TIMESTAMPTZ")
            )
    raise refused(node, "Its operands are numbers, or a time and an INTERVAL.")


def _divided(node: exp.Expr) -> exp.Expr:
    left, right = kind_of(node.this), kind_of(node.expression)
    if class_of(left) != "number" or class_of(right) != "number":
        raise refused(node, "Its operands are numbers: write x::numeric or x::bigint.")
    if {left, right} <= set(WHOLE):
        return node
    made = exp.Div(this=double(node.this), expression=double(node.expression), typed=node.args.get("typed"))
    return exact(made) if not {left, right} & set(FLOATS) else exp.Paren(this=made)


def of_number(node: exp.Expr) -> exp.Expr:
    """Return a function of a number as it is."""
    if class_of(kind_of(node.this)) != "number":
        raise refused(node, "Its argument is a number.")
    return node


def _rounded(node: exp.Expr) -> exp.Expr:
    kind, digits = kind_of(node.this), node.args.get("decimals")
    if kind in FLOATS and digits is None:
        return call("round_even" if isinstance(node, exp.Round) else "trunc", node.this, *_zero(node))
    if kind in FLOATS:
        name = f"{type(node).__name__.lower()}(double precision, integer)"
        raise unknown(node, f"function {name} does not exist", "Round a numeric: round(x::numeric, 2).")
    if class_of(kind) != "number" or (digits is not None and whole_number(digits) is None):
        raise refused(node, "Write round(x::numeric, 2), with the number of places written out.")
    return node


def _zero(node: exp.Expr) -> list[exp.Expr]:
    return [exp.Literal.number(0)] if isinstance(node, exp.Round) else []


def _root(node: exp.Expr) -> exp.Expr:
    of_number(node)
    negative = exp.LT(this=node.this.copy(), expression=exp.Literal.number(0))
    made = exp.Sqrt(this=double(node.this))
    return _as_kind(node, error_if(negative, "cannot take square root of a negative number", made))


def _logarithm(node: exp.Expr) -> exp.Expr:
    of_number(node)
    if node.args.get("expression") is not None:
        raise refused(node, "Write ln(x) / ln(base).")
    zero = exp.Literal.number(0)
    made = call("ln" if isinstance(node, exp.Ln) else "log10", double(node.this))
    negative = error_if(
        exp.LT(this=node.this.copy(), expression=zero), "cannot take logarithm of a negative number", made
    )
    return _as_kind(
        node,
        error_if(
            exp.EQ(this=node.this.copy(), expression=zero.copy()), "cannot take logarithm of zero", negative
        ),
    )


def _power(node: exp.Expr) -> exp.Expr:
    """Return a power with a constant exponent; with others, the meaning depends on the sign of the base."""
    exponent = whole_number(node.expression)
    if class_of(kind_of(node.this)) != "number" or exponent is None or not 0 <= exponent <= 10:
        raise refused(node, "Write out a whole exponent from 0 to 10, or exp(y * ln(x)).")
    return _as_kind(node, call("pow", double(node.this), double(node.expression)))


def _exponential(node: exp.Expr) -> exp.Expr:
    of_number(node)
    above = exp.GT(this=node.this.copy(), expression=exp.Literal.number(700))
    return _as_kind(node, error_if(above, "value out of range: overflow", exp.Exp(this=double(node.this))))


def _as_kind(node: exp.Expr, made: exp.Expr) -> exp.Expr:
    return exact(made) if kind_of(node.this) == "numeric" else made


def _constant(node: exp.Expr) -> exp.Expr:
    """Return a constant; 1e3 is a numeric in PostgreSQL, and floating point in DuckDB."""
    if node.args["is_string"] or "e" not in node.name.lower():
        return node
    number = Decimal(node.name)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise refused(node, "Write out its digits.")
    return exp.Literal.number(f"{number:f}" if "." in f"{number:f}" else f"{number:f}.0")


MEANS = (exp.Avg, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop)


def _summed(node: exp.Expr) -> exp.Expr:
    inner = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    if class_of(kind_of(inner)) != "number":
        raise refused(node, "Its argument is a number.")
    return _mean(node)


def _mean(node: exp.Expr) -> exp.Expr:
    """Return a mean with its FILTER and OVER, as a numeric where PostgreSQL returns one."""
    outer = isinstance(node.parent, exp.Filter | exp.Window) and node.arg_key == "this"
    inner = node
    while isinstance(inner, exp.Filter | exp.Window):
        inner = inner.this
    if outer or not isinstance(inner, MEANS) or kind_of(inner) != "numeric":
        return node
    return exact(node)


def _extreme(node: exp.Expr) -> exp.Expr:
    if kind_of(node.this) == "boolean" or node.expressions:
        raise unknown(node, "{} takes no boolean", "Write bool_and(x) or bool_or(x).")
    return node


NUMBERS: dict[type[exp.Expr], Rule] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod), _arithmetic),
    **dict.fromkeys((exp.Neg, exp.Abs, exp.Sign, exp.Floor, exp.Ceil), of_number),
    **dict.fromkeys((exp.Round, exp.Trunc), _rounded),
    **dict.fromkeys((exp.Ln, exp.Log), _logarithm),
    **dict.fromkeys((exp.Sum, *MEANS), _summed),
    **dict.fromkeys((exp.Filter, exp.Window), _mean),
    **dict.fromkeys((exp.Min, exp.Max), _extreme),
    exp.Div: _divided,
    exp.Sqrt: _root,
    exp.Pow: _power,
    exp.Exp: _exponential,
    exp.Literal: _constant,
}
