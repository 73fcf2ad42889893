"""The rest of a query in DuckDB's dialect, with the same meaning as in Spark.

All supported kinds of nodes are on a list. Those whose meaning differs between the two are rewritten; tests compare
them with Spark. Nodes that are not on the list, or depend on an unknown type, are refused by name.
"""

from collections.abc import Callable

from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from eddyline.errors import UnsupportedQuery
from eddyline.sql.around.patterns import is_test_anywhere, java_pattern, strftime_pattern
from eddyline.sql.around.rows import unquoted

_T = exp.DataType.Type
_INTEGERS = exp.DataType.INTEGER_TYPES
_FRACTIONS = {_T.DOUBLE, _T.FLOAT, _T.DECIMAL}
_TEXTS = exp.DataType.TEXT_TYPES
_TIMES = {_T.DATE, _T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPNTZ, _T.DATETIME}

_TYPES = {*_INTEGERS, *_FRACTIONS, *_TEXTS, *_TIMES, _T.BOOLEAN, _T.UNKNOWN}

_STRUCTURE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Ordered,
        exp.Limit, exp.Offset, exp.Subquery, exp.With, exp.CTE, exp.Table, exp.TableAlias, exp.Alias, exp.Column,
        exp.Identifier, exp.Union, exp.Intersect, exp.Except, exp.Distinct, exp.WindowSpec, exp.Star,
        exp.GroupingSets, exp.Lateral, exp.Paren, exp.Tuple, exp.Var, exp.DataType, exp.DataTypeParam,
        exp.Literal, exp.Boolean, exp.Null,
    }
)  # fmt: skip
_SAME: frozenset[type[exp.Expr]] = frozenset(
    {
        # logic
        exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Is,
        exp.Between, exp.In, exp.Exists, exp.Case, exp.If, exp.Coalesce, exp.Nullif,
        # numbers
        exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs, exp.Sign, exp.Exp, exp.Pow, exp.Greatest, exp.Least,
        # aggregates and windows
        exp.Grouping, exp.Count, exp.Min, exp.Max, exp.Avg, exp.Median, exp.Stddev, exp.StddevSamp, exp.StddevPop,
        exp.Variance, exp.VariancePop, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank,
        exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue,
        exp.LogicalAnd, exp.LogicalOr,
        # strings
        exp.Lower, exp.Upper, exp.Length, exp.Replace, exp.Reverse, exp.StartsWith, exp.EndsWith,
        exp.Contains, exp.Repeat,
        # dates and times
        exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfYear, exp.WeekOfYear, exp.Hour, exp.Minute, exp.LastDay,
        exp.TsOrDsToDate,
    }
)  # fmt: skip
_UNITS = {
    "YEAR",
    "YYYY",
    "YY",
    "QUARTER",
    "MONTH",
    "MON",
    "MM",
    "WEEK",
    "DAY",
    "DD",
    "HOUR",
    "MINUTE",
    "SECOND",
}


def engine_text(query: exp.Expr) -> str:
    """Return a query in DuckDB's dialect, or raise UnsupportedQuery with the part that is not translated."""
    for node in query.walk():
        _check_node(node)
        if type(node) not in _STRUCTURE and type(node) not in _SAME and type(node) not in _REWRITTEN:
            raise UnsupportedQuery(_not_translated(node))
    made = query.copy()
    for node in reversed(list(made.walk())):  # inner nodes come first
        change = _REWRITTEN.get(type(node), _literal)
        changed = change(node)
        if changed is not node:
            changed.type = node.type
            node.replace(changed)
    try:
        text: str = made.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise UnsupportedQuery(f"{error}.") from error
    return text


def _not_translated(node: exp.Expr, why: str = "") -> str:
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    reason = why or f"{name} is not on the list of what means the same in both"
    return f"{unquoted(node)!r} stands outside of the aggregates over streams, where DuckDB computes, and {reason}."


