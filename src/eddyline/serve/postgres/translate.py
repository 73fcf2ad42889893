"""Translates a question about streams from PostgreSQL's SQL to Spark's, which our aggregates use.

Only what means the same in both is translated; everything else is refused, with the part at fault. Columns such as
`n_low` are removed from the SQL: they come with the answer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from eddyline.serve.postgres.refusals import Refusal, not_supported
from eddyline.serve.postgres.rewriting import column_name, rewritten
from eddyline.types import Column, SqlType

Part = Literal["group", "value", "low", "high", "exact", "note"]
_ENDS: dict[str, Part] = {"_low": "low", "_high": "high"}
_OWN: dict[str, Part] = {"low": "low", "high": "high", "exact": "exact", "note": "note"}
HIDDEN = "eddyline_rows"
"""The name of a COUNT(*) that is added to groups without an aggregate, and not shown."""
_SAME = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias, exp.Join, exp.Where,
    exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ,
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.ILike, exp.Is, exp.Null, exp.Boolean,
    exp.Literal, exp.Tuple, exp.Star, exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp,
    exp.StddevPop, exp.Variance, exp.VariancePop, exp.Distinct, exp.Filter, exp.Case, exp.If, exp.Coalesce, exp.Nullif,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Mod, exp.Abs, exp.Lower, exp.Upper, exp.Length, exp.Cast,
    exp.TimestampTrunc, exp.DateTrunc, exp.Extract, exp.Interval, exp.Exists, exp.Subquery, exp.Union, exp.Intersect,
    exp.Except, exp.WithinGroup, exp.PercentileCont, exp.PercentileDisc, exp.DPipe, exp.Round, exp.Trim, exp.Var,
    exp.DataType, exp.DataTypeParam, exp.NullSafeEQ, exp.NullSafeNEQ, exp.CurrentDate, exp.CurrentTimestamp,
)  # fmt: skip
"""What has the same meaning in PostgreSQL and Spark, partly under conditions that `_check` checks."""
_FIELDS = frozenset(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE"))
_UNITS = frozenset(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"))
_WHOLE = frozenset(("tinyint", "smallint", "int", "bigint"))
_FRACTIONS = frozenset(("decimal", "float", "double"))
_TIMES = frozenset(("date", "timestamp", "timestamp_ntz"))
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ZONED = re.compile(r"\d:\d\d.*(Z|[+-]\d{2}(:?\d{2})?)$")


@dataclass(frozen=True)
class Output:
    """A column of the result: the name that the client sees, and which column of the answer it is."""

    name: str
    part: Part
    of: str = ""
    counted: bool = False


@dataclass(frozen=True)
class Question:
    """A question about streams: Spark's SQL, the columns of the result, and a limit of rows.

    limit: a LIMIT without an order, which any rows satisfy.
    """

    text: str
    outputs: tuple[Output, ...]
    limit: int | None = None


def question_of(tree: exp.Expr, streams: Mapping[str, tuple[Column, ...]]) -> Question:
    """Return the question that a query asks, or raise Refusal if its meaning in Spark's SQL is not certain."""
    if not isinstance(tree, exp.Select):
        raise not_supported(
            f"{_shown(tree)} over streams is not supported", "Ask SELECT with aggregates over streams."
        )
    copied = tree.copy()
    _without_schemas(copied)
    select = rewritten(copied, _plain)
    assert isinstance(select, exp.Select)
    types = {column.name.lower(): column.type for columns in streams.values() for column in columns}
    for node in select.walk():
        _check(node, types)
    _with_typed_moments(select, types)
    outputs, items = _outputs(select)
    select.set("expressions", items)
    limit = _free_limit(select)
    return Question(select.sql(dialect="spark"), tuple(outputs), limit)


_AROUND = (
    *_SAME, exp.With, exp.CTE, exp.Window, exp.WindowSpec, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead,
    exp.FirstValue, exp.LastValue, exp.TableSample,
)  # fmt: skip
"""What has the same meaning in both around aggregates: in WITH, subqueries, window functions and TABLESAMPLE."""


def is_around(tree: exp.Expr) -> bool:
    """Return whether a query has parts around aggregates: WITH, window functions, subqueries, several SELECTs."""
    return tree.find(exp.With, exp.Window) is not None or len(list(tree.find_all(exp.Select))) > 1


