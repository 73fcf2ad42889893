"""Row expressions evaluated on Arrow tables, for the path without Spark."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from eddyline.errors import PipelineError, RowFailure
from eddyline.expressions import arrow_times, arrow_values
from eddyline.expressions.arrow_values import (
    Value,
    as_number,
    check_divisor,
    compare_floats,
    number_scalar,
    remainder,
    to_arrow,
    whole_near,
    whole_quotient,
)
from eddyline.expressions.nodes import MOST_PARSED, Source, can_fail, fragment, remembers_texts, row_failure
from eddyline.expressions.schema import sql_type
from eddyline.expressions.times import DAYS, TIMES, Shift, extracted_field, shift_of, truncation_unit
from eddyline.expressions.typing import (
    as_decimal,
    common_of,
    common_type,
    decimal_result,
    infer,
    literal_number,
    wider_decimal,
)
from eddyline.types import Column, SqlType

# Values on some rows of an Arrow table: where an expression is needed, and NULL elsewhere.


def flat(value: Value) -> Value:
    """Return a column in one piece."""
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def of_rows(value: Value, rows: int) -> Value:
    """Return a value as a column of `rows` rows, in one piece."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else flat(value)


def spread(value: Value, rows: pa.BooleanArray) -> Value:
    """Return values of some rows as a column of all rows, NULL on the others."""
    if isinstance(value, pa.Scalar):
        return value
    taken = np.asarray(rows)
    return value.take(pa.array(np.cumsum(taken) - 1, mask=~taken))


def all_null(values: Sequence[Value]) -> Value:
    """Return the rows on which all these values are NULL."""
    return reduce(pc.and_, [pc.is_null(value) for value in values], pa.scalar(True))


# Rules of the evaluator.
#
# The evaluator covers what predicates, keys and measures commonly use, with Spark's ANSI semantics, and
# refuses the rest by name: an expression that it cannot evaluate exactly as Spark does needs `plan.sketch`.
# Each kind of node has one rule, and each rule lists which arguments of the node it reads. A node with any
# other argument is refused, so that what a newer parser adds to a node is never ignored.


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
    exp.Mod: remainder,
}
_FLOATING: dict[type[exp.Expr], Callable[..., Value]] = {
    exp.Add: pc.add,
    exp.Sub: pc.subtract,
    exp.Mul: pc.multiply,
    exp.Mod: remainder,
}


@remembers_texts(MOST_PARSED)
def _parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect="spark")


def evaluate(
    text: str, table: pa.Table, columns: tuple[Column, ...], timezone: str = "UTC"
) -> pa.ChunkedArray:
    """Return the column that an expression yields on a table of the declared types.

    timezone: the zone in which timestamps have a year, a day and an hour.
    """
    evaluator = _Evaluator(table, Source("", "", columns), timezone)
    try:
        value = evaluator.value(_parsed(text))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ZeroDivisionError) as error:
        raise RowFailure(row_failure(text, str(error))) from error
    except RecursionError as error:
        raise PipelineError(
            f"{text[:60]!r}... is too deeply nested to be evaluated without Spark."
        ) from error
    if isinstance(value, pa.Scalar):
        return pa.chunked_array([pa.repeat(value, table.num_rows)])
    return value if isinstance(value, pa.ChunkedArray) else pa.chunked_array([value])


def _unsupported(node: exp.Expr) -> PipelineError:
    texts = isinstance(node, exp.Predicate) and any(each.is_string for each in node.iter_expressions())
    cast = "; of a date write DATE '2026-01-31', of a time TIMESTAMP '2026-01-31 10:00:00'" if texts else ""
    return PipelineError(
        f"{fragment(node)!r} can only be evaluated by Spark: use plan.sketch(spark, ...), or compute it in the "
        f"table and declare it as a column{cast}."
    )