def _check_node(node: exp.Expr) -> None:
    """Raise UnsupportedQuery for forms of listed nodes that are not translated."""
    if isinstance(node, exp.Join) and (node.args.get("using") or node.method):
        raise UnsupportedQuery(_not_translated(node, "this kind of join is not translated"))
    if isinstance(node, exp.Group) and any(
        value for name, value in node.args.items() if name != "expressions"
    ):
        raise UnsupportedQuery(_not_translated(node, "it is not a list of columns to group by"))
    if isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Subquery):
        raise UnsupportedQuery(_not_translated(node, "LATERAL is translated for a subquery alone"))
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct) and len(node.this.expressions) > 1:
        raise UnsupportedQuery(_not_translated(node, "a distinct count of several columns is not translated"))
    if isinstance(node, exp.In) and node.args.get("unnest") is not None:
        raise UnsupportedQuery(_not_translated(node))
    if isinstance(node, exp.DataType) and node.this not in _TYPES and isinstance(node.parent, exp.Cast):
        raise UnsupportedQuery(_not_translated(node, f"values of type {node.sql()} are not translated"))
    if isinstance(node, exp.Length | exp.Reverse | exp.Lower | exp.Upper) and _kind(node.this) not in _TEXTS:
        raise UnsupportedQuery(_not_translated(node, "its argument is not a text"))
    added = isinstance(node, exp.Add | exp.Sub) and not isinstance(node.expression, exp.Interval)
    if added and {_kind(node.this), _kind(node.expression)} & (_TIMES | _TEXTS):
        raise UnsupportedQuery(
            _not_translated(node, "only numbers are added here; use date_add or an INTERVAL")
        )

    if isinstance(node, exp.ArrayAgg | exp.ArrayUniqueAgg):
        why = "lists have no order, and PostgreSQL has NULLs in them where Spark has none"
        raise UnsupportedQuery(_not_translated(node, f"{why}: use LISTAGG(x) WITHIN GROUP (ORDER BY x)"))


def _kind(node: exp.Expr | None) -> object:
    """Return the inferred type of a node."""
    kind = node.type if node is not None else None
    return kind.this if isinstance(kind, exp.DataType) else None


def _known(node: exp.Expr, around: exp.Expr) -> object:
    kind = _kind(node)
    if kind in (None, _T.UNKNOWN):
        raise UnsupportedQuery(
            _not_translated(around, f"the type of {unquoted(node)!r} is not known: CAST it")
        )
    return kind


def _literal(node: exp.Expr) -> exp.Expr:
    """Return a number with a decimal point as a DOUBLE: sums and averages of DECIMALs are DOUBLEs here, too."""
    if isinstance(node, exp.Literal) and not node.is_string and not node.is_int:
        if isinstance(node.parent, exp.Cast | exp.DataTypeParam):
            return node
        return exp.Cast(this=node.copy(), to=exp.DataType.build("DOUBLE"))
    return node


