"""The type that each expression of a query has in PostgreSQL, on which its meaning in Spark's SQL depends.

`7 / 2` is 3 in PostgreSQL and 3.5 in Spark, `SUM(n) / 2` has a fraction in PostgreSQL if n is a bigint and none if it
is an int. Kinds are the names of PostgreSQL's types; None where the type is not certain.
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from eddyline.serve.postgres.dialect.to_duckdb import column_name

WHOLE = ("smallint", "int", "bigint")
FLOATS = ("real", "double")
FRACTIONS = ("numeric", *FLOATS)
TIME_KINDS = ("date", "timestamp", "timestamptz")
_ORDER = (*WHOLE, *FRACTIONS)
"""Of two numbers, the later kind is that of their sum."""
_KEY = "kind"

_TYPES = {
    "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint", "FLOAT": "real", "DOUBLE": "double",
    "DECIMAL": "numeric", "TEXT": "text", "VARCHAR": "text", "CHAR": "text", "DATE": "date", "BOOLEAN": "boolean",
    "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamptz", "INTERVAL": "interval",
}  # fmt: skip
_FIXED: dict[type[exp.Expr], str] = {
    exp.Count: "bigint", exp.RowNumber: "bigint", exp.Rank: "bigint", exp.DenseRank: "bigint", exp.Ntile: "int",
    exp.PercentRank: "double", exp.CumeDist: "double", exp.Corr: "double", exp.CovarPop: "double",
    exp.CovarSamp: "double", exp.RegrSlope: "double", exp.RegrIntercept: "double", exp.RegrR2: "double",
    exp.PercentileCont: "double", exp.Length: "int", exp.StrPosition: "int", exp.Extract: "numeric",
    exp.Lower: "text", exp.Upper: "text", exp.DPipe: "text", exp.Concat: "text", exp.ConcatWs: "text",
    exp.Substring: "text", exp.Left: "text", exp.Right: "text", exp.Trim: "text", exp.Pad: "text",
    exp.Replace: "text", exp.Reverse: "text", exp.Repeat: "text", exp.TimeToStr: "text", exp.CurrentDate: "date",
    exp.CurrentTimestamp: "timestamptz", exp.Interval: "interval", exp.Boolean: "boolean", exp.SplitPart: "text",
    exp.Translate: "text", exp.MD5: "text", exp.RegexpReplace: "text", exp.GroupConcat: "text",
    exp.LogicalAnd: "boolean", exp.LogicalOr: "boolean", exp.StrToDate: "date", exp.StrToTime: "timestamptz",
    exp.UnixToTime: "timestamptz", exp.IntDiv: "bigint",
}  # fmt: skip
_OF_ARGUMENT = (
    exp.Paren, exp.Neg, exp.Abs, exp.Filter, exp.Window, exp.Min, exp.Max, exp.Nullif, exp.Lag, exp.Lead,
    exp.FirstValue, exp.LastValue, exp.NthValue, exp.Alias, exp.Ordered, exp.Distinct,
)  # fmt: skip
_MEANS = (exp.Avg, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop)
_FUNCTIONS = (
    exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.Sign, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Pow,
)  # fmt: skip


def kind_of(node: exp.Expr | None) -> str | None:
    """Return the kind of a part of a query that `annotate` has seen, None if it is not certain."""
    return node.meta.get(_KEY) if node is not None else None


def with_kind(node: exp.Expr, kind: str | None) -> exp.Expr:
    """Return a node that stands for one of a kind."""
    node.meta[_KEY] = kind
    return node


RelationKinds = Mapping[str, Mapping[str, str | None]]
"""The kinds of the columns of streams and views, by the names of both."""


def kinds_of(schema: pa.Schema) -> dict[str, str | None]:
    """Return the kinds of the columns of a relation by name."""
    return {field.name.lower(): _of_arrow(field.type) for field in schema}


def _of_arrow(kind: pa.DataType) -> str | None:
    names = {"int8": "smallint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "real",
             "double": "double", "string": "text", "bool": "boolean", "date32[day]": "date"}  # fmt: skip
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return Numeric.of(kind.precision) if pa.types.is_decimal(kind) else names.get(str(kind))


class Numeric(str):
    """The kind of a numeric column, with its number of digits."""

    __slots__ = ("digits",)
    digits: int

    @classmethod
    def of(cls, digits: int) -> "Numeric":
        """Return the kind of a column."""
        made = cls("numeric")
        made.digits = digits
        return made


def annotate(tree: exp.Expr, relations: RelationKinds) -> None:
    """Note the kind of every part of a query.

    A column without a table has a kind only if all that its name may stand for agree: columns of all relations that
    the query reads, and its own names.
    """
    names = _Names(tree, relations)
    nodes = list(reversed(list(tree.walk())))
    for _ in range(len(nodes)):  # a name may stand for an expression of names that are resolved later
        before = [kind_of(node) for node in nodes]
        for node in nodes:
            node.meta[_KEY] = names.kind(node) if isinstance(node, exp.Column) else _kind(node)
        if [kind_of(node) for node in nodes] == before:
            return


class _Names:
    """What the names in a query stand for."""

    def __init__(self, tree: exp.Expr, relations: RelationKinds) -> None:
        self.relations = relations
        self.queries = {each.alias.lower(): each for each in tree.find_all(exp.CTE)}

    def kind(self, column: exp.Column) -> str | None:
        kinds = set(self._kinds(column, column.table.lower(), column.name.lower()))
        return kinds.pop() if len(kinds) == 1 else None

    def _kinds(self, column: exp.Column, table: str, name: str) -> Iterable[str | None]:
        """Return the kinds that a column may have: of a name in ORDER BY, in the nearest FROM, or of a result."""
        order = column.parent.parent if isinstance(column.parent, exp.Ordered) else None
        named = self._of_items(order.parent, name) if isinstance(order, exp.Order) and not table else ()
        if found := list(named):
            return found
        scope = column.parent_select
        while scope is not None:
            if found := list(self._of_sources(scope, table, name)):
                return found
            scope = scope.parent_select
        return list(self._of_items(column.parent_select, name)) if not table else []

    def _of_items(self, query: exp.Expr | None, name: str) -> Iterator[str | None]:
        """Yield the kinds of the results of a query that have a name; of a UNION, those of its first SELECT."""
        for each in getattr(query, "selects", []):
            is_itself = isinstance(each.unalias(), exp.Column) and each.unalias().name.lower() == name
            if isinstance(each, exp.Alias) and each.alias.lower() == name and not is_itself:
                yield kind_of(each)

    def _of_sources(self, select: exp.Expr, table: str, name: str) -> Iterator[str | None]:
        first = select.args.get("from_")
        others = [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]
        for each in [first, *others] if first is not None else others:
            source = each if isinstance(each, exp.Lateral) else each.this
            if not table or source.alias_or_name.lower() == table:
                yield from self._of_source(source, name)

    def _of_source(self, source: exp.Expr, name: str) -> Iterator[str | None]:
        """Yield the kinds of a column of what a FROM reads."""
        alias = source.args.get("alias")
        renamed = [each.name.lower() for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
        inner = source.this if isinstance(source, exp.Lateral | exp.Table) else source
        if isinstance(inner, exp.Subquery):
            yield from self._of_query(inner.this, name, renamed)
        elif isinstance(inner, exp.Values):
            rows = [list(each.expressions) for each in inner.expressions if isinstance(each, exp.Tuple)]
            if name in renamed and (place := renamed.index(name)) < min(map(len, rows), default=0):
                yield _common([row[place] for row in rows])
        elif isinstance(inner, exp.GenerateSeries | exp.ExplodingGenerateSeries):
            if name in (renamed or [source.alias.lower()]):
                kind = _common([inner.args.get("start"), inner.args.get("end")])
                yield {"date": "timestamptz"}.get(str(kind), kind)
        elif isinstance(source, exp.Table) and (query := self._named_query(source)) is not None:
            columns = query.args["alias"].columns if query.args.get("alias") else []
            yield from self._of_query(query.this, name, renamed or [each.name.lower() for each in columns])
        elif isinstance(source, exp.Table) and not renamed:
            relation = self.relations.get(source.name.lower(), {})
            if name in relation:
                yield relation[name]
        elif name in renamed:
            yield None

    def _named_query(self, table: exp.Table) -> exp.CTE | None:
        """Return the query of WITH that a table name means; inside of it, its own name means a relation."""
        found = self.queries.get(table.name.lower())
        return None if found is not None and found is table.find_ancestor(exp.CTE) else found

    def _of_query(self, query: exp.Expr, name: str, renamed: list[str]) -> Iterator[str | None]:
        items: list[exp.Expr] = getattr(query, "selects", [])
        if renamed:
            if name in renamed:
                place = renamed.index(name)
                has = place < len(items) and not any(each.is_star for each in items[: place + 1])
                yield kind_of(items[place]) if has else None
            return
        for each in items:
            if each.is_star:
                table = each.table.lower() if isinstance(each, exp.Column) else ""
                yield from self._of_sources(query, table, name)
            elif each.alias_or_name.lower() == name or _is_function_called(each, name):
                yield kind_of(each)


def _is_function_called(item: exp.Expr, name: str) -> bool:
    """Return whether an item without an alias gets a name from its function, as `count`."""
    return not isinstance(item, exp.Alias | exp.Column) and column_name(item) == name


def _kind(node: exp.Expr) -> str | None:  # noqa: C901, PLR0911, PLR0912 - a case for each kind of node
    """Return the kind of a node whose parts are noted."""
    if type(node) in _FIXED:
        return _FIXED[type(node)]
    if isinstance(node, exp.Predicate | exp.And | exp.Or | exp.Not):
        return "boolean"
    if isinstance(node, exp.Literal):
        return None if node.is_string else _of_number(node.name)
    if isinstance(node, exp.Cast):
        kind = node.to.this
        return _TYPES.get(str(getattr(kind, "name", kind)))
    if isinstance(node, _OF_ARGUMENT):
        return kind_of(node.this)
    if isinstance(node, exp.Sum):
        summed = kind_of(node.this)
        return {"smallint": "bigint", "int": "bigint", "bigint": "numeric"}.get(str(summed), summed)
    if isinstance(node, _MEANS):
        return {"real": "double", "double": "double", None: None}.get(kind_of(node.this), "numeric")
    if isinstance(node, exp.Round | exp.Trunc) and node.args.get("decimals") and kind_of(node.this) in WHOLE:
        return "numeric"
    if isinstance(node, _FUNCTIONS):
        return "numeric" if kind_of(node.this) == "numeric" else "double" if kind_of(node.this) else None
    if isinstance(node, exp.WithinGroup):
        return (
            kind_of(node.expression.find(exp.Ordered))
            if isinstance(node.this, exp.PercentileDisc)
            else kind_of(node.this)
        )
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        return _of_arithmetic(node)
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return {"date": "timestamptz"}.get(str(kind_of(node.this)), kind_of(node.this))
    if isinstance(node, exp.Case):
        return _common([*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")])
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        return _common([node.this, *node.expressions])
    if isinstance(node, exp.Subquery):
        return kind_of(node.this)
    if isinstance(node, exp.Select):
        return kind_of(node.expressions[0]) if len(node.expressions) == 1 else None
    return None


def _of_number(digits: str) -> str:
    if not digits.isdigit():
        return "numeric"
    return "int" if int(digits) < 1 << 31 else "bigint" if int(digits) < 1 << 63 else "numeric"


def _of_arithmetic(node: exp.Binary) -> str | None:
    left, right = kind_of(node.left), kind_of(node.right)
    if left in _ORDER and right in _ORDER:
        return _ORDER[max(_ORDER.index(left), _ORDER.index(right))]
    if isinstance(node, exp.Add | exp.Sub) and left in TIME_KINDS:
        if right == "interval":
            return "timestamp" if left == "date" else left
        if right in WHOLE and left == "date":
            return "date"
        if isinstance(node, exp.Sub) and right == left:
            return "int" if left == "date" else "interval"
    return None


def _common(nodes: Iterable[exp.Expr | None]) -> str | None:
    """Return the kind of CASE or COALESCE: that of all its values that are not NULL or a string without a type."""
    kinds = set()
    for node in nodes:
        is_open = (
            node is None or isinstance(node, exp.Null) or (isinstance(node, exp.Literal) and node.is_string)
        )
        if not is_open:
            kinds.add(kind_of(node))
    if len(kinds) > 1 and all(kind in _ORDER for kind in kinds):
        return _ORDER[max(_ORDER.index(str(kind)) for kind in kinds)]
    return kinds.pop() if len(kinds) == 1 else None