class _Evaluator:
    """Evaluates one expression on one table."""

    def __init__(self, table: pa.Table, source: Source, timezone: str) -> None:
        self.table = table
        self.source = source
        self.timezone = timezone

    def value(self, node: exp.Expr) -> Value:
        """Return the value of a node by the rule of its kind, if the rule reads all arguments of the node."""
        rule = _RULES.get(type(node))
        if rule is None or any(
            argument not in (None, False, "", []) and name not in rule.reads
            for name, argument in node.args.items()
        ):
            raise _unsupported(node)
        return rule.evaluate(self, node)

    def kind(self, node: exp.Expr) -> SqlType:
        """Return the type of a node; without a rule for it, only Spark can evaluate it."""
        kind = infer(node, (self.source,))
        if kind is None:
            raise _unsupported(node)
        return kind

    def typed(self, node: exp.Expr, *kinds: str) -> Value:
        """Return the value of a node of one of these kinds of types; only Spark coerces others."""
        kind = self.kind(node)
        if kind.kind == "void":
            return pa.scalar(None, to_arrow(SqlType(kinds[0])))  # type: ignore[arg-type]
        if kind.kind not in kinds:
            raise _unsupported(node.parent or node)
        return self.value(node)

    def as_type(self, node: exp.Expr, source: SqlType, target: SqlType) -> Value:
        """Return the value of a node in a type that Spark implicitly casts it to."""
        value = self.value(node)
        if source.kind == "void":
            return pa.scalar(None, to_arrow(target))
        if source.is_numeric and target.is_numeric:
            return as_number(value, to_arrow(target))
        if source.kind == "date" and target.kind in TIMES:
            return self.time_as(value, target.kind)
        if source != target:
            raise _unsupported(node.parent or node)
        return value

    def column(self, node: exp.Expr) -> Value:
        """Return a column, in its declared type."""
        return self.table.column(node.name)

    def literal(self, node: exp.Expr) -> Value:
        """Return a literal."""
        if isinstance(node, exp.Null):
            return pa.scalar(None)
        if isinstance(node, exp.Boolean):
            return pa.scalar(bool(node.this))
        return pa.scalar(node.name) if node.is_string else number_scalar(node.name)

    def where(self, rows: Value, node: exp.Expr, evaluate: "_Evaluate") -> Value:
        """Return the value of a node that is needed on some rows: if it can fail, it is evaluated on those only."""
        if not can_fail(node):
            return evaluate(self, node)
        rows = of_rows(rows, self.table.num_rows)
        part = _Evaluator(self.table.filter(rows), self.source, self.timezone)
        return spread(evaluate(part, node), rows)

    def truth(self, node: exp.Expr) -> Value:
        """Return the value of a condition."""
        return self.typed(node, "boolean")

    def connector(self, node: exp.Expr) -> Value:
        """Return AND or OR of a chain of operands, each evaluated where earlier ones leave the result open."""
        decided, combine = (False, pc.and_kleene) if isinstance(node, exp.And) else (True, pc.or_kleene)
        first, *others = node.flatten(unnest=False)
        result = self.truth(first)
        for part in others:
            still_open = pc.fill_null(pc.not_equal(result, decided), True)
            result = combine(result, self.where(still_open, part, _Evaluator.truth))
        return result

    def comparison(self, node: exp.Expr) -> Value:
        """Return a comparison of two sides."""
        return self.compare(node, _COMPARE[type(node)], node.this, node.expression)

    def compare(
        self, node: exp.Expr, operator: Callable[..., Value], left: exp.Expr, right: exp.Expr
    ) -> Value:
        """Return a comparison in the type that Spark compares two sides in."""
        kinds = [self.kind(side) for side in (left, right)]
        common = common_type(*kinds)
        return self.compare_as(node, operator, (left, right), (kinds[0], kinds[1]), common)

    def compare_as(
        self,
        node: exp.Expr,
        operator: Callable[..., Value],
        sides: tuple[exp.Expr, exp.Expr],
        kinds: tuple[SqlType, SqlType],
        common: SqlType | None,
    ) -> Value:
        """Return a comparison of two sides in a given type."""
        if common is None or (common.kind == "decimal" and _is_bounded(*kinds)):
            raise _unsupported(node)
        if common.kind == "void":
            return pa.scalar(None, pa.bool_())
        left, right = (self.as_type(side, kind, common) for side, kind in zip(sides, kinds, strict=True))
        return compare_floats(operator, left, right) if common.is_float else operator(left, right)

    def is_in(self, node: exp.Expr) -> Value:
        """Return IN over a list: all are compared in their common type."""
        kinds = [self.kind(part) for part in (node.this, *node.expressions)]
        common = common_of(kinds)
        return reduce(
            pc.or_kleene,
            [
                self.compare_as(node, pc.equal, (node.this, option), (kinds[0], kind), common)
                for option, kind in zip(node.expressions, kinds[1:], strict=True)
            ],
        )

    def between(self, node: exp.Expr) -> Value:
        """Return BETWEEN as two comparisons."""
        low = self.compare(node, pc.greater_equal, node.this, node.args["low"])
        return pc.and_kleene(low, self.compare(node, pc.less_equal, node.this, node.args["high"]))

    def is_test(self, node: exp.Expr) -> Value:
        """Return IS NULL, IS TRUE or IS FALSE."""
        if isinstance(node.expression, exp.Null):
            return pc.is_null(self.value(node.this))
        if isinstance(node.expression, exp.Boolean):
            value = self.typed(node.this, "boolean")
            return pc.fill_null(pc.equal(value, bool(node.expression.this)), False)
        raise _unsupported(node)

    def like(self, node: exp.Expr) -> Value:
        """Return LIKE or NOT LIKE with a literal pattern."""
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise _unsupported(node)
        if not arrow_values.is_like_pattern(pattern.name):
            raise _unsupported(node)
        matches = arrow_values.like(self.typed(node.this, "string"), pattern.name)
        return pc.invert(matches) if node.args.get("negate") else matches

    def text(self, node: exp.Expr) -> Value:
        """Return a string, or a whole number or a date as one."""
        kind = self.kind(node)
        if kind.is_integer or kind.kind == "date":
            return pc.cast(self.value(node), pa.string())
        return self.typed(node, "string")

    def whole_number(self, node: exp.Expr | None) -> int:
        """Return the value of a literal whole number."""
        number = literal_number(node) if node is not None else None
        if number is None or not number.lstrip("-").isdigit():
            raise _unsupported(node.parent if node is not None and node.parent is not None else exp.Null())
        return int(number)

    def substring(self, node: exp.Expr) -> Value:
        """Return a part of a string at literal positions."""
        value = self.typed(node.this, "string")
        if isinstance(node, exp.Left | exp.Right):
            count = max(self.whole_number(node.expression), 0)
            start = -count if isinstance(node, exp.Right) and count else 1
            return arrow_values.part_of(value, start, count)
        given = node.args.get("length")
        length = None if given is None else self.whole_number(given)
        return arrow_values.part_of(value, self.whole_number(node.args.get("start")), length)

    def concat(self, node: exp.Expr) -> Value:
        """Return the concatenation of strings."""
        parts = [node.left, node.right] if isinstance(node, exp.DPipe) else node.expressions
        return arrow_values.joined([self.text(part) for part in parts])

    def affix(self, node: exp.Expr) -> Value:
        """Return whether strings begin with, end with or contain a literal string."""
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise _unsupported(node)
        return _AFFIXES[type(node)](self.typed(node.this, "string"), pattern.name)

    def sign(self, node: exp.Expr) -> Value:
        """Return a number with the opposite sign, or its absolute value."""
        number = literal_number(node)
        if number is not None:
            return number_scalar(number)
        kind = self.kind(node.this)
        if not kind.is_numeric:
            raise _unsupported(node)
        operator = pc.negate_checked if isinstance(node, exp.Neg) else pc.abs_checked
        return operator(self.value(node.this))

    def whole(self, node: exp.Expr) -> Value:
        """Return FLOOR or CEIL of a number."""
        rounded = pc.floor if isinstance(node, exp.Floor) else pc.ceil
        return whole_near(self.value(node.this), to_arrow(self.kind(node)), rounded)

    def arithmetic(self, node: exp.Expr) -> Value:
        """Return a sum, difference, product or remainder, in the type that Spark computes it in."""
        shift = shift_of(node)
        if shift is not None:
            return self.shifted(node, shift)
        kinds = [self.kind(side) for side in (node.this, node.expression)]
        result = self.kind(node)
        if result.kind == "date" and kinds[0].kind == "date":
            days = self.value(node.expression)
            return arrow_times.plus_days(
                self.value(node.this), pc.negate(days) if isinstance(node, exp.Sub) else days
            )
        if not all(kind.is_numeric for kind in kinds) or not result.is_numeric:
            raise _unsupported(node)
        sides = list(zip((node.this, node.expression), kinds, strict=True))
        if result.kind != "decimal":
            operator = (_FLOATING if result.is_float else _ARITHMETIC)[type(node)]
            return operator(*(self.as_type(side, kind, result) for side, kind in sides))
        decimals = [as_decimal(side, kind) for side, kind in sides]
        if decimal_result(type(node), *decimals).precision == 38:
            raise _unsupported(node)
        operands = [self.as_decimal(side, kind) for (side, _), kind in zip(sides, decimals, strict=True)]
        return _ARITHMETIC[type(node)](*operands).cast(to_arrow(result))

    def shifted(self, node: exp.Expr, shift: Shift) -> Value:
        """Return a time plus an interval; only Spark adds months and years."""
        kind = self.kind(node)
        if shift.micros is None:
            raise _unsupported(node)
        value = self.time(shift.time, kind.kind)
        return arrow_times.plus_micros(value, shift.micros, self.timezone)

    def as_decimal(self, node: exp.Expr, kind: SqlType) -> Value:
        """Return an operand of decimal arithmetic in its decimal type."""
        number = literal_number(node)
        if number is not None:
            return pa.scalar(Decimal(number), to_arrow(kind))
        return self.value(node).cast(to_arrow(kind))

    def divide(self, node: exp.Expr) -> Value:
        """Return a division in DOUBLE; decimal division rounds in Spark's own way."""
        kinds = [self.kind(side) for side in (node.this, node.expression)]
        if self.kind(node).kind != "double" or not all(kind.is_numeric for kind in kinds):
            raise _unsupported(node)
        left, right = (as_number(self.value(side), pa.float64()) for side in (node.this, node.expression))
        check_divisor(left, right)
        return pc.divide(left, right)

    def divide_whole(self, node: exp.Expr) -> Value:
        """Return a DIV b of integers."""
        kinds = [self.kind(side) for side in (node.this, node.expression)]
        if not all(kind.is_integer for kind in kinds):
            raise _unsupported(node)
        return whole_quotient(
            *(as_number(self.value(side), pa.int64()) for side in (node.this, node.expression))
        )

    def nullif(self, node: exp.Expr) -> Value:
        """Return a value, or NULL where it equals another."""
        equal = pc.fill_null(self.compare(node, pc.equal, node.this, node.expression), False)
        value = self.value(node.this)
        return pc.if_else(equal, pa.scalar(None, value.type), value)

    def coalesce(self, node: exp.Expr) -> Value:
        """Return the first value that is not NULL."""
        return self.branches(node, [node.this, *node.expressions], pc.coalesce, all_null)

    def case(self, node: exp.Expr) -> Value:
        """Return a searched CASE: tests are evaluated where no earlier one is TRUE, results where their test is."""
        number, tests = self.table.num_rows, list[pa.Array]()
        left = pa.repeat(pa.scalar(True), number)
        for branch in node.args["ifs"]:
            holds = of_rows(pc.fill_null(self.where(left, branch.this, _Evaluator.truth), False), number)
            tests.append(pc.and_(left, holds))
            left = pc.and_not(left, holds)
        struct = pc.make_struct(*tests, field_names=[str(i) for i in range(len(tests))])
        return self.branches(
            node,
            [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default") or exp.Null()],
            lambda *values: pc.case_when(struct, *(flat(value) for value in values)),
            lambda values: [*tests, left][len(values)],
        )

    def branches(
        self,
        node: exp.Expr,
        parts: Sequence[exp.Expr],
        choose: Callable[..., Value],
        needed: Callable[[Sequence[Value]], Value],
    ) -> Value:
        """Return a choice among branches in their common type; needed: on which rows, given earlier values."""
        kinds = [self.kind(part) for part in parts]
        common = self.kind(node)
        if common.kind == "void":
            return pa.scalar(None)
        if common.kind == "decimal" and any(_is_bounded(common, kind) for kind in kinds):
            raise _unsupported(node)
        values: list[Value] = []
        for part in parts:
            rows = needed(values)
            values.append(self.where(rows, part, lambda on, each: on.as_type(each, on.kind(each), common)))
        return choose(*values)

    def cast(self, node: exp.Expr) -> Value:
        """Return a cast that widens, or reads a time literal; only Spark does casts that can lose digits."""
        target, source = sql_type(node.args["to"]), self.kind(node.this)
        if target is None:
            raise _unsupported(node)
        if source.kind == "void":
            return pa.scalar(None, to_arrow(target))
        if isinstance(node.this, exp.Literal) and source.kind == "string":
            read = arrow_times.time_literal(node.this.name, target.kind, self.timezone)
            if read is None:
                raise _unsupported(node)
            return read
        if source.is_numeric and (source.widens_to(target) or target.kind == "double"):
            return as_number(self.value(node.this), to_arrow(target))
        if source.kind in TIMES and target.kind in TIMES:
            return self.time_as(self.value(node.this), target.kind)
        if source == target or (source.is_integer and target.kind == "string"):
            return self.value(node.this).cast(to_arrow(target))
        raise _unsupported(node)

    def time_as(self, value: Value, kind: str) -> Value:
        """Return dates and timestamps as values of another such type, in the plan's time zone."""
        if kind == "date":
            return arrow_times.as_date(value, self.timezone)
        found = arrow_times.as_timestamp(value, self.timezone)
        return (
            found if kind == "timestamp" else arrow_times.local(value, self.timezone).cast(pa.timestamp("us"))
        )

    def time(self, node: exp.Expr, kind: str) -> Value:
        """Return the value of a node that is a date or a timestamp, as one of another such type."""
        node = node.this if isinstance(node, exp.TsOrDsToDate) and not node.args.get("format") else node
        return self.time_as(self.typed(node, *TIMES), kind)

    def field(self, node: exp.Expr) -> Value:
        """Return a field of a date or of a timestamp, the latter in the plan's time zone."""
        return self._field(node, _FIELDS[type(node)], node.this)

    def extract(self, node: exp.Expr) -> Value:
        """Return EXTRACT(field FROM time); only Spark returns its seconds, which have a fraction."""
        name = extracted_field(node)
        if name == "second":
            raise _unsupported(node)
        return self._field(node, name, node.expression)

    def _field(self, node: exp.Expr, name: str, argument: exp.Expr) -> Value:
        argument = argument.this if isinstance(argument, exp.TsOrDsToDate) else argument
        value = self.typed(argument, *TIMES)
        if name in ("hour", "minute", "second") and pa.types.is_date(value.type):
            raise _unsupported(node)
        return arrow_times.FIELDS[name](arrow_times.local(value, self.timezone)).cast(pa.int32())

    def truncate(self, node: exp.Expr) -> Value:
        """Return date_trunc('unit', time), a TIMESTAMP, or trunc(date, 'unit'), a DATE."""
        unit = truncation_unit(node)
        if isinstance(node, exp.DateTrunc):
            return arrow_times.truncated_date(self.time(node.this, "date"), unit)
        return arrow_times.truncated(self.time(node.this, "timestamp"), unit, self.timezone)

    def plus_days(self, node: exp.Expr) -> Value:
        """Return date_add(date, days); date_sub is read as date_add, too."""
        if node.args.get("unit") is not None and node.args["unit"].name.upper() != "DAY":
            raise _unsupported(node)
        return arrow_times.plus_days(self.time(node.this, "date"), self.typed(node.expression, *DAYS))

    def days_between(self, node: exp.Expr) -> Value:
        """Return datediff(end, start)."""
        return arrow_times.days_between(self.time(node.this, "date"), self.time(node.expression, "date"))

    def epoch(self, node: exp.Expr) -> Value:
        """Return unix_seconds(time), unix_millis(time) or unix_micros(time)."""
        return arrow_times.epoch(self.typed(node.this, "timestamp"), _EPOCHS[type(node)])

    def unix_timestamp(self, node: exp.Expr) -> Value:
        """Return seconds since 1970, truncated toward 1970; a time without a zone is read as UTC."""
        value = self.typed(node.this, *TIMES)
        times = arrow_times.as_timestamp(value, self.timezone) if pa.types.is_date(value.type) else value
        return whole_quotient(arrow_times.epoch(times, "microsecond"), pa.scalar(1_000_000, pa.int64()))

    def function(self, node: exp.Expr) -> Value:
        """Return a function that the parser has no class for."""
        name = node.name.lower()
        if name == "weekday" and len(node.expressions) == 1:
            return self._field(node, name, node.expressions[0])
        if name in _FROM_EPOCHS and len(node.expressions) == 1:
            whole = ("tinyint", "smallint", "int", "bigint")
            return arrow_times.from_epoch_units(self.typed(node.expressions[0], *whole), _FROM_EPOCHS[name])
        raise _unsupported(node)


_FIELDS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.WeekOfYear: "week",
    exp.Day: "day",
    exp.DayOfYear: "doy",
    exp.DayOfWeek: "dow",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_EPOCHS: dict[type[exp.Expr], str] = {
    exp.UnixSeconds: "second",
    exp.UnixMillis: "millisecond",
    exp.UnixMicros: "microsecond",
}
_FROM_EPOCHS = {
    "timestamp_seconds": "second",
    "timestamp_millis": "millisecond",
    "timestamp_micros": "microsecond",
}


_Evaluate = Callable[[_Evaluator, Any], Value]


@dataclass(frozen=True)
class _Rule:
    """How a kind of node is evaluated, and which of its arguments the rule reads."""

    evaluate: _Evaluate
    reads: frozenset[str]


def _rule(evaluate: _Evaluate, reads: str) -> _Rule:
    return _Rule(evaluate, frozenset(reads.split()))


_AFFIXES: dict[type[exp.Expr], Callable[..., Value]] = {
    exp.StartsWith: pc.starts_with,
    exp.EndsWith: pc.ends_with,
    exp.Contains: pc.match_substring,
}
_BINARY = "this expression"
_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Paren: _rule(lambda evaluator, node: evaluator.value(node.this), "this"),
    exp.Column: _rule(_Evaluator.column, "this"),
    exp.Literal: _rule(_Evaluator.literal, "this is_string"),
    exp.Boolean: _rule(_Evaluator.literal, "this"),
    exp.Null: _rule(_Evaluator.literal, ""),
    exp.And: _rule(_Evaluator.connector, _BINARY),
    exp.Or: _rule(_Evaluator.connector, _BINARY),
    exp.Not: _rule(lambda evaluator, node: pc.invert(evaluator.typed(node.this, "boolean")), "this"),
    **dict.fromkeys(_COMPARE, _rule(_Evaluator.comparison, _BINARY)),
    exp.In: _rule(_Evaluator.is_in, "this expressions"),
    exp.Between: _rule(_Evaluator.between, "this low high"),
    exp.Is: _rule(_Evaluator.is_test, _BINARY),
    exp.Like: _rule(_Evaluator.like, _BINARY + " negate"),
    exp.Neg: _rule(_Evaluator.sign, "this"),
    exp.Abs: _rule(_Evaluator.sign, "this"),
    **dict.fromkeys((exp.Floor, exp.Ceil), _rule(_Evaluator.whole, "this")),
    **dict.fromkeys(_ARITHMETIC, _rule(_Evaluator.arithmetic, _BINARY)),
    # safe: set by the parser for division by zero in Spark without ANSI; `divide` raises an error there.
    exp.Div: _rule(_Evaluator.divide, _BINARY + " safe"),
    exp.Coalesce: _rule(_Evaluator.coalesce, "this expressions"),
    exp.Case: _rule(_Evaluator.case, "ifs default"),
    exp.Cast: _rule(_Evaluator.cast, "this to"),
    exp.TryCast: _rule(_Evaluator.cast, "this to"),
    exp.Lower: _rule(
        lambda evaluator, node: arrow_values.lower(evaluator.typed(node.this, "string")), "this"
    ),
    exp.Upper: _rule(
        lambda evaluator, node: arrow_values.upper(evaluator.typed(node.this, "string")), "this"
    ),
    exp.Length: _rule(lambda evaluator, node: pc.utf8_length(evaluator.typed(node.this, "string")), "this"),
    exp.Substring: _rule(_Evaluator.substring, "this start length"),
    exp.Left: _rule(_Evaluator.substring, _BINARY),
    exp.Right: _rule(_Evaluator.substring, _BINARY),
    # safe, coalesce: set by the parser for arguments that are not strings, which are cast here
    exp.Concat: _rule(_Evaluator.concat, "expressions safe"),
    exp.DPipe: _rule(_Evaluator.concat, _BINARY + " safe"),
    exp.Trim: _rule(
        lambda evaluator, node: pc.utf8_trim(evaluator.typed(node.this, "string"), characters=" "), "this"
    ),
    **dict.fromkeys(_AFFIXES, _rule(_Evaluator.affix, _BINARY)),
    exp.IntDiv: _rule(_Evaluator.divide_whole, _BINARY),
    exp.Nullif: _rule(_Evaluator.nullif, _BINARY),
    **dict.fromkeys(_FIELDS, _rule(_Evaluator.field, "this")),
    exp.Extract: _rule(_Evaluator.extract, _BINARY),
    exp.TimestampTrunc: _rule(_Evaluator.truncate, "this unit"),
    exp.DateTrunc: _rule(_Evaluator.truncate, "this unit"),
    # safe: set by the parser for strings that are not dates, which are not read here
    exp.TsOrDsToDate: _rule(lambda evaluator, node: evaluator.time(node.this, "date"), "this safe"),
    exp.TsOrDsAdd: _rule(_Evaluator.plus_days, _BINARY + " unit"),
    exp.DateDiff: _rule(_Evaluator.days_between, _BINARY),
    exp.LastDay: _rule(
        lambda evaluator, node: arrow_times.last_day(evaluator.time(node.this, "date")), "this"
    ),
    **dict.fromkeys(_EPOCHS, _rule(_Evaluator.epoch, "this")),
    exp.StrToUnix: _rule(_Evaluator.unix_timestamp, "this format"),
    exp.Anonymous: _rule(_Evaluator.function, "this expressions"),
}


def _is_bounded(left: SqlType, right: SqlType) -> bool:
    """Return whether two numbers have no common decimal without loss."""
    numbers = [kind for kind in (left, right) if kind.kind != "void"]
    return len(numbers) == 2 and wider_decimal(*numbers) is None
