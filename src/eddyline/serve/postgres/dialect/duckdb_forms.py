"""What each part of a PostgreSQL query over views becomes for DuckDB, or a refusal where its meaning is not certain.

Parts on the list `_SAME` mean the same in both. Parts with a rule are rewritten, or refused for some arguments. The
types of arguments are those of `kinds`. A numeric is a DECIMAL here: what DuckDB computes in floating point (a
quotient, a mean) is rounded to the 15 digits that are certain, so that a tie is rounded as PostgreSQL rounds it.
"""

from collections.abc import Iterable

from sqlglot import exp

from eddyline.serve.postgres.dialect import literals
from eddyline.serve.postgres.dialect.duckdb_numbers import NUMBERS, of_number
from eddyline.serve.postgres.dialect.duckdb_parts import (
    ON_THE_LIST,
    PLACE,
    WIDE,
    Rule,
    Unclear,
    call,
    cast,
    class_of,
    double,
    exact,
    is_open,
    is_wide,
    refused,
    text_of,
    unknown,
    whole_number,
)
from eddyline.serve.postgres.dialect.kinds import FLOATS, FRACTIONS, TIME_KINDS, WHOLE, kind_of, with_kind
from eddyline.serve.postgres.dialect.spark_forms import quoted
from eddyline.serve.postgres.refusals import Refusal
from eddyline.sql.around.patterns import is_one_match, is_test

_SAME = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias, exp.Aliases, exp.Join,
    exp.Where, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Having, exp.Order, exp.Ordered, exp.Limit,
    exp.Offset, exp.Fetch, exp.LimitOptions, exp.Paren, exp.And, exp.Or, exp.Not, exp.Is, exp.Null, exp.Boolean,
    exp.Tuple, exp.Count, exp.Distinct, exp.Filter, exp.If, exp.Exists, exp.Subquery, exp.Union,
    exp.Intersect, exp.Except, exp.Var, exp.DataType, exp.DataTypeParam, exp.CurrentDate, exp.CurrentTimestamp,
    exp.With, exp.CTE, exp.Window, exp.WindowSpec, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank,
    exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, exp.Values, exp.Lateral,
    exp.Lower, exp.Upper, exp.Length, exp.Replace, exp.Reverse, exp.StrPosition, exp.Translate, exp.MD5,
    exp.StartsWith, exp.ArrayAgg, exp.LogicalAnd, exp.LogicalOr, exp.Any, exp.All, exp.Array, exp.Grouping,
    exp.Parameter, exp.CurrentDatabase, exp.CurrentSchema, exp.CurrentUser, exp.SessionUser, exp.CurrentVersion,
    exp.CurrentCatalog, exp.CurrentRole, exp.Escape, exp.Collate, exp.Schema, exp.IntDiv,
)  # fmt: skip
"""What has the same meaning in PostgreSQL and DuckDB."""
_TIMES = ("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp")
_UNITS = frozenset(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"))
_FIELDS = frozenset(
    ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "ISODOW", "ISOYEAR", "HOUR", "MINUTE")
)
_FORMATS = {
    "%Y": "%Y", "%y": "%y", "%m": "%m", "%d": "%d", "%H": "%H", "%I": "%I", "%M": "%M", "%S": "%S", "%f": "%f",
    "Mon": "%b", "%uy": "%a",
}  # fmt: skip
_MOST_CHARACTERS = 1_000
"""The longest text that padding or repeating may make: chosen."""
_DUCKDB = {"date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ"}
_NAMES = {"double": "double precision", "int": "integer", "timestamp": "timestamp without time zone"}


def duckdb_form(tree: exp.Expr) -> exp.Expr:
    """Return an annotated query in DuckDB's form, or raise Refusal with the part whose meaning is not certain."""
    written = list(tree.copy().walk())
    nodes = list(tree.walk())
    for place, node in enumerate(nodes):
        node.meta[PLACE] = place
    try:
        return _rewritten(tree, nodes)
    except Unclear as found:
        part = quoted(written[found.node.meta[PLACE]])
        raise Refusal(found.state, found.sentence.replace("{}", part), hint=found.hint) from None


def _rewritten(tree: exp.Expr, nodes: list[exp.Expr]) -> exp.Expr:
    for node in reversed(nodes):  # inner parts come first
        rule = _RULES.get(type(node))
        if rule is None and not isinstance(node, _SAME):
            raise refused(node, ON_THE_LIST)
        made = rule(node) if rule is not None else node
        if made is not node:
            with_kind(made, kind_of(node)).meta[PLACE] = node.meta[PLACE]
            if node is tree:
                tree = made
            else:
                node.replace(made)
    return tree


