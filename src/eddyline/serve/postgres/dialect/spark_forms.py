"""What each part of a PostgreSQL query becomes in Spark's SQL, or a refusal where its meaning there is not certain.

Parts on the list `_SAME` mean the same in both. Parts with a rule are rewritten, or refused for some arguments. The
types of arguments are those of `kinds`.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

from sqlglot import exp

from eddyline.serve.postgres.dialect.kinds import (
    FLOATS,
    FRACTIONS,
    TIME_KINDS,
    WHOLE,
    kind_of,
    with_kind,
)
from eddyline.serve.postgres.dialect.literals import by_format, has_zone, number, read_boolean, read_moment
from eddyline.serve.postgres.refusals import Refusal, not_supported
from eddyline.sql.around.patterns import is_test_anywhere

_SAME = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias, exp.Join, exp.Where,
    exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ,
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.Is, exp.Null, exp.Boolean, exp.Literal,
    exp.Tuple, exp.Star, exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp, exp.StddevPop,
    exp.Variance, exp.VariancePop, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept,
    exp.RegrR2, exp.Filter, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least,
    exp.Mul, exp.Neg, exp.Mod, exp.Abs, exp.Sign, exp.Ceil, exp.Sqrt, exp.Ln, exp.Exp, exp.Pow, exp.Lower,
    exp.Upper, exp.Length, exp.Replace, exp.Reverse, exp.StartsWith, exp.ConcatWs, exp.StrPosition, exp.Interval,
    exp.Exists, exp.Subquery, exp.Union, exp.Intersect, exp.Except, exp.Var, exp.DataType, exp.DataTypeParam,
    exp.NullSafeEQ, exp.NullSafeNEQ, exp.CurrentDate, exp.CurrentTimestamp, exp.PercentileCont, exp.PercentileDisc,
    exp.With, exp.CTE, exp.Window, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank,
    exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, exp.TableSample,
    exp.Offset, exp.Version, exp.LogicalAnd, exp.LogicalOr, exp.Rollup, exp.Cube, exp.GroupingSets,
    exp.Grouping,
)  # fmt: skip
"""What has the same meaning in PostgreSQL and Spark."""
_FIELDS = frozenset(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE"))
_DAYS_OF_WEEK = {"DOW": ("DAYOFWEEK", -1), "ISODOW": ("WEEKDAY", 1)}
"""Spark's function for a field, and what is added: days of the week count from 0, 1 or Monday."""
_UNITS = frozenset(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"))
_FORMATS = {
    "%Y": "yyyy", "%y": "yy", "%m": "MM", "%d": "dd", "%H": "HH", "%I": "hh", "%M": "mm", "%S": "ss", "Mon": "MMM",
    "%uy": "EEE",
}  # fmt: skip
"""Formats of to_char, as the parser has them (it reads Dy as %uy), in Spark's letters."""
_FORMAT = re.compile(r"(%uy|%[a-zA-Z]|Mon)|([^A-Za-z%'\"]+)")
_SPAN = re.compile(r"\s*([+-]?\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)
_SPARK = {"date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}
_WIDENED = {("date", "timestamp"), ("date", "timestamptz"), ("timestamp", "timestamptz")}
"""A constant's kind, and that of what it is compared with, which PostgreSQL converts the constant to."""
_MOST_DIGITS = 15
"""Digits of numbers that a DOUBLE holds, so that a quotient by a constant that it holds is floored right."""
_JOINED = ("text", "date", *WHOLE)
"""Kinds whose text is the same in both."""


def spark_form(tree: exp.Expr) -> exp.Expr:
    """Return an annotated query in Spark's form, or raise Refusal with the part whose meaning is not certain."""
    for node in reversed(list(tree.walk())):  # inner parts come first
        rule = _RULES.get(type(node))
        if rule is None and not isinstance(node, _SAME) and not _is_own(node):
            raise not_supported(
                f"{quoted(node)} over streams is not supported",
                "Planned queries are views, and take any SQL: SELECT ... FROM the view.",
            )
        made = rule(node) if rule is not None else node
        if made is not node:
            with_kind(made, kind_of(node))
            if node is tree:
                tree = made
            else:
                node.replace(made)
    _type_constants(tree)
    return tree


def own_function(node: exp.Expr) -> bool:
    """Return whether a call is one of our functions: eddyline.low(n), eddyline.high(n)."""
    inner = node.expression
    return (
        isinstance(node.this, exp.Identifier)
        and node.this.name.lower() == "eddyline"
        and isinstance(inner, exp.Anonymous)
        and inner.name.lower() in ("low", "high")
        and len(inner.expressions) == 1
    )


def quoted(node: exp.Expr) -> str:
    """Return a part of a query in messages."""
    text = node.sql(dialect="postgres")
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _is_own(node: exp.Expr) -> bool:
    if isinstance(node, exp.Dot):
        return own_function(node)
    return isinstance(node, exp.Anonymous) and isinstance(node.parent, exp.Dot) and own_function(node.parent)


def _refused(node: exp.Expr, hint: str) -> Refusal:
    return not_supported(f"{quoted(node)} over streams is not supported", hint)


def _copy(node: exp.Expr) -> exp.Expr:
    made: exp.Expr = node.copy()
    return made


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _cast(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build(kind, dialect="spark"))


def _whole_number(node: exp.Expr | None) -> int | None:
    """Return the value of a literal that is a whole number from 0 on."""
    is_whole = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if is_whole and node is not None else None


def _text_of(node: exp.Expr | None) -> str | None:
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


# Numbers.


def _divided(node: exp.Expr) -> exp.Expr:
    kinds = {kind_of(node.this), kind_of(node.expression)}
    if kinds & set(FRACTIONS):
        return node
    if kinds <= set(WHOLE):
        return exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())
    hint = "PostgreSQL divides whole numbers without a remainder. Write CAST(a AS double precision) / b."
    raise not_supported(f"{quoted(node)} may divide whole numbers", hint)


def _rounded(node: exp.Expr) -> exp.Expr:
    if kind_of(node.this) not in ("numeric", *WHOLE):
        hint = "PostgreSQL rounds a double precision to even. Write round(CAST(x AS numeric), n)."
        raise _refused(node, hint)
    return node


def _converted(node: exp.Expr) -> exp.Expr:  # noqa: C901, PLR0911 - a case for each type
    given, wanted, inner = kind_of(node.this), kind_of(node), node.this
    if isinstance(inner, exp.Null) or (
        given is not None and given == wanted and not node.args["to"].expressions and wanted != "text"
    ):
        return _copy(inner)
    if isinstance(inner, exp.Literal) and (made := _literal(node, wanted)) is not None:
        return made
    scaled = bool(node.args["to"].expressions)
    if wanted == "numeric" and given in (*WHOLE, *FRACTIONS):
        if not scaled:  # it has no bounds in PostgreSQL, and ten digits in Spark
            return _copy(inner)
        if given not in FLOATS:
            return node
    if wanted == "double" and given in (*WHOLE, *FRACTIONS):
        aggregate = inner.this if isinstance(inner, exp.Paren) else inner
        of_whole = isinstance(aggregate, exp.AggFunc | exp.Filter)
        return _copy(inner) if of_whole or given in FLOATS else node  # Spark's division has a fraction anyway
    if wanted in WHOLE and given in (*WHOLE, "boolean"):
        return node
    if wanted in WHOLE and given == "numeric":
        return exp.Cast(this=exp.Round(this=inner.copy()), to=node.args["to"].copy())
    if wanted == "text" and given in (*_JOINED, "boolean") and not _is_cut(node.args["to"]):
        return node if given != "text" else _copy(inner)
    if wanted in _SPARK and given in TIME_KINDS:
        return _cast(inner, _SPARK[str(wanted)])
    raise _refused(
        node, "PostgreSQL and Spark may convert the value differently. Compare the column as it is."
    )


def _is_cut(to: exp.DataType) -> bool:
    """Return whether a type of text has a length, which PostgreSQL cuts longer values to; that of char is 1."""
    return bool(to.expressions) or to.this in (exp.DataType.Type.CHAR, exp.DataType.Type.NCHAR)


def _literal(node: exp.Expr, wanted: str | None) -> exp.Expr | None:  # noqa: PLR0911 - a case for each type
    """Return a constant that is cast: the constant itself where the cast does not change it."""
    text, to = node.this.name, node.args["to"]
    if not node.this.is_string:
        kinds = (*WHOLE, *FRACTIONS) if text.isdigit() else FRACTIONS
        return _copy(node.this) if wanted in kinds and not to.expressions else None
    if wanted == "text" and not _is_cut(to):
        return _copy(node.this)
    if wanted in _SPARK:
        other, read = _compared_with(node), read_moment(text, str(wanted))
        if wanted == "timestamptz" and other in (
            "date",
            "timestamp",
        ):  # whose values are read as times in UTC
            wanted, read = "timestamp", str(datetime.fromisoformat(read).astimezone(UTC).replace(tzinfo=None))
        if other == wanted == "timestamptz":
            return _copy(node.this)
        if other == wanted or (wanted, other) in _WIDENED or (other == "date" and read.endswith(" 00:00:00")):
            return exp.Literal.string(read)  # it gets the type of the other operand
        return _moment(read, str(wanted))
    if wanted == "interval" and (found := _SPAN.fullmatch(text)):
        return exp.Interval(this=exp.Literal.string(found[1]), unit=exp.var(found[2].upper()))
    return None


def _floored(node: exp.Expr) -> exp.Expr:
    """Return FLOOR; an exact number divided by a constant, as in bins, is floored without rounding first."""
    divided = _bare(node.this)
    by = _bare(divided.expression) if isinstance(divided, exp.Div | exp.IntDiv) else None
    if not isinstance(by, exp.Literal) or by.is_string or kind_of(node.this) != "numeric":
        return node
    width, left = Decimal(by.name), _bare(divided.this)
    if kind_of(left) in WHOLE and width == int(width) > 0:
        down = exp.Sub(this=exp.Paren(this=left.copy()), expression=exp.Literal.number(int(width) - 1))
        whole = [
            exp.Paren(
                this=exp.IntDiv(this=exp.Paren(this=each.copy()), expression=exp.Literal.number(int(width)))
            )
            for each in (left, down)
        ]
        is_positive = exp.GTE(this=left.copy(), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=is_positive, true=whole[0])], default=whole[1])
    digits = [getattr(kind_of(each), "digits", _MOST_DIGITS + 1) for each in left.find_all(exp.Column)]
    if width > 0 and Decimal(float(width)) == width and digits and max(digits) <= _MOST_DIGITS:
        quotient = exp.Div(this=_cast(left, "DOUBLE"), expression=_cast(by, "DOUBLE"))
        return exp.Floor(this=quotient)
    return node


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


