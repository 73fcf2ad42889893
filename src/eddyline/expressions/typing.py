"""Types of row expressions by Spark's rules, with the coercion tables of its ANSI mode."""

from collections.abc import Callable, Iterable

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import Source, fragment, resolve, unparenthesised
from eddyline.expressions.schema import sql_type
from eddyline.expressions.times import DAYS, TIMES, Shift, extracted_field, shift_of, truncation_unit
from eddyline.types import SqlType

# Which types Spark combines, and the resulting type: the coercion rules of its ANSI mode, as tables.


BOOLEAN = SqlType("boolean")
INT = SqlType("int")
BIGINT = SqlType("bigint")
FLOAT = SqlType("float")
DOUBLE = SqlType("double")
STRING = SqlType("string")
DATE = SqlType("date")
TIMESTAMP = SqlType("timestamp")
VOID = SqlType("void")
MAX_PRECISION = 38
_WIDTHS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_NUMBERS = (*_WIDTHS, "decimal", "float", "double")
_CAST_SOURCES: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean", *_NUMBERS),
    **dict.fromkeys(_NUMBERS, ("boolean", *_NUMBERS, "timestamp")),
    "binary": ("binary",),
    "date": _TIMES,
    "timestamp": (*_TIMES, *_NUMBERS),
    "timestamp_ntz": _TIMES,
}
_MOST_DIGITS = 19  # of a BIGINT


def can_cast(source: SqlType, target: SqlType) -> bool:
    """Return whether Spark has a cast between two types, even if it fails for some values."""
    if source.kind in ("void", "string") or target.kind == "string":
        return True
    return source.kind in _CAST_SOURCES.get(target.kind, ())


