"""Parses a query to a tree with resolved names, in which aggregates read streams directly.

Planned queries are read as views. now() and current_date are the time of the answer. A WITH or a subquery in FROM that
only selects and filters rows of streams is merged into the query that reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.qualify import qualify

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.clauses import check_double_quotes, spelled_for_parser
from eddyline.sql.expressions import fragment, unparenthesised
from eddyline.sql.parse import MAX_LENGTH, MAX_NODES, parser_reason
from eddyline.sql.query import ENDS
from eddyline.types import Column

END_OF = {"_low": "eddyline_low", "_high": "eddyline_high"}
"""The functions that represent the ends of an aggregate's interval."""
_Query = TypeVar("_Query", bound=exp.Query)
_OUTER = ("LEFT", "RIGHT", "FULL")
_NOW = (exp.CurrentTimestamp, exp.CurrentDatetime, exp.Localtimestamp)
_NAMED_NOW = {"now", "current_timestamp", "localtimestamp"}
_NAMED_TODAY = {"current_date", "curdate"}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True)
class Scene:
    """What a query may read: streams, planned queries as views, and the time of the answer in the plan's zone.

    together: its parts are asked so that all of their intervals hold together.
    """

    streams: Mapping[str, tuple[Column, ...]]
    views: Mapping[str, str] = field(default_factory=dict)
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    timezone: str | None = None
    together: bool = False

    def stream(self, name: str) -> str | None:
        """Return the declared name of a stream, whatever case it is written in."""
        return next((each for each in self.streams if each.lower() == name.lower()), None)

    def view(self, name: str) -> str | None:
        """Return the name of the planned query that a table name means."""
        return next((each for each in self.views if each.lower() == name.lower()), None)


def parse_statement(text: str) -> exp.Query:
    """Return the tree of one query, or raise SqlError."""
    if len(text) > MAX_LENGTH:
        raise SqlError(f"the query is {len(text):,} characters long; at most {MAX_LENGTH:,} are read.")
    try:
        statements = sqlglot.parse(spelled_for_parser(text), dialect="spark")
    except (SqlglotError, ValueError) as error:
        raise SqlError(f"the query cannot be read as Spark SQL: {parser_reason(error)}.") from error
    if len(statements) != 1 or statements[0] is None:
        raise SqlError(
            f"one query is expected and {sum(each is not None for each in statements)} were given."
        )
    statement = statements[0]
    if sum(1 for _ in statement.walk()) > MAX_NODES:
        raise SqlError(f"the query has more than {MAX_NODES:,} parts; split it.")
    while isinstance(statement, exp.Subquery) and not statement.alias:
        statement = statement.this
    if not isinstance(statement, exp.Select | exp.SetOperation):
        raise UnsupportedQuery(f"{fragment(statement)!r} is not a query: write a SELECT.")
    return statement