# Text.


def _part_of_text(node: exp.Expr) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    begin = _whole_number(start)
    if not begin or (length is not None and _whole_number(length) is None):
        raise _refused(node, "Write out the positions, from 1 on.")
    return node


def _side(node: exp.Expr) -> exp.Expr:
    if _whole_number(node.expression) is None:
        raise _refused(node, "Write out the number of characters, from 0 on.")
    return node


def _padded(node: exp.Expr) -> exp.Expr:
    fill = node.args.get("fill_pattern")
    if _whole_number(node.expression) is None or (fill is not None and not _text_of(fill)):
        raise _refused(node, "Write out the length and the characters to fill with.")
    return node


def _repeated(node: exp.Expr) -> exp.Expr:
    if _whole_number(node.args["times"]) is None:
        raise _refused(node, "Write out how often.")
    return node


def _joined(node: exp.Expr) -> exp.Expr:
    """Return CONCAT, which skips NULL in PostgreSQL alone."""
    parts = []
    for each in node.expressions:
        kind = "text" if _text_of(each) is not None else kind_of(each)
        if kind not in _JOINED:
            raise _refused(node, f"{quoted(each)} is neither a text, a whole number nor a date.")
        text = each.copy() if kind == "text" else _cast(each, "STRING")
        is_open = _text_of(each) is None
        parts.append(exp.Coalesce(this=text, expressions=[exp.Literal.string("")]) if is_open else text)
    return exp.Concat(expressions=parts, safe=False, coalesce=False)