def wider_decimal(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the decimal that holds all values of two types, before Spark limits it to 38 digits; None if wider."""
    a, b = left.as_decimal(), right.as_decimal()
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return SqlType("decimal", precision, scale) if precision <= MAX_PRECISION else None


def common_type(left: SqlType, right: SqlType) -> SqlType | None:  # noqa: PLR0911 - one line per rule
    """Return the type in which Spark compares or mixes two types, or None where it refuses to."""
    if left == right or right.kind == "void":
        return left
    if left.kind == "void":
        return right
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    if "string" in (left.kind, right.kind):
        other = right if left.kind == "string" else left
        if other.is_integer:
            return BIGINT
        return DOUBLE if other.is_numeric else other
    if left.kind in _TIMES and right.kind in _TIMES:
        return max(left, right, key=lambda kind: _TIMES.index(kind.kind))
    return None


def _common_number(left: SqlType, right: SqlType) -> SqlType:
    if left.is_float or right.is_float:
        return DOUBLE
    if left.is_integer and right.is_integer:
        return wider_integer(left, right)
    exact = wider_decimal(left, right)
    if exact is not None:
        return exact
    # Beyond 38 digits, digits after the point are dropped, all of them if necessary.
    a, b = left.as_decimal(), right.as_decimal()
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return SqlType("decimal", MAX_PRECISION, max(MAX_PRECISION - whole, 0))


def common_of(kinds: Iterable[SqlType]) -> SqlType | None:
    """Return the common type of several types, strings first as in Spark; None where Spark refuses."""
    found = VOID
    for kind in sorted(kinds, key=lambda kind: kind.kind != "string"):
        together = common_type(found, kind)
        if together is None:
            return None
        found = together
    return found


def wider_integer(left: SqlType, right: SqlType) -> SqlType:
    """Return the wider of two integer types."""
    return max(left, right, key=lambda kind: _WIDTHS.index(kind.kind))


def number_type(digits: str) -> SqlType:
    """Return the type of a number as written, with or without a minus sign."""
    if "e" in digits.lower():
        return DOUBLE
    whole, _, fraction = digits.lstrip("-").partition(".")
    if "." not in digits and len(whole.lstrip("0")) <= _MOST_DIGITS:
        value = int(digits)
        if -(2**63) <= value < 2**63:
            return INT if -(2**31) <= value < 2**31 else BIGINT
    precision = max(len(whole.lstrip("0")) + len(fraction), 1)
    if precision > MAX_PRECISION:
        raise SqlError(
            f"the number {digits[:20]}... has {precision:,} digits: at most {MAX_PRECISION} are read."
        )
    return SqlType("decimal", precision, len(fraction))


def bounded(precision: int, scale: int) -> SqlType:
    """Return the decimal of Spark's arithmetic: beyond 38 digits the scale is reduced, down to 6."""
    if precision > MAX_PRECISION:
        scale = max(MAX_PRECISION - (precision - scale), min(scale, 6))
    return SqlType("decimal", min(precision, MAX_PRECISION), scale)


def decimal_result(operator: type[exp.Expr], left: SqlType, right: SqlType) -> SqlType:
    """Return the type of decimal arithmetic, by the table in Spark's DecimalPrecision."""
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if operator is exp.Mul:
        return bounded(left.precision + right.precision + 1, left.scale + right.scale)
    if operator is exp.Div:
        scale = max(6, left.scale + right.precision + 1)
        return bounded(left.precision - left.scale + right.scale + scale, scale)
    scale = max(left.scale, right.scale)
    if operator is exp.Mod:
        return bounded(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    return bounded(whole + scale + 1, scale)


# The type of a row expression, or that it has none.
#
# Every node is checked, so that a query that Spark would refuse is refused when it is asked. Where we have no
# rule (functions of which we know only the name) the type is None, and Spark decides.


Sources = tuple[Source, ...]
Type = SqlType | None
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_OF_TIMES = (
    exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Hour, exp.Minute, exp.Second, exp.DayOfWeek, exp.DayOfYear,
    exp.WeekOfYear,
)  # fmt: skip
_EPOCHS = (exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros)
_TO_STRING = (exp.Lower, exp.Upper, exp.Trim, exp.ConcatWs)
_STRING_OR_BINARY = (exp.Substring, exp.Left, exp.Right, exp.Concat, exp.DPipe)
_PREDICATES = (
    exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.StartsWith, exp.EndsWith, exp.Contains, exp.IsNan,
)  # fmt: skip
_NO_VALUES = (exp.DataType, exp.Identifier, exp.Var, exp.Interval)


def infer(node: exp.Expr, sources: Sources) -> Type:
    """Return the type that Spark gives an expression, None where we have no rule, or raise SqlError."""
    for kinds, rule in _RULES:
        if isinstance(node, kinds):
            return rule(node, sources)
    for part in node.iter_expressions():
        if not isinstance(part, _NO_VALUES):
            infer(part, sources)
    return None


def check_predicate(node: exp.Expr, sources: Sources) -> None:
    """Raise SqlError unless an expression is well typed and a BOOLEAN; a bare NULL is one."""
    kind = infer(node, sources)
    if kind is None or kind.kind in ("boolean", "void"):
        return
    if kind == STRING:
        raise UnsupportedQuery(
            f"{fragment(node)!r} is used as a condition and has type STRING, which Spark casts only next "
            "to AND, OR and NOT: write CAST(... AS BOOLEAN), or compare it with something."
        )
    raise SqlError(
        f"{fragment(node)!r} is used as a condition and has type {kind}: compare it with something."
    )


def _refused(node: exp.Expr, kinds: list[Type]) -> SqlError:
    named = " and ".join(str(kind) for kind in dict.fromkeys(kinds) if kind is not None)
    return SqlError(
        f"Spark does not evaluate {fragment(node)!r} on {named}: CAST the operands to the types that you mean."
    )


def _literal(node: exp.Expr, _: Sources) -> Type:
    if isinstance(node, exp.Boolean):
        return BOOLEAN
    if isinstance(node, exp.Null):
        return VOID
    if isinstance(node, exp.Literal):
        return STRING if node.is_string else number_type(node.name)
    return SqlType("binary")


def _column(node: exp.Expr, sources: Sources) -> Type:
    assert isinstance(node, exp.Column)
    return resolve(node, sources)[1].type


def _cast(node: exp.Expr, sources: Sources) -> Type:
    source, target = infer(node.this, sources), sql_type(node.args["to"])
    if source is not None and target is not None and not can_cast(source, target):
        raise SqlError(f"Spark has no cast from {source} to {target}: {fragment(node)!r}.")
    return target


def _sign(node: exp.Expr, sources: Sources) -> Type:
    number = literal_number(node)
    if number is not None:
        return number_type(number)
    kind = infer(node.this, sources)
    if kind is None or kind.is_numeric:
        return kind
    if kind.kind in ("string", "void"):
        return DOUBLE
    raise _refused(node, [kind])


def _whole(node: exp.Expr, sources: Sources) -> Type:
    """Return the type of FLOOR or CEIL: a BIGINT, or a decimal without a fraction."""
    kind = infer(node.this, sources)
    if kind is None or node.args.get("decimals") is not None:
        return None
    if kind.kind == "decimal":
        return kind if not kind.scale else bounded(kind.precision - kind.scale + 1, 0)
    if kind.is_numeric:
        return BIGINT
    raise _refused(node, [kind])


def literal_number(node: exp.Expr) -> str | None:
    """Return a number as written, including a minus sign; None for other expressions."""
    node = unparenthesised(node)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return "-" + node.this.name
    return node.name if isinstance(node, exp.Literal) and not node.is_string else None


def _arithmetic(node: exp.Expr, sources: Sources) -> Type:
    assert isinstance(node, exp.Binary)
    shift = shift_of(node)
    if shift is not None:
        return _shifted(shift, infer(shift.time, sources))
    left, right = infer(node.left, sources), infer(node.right, sources)
    if left is None or right is None:
        return None
    times = [kind for kind in (left, right) if kind.kind in TIMES]
    if times:
        return _time_arithmetic(node, left, right)
    if not all(kind.is_numeric or kind.kind in ("string", "void") for kind in (left, right)):
        raise _refused(node, [left, right])
    if not (left.is_numeric or right.is_numeric) and "string" in (left.kind, right.kind):
        raise _refused(node, [left, right])
    if isinstance(node, exp.IntDiv):
        return _whole_division(node, left, right)
    return _number(node, left, right)


def _shifted(shift: Shift, kind: Type) -> Type:
    """Return the type of a time plus an interval: a DATE plus hours is a TIMESTAMP."""
    if kind is None or kind.kind not in TIMES:
        return None
    return TIMESTAMP if kind == DATE and not shift.whole_days else kind


def _number(node: exp.Binary, left: SqlType, right: SqlType) -> Type:
    divides = isinstance(node, exp.Div)
    left, right = _operand(left, right), _operand(right, left)
    if left.kind == right.kind == "float" and not divides:
        return FLOAT
    if left.is_float or right.is_float or left.kind == "void":
        return DOUBLE
    if left.is_integer and right.is_integer:
        return DOUBLE if divides else wider_integer(left, right)
    if isinstance(node, exp.Div | exp.Mod) and any(_is_suffixed(side) for side in (node.left, node.right)):
        raise UnsupportedQuery(
            f"{fragment(node)!r}: the digits of a DECIMAL division depend on how a whole number is written (3L or "
            "CAST(3 AS BIGINT)): write CAST(... AS DECIMAL(p, 0))."
        )
    return decimal_result(type(node), as_decimal(node.left, left), as_decimal(node.right, right))


def _operand(kind: SqlType, other: SqlType) -> SqlType:
    """Return the type that an operand is computed in: a string as a number, NULL as the other side."""
    if kind.kind == "string":
        return BIGINT if other.is_integer else DOUBLE
    return other if kind.kind == "void" else kind


def _is_suffixed(node: exp.Expr) -> bool:
    """Return whether a node may have been written as 3L, 3S or 3Y, which the parser reads as a cast."""
    node = unparenthesised(node)
    target = sql_type(node.to) if isinstance(node, exp.Cast) else None
    return target is not None and target.is_integer and literal_number(node.this) is not None


def as_decimal(node: exp.Expr, kind: SqlType) -> SqlType:
    """Return the decimal type of an operand: a literal whole number has the digits that are written."""
    number = literal_number(node)
    if number is not None and kind.is_integer:
        return SqlType("decimal", len(str(abs(int(number)))), 0)
    return kind.as_decimal()


def _whole_division(node: exp.Expr, left: SqlType, right: SqlType) -> Type:
    if left.is_float or right.is_float or {left.kind, right.kind} == {"decimal", "string"}:
        raise _refused(node, [left, right])
    return BIGINT


def _time_arithmetic(node: exp.Binary, left: SqlType, right: SqlType) -> Type:
    """Return DATE for a date plus or minus days; Spark's other rules return intervals."""
    if left == DATE and right.kind in DAYS and isinstance(node, exp.Add | exp.Sub):
        return DATE
    if right == DATE and left.kind in DAYS and isinstance(node, exp.Add):
        return DATE
    numbers = left.is_numeric or right.is_numeric or {"boolean", "binary"} & {left.kind, right.kind}
    strings = "string" in (left.kind, right.kind)
    both = left.kind not in ("void", "string") and right.kind not in ("void", "string")
    if (
        numbers
        or not isinstance(node, exp.Add | exp.Sub)
        or (isinstance(node, exp.Add) and (strings or both))
    ):
        raise _refused(node, [left, right])
    if isinstance(node, exp.Add):  # NULL is read as an interval here
        return SqlType("timestamp_ntz") if "timestamp_ntz" in (left.kind, right.kind) else TIMESTAMP
    return None


def _together(node: exp.Expr, parts: list[exp.Expr | None], sources: Sources) -> Type:
    """Return the common type of all parts, or raise SqlError where Spark does not mix such types."""
    kinds = [infer(part, sources) for part in parts if part is not None]
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    common = common_of(known)
    if common is None:
        raise _refused(node, list(kinds))
    return common


def _comparison(node: exp.Expr, sources: Sources) -> Type:
    _together(node, [node.this, node.expression], sources)
    return BOOLEAN


def _in(node: exp.Expr, sources: Sources) -> Type:
    if isinstance(node.this, exp.Tuple):
        return BOOLEAN
    _together(node, [node.this, *node.expressions], sources)
    return BOOLEAN


def _between(node: exp.Expr, sources: Sources) -> Type:
    for bound in ("low", "high"):
        _together(node, [node.this, node.args[bound]], sources)
    return BOOLEAN


def _connector(node: exp.Expr, sources: Sources) -> Type:
    """Check the operands of AND and OR, along a chain of the same operator without recursion."""
    kinds = [infer(part, sources) for part in node.flatten(unnest=False)]
    wrong = [kind for kind in kinds if kind is not None and kind.kind not in ("boolean", "void", "string")]
    no_boolean = all(kind is not None and kind.kind in ("string", "void") for kind in kinds)
    if wrong or (no_boolean and STRING in kinds):
        raise _refused(node, [*wrong] or kinds)
    return BOOLEAN


def _not(node: exp.Expr, sources: Sources) -> Type:
    kind = infer(node.this, sources)
    if kind is not None and kind.kind not in ("boolean", "void", "string"):
        raise _refused(node, [kind])
    return BOOLEAN


def _is(node: exp.Expr, sources: Sources) -> Type:
    if isinstance(node.expression, exp.Boolean):
        return _not(node, sources)
    infer(node.this, sources)
    return BOOLEAN


def _choice(node: exp.Expr, sources: Sources) -> Type:
    return _together(node, [node.this, *node.expressions], sources)


def _nullif(node: exp.Expr, sources: Sources) -> Type:
    _together(node, [node.this, node.expression], sources)
    return infer(node.this, sources)


def _case(node: exp.Expr, sources: Sources) -> Type:
    for branch in node.args["ifs"]:
        if node.this is None:
            check_predicate(branch.this, sources)
        else:
            _together(node, [node.this, branch.this], sources)
    results = [branch.args["true"] for branch in node.args["ifs"]]
    return _together(node, [*results, node.args.get("default")], sources)


def _if(node: exp.Expr, sources: Sources) -> Type:
    check_predicate(node.this, sources)
    return _together(node, [node.args["true"], node.args.get("false")], sources)


def _of_time(node: exp.Expr, sources: Sources) -> Type:
    _check_times(node, [node.this], sources)
    return INT


def _extract(node: exp.Expr, sources: Sources) -> Type:
    field = extracted_field(node)
    _check_times(node, [node.expression], sources)
    return SqlType("decimal", 8, 6) if field == "second" else INT


def _truncation(node: exp.Expr, sources: Sources) -> Type:
    truncation_unit(node)
    _check_times(node, [node.this], sources)
    return DATE if isinstance(node, exp.DateTrunc) else TIMESTAMP


def _plus_days(node: exp.Expr, sources: Sources) -> Type:
    _check_times(node, [node.this], sources)
    kind = infer(node.expression, sources)
    if kind is not None and kind.kind not in (*DAYS, "void"):
        raise _refused(node, [kind])
    return DATE


def _days_between(node: exp.Expr, sources: Sources) -> Type:
    _check_times(node, [node.this, node.expression], sources)
    return INT if node.args.get("unit") is None else None


def _unix_timestamp(node: exp.Expr, sources: Sources) -> Type:
    if fragment(node) != fragment(exp.StrToUnix(this=node.this)):
        raise UnsupportedQuery(
            f"{fragment(node)!r}: unix_timestamp is supported for a time, without a format."
        )
    _check_times(node, [node.this], sources)
    return BIGINT


def _check_times(node: exp.Expr, parts: list[exp.Expr], sources: Sources) -> None:
    """Raise SqlError where a part is neither a date, a time nor a string, which Spark casts."""
    for part in parts:
        kind = infer(part.this if isinstance(part, exp.TsOrDsToDate) else part, sources)
        if kind is not None and kind.kind not in ("string", *TIMES, "void"):
            raise _refused(node, [kind])


def _function(node: exp.Expr, sources: Sources) -> Type:
    """Return the type of a function that the parser has no class for, None where we have no rule."""
    kinds = [infer(part, sources) for part in node.expressions]
    if node.name.lower() in ("timestamp_seconds", "timestamp_millis", "timestamp_micros"):
        whole = len(kinds) == 1 and (kinds[0] is None or kinds[0].is_integer)
        if not whole:
            raise _refused(node, kinds)
        return TIMESTAMP
    return INT if node.name.lower() == "weekday" else None


def _always(kind: SqlType) -> Callable[[exp.Expr, Sources], Type]:
    """Return a rule for functions whose arguments Spark casts from any type."""

    def rule(node: exp.Expr, sources: Sources) -> Type:
        for part in node.iter_expressions():
            if not isinstance(part, _NO_VALUES):
                infer(part, sources)
        return kind

    return rule


def _string_or_binary(node: exp.Expr, sources: Sources) -> Type:
    kinds = [infer(part, sources) for part in node.iter_expressions()]
    return None if any(kind is None or kind.kind == "binary" for kind in kinds) else STRING


_RULES: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[[exp.Expr, Sources], Type]], ...] = (
    (exp.Paren, lambda node, sources: infer(node.this, sources)),
    (exp.Column, _column),
    ((exp.Literal, exp.Boolean, exp.Null, exp.HexString), _literal),
    (exp.Cast, _cast),
    ((exp.And, exp.Or), _connector),
    (exp.Not, _not),
    (exp.Is, _is),
    (_COMPARISONS, _comparison),
    (exp.In, _in),
    (exp.Between, _between),
    (_PREDICATES, _always(BOOLEAN)),
    ((exp.Neg, exp.Abs), _sign),
    ((exp.Floor, exp.Ceil), _whole),
    (_ARITHMETIC, _arithmetic),
    ((exp.Coalesce, exp.Least, exp.Greatest), _choice),
    (exp.Case, _case),
    (exp.If, _if),
    (exp.TsOrDsToDate, _always(DATE)),
    (_OF_TIMES, _of_time),
    (exp.Extract, _extract),
    ((exp.TimestampTrunc, exp.DateTrunc), _truncation),
    (exp.TsOrDsAdd, _plus_days),
    (exp.DateDiff, _days_between),
    (exp.LastDay, _always(DATE)),
    (_EPOCHS, _always(BIGINT)),
    (exp.StrToUnix, _unix_timestamp),
    (exp.Nullif, _nullif),
    (exp.Anonymous, _function),
    (exp.Length, _always(INT)),
    (_TO_STRING, _always(STRING)),
    (_STRING_OR_BINARY, _string_or_binary),
)  # fmt: skip