def output_names(query: exp.Query) -> list[str] | None:
    """Return the names of a query's columns as they are written; None where it selects a star."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    names = []
    for item in query.expressions:
        if item.is_star and not isinstance(item, exp.Count):
            return None
        node = unparenthesised(item)
        names.append(item.alias if isinstance(item, exp.Alias) else _own_name(node))
    return names


def _own_name(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Column) else fragment(node)


def resolved(query: exp.Query, text: str, scene: Scene) -> exp.Query:
    """Return a query with its names resolved, and its views, times and subqueries of rows replaced."""
    query = _with_views(query.copy(), scene)
    check_double_quotes(text, query, [column for columns in scene.streams.values() for column in columns])
    query = with_times(query, scene)
    _check_shadowed(query)
    _name_ends(query)
    schema: dict[str, object] = {
        name.lower(): {column.name.lower(): str(column.type) for column in columns}
        for name, columns in scene.streams.items()
    }
    try:
        made = qualify(query, schema=schema, dialect="spark", validate_qualify_columns=True)
    except SqlglotError as error:
        raise SqlError(f"{parser_reason(error)}.") from error
    return _merged(made, scene)


def _with_views(query: exp.Query, scene: Scene) -> exp.Query:
    """Return a query in which the SQL of planned queries replaces their names."""
    known = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in list(query.find_all(exp.Table)):
        name = table.name
        if table.db or table.catalog:
            raise SqlError(f"{fragment(table)!r}: name a stream or a planned query alone, without a schema.")
        if name.lower() in known or scene.stream(name) is not None:
            continue
        view = scene.view(name)
        if view is None and not name:
            raise UnsupportedQuery(f"{fragment(table)!r} in FROM is not a stream or a planned query.")
        if view is None:
            raise SqlError(_no_table(table, scene))
        body = _with_views(parse_statement(scene.views[view]), scene)
        if len(body.selects) == 1 and not body.selects[0].alias and isinstance(body, exp.Select):
            body.set("expressions", [exp.alias_(body.selects[0].copy(), view)])
        table.replace(
            exp.Subquery(this=body, alias=exp.TableAlias(this=exp.to_identifier(table.alias_or_name)))
        )
    return query


def _name_ends(query: exp.Query) -> None:
    """Replace n_low and n_high, where a query reads them, by the ends of the aggregate with the alias n."""
    for column in list(query.find_all(exp.Column)):
        name = column.name.lower()
        end = next((each for each in ENDS if name.endswith(each)), None)
        if end is None:
            continue
        base, own = name.removesuffix(end), column.find_ancestor(exp.Select)
        for select in query.find_all(exp.Select):
            aliases = {item.alias.lower(): item for item in select.expressions if isinstance(item, exp.Alias)}
            measure = aliases.get(base)
            if measure is None or name in aliases or not measure.find(exp.AggFunc):
                continue
            made = exp.Anonymous(this=END_OF[end], expressions=[measure.this.copy()])
            if select is own and not column.table:
                inside = isinstance(column.parent, exp.Select)
                column.replace(exp.alias_(made, column.name) if inside else made)
            else:
                select.append("expressions", exp.alias_(made, name))


def _no_table(table: exp.Table, scene: Scene) -> str:
    queries = f"; the planned queries are {', '.join(scene.views)}" if scene.views else ""
    return f"there is no stream or planned query {table.name!r}: the streams are {', '.join(scene.streams)}{queries}."


def _check_shadowed(query: exp.Query) -> None:
    """Raise SqlError where HAVING names an alias that hides a column of the streams: Spark and others differ."""
    for select in query.find_all(exp.Select):
        having = select.args.get("having")
        if having is None:
            continue
        aliases = {
            item.alias.lower()
            for item in select.expressions
            if isinstance(item, exp.Alias)
            and any(
                column.name.lower() == item.alias.lower() and item.this is not column
                for column in item.this.find_all(exp.Column)
            )
        }
        for column in having.find_all(exp.Column):
            if not column.table and column.name.lower() in aliases:
                raise SqlError(
                    f"{fragment(column)!r} in HAVING may be the column or the alias of that name: give another alias."
                )


def is_rows_only(node: exp.Expr) -> bool:
    """Return whether a query selects and filters rows, without an aggregate, a window, an order or a limit."""
    if not isinstance(node, exp.Select):
        return False
    allowed = {"expressions", "from_", "joins", "where", "kind", "hint"}
    if any(value for name, value in node.args.items() if name not in allowed):
        return False
    return node.args.get("from_") is not None and not any(
        item.find(exp.AggFunc, exp.Window, exp.Query) for item in node.expressions
    )


def reads_streams_alone(select: exp.Select, scene: Scene, ctes: set[str]) -> bool:
    """Return whether every relation of FROM is a stream."""
    relations = list(relations_of_from(select))
    return bool(relations) and all(
        isinstance(each, exp.Table) and each.name.lower() not in ctes and scene.stream(each.name) is not None
        for each in relations
    )


def relations_of_from(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the relations of FROM and of its joins."""
    begin = select.args.get("from_")
    if begin is not None:
        yield begin.this
        yield from (nested.this for nested in begin.this.args.get("joins") or ())
    for join in select.args.get("joins") or ():
        yield join.this


def _merged(query: exp.Query, scene: Scene) -> exp.Query:
    """Return a query in which subqueries that only select rows are part of the query that reads them."""
    query = _with_row_ctes_inlined(query, scene)
    rows = [
        each
        for each in query.find_all(exp.Subquery)
        if isinstance(each.parent, exp.From | exp.Join) and is_rows_only(each.this)
    ]
    if not rows:
        return query
    for each in rows:
        _check_mergeable(each)
    merged: exp.Query = merge_subqueries(query)
    return merged


def _check_mergeable(subquery: exp.Subquery) -> None:
    """Raise UnsupportedQuery where an outer join would replace what the subquery computes by NULL."""
    select = subquery.find_ancestor(exp.Select)
    sides = [join.side for join in (select.args.get("joins") or ())] if select is not None else []
    if any(side in _OUTER for side in sides) and any(
        not isinstance(unparenthesised(item.unalias()), exp.Column) for item in subquery.this.expressions
    ):
        raise UnsupportedQuery(
            f"{fragment(subquery)!r} computes columns and is part of an outer join: select its columns as they are, "
            "and compute in the query around it."
        )


def _with_row_ctes_inlined(query: exp.Query, scene: Scene) -> exp.Query:
    """Return a query without the parts of its WITH that only select rows."""
    for cte in list(query.find_all(exp.CTE)):
        if not is_rows_only(cte.this):
            continue
        name = cte.alias.lower()
        for table in list(query.find_all(exp.Table)):
            if table.name.lower() == name and not (
                scene.stream(name) and table.find_ancestor(exp.CTE) is cte
            ):
                alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
                table.replace(exp.Subquery(this=cte.this.copy(), alias=alias))
        clause = cte.parent
        cte.pop()
        if isinstance(clause, exp.With) and not clause.expressions:
            clause.pop()
    return query