def _two_texts(node: exp.Expr) -> exp.Expr:
    for each in (node.this, node.expression):
        if kind_of(each) not in (*_JOINED, None):
            raise _refused(node, f"{quoted(each)} is neither a text, a whole number nor a date.")
    return node


def _like_in_any_case(node: exp.Expr) -> exp.Expr:
    pattern = _text_of(node.expression)
    if pattern is None or not pattern.isascii():
        raise _refused(node, "Write lower(x) LIKE pattern.")
    return exp.Like(this=exp.Lower(this=node.this.copy()), expression=exp.Literal.string(pattern.lower()))


def _matched(node: exp.Expr) -> exp.Expr:
    pattern = _text_of(node.expression)
    if kind_of(node.this) != "text" or pattern is None or not is_test_anywhere(pattern):
        raise _refused(
            node, "Match a text with a written pattern of characters, [], (), |, *, +, ?, {} and ^."
        )
    return node


def _strings(node: exp.Expr) -> exp.Expr:
    inner = node.this.this if isinstance(node.this, exp.Order) else None
    inner = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    if kind_of(inner) != "text" or _text_of(node.args.get("separator")) is None:
        raise _refused(node, "Write string_agg(text, ', ' ORDER BY ...).")
    return node


def _trimmed(node: exp.Expr) -> exp.Expr:
    if node.expression is not None and _text_of(node.expression) is None:
        raise _refused(node, "Write out the characters to trim.")
    return node