def text_around(tree: exp.Expr, streams: Mapping[str, tuple[Column, ...]]) -> str:
    """Return Spark's SQL of a query with parts around aggregates, or raise Refusal if its meaning is unclear."""
    copied = tree.copy()
    _without_schemas(copied)
    made = rewritten(copied, _plain)
    named = {alias.alias.lower() for alias in made.find_all(exp.Alias)}
    types = {
        column.name.lower(): column.type
        for columns in streams.values()
        for column in columns
        if column.name.lower() not in named  # an alias may hide the column, and has a type of its own
    }
    for node in made.walk():
        _check(node, types, _AROUND)
    _with_typed_moments(made, types)
    first = made.find(exp.Select) if not isinstance(made, exp.Select) else made
    if first is not None:
        items = [
            item
            if isinstance(item, exp.Alias) or item.is_star
            else exp.alias_(item, _name_of(item), quoted=True)
            for item in first.expressions
        ]
        first.set("expressions", items)
    return made.sql(dialect="spark")


def _without_schemas(select: exp.Expr) -> None:
    for table in select.find_all(exp.Table):
        if table.db and table.db.lower() != "public":
            raise Refusal("42P01", f'relation "{table.db}.{table.name}" does not exist')
        table.set("db", None)
        table.set("catalog", None)
    for column in select.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)


def _plain(node: exp.Expr) -> exp.Expr:
    """Return a part of a query in a simpler form with the same meaning."""
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        array = (
            node.expression.this.this if isinstance(node.expression.this, exp.Paren) else node.expression.this
        )
        if isinstance(array, exp.Array):
            return exp.In(this=node.this.copy(), expressions=[each.copy() for each in array.expressions])
    if (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and node.this.is_string
        and _is_moment(node.to)
    ) and isinstance(node.parent, exp.Binary | exp.Between | exp.In):
        return node.this.copy()
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and _is_kept(node.this, node.to):
        return node.this.copy()
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.AggFunc | exp.Filter) and _is_float(node.to):
        return node.this.copy()  # Spark's division of aggregates already has a fraction
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.Literal):
        return node.this.copy()
    return node


def _is_moment(kind: exp.Expr) -> bool:
    types = exp.DataType.Type
    return isinstance(kind, exp.DataType) and kind.this in (types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ)


def _is_kept(literal: exp.Literal, kind: exp.Expr) -> bool:
    """Return whether a cast does not change a literal: a string to text, or a number to a type that holds it."""
    types = exp.DataType.Type
    if not isinstance(kind, exp.DataType) or kind.expressions:
        return False
    if literal.is_string:
        return kind.this in (types.TEXT, types.VARCHAR)
    whole = (types.SMALLINT, types.INT, types.BIGINT)
    return (
        kind.this in (*whole, types.DECIMAL, types.DOUBLE)
        if literal.name.isdigit()
        else kind.this is types.DECIMAL
    )


def _is_float(kind: exp.Expr) -> bool:
    types = exp.DataType.Type
    return isinstance(kind, exp.DataType) and kind.this in (types.FLOAT, types.DOUBLE, types.DECIMAL)


def _check(  # noqa: C901 - a case for each kind of node
    node: exp.Expr, types: Mapping[str, SqlType], allowed: tuple[type[exp.Expr], ...] = _SAME
) -> None:
    """Raise Refusal if a part of a query may mean something else in Spark's SQL."""
    if isinstance(node, exp.Dot) and _own_function(node):
        return
    if isinstance(node, exp.Identifier) and isinstance(node.parent, exp.Dot):
        return
    if isinstance(node, exp.Anonymous) and isinstance(node.parent, exp.Dot) and _own_function(node.parent):
        return
    if not isinstance(node, allowed):
        raise not_supported(
            f"{_shown(node)} over streams is not supported",
            "Planned queries are views, and take any SQL: SELECT ... FROM the view.",
        )
    if isinstance(node, exp.Div) and not (
        _kind(node.this, types) in _FRACTIONS or _kind(node.expression, types) in _FRACTIONS
    ):
        hint = "PostgreSQL divides whole numbers without a remainder. Write CAST(a AS double precision) / b."
        raise not_supported(f"{_shown(node)} divides whole numbers", hint)
    if isinstance(node, exp.Cast):
        _check_cast(node, types)
    if isinstance(node, exp.Extract) and str(node.this.name).upper() not in _FIELDS:
        raise not_supported(
            f"{_shown(node)} over streams is not supported", f"Extract one of {', '.join(sorted(_FIELDS))}."
        )
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc) and str(node.text("unit")).upper() not in _UNITS:
        raise not_supported(
            f"{_shown(node)} over streams is not supported",
            f"Truncate to one of {', '.join(sorted(_UNITS))}.",
        )
    if (
        isinstance(node, exp.Sub | exp.Add)
        and any(_kind(side, types) in _TIMES for side in (node.this, node.expression))
        and not isinstance(node.expression, exp.Interval)
        and not _is_difference_of_timestamps(node, types)
    ):
        raise not_supported(f"{_shown(node)} over streams is not supported", "Add or subtract an INTERVAL.")
    if (
        isinstance(node, exp.Literal)
        and node.is_string
        and _ZONED.search(node.name)
        and _is_compared_with(node, "timestamp_ntz", types)
    ):
        raise not_supported(f"{_shown(node)} has a time zone, and the column it is compared with has none")
    if isinstance(node, exp.Trim) and (node.expression or node.args.get("position")):
        raise not_supported(f"{_shown(node)} over streams is not supported", "TRIM(x) is.")


