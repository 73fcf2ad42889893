"""Row expressions evaluated on Arrow tables, for the path without Spark.

It covers what predicates, keys and measures commonly say, with Spark's ANSI semantics, and refuses the
rest by name: an expression that it cannot evaluate exactly as Spark does needs `plan.sketch`.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from eddyline.errors import PipelineError
from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.expressions import Source, fragment
from eddyline.sql.schema import sql_type
from eddyline.sql.typing import decimal_result, infer, number_type
from eddyline.types import Column, SqlType

Value = Any  # an Arrow array, chunked array or scalar: pyarrow has no types of its own to say so
_COMPARE: dict[type[exp.Expr], Callable[..., Value]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
}
_ARITHMETIC: dict[type[exp.Expr], Callable[..., Value]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}
_UNARY: dict[type[exp.Expr], Callable[..., Value]] = {
    exp.Not: pc.invert,
    exp.Neg: pc.negate_checked,
    exp.Abs: pc.abs_checked,
    exp.Lower: pc.utf8_lower,
    exp.Upper: pc.utf8_upper,
    exp.Year: pc.year,
    exp.Month: pc.month,
    exp.Day: pc.day,
}


@lru_cache(maxsize=4096)
def _parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect="spark")


def evaluate(text: str, table: pa.Table, columns: tuple[Column, ...]) -> pa.ChunkedArray:
    """Return the column that an expression yields on a table of the declared types."""
    evaluator = _Evaluator(table, Source("", "", columns))
    try:
        value = evaluator.value(_parsed(text))
    except pa.ArrowInvalid as error:
        raise PipelineError(f"{text!r} fails on a row of the table: {error}.") from error
    if isinstance(value, pa.Scalar):
        return pa.chunked_array([pa.repeat(value, table.num_rows)])
    return value if isinstance(value, pa.ChunkedArray) else pa.chunked_array([value])


def _unsupported(node: exp.Expr) -> PipelineError:
    return PipelineError(
        f"{fragment(node)!r} can only be evaluated by Spark: use plan.sketch(spark, ...), or compute it in the "
        "table and declare it as a column."
    )


class _Evaluator:
    """Walks one expression over one table."""

    def __init__(self, table: pa.Table, source: Source) -> None:
        self.table = table
        self.source = source

    def value(self, node: exp.Expr) -> Value:  # noqa: PLR0911 - one line per kind of node
        """Return the value of a node, by its kind."""
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        if isinstance(node, exp.Column):
            return self.table.column(node.name)
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
            return _literal(node)
        if isinstance(node, exp.And | exp.Or):
            combine = pc.and_kleene if isinstance(node, exp.And) else pc.or_kleene
            return combine(self.value(node.left), self.value(node.right))
        if isinstance(node, exp.Binary) and type(node) in _COMPARE:
            return self.compare(node, node.left, node.right)
        if isinstance(node, exp.Binary) and type(node) in _ARITHMETIC:
            return self.arithmetic(node)
        if type(node) in _UNARY:
            return self.unary(node)
        return self.special(node)

    def special(self, node: exp.Expr) -> Value:  # noqa: PLR0911 - one line per kind of node
        """Return the value of a node that needs its own rule."""
        if isinstance(node, exp.Div):
            return self.divide(node)
        if isinstance(node, exp.Is):
            return self.is_test(node)
        if isinstance(node, exp.In) and node.args.get("query") is None:
            hits = [self.compare(node, node.this, option) for option in node.expressions]
            return reduce(pc.or_kleene, hits)
        if isinstance(node, exp.Between):
            low = self.compare(exp.GTE(), node.this, node.args["low"])
            return pc.and_kleene(low, self.compare(exp.LTE(), node.this, node.args["high"]))
        if isinstance(node, exp.Like) and isinstance(node.expression, exp.Literal):
            return pc.match_substring_regex(self.value(node.this), _like_pattern(node.expression.name))
        if isinstance(node, exp.Coalesce):
            return self.branches(
                node, [self.value(part) for part in (node.this, *node.expressions)], pc.coalesce
            )
        if isinstance(node, exp.Case) and node.this is None:
            return self.case(node)
        if isinstance(node, exp.Cast):
            return self.cast(node)
        raise _unsupported(node)

    def unary(self, node: exp.Expr) -> Value:
        """Return the value of a function of one argument."""
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            return pa.scalar(-_literal(node.this).as_py(), _literal(node.this).type)
        argument = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        result = _UNARY[type(node)](self.value(argument))
        return result.cast(pa.int32()) if isinstance(node, exp.Year | exp.Month | exp.Day) else result

    def compare(self, node: exp.Expr, left: exp.Expr, right: exp.Expr) -> Value:
        """Return a comparison of two sides of one class; other mixtures are Spark's to coerce."""
        kinds = [infer(side, (self.source,)) for side in (left, right)]
        a, b = self.value(left), self.value(right)
        if not any(isinstance(side, exp.Null) for side in (left, right)):
            classes = {
                None if kind is None else ("numeric" if kind.is_numeric else kind.kind) for kind in kinds
            }
            if None in classes or len(classes) > 1:
                raise _unsupported(node if node.this else left)
            if any(kind is not None and kind.is_float for kind in kinds):
                a, b = _without_nan(a.cast(pa.float64()), node), _without_nan(b.cast(pa.float64()), node)
        operator = _COMPARE.get(type(node), pc.equal)
        return operator(a, b)

    def arithmetic(self, node: exp.Binary) -> Value:
        """Return a sum, difference or product, in the type that Spark computes it in."""
        result = infer(node, (self.source,))
        if result is None or not result.is_numeric:
            raise _unsupported(node)
        operator = _ARITHMETIC[type(node)]
        if result.kind != "decimal":
            kind = to_arrow(result)
            return operator(self.value(node.left).cast(kind), self.value(node.right).cast(kind))
        sides = [self.decimal(side) for side in (node.left, node.right)]
        exact = decimal_result(type(node), *(kind for _, kind in sides))
        if exact.precision == 38:
            raise _unsupported(node)
        return operator(sides[0][0], sides[1][0]).cast(to_arrow(result))

    def decimal(self, node: exp.Expr) -> tuple[Value, SqlType]:
        """Return a side of decimal arithmetic and its decimal type."""
        kind = infer(node, (self.source,))
        assert kind is not None
        if isinstance(node, exp.Literal) and kind.is_integer:
            kind = number_type(node.name + ".")
            return pa.scalar(Decimal(node.name), to_arrow(kind)), kind
        kind = kind.as_decimal()
        return self.value(node).cast(to_arrow(kind)), kind

    def divide(self, node: exp.Div) -> Value:
        """Return a division in DOUBLE; decimal division rounds in Spark's own way."""
        result = infer(node, (self.source,))
        if result is None or result.kind != "double":
            raise _unsupported(node)
        divisor = self.value(node.right).cast(pa.float64())
        if _any(pc.equal(divisor, 0.0)):
            raise PipelineError(f"{fragment(node)!r} divides by zero.")
        return pc.divide(self.value(node.left).cast(pa.float64()), divisor)

    def is_test(self, node: exp.Is) -> Value:
        """Return IS NULL, IS TRUE or IS FALSE."""
        value = self.value(node.this)
        if isinstance(node.expression, exp.Null):
            return pc.is_null(value)
        if isinstance(node.expression, exp.Boolean):
            return pc.fill_null(pc.equal(value, node.expression.this), False)
        raise _unsupported(node)

    def branches(self, node: exp.Expr, values: list[Value], choose: Callable[..., Value]) -> Value:
        """Return a choice among branches, all cast to their common type."""
        kind = infer(node, (self.source,))
        if kind is None:
            raise _unsupported(node)
        return choose(*(value.cast(to_arrow(kind)) for value in values))

    def case(self, node: exp.Case) -> Value:
        """Return a searched CASE."""
        tests = [pc.fill_null(self.value(branch.this), False) for branch in node.args["ifs"]]
        results = [self.value(branch.args["true"]) for branch in node.args["ifs"]]
        default = node.args.get("default")
        results.append(self.value(default) if default is not None else pa.scalar(None))
        tests = [pa.repeat(t, self.table.num_rows) if isinstance(t, pa.Scalar) else _flat(t) for t in tests]
        struct = pc.make_struct(*tests, field_names=[str(i) for i in range(len(tests))])
        return self.branches(node, results, lambda *values: pc.case_when(struct, *(_flat(v) for v in values)))

    def cast(self, node: exp.Cast) -> Value:
        """Return a cast that widens, or reads a date literal; casts that can lose are Spark's to do."""
        target = sql_type(node.to)
        source = infer(node.this, (self.source,))
        if target is None or source is None:
            raise _unsupported(node)
        literal_date = isinstance(node.this, exp.Literal) and target.kind == "date"
        if (
            not literal_date
            and not source.widens_to(target)
            and not (source.is_integer and target.kind == "string")
        ):
            raise _unsupported(node)
        return self.value(node.this).cast(to_arrow(target))


def _flat(value: Value) -> Value:
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def _any(value: Value) -> bool:
    return (value if isinstance(value, pa.Scalar) else pc.any(value)).as_py() is True


def _literal(node: exp.Expr) -> pa.Scalar:
    if isinstance(node, exp.Null):
        return pa.scalar(None)
    if isinstance(node, exp.Boolean):
        return pa.scalar(bool(node.this))
    if node.is_string:
        return pa.scalar(node.name)
    kind = number_type(node.name)
    value = float(node.name) if kind.is_float else Decimal(node.name)
    return pa.scalar(int(value) if kind.is_integer else value, to_arrow(kind))


def _without_nan(value: Value, node: exp.Expr) -> Value:
    if _any(pc.is_nan(value)):
        raise PipelineError(f"a comparison ({type(node).__name__}) meets NaN, which only Spark orders.")
    return value


def _like_pattern(pattern: str) -> str:
    """Return the regular expression of a LIKE pattern; a backslash escapes."""
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\" and i + 1 < len(pattern):
            i += 1
            out.append(re.escape(pattern[i]))
        else:
            out.append({"%": ".*", "_": "."}.get(char, re.escape(char)))
        i += 1
    return f"(?s)^{''.join(out)}$"