# Times.


def _sum_of_moments(node: exp.Expr) -> exp.Expr:
    """Return a sum or difference; Spark has other functions that add days and intervals to dates."""
    left, right, minus = kind_of(node.this), kind_of(node.expression), isinstance(node, exp.Sub)
    if not {left, right} & {*TIME_KINDS, "interval"}:
        return node
    if left == "date" and right in ("smallint", "int"):
        return _call("DATE_SUB" if minus else "DATE_ADD", node.this, node.expression)
    if minus and left == right == "date":
        return _call("DATEDIFF", node.this, node.expression)
    if minus and left == right and left in TIME_KINDS:
        return node
    if left in TIME_KINDS and isinstance(node.expression, exp.Interval):
        made = _with_interval(node)
        compared = isinstance(node.parent, exp.Predicate)
        return made if left != "date" or compared else _cast(exp.Paren(this=made), "TIMESTAMP_NTZ")
    raise _refused(node, "Add or subtract an INTERVAL.")


def _with_interval(node: exp.Expr) -> exp.Expr:
    """Return a time plus an interval, whose number is not negative."""
    span, number = node.expression, str(node.expression.name)
    if not number.startswith("-"):
        return node.copy()
    positive = exp.Interval(this=exp.Literal.string(number[1:]), unit=span.args["unit"].copy())
    kind: type[exp.Expr] = exp.Add if isinstance(node, exp.Sub) else exp.Sub
    return kind(this=node.this.copy(), expression=positive)


def _truncated(node: exp.Expr) -> exp.Expr:
    if str(node.text("unit")).upper() not in _UNITS:
        raise _refused(node, f"Truncate to one of {', '.join(sorted(_UNITS))}.")
    return _cast(node, "TIMESTAMP_NTZ") if kind_of(node) == "timestamp" else node