def _function(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _cast(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(kind, dialect="duckdb"))


def _case(condition: exp.Expr, then: exp.Expr, other: exp.Expr | None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=other)


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def _whole_aggregate(node: exp.Expr) -> exp.Expr:
    """Return a sum of whole numbers as BIGINT, as in Spark; DuckDB's sums are wider."""
    function = node
    while isinstance(function, exp.Window | exp.Filter):
        function = function.this
    outermost = not isinstance(node.parent, exp.Window | exp.Filter) or node.arg_key != "this"
    is_whole = isinstance(function, exp.CountIf) or (
        isinstance(function, exp.Sum) and _kind(function.this) in _INTEGERS
    )
    return _cast(node.copy(), "BIGINT") if outermost and is_whole else node


def _divided(node: exp.Div) -> exp.Expr:
    left = _cast(node.this.copy(), "DOUBLE")
    right = exp.Nullif(this=_cast(node.expression.copy(), "DOUBLE"), expression=exp.Literal.number(0))
    return exp.Anonymous(this="spark_divide", expressions=[left, right])


def _whole_division(node: exp.IntDiv) -> exp.Expr:
    divisor = exp.Nullif(this=_cast(node.expression.copy(), "BIGINT"), expression=exp.Literal.number(0))
    for each in (node.this, node.expression):
        if _known(each, node) not in _INTEGERS:
            raise UnsupportedQuery(_not_translated(node, "DIV is translated for whole numbers alone"))
    return _function("whole_division", _cast(node.this.copy(), "BIGINT"), divisor)


def _remainder(node: exp.Mod) -> exp.Expr:
    divisor = exp.Nullif(this=node.expression.copy(), expression=exp.Literal.number(0))
    return exp.Paren(this=exp.Mod(this=exp.Paren(this=node.this.copy()), expression=divisor))


def _rounded(node: exp.Round) -> exp.Expr:
    places = node.args.get("decimals")
    kind = _known(node.this, node)
    if places is not None and not (isinstance(places, exp.Literal) and places.is_int):
        raise UnsupportedQuery(_not_translated(node, "ROUND takes a number of places from 0 on"))
    if kind in _INTEGERS:
        whole: exp.Expr = node.this.copy()
        return whole
    return _function("spark_round", _cast(node.this.copy(), "DOUBLE"), places or exp.Literal.number(0))


def _whole(name: str) -> Callable[[exp.Expr], exp.Expr]:
    def made(node: exp.Expr) -> exp.Expr:
        if node.args.get("decimals") is not None:
            raise UnsupportedQuery(_not_translated(node, "it takes one argument"))
        return _cast(_function(name, _cast(node.this.copy(), "DOUBLE")), "BIGINT")

    return made


def _root(node: exp.Sqrt) -> exp.Expr:
    number = _cast(node.this.copy(), "DOUBLE")
    negative = exp.LT(this=number, expression=exp.Literal.number(0))
    return _case(negative, _cast(exp.Literal.string("NaN"), "DOUBLE"), _function("sqrt", number))


def _logarithm(node: exp.Ln) -> exp.Expr:
    number = _cast(node.this.copy(), "DOUBLE")
    return _case(exp.GT(this=number, expression=exp.Literal.number(0)), _function("ln", number), None)


def _converted(node: exp.Cast) -> exp.Expr:
    source, target = _kind(node.this), node.to.this
    literal = isinstance(node.this, exp.Literal | exp.Null)
    if not literal:
        source = _known(node.this, node)
    if target in _INTEGERS and source in _FRACTIONS and not literal:
        return exp.Cast(this=_function("trunc", _cast(node.this.copy(), "DOUBLE")), to=node.to.copy())
    if target in _TEXTS and (source in _FRACTIONS or source in _TIMES - {_T.DATE}):
        raise UnsupportedQuery(
            _not_translated(
                node, "Spark writes fractions and times in another way: use date_format, or ROUND it"
            )
        )
    if target == _T.DECIMAL and source in _FRACTIONS and not literal:
        scale = int(node.to.expressions[1].name) if len(node.to.expressions) > 1 else 0
        rounded = _function("spark_round", _cast(node.this.copy(), "DOUBLE"), _number(scale))
        return exp.Cast(this=rounded, to=node.to.copy())
    if source in _TEXTS and not literal and target not in _TEXTS | _INTEGERS | {_T.DATE}:
        raise UnsupportedQuery(_not_translated(node, "a text is cast to whole numbers and dates alone"))
    return exp.Cast(this=node.this.copy(), to=node.to.copy())  # the parser reads CAST as TRY_CAST


def _joined_texts(node: exp.Concat) -> exp.Expr:
    made: exp.Expr | None = None
    for each in node.expressions:
        kind = _T.VARCHAR if isinstance(each, exp.Literal) and each.is_string else _known(each, node)
        if kind not in _TEXTS | _INTEGERS | {_T.DATE}:
            raise UnsupportedQuery(
                _not_translated(node, f"{unquoted(each)!r} is neither a text nor a whole number")
            )
        part = _cast(exp.Paren(this=each.copy()), "VARCHAR")
        made = part if made is None else exp.DPipe(this=made, expression=part, safe=False)
    return exp.Paren(this=made) if made is not None else exp.Literal.string("")


def _two_texts(node: exp.DPipe) -> exp.Expr:
    return _joined_texts(exp.Concat(expressions=[node.left, node.right]))


def _separated(node: exp.ConcatWs) -> exp.Expr:
    for each in node.expressions:
        if (
            not (isinstance(each, exp.Literal) and each.is_string)
            and _known(each, node) not in _TEXTS | _INTEGERS
        ):
            raise UnsupportedQuery(
                _not_translated(node, f"{unquoted(each)!r} is neither a text nor a whole number")
            )
    return _function("concat_ws", *node.expressions)


def _like(node: exp.Like) -> exp.Expr:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.name:
        raise UnsupportedQuery(_not_translated(node, "the pattern is not a plain text without a backslash"))
    return node


def _substring(node: exp.Substring) -> exp.Expr:
    start = node.args.get("start") or exp.Literal.number(1)
    length = node.args.get("length")
    if _kind(node.this) not in _TEXTS:
        raise UnsupportedQuery(_not_translated(node, "its argument is not a text"))
    return _function(
        "spark_substring", node.this, start, length if length is not None else _number(2**31 - 1)
    )


def _side(name: str) -> Callable[[exp.Expr], exp.Expr]:
    def made(node: exp.Expr) -> exp.Expr:
        number = exp.Greatest(this=node.expression.copy(), expressions=[exp.Literal.number(0)])
        return _function(name, node.this, number)

    return made


def _trimmed(node: exp.Trim) -> exp.Expr:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.text("position") or "").upper(), "trim")
    characters = node.expression
    return _function(name, node.this, characters if characters is not None else exp.Literal.string(" "))