def _with_typed_moments(select: exp.Expr, types: Mapping[str, SqlType]) -> None:
    """Give strings that are compared with dates and times the type of the other operand."""
    for literal in list(select.find_all(exp.Literal)):
        for kind in _TIMES if literal.is_string else ():
            if _is_compared_with(literal, kind, types):
                if kind == "date" and not _DATE.fullmatch(literal.name):
                    raise not_supported(f"{_shown(literal)} is not a date", "Write it as '2024-02-29'.")
                literal.replace(exp.Cast(this=literal.copy(), to=exp.DataType.build(kind, dialect="spark")))
                break


def _is_difference_of_timestamps(node: exp.Expr, types: Mapping[str, SqlType]) -> bool:
    """Return whether an expression is an interval in both dialects; a difference of dates is a number in one."""
    kinds = [_kind(side, types) for side in (node.this, node.expression)]
    return isinstance(node, exp.Sub) and all(kind in ("timestamp", "timestamp_ntz") for kind in kinds)


def _is_compared_with(node: exp.Expr, kind: str, types: Mapping[str, SqlType]) -> bool:
    parent = node.parent
    if not isinstance(parent, exp.Binary | exp.Between | exp.In):
        return False
    return any(_kind(each, types) == kind for each in parent.iter_expressions() if each is not node)


def _check_cast(node: exp.Cast, types: Mapping[str, SqlType]) -> None:
    given, name = _kind(node.this, types), _kind(node, types)
    widened = given in _WHOLE and (name in _FRACTIONS or name in _WHOLE or name == "string")
    widened = widened or (given in _FRACTIONS and name in ("double", "decimal"))
    dated = given in ("date", "timestamp", "timestamp_ntz") and name == "date"
    literal = isinstance(node.this, exp.Literal) and name in (*_TIMES, *_FRACTIONS)
    if not (widened or dated or literal or given == name or (given == "string" == name)):
        raise not_supported(
            f"{_shown(node)} over streams is not supported",
            "PostgreSQL and Spark may convert the value differently. Compare the column as it is.",
        )


_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "bigint", exp.Avg: "double", exp.Stddev: "double", exp.StddevSamp: "double", exp.StddevPop: "double",
    exp.Variance: "double", exp.VariancePop: "double", exp.Length: "int", exp.Extract: "int", exp.Lower: "string",
    exp.Upper: "string", exp.DPipe: "string", exp.TimestampTrunc: "timestamp", exp.DateTrunc: "timestamp",
    exp.CurrentDate: "date", exp.CurrentTimestamp: "timestamp",
}  # fmt: skip
_CASTS = {
    "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint", "FLOAT": "float", "DOUBLE": "double",
    "DECIMAL": "decimal", "TEXT": "string", "VARCHAR": "string", "DATE": "date", "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp", "BOOLEAN": "boolean",
}  # fmt: skip


def _kind(node: exp.Expr, types: Mapping[str, SqlType]) -> str | None:  # noqa: PLR0911 - as above
    """Return the kind of type that an expression has, None if it is not certain."""
    if type(node) in _AGGREGATES:
        return _AGGREGATES[type(node)]
    if isinstance(node, exp.Column):
        found = types.get(node.name.lower())
        return found.kind if found is not None else None
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else "bigint" if node.name.isdigit() else "decimal"
    if isinstance(node, exp.Cast):
        kind = node.to.this
        return _CASTS.get(str(getattr(kind, "name", kind)))
    if isinstance(
        node,
        exp.Paren | exp.Neg | exp.Abs | exp.Filter | exp.Sum | exp.Min | exp.Max | exp.Nullif | exp.Coalesce,
    ):
        return _kind(node.this, types)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod | exp.Div):
        kinds = {_kind(node.this, types), _kind(node.expression, types)}
        if None in kinds:
            return None
        return next((kind for kind in ("double", "float", "decimal") if kind in kinds), "bigint")
    if isinstance(node, exp.Case):
        kinds = {_kind(each.args["true"], types) for each in node.args["ifs"]} | (
            {_kind(node.args["default"], types)} if node.args.get("default") else set()
        )
        return kinds.pop() if len(kinds) == 1 else None
    return None