# Comparisons, and values of which one is chosen.


def _comparison(node: exp.Expr) -> exp.Expr:
    given = [each for each in node.iter_expressions() if isinstance(each, exp.Expr)]
    _compare(node, [_compared(each) for each in given])
    return node


def _compared(node: exp.Expr) -> exp.Expr:
    """Return the expressions of an operand that are compared: the values of ANY, the columns of a subquery."""
    if isinstance(node, exp.Any | exp.All | exp.Paren) and not isinstance(node.this, exp.Literal):
        return _compared(node.this)
    if isinstance(node, exp.Array):
        return node.expressions[0] if node.expressions else node
    return node


def _compare(node: exp.Expr, operands: Iterable[exp.Expr]) -> None:
    """Check that operands may be compared, and give strings the type of the others."""
    operands = list(operands)
    kinds = [kind_of(each) for each in operands if not is_open(each)]
    known = [kind for kind in kinds if kind is not None]
    if len({class_of(kind) for kind in known}) > 1:
        types = " and ".join(_NAMES.get(kind, kind) for kind in known)
        raise unknown(node, f"operator does not exist: {{}} compares {types}", "Cast one of the two.")
    kind = next(
        (kind for kind in (*TIME_KINDS, *reversed(FRACTIONS), *WHOLE, "boolean") if kind in known), None
    )
    if kind is None:
        return
    for each in operands:
        if text_of(each) is not None and each.parent is not None:
            each.replace(with_kind(_typed(each, kind), kind))


def _typed(literal: exp.Expr, kind: str) -> exp.Expr:
    """Return a string as a constant of a kind."""
    text = literal.name.strip()
    if kind in TIME_KINDS:
        return cast(exp.Literal.string(literals.read_moment(text, kind)), _DUCKDB[kind])
    if kind == "boolean":
        return exp.Boolean(this=literals.read_boolean(text))
    return _number(literals.number(text, is_whole=kind in WHOLE), kind)


def _number(digits: str, kind: str) -> exp.Expr:
    made = exp.Literal.number(digits.lstrip("+-"))
    signed = exp.Neg(this=made) if digits.startswith("-") else made
    return double(signed) if kind in FLOATS else signed