def _position(node: exp.StrPosition) -> exp.Expr:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise UnsupportedQuery(_not_translated(node, "a position to start at is not translated"))
    return _function("strpos", node.this, node.args["substr"])


def _padded(node: exp.Pad) -> exp.Expr:
    name = "lpad" if node.args.get("is_left") else "rpad"
    fill = node.args.get("fill_pattern") or exp.Literal.string(" ")
    number = exp.Greatest(this=node.expression.copy(), expressions=[exp.Literal.number(0)])
    return _function(name, node.this, _cast(number, "INTEGER"), fill)


def _day_of_week(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=_function("dayofweek", node.this), expression=exp.Literal.number(1)))


def _second(node: exp.Second) -> exp.Expr:
    return _cast(_function("second", node.this), "INTEGER")


def _truncated(node: exp.Expr) -> exp.Expr:
    unit = node.text("unit").upper()
    if unit not in _UNITS:
        raise UnsupportedQuery(_not_translated(node, f"the unit {unit!r} is not translated"))
    plain = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY"}.get(unit, unit)
    is_date = _kind(node.this) == _T.DATE
    time = (
        _cast(node.this.copy(), "TIMESTAMPTZ")
        if is_date and isinstance(node, exp.TimestampTrunc)
        else node.this
    )
    made = _function("date_trunc", exp.Literal.string(plain.lower()), time)
    return _cast(made, "DATE") if is_date and isinstance(node, exp.DateTrunc) else made


def _formatted(node: exp.TimeToStr) -> exp.Expr:
    argument = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    if _known(argument, node) not in _TIMES:
        raise UnsupportedQuery(_not_translated(node, "its first argument is not a date or a time"))
    pattern = java_pattern(node)
    if pattern is None:
        raise UnsupportedQuery(_not_translated(node, "the format is not a text"))
    try:
        written = strftime_pattern(pattern)
    except KeyError as error:
        raise UnsupportedQuery(_not_translated(node, f"{error} in its format is not translated")) from None
    return _function("strftime", _cast(node.this.copy(), "TIMESTAMP"), exp.Literal.string(written))


def _days_later(sign: int) -> Callable[[exp.Expr], exp.Expr]:
    def made(node: exp.Expr) -> exp.Expr:
        unit = (node.text("unit") or "DAY").upper()
        start = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        if unit not in ("DAY", "DAYS") or isinstance(node.expression, exp.Interval):
            raise UnsupportedQuery(_not_translated(node, f"the unit {unit} is not translated"))
        days = _cast(exp.Paren(this=node.expression.copy()), "INTEGER")
        kind = exp.Add if sign > 0 else exp.Sub
        return exp.Paren(this=kind(this=_cast(start.copy(), "DATE"), expression=days))

    return made


def _months_later(node: exp.AddMonths) -> exp.Expr:
    made = _function("to_months", _cast(exp.Paren(this=node.expression.copy()), "INTEGER"))
    return _cast(exp.Paren(this=exp.Add(this=_cast(node.this.copy(), "DATE"), expression=made)), "DATE")


def _days_between(node: exp.Expr) -> exp.Expr:
    unit = (node.text("unit") or "DAY").upper()
    if unit != "DAY":
        raise UnsupportedQuery(_not_translated(node, f"the unit {unit} is not translated"))
    first, second = (
        _cast((each.this if isinstance(each, exp.TsOrDsToDate) else each).copy(), "DATE")
        for each in (node.expression, node.this)
    )
    return _function("date_diff", exp.Literal.string("day"), first, second)