def with_times(query: _Query, scene: Scene) -> _Query:
    """Return a query with the time of the answer for now() and current_date, and with folded sums of constants."""
    zone = ZoneInfo(scene.timezone or "UTC")
    kinds = {
        column.name.lower(): column.type.kind for columns in scene.streams.values() for column in columns
    }

    def place(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.CurrentDate) or _is_named(node, _NAMED_TODAY):
            return _date(scene.now.astimezone(zone).date())
        if isinstance(node, _NOW) or _is_named(node, _NAMED_NOW):
            local = isinstance(node, exp.Localtimestamp) or _meets(node, kinds, "timestamp_ntz")
            return _timestamp(scene.now.astimezone(zone), local=local)
        return node

    made: _Query = query.transform(place).transform(_folded)  # type: ignore[assignment]
    return made


def reads_now(query: exp.Expr) -> bool:
    """Return whether a query reads the time at which it is asked."""
    return any(
        isinstance(node, (exp.CurrentDate, *_NOW)) or _is_named(node, _NAMED_NOW | _NAMED_TODAY)
        for node in query.walk()
    )


def _is_named(node: exp.Expr, names: set[str]) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in names and not node.expressions


def _meets(node: exp.Expr, kinds: Mapping[str, str], kind: str) -> bool:
    """Return whether a value is compared with a column of this kind."""
    around = node.find_ancestor(exp.Predicate)
    columns = list(around.find_all(exp.Column)) if around is not None else []
    return bool(columns) and all(kinds.get(column.name.lower()) == kind for column in columns)


def _date(day: date) -> exp.Expr:
    return exp.cast(exp.Literal.string(day.isoformat()), "DATE", dialect="spark")


def _timestamp(moment: datetime, *, local: bool) -> exp.Expr:
    written = moment.replace(tzinfo=None).isoformat(" ")
    return exp.cast(exp.Literal.string(written), "TIMESTAMP_NTZ" if local else "TIMESTAMP", dialect="spark")


def _folded(node: exp.Expr) -> exp.Expr:
    """Return a date or time literal plus or minus an interval as one literal."""
    if isinstance(node, exp.TsOrDsAdd | exp.DateAdd | exp.DateSub):
        interval, unit = _whole_number(node.expression), (node.text("unit") or "day").lower()
        sign = -1 if isinstance(node, exp.DateSub) else 1
    elif isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        written = node.expression
        interval, unit = _whole_number(written.this), written.text("unit").lower().rstrip("s")
        sign = -1 if isinstance(node, exp.Sub) else 1
    else:
        return node
    start = unparenthesised(node.this)
    while isinstance(start, exp.TsOrDsToDate):
        start = unparenthesised(start.this)
    if interval is None or not isinstance(start, exp.Cast) or not isinstance(start.this, exp.Literal):
        return node
    return _moved(start, sign * interval, unit) or node


def _whole_number(node: exp.Expr | None) -> int | None:
    """Return a whole number as it is written, also a negative one or a product of two."""
    node = unparenthesised(node) if node is not None else None
    if isinstance(node, exp.Neg):
        inner = _whole_number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Mul):
        left, right = _whole_number(node.left), _whole_number(node.right)
        return None if left is None or right is None else left * right
    try:
        return int(node.name) if isinstance(node, exp.Literal) else None
    except ValueError:
        return None


def _moved(start: exp.Cast, number: int, unit: str) -> exp.Expr | None:
    """Return a literal moved by a number of units; None where its kind is not folded."""
    kind = start.to.this
    try:
        if kind == exp.DataType.Type.DATE:
            day = date.fromisoformat(start.this.name)
            if unit in _DAYS:
                return _date(day + timedelta(days=number * _DAYS[unit]))
            return _date(_months_later(day, number * _MONTHS[unit])) if unit in _MONTHS else None
        written = datetime.fromisoformat(start.this.name)
    except (ValueError, OverflowError):
        return None
    if written.tzinfo is not None:
        return None
    if unit in _SECONDS and kind == exp.DataType.Type.TIMESTAMPNTZ:
        moved = written + timedelta(seconds=number * _SECONDS[unit])
    elif unit in _DAYS:
        moved = written + timedelta(days=number * _DAYS[unit])
    elif unit in _MONTHS:
        moved = datetime.combine(_months_later(written.date(), number * _MONTHS[unit]), written.time())
    else:
        return None
    made = start.copy()
    made.set("this", exp.Literal.string(moved.isoformat(" ")))
    return made


def _months_later(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of that month, as Spark does."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    following = date(year + month // 11, (month + 1) % 12 + 1, 1)
    return date(year, month + 1, min(day.day, (following - timedelta(days=1)).day))


def shown(node: exp.Expr) -> str:
    """Return a node without the quotes and aliases that name resolution added."""
    made = node.copy()
    for identifier in made.find_all(exp.Identifier):
        identifier.set("quoted", not identifier.name.isidentifier())
    for alias in list(made.find_all(exp.Alias, exp.Table)):
        if isinstance(alias, exp.Alias) and alias.alias.startswith("_col_") and alias.parent is not None:
            alias.replace(alias.this)
        elif isinstance(alias, exp.Table) and alias.alias == alias.name:
            alias.set("alias", None)
    tables = {table.alias_or_name for table in made.find_all(exp.Table)}
    if len(tables) <= 1:
        for column in made.find_all(exp.Column):
            column.set("table", None)
    return fragment(made)