def _extracted(node: exp.Expr) -> exp.Expr:
    field = str(node.this.name).upper()
    if field in _FIELDS:
        return node
    if field == "EPOCH":
        return _seconds(node)
    if field in _DAYS_OF_WEEK and kind_of(node.expression) in TIME_KINDS:
        name, more = _DAYS_OF_WEEK[field]
        kind: type[exp.Expr] = exp.Add if more > 0 else exp.Sub
        call = _call(name, node.expression)
        return exp.Paren(this=kind(this=call, expression=exp.Literal.number(1)))
    raise _refused(node, f"Extract one of {', '.join(sorted((*_FIELDS, *_DAYS_OF_WEEK, 'EPOCH')))}.")


_DAY, _EPOCH = 86_400, "1970-01-01"


def _seconds(node: exp.Expr) -> exp.Expr:
    """Return the epoch of a date, or that of a time in whole seconds where it is floored to a multiple of them."""
    time, kind = node.expression, kind_of(node.expression)
    days = exp.Mul(
        this=_call("DATEDIFF", _cast(time, "DATE"), _cast(exp.Literal.string(_EPOCH), "DATE")),
        expression=exp.Literal.number(_DAY),
    )
    if kind == "date":
        return exp.Paren(this=days)
    if kind not in TIME_KINDS or not _is_floored(node):
        raise _refused(
            node, "Write floor(extract(epoch FROM t) / 300) * 300, with a whole number of seconds."
        )
    if kind == "timestamptz":
        return _call("UNIX_SECONDS", time)
    made: exp.Expr = days
    for name, seconds in (("HOUR", 3_600), ("MINUTE", 60), ("SECOND", 1)):
        part = exp.Mul(this=_call(name, time), expression=exp.Literal.number(seconds))
        made = exp.Add(this=made, expression=part)
    return exp.Paren(this=made)


def _is_floored(node: exp.Expr) -> bool:
    """Return whether a number is divided by a whole one and floored: its own fraction makes no difference."""
    divided = node.parent
    while isinstance(divided, exp.Paren | exp.Cast):
        divided = divided.parent
    floored = divided.parent if isinstance(divided, exp.Div) else None
    while isinstance(floored, exp.Paren):
        floored = floored.parent
    return (
        isinstance(floored, exp.Floor)
        and isinstance(divided, exp.Div)
        and bool(_whole_number(divided.expression))
    )


def _formatted(node: exp.Expr) -> exp.Expr:
    given = _text_of(node.args["format"]) or ""
    parts = _FORMAT.findall(given)
    known = all(not letters or letters in _FORMATS for letters, _ in parts)
    if kind_of(node.this) not in TIME_KINDS or not known or "".join(map("".join, parts)) != given:
        hint = "to_char takes a date or a time, and YYYY, YY, MM, Mon, DD, Dy, HH24, HH12, MI and SS."
        raise _refused(node, hint)
    text = "".join(_FORMATS[letters] if letters else other for letters, other in parts)
    return _call("DATE_FORMAT", node.this, exp.Literal.string(text))


def _quantile(node: exp.Expr) -> exp.Expr:
    """Return PERCENTILE_CONT or PERCENTILE_DISC in a form that the generator writes as the same function."""
    function, order = node.this, node.expression.expressions
    share = function.this
    if (
        not isinstance(function, exp.PercentileCont | exp.PercentileDisc)
        or not isinstance(share, exp.Literal)
        or len(order) != 1
        or order[0].args.get("desc")
    ):
        raise _refused(node, "Write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x).")
    kind = exp.Quantile if isinstance(function, exp.PercentileCont) else exp.ApproxQuantile
    return kind(this=order[0].this.copy(), quantile=share.copy())


def _framed(node: exp.Expr) -> exp.Expr:
    if node.args.get("exclude"):
        raise _refused(node, "Spark's windows have no EXCLUDE.")
    return node