def _own_function(node: exp.Expr) -> bool:
    """Return whether a call is one of our functions: eddyline.low(n), eddyline.high(n)."""
    inner = node.expression
    return (
        isinstance(node.this, exp.Identifier)
        and node.this.name.lower() == "eddyline"
        and isinstance(inner, exp.Anonymous)
        and inner.name.lower() in ("low", "high")
        and len(inner.expressions) == 1
    )


def _outputs(select: exp.Select) -> tuple[list[Output], list[exp.Expr]]:
    """Return the columns of the result, and those to ask of the streams, each with its own name."""
    aggregates: dict[str, str] = {}
    outputs: list[Output | tuple[str, Part, str]] = []
    items: list[exp.Expr] = []
    taken: set[str] = set()
    grouped = {c.name.lower() for g in [select.args.get("group")] if g for c in g.find_all(exp.Column)}
    for item in select.expressions:
        if item.is_star:
            items.append(item.copy())
            continue
        own = _interval_item(item, grouped)
        if own is not None:
            outputs.append(own)
            continue
        inner, name = item.unalias(), _name_of(item)
        unique, number = name, 2
        while unique.lower() in taken:
            unique, number = f"{name}_{number}", number + 1
        taken.add(unique.lower())
        is_aggregate = inner.find(exp.AggFunc) is not None
        items.append(exp.alias_(inner.copy(), unique, quoted=True))
        outputs.append(
            Output(name, "value" if is_aggregate else "group", unique, isinstance(inner, exp.Count))
        )
        if is_aggregate:
            aggregates[name.lower()] = unique
            aggregates[inner.sql("spark").lower()] = unique
    found = [each if isinstance(each, Output) else _end(each, aggregates) for each in outputs]
    if not aggregates and (select.args.get("distinct") or select.args.get("group")) and items:
        _count_groups(select, items)
    return found, items


def _name_of(item: exp.Expr) -> str:
    if isinstance(item, exp.Alias):
        alias = item.args["alias"]
        return str(alias.name if alias.quoted else alias.name.lower())
    return str(column_name(item))


def _interval_item(item: exp.Expr, grouped: set[str]) -> tuple[str, Part, str] | None:
    """Return the column of an interval that an item of SELECT asks for, with the aggregate that it belongs to."""
    inner = item.unalias()
    if isinstance(inner, exp.Dot) and _own_function(inner):
        argument = inner.expression.expressions[0]
        of = argument.name if isinstance(argument, exp.Column) else argument.sql("spark")
        part = _OWN[inner.expression.name.lower()]
        return (_name_of(item) if isinstance(item, exp.Alias) else part), part, of.lower()
    if not isinstance(inner, exp.Column) or inner.table or inner.name.lower() in grouped:
        return None
    name = inner.name.lower()
    for ending, part in _ENDS.items():
        if name.endswith(ending):
            return _name_of(item), part, name.removesuffix(ending)
    if name in ("exact", "note"):
        return _name_of(item), _OWN[name], ""
    return None


def _end(asked: tuple[str, Part, str], aggregates: Mapping[str, str]) -> Output:
    name, part, of = asked
    if part in ("exact", "note"):
        return Output(name, part)
    if of not in aggregates:
        raise Refusal(
            "42703",
            f'column "{name}" does not exist',
            hint=f'It would be an end of the interval of "{of}": select an aggregate AS {of}.',
        )
    return Output(name, part, aggregates[of])


def _count_groups(select: exp.Select, items: list[exp.Expr]) -> None:
    """Add a COUNT(*) to groups without an aggregate; DISTINCT columns are groups, too."""
    if select.args.get("distinct"):
        if select.args["distinct"].args.get("on"):
            raise not_supported("DISTINCT ON over streams is not supported")
        select.set("distinct", None)
        columns = [item.unalias().copy() for item in items]
        select.set("group", exp.Group(expressions=columns))
    items.append(exp.alias_(exp.Count(this=exp.Star()), HIDDEN))


def _free_limit(select: exp.Select) -> int | None:
    """Remove the LIMIT of a query whose rows have no order: any rows satisfy it."""
    limit = select.args.get("limit")
    if limit is None or (
        select.args.get("order") and limit.expression.name != "0" and select.args.get("group")
    ):
        return None
    if not isinstance(limit, exp.Limit) or not isinstance(limit.expression, exp.Literal):
        raise not_supported("LIMIT takes a whole number")
    select.set("limit", None)
    if not select.args.get("group"):
        select.set("order", None)  # one row
    return int(limit.expression.name)


def _shown(node: exp.Expr) -> str:
    text = node.sql(dialect="postgres")
    return repr(text if len(text) <= 80 else text[:77] + "...")