def _chosen(node: exp.Expr) -> exp.Expr:
    """Return CASE, COALESCE and the like, if all values are of one type."""
    if isinstance(node, exp.Case):
        values = [*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")]
        if node.this is not None:
            for each in node.args["ifs"]:
                _compare(node, [node.this, each.this])
    elif isinstance(node, exp.Nullif):
        values = [node.this, node.expression]
    else:
        values = [node.this, *node.expressions]
    _compare(node, [each for each in values if each is not None])
    return node


def _set_operation(node: exp.Expr) -> exp.Expr:
    left, right = (getattr(each, "selects", []) for each in (node.this, node.expression))
    for one, other in zip(left, right, strict=False):
        kinds = [kind_of(each) for each in (one, other) if not is_open(each.unalias())]
        if len({class_of(kind) for kind in kinds if kind is not None}) > 1:
            raise Refusal(
                "42804", f"{type(node).__name__.upper()} types {kinds[0]} and {kinds[1]} cannot be matched"
            )
    return node


def _matched(node: exp.Expr) -> exp.Expr:
    for each in (node.this, node.expression):
        if not is_open(each) and kind_of(each) not in ("text", None):
            raise unknown(
                node, f"operator does not exist: {{}} matches a {kind_of(each)}", "Cast it to text."
            )
    return node


def _pattern(node: exp.Expr) -> exp.Expr:
    pattern = text_of(node.expression)
    if kind_of(node.this) not in ("text", None) or pattern is None or not is_test(pattern):
        raise refused(
            node,
            "Match a text with a written pattern of characters, [], (), |, *, +, ?, {}, ., ^, $ and \\d.",
        )
    flags = "si" if isinstance(node, exp.RegexpILike) else "s"
    return call("regexp_matches", node.this, node.expression, exp.Literal.string(flags))


def _replaced(node: exp.Expr) -> exp.Expr:
    pattern, by, flags = (text_of(node.args.get(each)) for each in ("expression", "replacement", "modifiers"))
    is_plain = pattern is not None and is_one_match(pattern) and by is not None and "\\" not in by
    if not is_plain or (flags or "") not in ("", "g", "i", "gi", "ig") or kind_of(node.this) != "text":
        raise refused(
            node, "Write out a pattern of characters, [] and . without groups and |, which matches some text."
        )
    return call(
        "regexp_replace", node.this, node.expression, node.args["replacement"], exp.Literal.string(f"{flags or ''}s")
    )  # fmt: skip


# Conversions.


def _converted(node: exp.Expr) -> exp.Expr:  # noqa: C901, PLR0911, PLR0912 - a case for each type
    given, wanted, inner = kind_of(node.this), kind_of(node), node.this
    to, is_null = node.args["to"], isinstance(inner, exp.Null)
    text, scale = text_of(inner), bool(node.args["to"].expressions)
    if isinstance(inner, exp.IntDiv) and wanted == "numeric":
        if {kind_of(inner.this), kind_of(inner.expression)} <= set(WHOLE):
            return cast(inner, "DECIMAL(38, 0)")
        raise refused(inner, "div() divides whole numbers here: write trunc(a / b).")
    if wanted is None:
        if isinstance(inner, exp.Array) and to.this is exp.DataType.Type.ARRAY:
            return node
        raise refused(node, ON_THE_LIST)
    if is_null:
        return node
    if text is not None and wanted != "text":
        if wanted == "interval":
            return _interval(exp.Interval(this=inner.copy()), node)
        constant = _typed(inner, wanted)
        return constant if not scale and wanted != "real" else _resized(constant, to)
    if wanted == "text":
        return _as_text(node)
    if wanted == "numeric" and class_of(given) == "number":
        if given in FLOATS:
            return exact(inner) if not scale else _resized(exact(inner), to)
        if scale:
            return node
        return cast(inner, "DECIMAL(38, 0)") if given in WHOLE else _same(node)
    if wanted in FLOATS and class_of(given) == "number":
        return node
    if wanted in WHOLE and (class_of(given) == "number" or given == "boolean"):
        return node
    if wanted == "boolean" and given in (*WHOLE, "boolean"):
        return node
    if wanted in TIME_KINDS and given in TIME_KINDS:
        return node
    raise refused(node, f"A {given or 'value'} is not converted to {wanted} here.")


def _same(node: exp.Expr) -> exp.Expr:
    made = exp.Paren(this=node.this.copy())
    if is_wide(node.this):
        made.meta[WIDE] = True
    return made


def _resized(node: exp.Expr, to: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=to.copy())


def _as_text(node: exp.Expr) -> exp.Expr:
    to, inner = node.args["to"], node.this
    name = str(getattr(to.this, "name", to.this)).upper()
    if name in ("CHAR", "NCHAR", "BPCHAR") and to.expressions:
        raise refused(node, "A character(n) is padded with blanks: write varchar(n).")
    if text_of(inner) is None and not _prints_alike(inner, booleans=True):
        raise refused(
            node,
            "Its text may differ from PostgreSQL's. Write round(x::numeric, 2)::text, or to_char of a time.",
        )
    plain = cast(inner, "VARCHAR")
    if not to.expressions:
        return plain
    return exp.Left(this=plain, expression=exp.Literal.number(to.expressions[0].name))


def _prints_alike(node: exp.Expr, *, booleans: bool = False) -> bool:
    """Return whether a value has the same text in both: numbers with a scale, whole numbers, dates, texts."""
    kind = kind_of(node)
    if text_of(node) is not None or kind in ("text", "date", "timestamp", *WHOLE):
        return True
    if kind == "boolean":
        return booleans
    if kind != "numeric":
        return False
    inner = node
    while isinstance(inner, exp.Paren | exp.Neg | exp.Abs | exp.Sum | exp.Min | exp.Max | exp.Filter):
        inner = inner.this
    if isinstance(inner, exp.Round):
        digits = inner.args.get("decimals")
        return digits is None or (whole_number(digits) or 0) >= 0
    if inner.meta.get(WIDE):
        return False
    return kind_of(inner) in WHOLE or (isinstance(inner, exp.Cast) and len(inner.args["to"].expressions) == 2)


# Text.


def _part_of_text(node: exp.Expr) -> exp.Expr:
    """Return SUBSTRING: positions before the first character count, too."""
    begin, size = node.args.get("start"), node.args.get("length")
    start, length = whole_number(begin), whole_number(size)
    if not _is_text(node.this) or start is None or (size is not None and (length is None or length < 0)):
        raise refused(node, "Write out the positions, and a length from 0 on.")
    first = max(start, 1)
    arguments = [exp.Literal.number(first)]
    if length is not None:
        arguments.append(exp.Literal.number(max(start + length - first, 0)))
    return call("substring", node.this, *arguments)


def _side(node: exp.Expr) -> exp.Expr:
    if not _is_text(node.this) or whole_number(node.expression) is None:
        raise refused(node, "Write out the number of characters of a text.")
    return node


def _padded(node: exp.Expr) -> exp.Expr:
    fill = node.args.get("fill_pattern") or exp.Literal.string(" ")
    size = whole_number(node.expression)
    if not _is_text(node.this) or size is None or not 0 <= size <= _MOST_CHARACTERS or not text_of(fill):
        raise refused(
            node,
            f"Pad a text to a written length up to {_MOST_CHARACTERS:,}, with characters that are written out.",
        )
    return call("lpad" if node.args.get("is_left") else "rpad", node.this, node.expression, fill)


def _is_text(node: exp.Expr) -> bool:
    return kind_of(node) == "text" or text_of(node) is not None


def _repeated(node: exp.Expr) -> exp.Expr:
    times = whole_number(node.args["times"])
    if not _is_text(node.this) or times is None or not 0 <= times <= _MOST_CHARACTERS:
        raise refused(node, f"Repeat a text at most {_MOST_CHARACTERS:,} times, with the number written out.")
    return call("repeat", node.this, node.args["times"])


def _joined(node: exp.Expr) -> exp.Expr:
    parts = node.expressions if not isinstance(node, exp.DPipe) else [node.this, node.expression]
    is_concatenation = isinstance(node, exp.DPipe)
    if is_concatenation and not any(_is_text(each) for each in parts):
        raise refused(node, "One side is a text.")
    for each in parts:
        if not isinstance(each, exp.Null) and not _prints_alike(each, booleans=is_concatenation):
            raise refused(
                each, "Join texts, whole numbers and dates: cast others, as round(x::numeric, 2)::text."
            )
    return node


def _trimmed(node: exp.Expr) -> exp.Expr:
    if not _is_text(node.this):
        raise refused(node, "Trim a text.")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    return call(name, node.this, node.expression or exp.Literal.string(" "))


def _split(node: exp.Expr) -> exp.Expr:
    place = whole_number(node.args["part_index"])
    if place is None or place < 1 or not text_of(node.args["delimiter"]) or not _is_text(node.this):
        raise refused(node, "Write out the delimiter and the place, from 1 on.")
    return call("split_part", node.this, node.args["delimiter"], node.args["part_index"])


def _of_text(node: exp.Expr) -> exp.Expr:
    if not _is_text(node.this) and kind_of(node.this) is not None:
        raise unknown(node, "function does not exist: {} takes a text", "Cast it to text.")
    return node


def _strings(node: exp.Expr) -> exp.Expr:
    """Return string_agg(text, delimiter ORDER BY ...)."""
    inner = node.this.this if isinstance(node.this, exp.Order) else node.this
    inner = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    if kind_of(inner) != "text" or text_of(node.args.get("separator")) is None:
        raise refused(node, "Write string_agg(text, ', ' ORDER BY ...).")
    return node


# Times.


def _truncated(node: exp.Expr) -> exp.Expr:
    if str(node.text("unit")).upper() not in _UNITS or kind_of(node.this) not in TIME_KINDS:
        raise refused(node, f"Truncate a date or a time to one of {', '.join(sorted(_UNITS))}.")
    return cast(node, _DUCKDB[str(kind_of(node))])


def _extracted(node: exp.Expr) -> exp.Expr:
    field, kind = str(node.this.name).upper(), kind_of(node.expression)
    if kind not in TIME_KINDS or field not in (*_FIELDS, "EPOCH"):
        raise refused(node, f"Extract one of EPOCH, {', '.join(sorted(_FIELDS))} of a date or a time.")
    return exact(call("epoch", node.expression)) if field == "EPOCH" else node


def _formatted(node: exp.Expr) -> exp.Expr:
    text = literals.in_letters(text_of(node.args["format"]) or "", _FORMATS)
    if kind_of(node.this) not in TIME_KINDS or text is None:
        raise refused(node, literals.LETTERS.replace("SS", "SS, US"))
    return call("strftime", node.this, exp.Literal.string(text))


def _read_moment(node: exp.Expr) -> exp.Expr:
    kind = "date" if isinstance(node, exp.StrToDate) else "timestamptz"
    read = literals.by_format(text_of(node.this), text_of(node.args["format"]))
    if read is None:
        raise refused(node, "Read a written text by YYYY, MM, DD, HH24, MI, SS and US.")
    return cast(exp.Literal.string(literals.read_moment(read, kind)), _DUCKDB[kind])


def _seconds(node: exp.Expr) -> exp.Expr:
    of_number(node)
    return call("to_timestamp", double(node.this))


def _interval(node: exp.Expr, said: exp.Expr | None = None) -> exp.Expr:
    unit = f" {node.text('unit')}" if node.args.get("unit") else ""
    spans = literals.spans(f"{text_of(node.this) or ''}{unit}")
    if not spans:
        raise refused(said or node, "Write INTERVAL '3 days', or '1 month 2 days'.")
    return exp.Interval(this=exp.Literal.string(spans))


# Everything else.


def _star(node: exp.Expr) -> exp.Expr:
    if any(node.args.values()):
        raise refused(node, "Name the columns.")
    return node


def _quantile(node: exp.Expr) -> exp.Expr:
    function, order = node.this, node.expression.expressions
    share = function.this if isinstance(function, exp.PercentileCont | exp.PercentileDisc) else None
    is_number = class_of(kind_of(order[0].this)) == "number" if len(order) == 1 else False
    if not isinstance(share, exp.Literal) or not is_number or order[0].args.get("desc"):
        raise refused(node, "Write percentile_cont(0.5) WITHIN GROUP (ORDER BY x), of a number.")
    name = "quantile_cont" if isinstance(function, exp.PercentileCont) else "quantile_disc"
    value = double(order[0].this) if name == "quantile_cont" else order[0].this
    return call(name, value, share)


def _anonymous(node: exp.Expr) -> exp.Expr:
    name = node.name.lower()
    if name == "every":
        return exp.LogicalAnd(this=node.expressions[0].copy())
    if name not in _TIMES:
        raise unknown(node, "{} calls a function that is not known here", ON_THE_LIST)
    return node


def _dotted(node: exp.Expr) -> exp.Expr:
    if isinstance(node.this, exp.Identifier) and node.this.name.lower() == "pg_catalog":
        return node
    raise refused(node, ON_THE_LIST)


def _grouped(node: exp.Expr) -> exp.Expr:
    if node.args.get("all") is not None or node.args.get("totals") is not None:
        raise Unclear(node, "42601", "syntax error at {}", "Name what to group by.")
    return node


def _series(node: exp.Expr) -> exp.Expr:
    kinds = {kind_of(node.args[each]) for each in ("start", "end") if node.args.get(each) is not None}
    step = node.args.get("step")
    if kinds <= set(WHOLE) and (step is None or kind_of(step) in WHOLE or whole_number(step)):
        return node
    if kinds in ({"timestamp"}, {"timestamptz"}) and kind_of(step) == "interval":
        return node
    raise refused(node, "It takes whole numbers, or two timestamps and an INTERVAL.")


def _unnested(node: exp.Expr) -> exp.Expr:
    arrays = node.expressions or [node.this]
    if len(arrays) != 1 or node.args.get("offset"):
        raise refused(node, "Unnest one array.")
    return node


_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between,
)  # fmt: skip
_RULES: dict[type[exp.Expr], Rule] = {
    **NUMBERS,
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys((exp.Case, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif), _chosen),
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), _set_operation),
    **dict.fromkeys((exp.Like, exp.ILike), _matched),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), _pattern),
    **dict.fromkeys((exp.Left, exp.Right), _side),
    **dict.fromkeys((exp.Concat, exp.ConcatWs, exp.DPipe), _joined),
    **dict.fromkeys((exp.Lower, exp.Upper, exp.Length, exp.Replace, exp.Reverse, exp.StrPosition, exp.MD5), _of_text),
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc), _truncated),
    **dict.fromkeys((exp.StrToDate, exp.StrToTime), _read_moment),
    **dict.fromkeys((exp.GenerateSeries, exp.ExplodingGenerateSeries), _series),
    **dict.fromkeys((exp.Unnest, exp.Explode), _unnested),
    exp.Cast: _converted,
    exp.Substring: _part_of_text,
    exp.Pad: _padded,
    exp.Repeat: _repeated,
    exp.Trim: _trimmed,
    exp.SplitPart: _split,
    exp.RegexpReplace: _replaced,
    exp.GroupConcat: _strings,
    exp.Extract: _extracted,
    exp.TimeToStr: _formatted,
    exp.UnixToTime: _seconds,
    exp.Interval: _interval,
    exp.Star: _star,
    exp.Group: _grouped,
    exp.WithinGroup: _quantile,
    exp.PercentileCont: lambda node: node,
    exp.PercentileDisc: lambda node: node,
    exp.Anonymous: _anonymous,
    exp.Dot: _dotted,
}  # fmt: skip