def _distinct(node: exp.Expr) -> exp.Expr:
    select = node.parent_select
    if node.args.get("on") is not None and select is not None and select.args.get("order"):
        raise _refused(select, "Number rows with row_number() instead of DISTINCT ON.")
    return node


def _grouped(node: exp.Expr) -> exp.Expr:
    if node.args.get("all") is False:
        raise _refused(node, "Leave out DISTINCT: list each grouping once.")
    return node


def _list(node: exp.Expr) -> exp.Expr:
    raise _refused(node, "Spark's lists have no NULLs and no order. Write string_agg(x, ',' ORDER BY x).")


def _lateral(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.this, exp.Subquery):
        raise _refused(node, "LATERAL takes a subquery.")
    return node


# What is compared with dates and times.


def _moment(text: str, kind: str) -> exp.Expr:
    """Return a constant of a kind; a TIMESTAMP that does not name its zone is in the plan's, as days and hours are."""
    if kind != "timestamptz" or has_zone(text):
        text = read_moment(text, kind)
    return _cast(exp.Literal.string(text), _SPARK[kind])


def _compared_with(node: exp.Expr) -> str | None:
    """Return the kind of the dates or times that a part is compared with, None if it is not."""
    if not isinstance(node.parent, exp.Predicate):
        return None
    kinds = {kind_of(each) for each in node.parent.iter_expressions() if each is not node}
    return next((kind for kind in TIME_KINDS if kind in kinds), None)


def _read_moment(node: exp.Expr) -> exp.Expr:
    """Return TO_DATE or TO_TIMESTAMP of a written text, by which tools filter; a TIMESTAMP is in the plan's zone."""
    read = by_format(_text_of(node.this), _text_of(node.args["format"]))
    if read is None:
        raise _refused(node, "Read a written text by YYYY, MM, DD, HH24, MI, SS and US.")
    if isinstance(node, exp.StrToDate):
        return _moment(read, "date")
    kind = "timestamp" if _compared_with(node) == "timestamp" else "timestamptz"
    return _cast(exp.Literal.string(read), _SPARK[kind])


def _type_constants(tree: exp.Expr) -> None:
    """Give strings that are compared with dates, times, numbers and booleans the type of the other operand."""
    for literal in list(tree.find_all(exp.Literal)):
        parent = literal.parent
        if not literal.is_string or not isinstance(parent, exp.Predicate) or isinstance(parent, exp.Like):
            continue
        kinds = {kind_of(each) for each in parent.iter_expressions() if each != literal}
        kind = next((each for each in (*TIME_KINDS, "boolean", *FRACTIONS, *WHOLE) if each in kinds), None)
        if kind in TIME_KINDS:
            literal.replace(_moment(literal.name, kind))
        elif kind == "boolean":
            literal.replace(exp.Boolean(this=read_boolean(literal.name)))
        elif kind is not None:
            literal.replace(exp.Literal.number(number(literal.name, is_whole=kind in WHOLE)))


_RULES: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Div: _divided,
    exp.Round: _rounded,
    exp.Floor: _floored,
    exp.Cast: _converted,
    exp.Substring: _part_of_text,
    exp.Left: _side,
    exp.Right: _side,
    exp.Pad: _padded,
    exp.Repeat: _repeated,
    exp.Concat: _joined,
    exp.DPipe: _two_texts,
    exp.ILike: _like_in_any_case,
    exp.RegexpLike: _matched,
    exp.GroupConcat: _strings,
    exp.Trim: _trimmed,
    exp.Add: _sum_of_moments,
    exp.Sub: _sum_of_moments,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.Extract: _extracted,
    exp.TimeToStr: _formatted,
    exp.StrToDate: _read_moment,
    exp.StrToTime: _read_moment,
    exp.WithinGroup: _quantile,
    exp.Distinct: _distinct,
    exp.Group: _grouped,
    exp.ArrayAgg: _list,
    exp.WindowSpec: _framed,
    exp.Lateral: _lateral,
}
