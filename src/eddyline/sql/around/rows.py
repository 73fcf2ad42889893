"""Parses a query to a tree with resolved names, in which aggregates read streams directly.

Planned queries are read as views. now() and current_date are the time of the answer. A WITH or a subquery in FROM that
only selects and filters rows of streams is merged into the query that reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.qualify import qualify

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import fragment, unparenthesised
from eddyline.sql.around.now import with_times
from eddyline.sql.clauses import check_double_quotes, check_precedence, spelled_for_parser
from eddyline.sql.parse import MAX_LENGTH, MAX_NODES, parser_reason
from eddyline.sql.query import ENDS
from eddyline.types import Column

END_OF = {"_low": "eddyline_low", "_high": "eddyline_high"}
"""The functions that represent the ends of an aggregate's interval."""
_OUTER = ("LEFT", "RIGHT", "FULL")
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_MOST_SETS = 64
"""Most groupings of one GROUP BY: chosen; each is answered by a query of its own."""


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
    check_precedence(statement)
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
    query = with_times(query, scene.streams, scene.now, scene.timezone)
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
    _list_groupings(made)
    return _merged(made, scene)


def _with_views(query: exp.Query, scene: Scene) -> exp.Query:
    """Return a query in which the SQL of planned queries replaces their names."""
    known = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in list(query.find_all(exp.Table)):
        name = table.name
        if table.db or table.catalog:
            raise SqlError(f"{fragment(table)!r}: name a stream or a planned query alone, without a schema.")
        inside = table.find_ancestor(exp.CTE)
        around = inside.parent if inside is not None and inside.alias.lower() == name.lower() else None
        is_own = around is not None and not around.args.get("recursive")  # it means another relation
        if (name.lower() in known and not is_own) or scene.stream(name) is not None:
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


def _list_groupings(query: exp.Expr) -> None:
    """Write every ROLLUP and CUBE as the GROUPING SETS that it stands for, and GROUPING_ID as GROUPING."""
    for select in query.find_all(exp.Select):
        clause = select.args.get("group")
        if clause is None:
            continue
        parts = list(clause.expressions)
        for name, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
            if clause.args.get(name):  # GROUP BY a, b WITH ROLLUP
                parts = [kind(expressions=parts)]
        if not any(isinstance(each, _SETS) for each in parts):
            continue
        sets: list[tuple[exp.Expr, ...]] = [()]
        for part in parts:
            sets = [(*one, *two) for one in sets for two in _sets_of(part, select)]
            if len(sets) > _MOST_SETS:
                raise UnsupportedQuery(
                    f"{unquoted(clause)!r} asks for more than {_MOST_SETS} groupings at once: ask for fewer."
                )
        listed = [exp.Tuple(expressions=[each.copy() for each in dict.fromkeys(columns)]) for columns in sets]
        select.set("group", exp.Group(expressions=[exp.GroupingSets(expressions=listed)]))
        every = dict.fromkeys(each for columns in sets for each in columns)
        for call in list(select.find_all(exp.GroupingId)):
            if call.find_ancestor(exp.Select) is select:
                columns = call.expressions or list(every)
                call.replace(exp.Grouping(expressions=[each.copy() for each in columns]))


def _sets_of(part: exp.Expr, select: exp.Select) -> list[tuple[exp.Expr, ...]]:
    """Return the groupings that one part of GROUP BY stands for."""
    if isinstance(part, exp.GroupingSets):
        return [columns for each in part.expressions for columns in _sets_of(each, select)]
    if isinstance(part, exp.Rollup | exp.Cube):
        lists = [_sets_of(each, select)[0] for each in part.expressions]
        number = len(lists)
        if 2**number > _MOST_SETS if isinstance(part, exp.Cube) else number >= _MOST_SETS:
            raise UnsupportedQuery(
                f"{unquoted(part)!r} asks for more than {_MOST_SETS} groupings at once: ask for fewer."
            )
        kept: list[tuple[bool, ...]] = (
            list(product((True, False), repeat=number))
            if isinstance(part, exp.Cube)
            else [tuple(place < many for place in range(number)) for many in range(number, -1, -1)]
        )
        return [tuple(e for own, keep in zip(lists, each, strict=True) if keep for e in own) for each in kept]
    if isinstance(part, exp.Tuple):
        return [tuple(_position(each, select) for each in part.expressions)]
    return [(_position(part, select),)]


def _position(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return a column of GROUP BY; a number is a position in the SELECT list."""
    node = unparenthesised(node)
    if not (isinstance(node, exp.Literal) and node.is_int):
        return node
    if not 1 <= int(node.name) <= len(select.expressions):
        raise SqlError(f"position {node.name} is not in the SELECT list.")
    found: exp.Expr = select.expressions[int(node.name) - 1].unalias()
    return found


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


def unquoted(node: exp.Expr) -> str:
    """Return a node without the quotes and aliases that name resolution added."""
    made = node.transform(lambda each: each.meta["of"].copy() if "of" in each.meta else each)
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
            if not tables or column.table in tables:
                column.set("table", None)
    return fragment(made)