def _extracted(node: exp.Extract) -> exp.Expr:
    if node.name.upper() not in ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE"):
        raise UnsupportedQuery(_not_translated(node, f"the field {node.name} is not translated"))
    return _function(node.name.lower(), node.expression)


def _capitals(node: exp.Initcap) -> exp.Expr:
    return _function("spark_initcap", node.this)


def _interval(node: exp.Interval) -> exp.Expr:
    unit = node.text("unit").upper().rstrip("S")
    if unit not in ("DAY", "WEEK", "HOUR", "MINUTE", "SECOND", "MONTH", "YEAR") or not isinstance(
        node.this, exp.Literal
    ):
        raise UnsupportedQuery(_not_translated(node, "only an interval of one number and unit is translated"))
    around = node.parent
    if not isinstance(around, exp.Add | exp.Sub) or _kind(around.this) not in _TIMES:
        raise UnsupportedQuery(_not_translated(node, "an interval is added to a date or a time alone"))
    return node


def _matched(node: exp.RegexpLike) -> exp.Expr:
    pattern = node.expression
    is_text = isinstance(pattern, exp.Literal) and pattern.is_string
    if not is_text or not is_test_anywhere(pattern.name) or _kind(node.this) not in _TEXTS:
        raise UnsupportedQuery(
            _not_translated(
                node, "only a written pattern of characters, [], (), |, *, +, ?, {} and ^ is translated"
            )
        )
    return node


def _texts(node: exp.GroupConcat) -> exp.Expr:
    """Return LISTAGG, whose order is written: without one the engines differ."""
    inner = node.this.this if isinstance(node.this, exp.Order) else None
    inner = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    if inner is None or _kind(inner) not in _TEXTS:
        raise UnsupportedQuery(_not_translated(node, "only a text in a written order is translated"))
    return node


def _anonymous(node: exp.Anonymous) -> exp.Expr:
    name = node.name.lower()
    if name in ("ends_floor", "ends_ceil", "ends_trunc"):
        return _function(name.removeprefix("ends_"), _cast(node.expressions[0].copy(), "DOUBLE"))
    if (
        name in ("dayofmonth", "weekday", "char_length", "character_length", "ltrim", "rtrim", "btrim")
        and len(node.expressions) == 1
    ):
        (only,) = node.expressions
        if name == "weekday":
            return exp.Paren(this=exp.Sub(this=_function("isodow", only), expression=exp.Literal.number(1)))
        return _function({"dayofmonth": "day", "btrim": "trim"}.get(name, name), only)
    raise UnsupportedQuery(_not_translated(node))


_REWRITTEN: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.Sum: _whole_aggregate,
    exp.CountIf: _whole_aggregate,
    exp.Filter: _whole_aggregate,
    exp.Window: _whole_aggregate,
    exp.Div: _divided,
    exp.IntDiv: _whole_division,
    exp.Mod: _remainder,
    exp.Round: _rounded,
    exp.Floor: _whole("floor"),
    exp.Ceil: _whole("ceil"),
    exp.Sqrt: _root,
    exp.Ln: _logarithm,
    exp.Cast: _converted,
    exp.TryCast: _converted,
    exp.Concat: _joined_texts,
    exp.DPipe: _two_texts,
    exp.ConcatWs: _separated,
    exp.Like: _like,
    exp.Substring: _substring,
    exp.Left: _side("left"),
    exp.Right: _side("right"),
    exp.Trim: _trimmed,
    exp.StrPosition: _position,
    exp.Pad: _padded,
    exp.DayOfWeek: _day_of_week,
    exp.DayOfMonth: lambda node: _function("day", node.this),
    exp.Second: _second,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.TimeToStr: _formatted,
    exp.TimeStrToTime: lambda node: node.this.copy(),
    exp.TsOrDsAdd: _days_later(1),
    exp.DateAdd: _days_later(1),
    exp.DateSub: _days_later(-1),
    exp.AddMonths: _months_later,
    exp.DateDiff: _days_between,
    exp.TsOrDsDiff: _days_between,
    exp.Extract: _extracted,
    exp.Initcap: _capitals,
    exp.Interval: _interval,
    exp.Anonymous: _anonymous,
    exp.RegexpLike: _matched,
    exp.GroupConcat: _texts,
}
