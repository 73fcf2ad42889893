"""Translates a question about streams from PostgreSQL's SQL to Spark's, which our aggregates use.

Only what means the same in both is translated; everything else is refused, with the part at fault. Columns such as
`n_low` are removed from the SQL: they come with the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from eddyline.serve.postgres.dialect.kinds import RelationKinds, annotate
from eddyline.serve.postgres.dialect.spark_forms import own_function, quoted, spark_form
from eddyline.serve.postgres.dialect.to_duckdb import column_name, rewritten
from eddyline.serve.postgres.refusals import Refusal, not_supported

OutputPart = Literal["group", "value", "low", "high", "exact", "note"]
_ENDS: dict[str, OutputPart] = {"_low": "low", "_high": "high"}
_OWN: dict[str, OutputPart] = {"low": "low", "high": "high", "exact": "exact", "note": "note"}
HIDDEN = "eddyline_rows"
"""The name of a COUNT(*) that is added to groups without an aggregate, and not shown."""


@dataclass(frozen=True)
class Output:
    """A column of the result: the name that the client sees, and which column of the answer it is."""

    name: str
    part: OutputPart
    of: str = ""
    counted: bool = False


@dataclass(frozen=True)
class StreamQuestion:
    """A question about streams: Spark's SQL, the columns of the result, and a limit of rows.

    limit: a LIMIT without an order, which any rows satisfy.
    """

    text: str
    outputs: tuple[Output, ...]
    limit: int | None = None


def question_of(tree: exp.Expr, relations: RelationKinds) -> StreamQuestion:
    """Return the question that a query asks, or raise Refusal if its meaning in Spark's SQL is not certain.

    relations: the types of the columns of streams and views.
    """
    if not isinstance(tree, exp.Select):
        raise not_supported(
            f"{quoted(tree)} over streams is not supported", "Ask SELECT with aggregates over streams."
        )
    select = _prepared(tree, relations)
    assert isinstance(select, exp.Select)
    outputs, items = _outputs(select)
    select.set("expressions", items)
    limit = _free_limit(select)
    return StreamQuestion(_spark_text(select), tuple(outputs), limit)


_PARTS_AROUND = (
    exp.With, exp.Window, exp.Offset, exp.CurrentDate, exp.CurrentTimestamp, exp.Union, exp.Intersect, exp.Except,
    exp.Rollup, exp.Cube, exp.GroupingSets, exp.Lateral,
)  # fmt: skip


def is_around(tree: exp.Expr) -> bool:
    """Return whether a query has parts around aggregates: WITH, window functions, ROLLUP, several SELECTs, the time."""
    return tree.find(*_PARTS_AROUND) is not None or len(list(tree.find_all(exp.Select))) > 1


def text_around(tree: exp.Expr, relations: RelationKinds) -> tuple[str, dict[str, str]]:
    """Return Spark's SQL of a query with parts around aggregates, or raise Refusal if its meaning is unclear.

    Also returns the names of columns that the result has under other names, because two of them have the same.
    """
    made = _prepared(tree, relations)
    outer = made.find(exp.Select)
    shown_as: dict[str, str] = {}
    for select in made.find_all(exp.Select):
        taken, items = set[str](), []
        for item in select.expressions:
            name = unique = _name_of(item)
            number = 2
            while select is outer and unique.lower() in taken:
                unique, number = f"{name}_{number}", number + 1
            taken.add(unique.lower())
            if unique != name:
                shown_as[unique] = name
            is_named = item.is_star or (isinstance(item, exp.Alias | exp.Column) and select is not outer)
            items.append(item if is_named else exp.alias_(item.unalias(), unique, quoted=True))
        select.set("expressions", items)
    return _spark_text(made), shown_as


def _spark_text(tree: exp.Expr) -> str:
    """Return Spark's SQL, or raise Refusal for what the generator would leave out."""
    try:
        text: str = tree.sql(dialect="spark", unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise not_supported(str(error).rstrip(".")) from error
    return text


def _prepared(tree: exp.Expr, relations: RelationKinds) -> exp.Expr:
    """Return a copy of a query in Spark's form."""
    copied = tree.copy()
    _without_schemas(copied)
    _name_outputs(copied)
    made = rewritten(copied, _plain)
    annotate(made, relations)
    return spark_form(made)


def _name_outputs(tree: exp.Expr) -> None:
    """Name the columns of the result as PostgreSQL does, before functions are rewritten to Spark's."""
    select = tree.find(exp.Select)
    for item in list(select.expressions) if select is not None else []:
        if not isinstance(item, exp.Alias | exp.Column | exp.Dot) and not item.is_star:
            item.replace(exp.alias_(item.copy(), column_name(item), quoted=True))


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
    if isinstance(node, exp.Fetch):
        options = node.args.get("limit_options")
        if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
            return exp.Limit(expression=node.args["count"].copy())
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.Literal):
        return node.this.copy()
    return node


def _outputs(select: exp.Select) -> tuple[list[Output], list[exp.Expr]]:
    """Return the columns of the result, and those to ask of the streams, each with its own name."""
    aggregates: dict[str, str] = {}
    outputs: list[Output | tuple[str, OutputPart, str]] = []
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


def _interval_item(item: exp.Expr, grouped: set[str]) -> tuple[str, OutputPart, str] | None:
    """Return the column of an interval that an item of SELECT asks for, with the aggregate that it belongs to."""
    inner = item.unalias()
    if isinstance(inner, exp.Dot) and own_function(inner):
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


def _end(asked: tuple[str, OutputPart, str], aggregates: Mapping[str, str]) -> Output:
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
