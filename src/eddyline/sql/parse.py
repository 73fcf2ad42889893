"""Parses and checks a SQL statement, and rewrites other spellings of what is supported."""

import re
from collections.abc import Callable, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import PlanError, SqlError, UnsupportedQuery
from eddyline.expressions.nodes import fragment, operand, unparenthesised
from eddyline.expressions.typing import literal_number
from eddyline.sql.aggregates import filtered_count, read_aggregate, with_filter_in_where
from eddyline.sql.clauses import (
    check_clauses,
    check_double_quotes,
    check_precedence,
    rows_are_not_kept,
    spelled_for_parser,
)
from eddyline.sql.derived import with_derived_columns
from eddyline.sql.details import counts_distinct
from eddyline.sql.groups import is_grouped, read_group_query
from eddyline.sql.join_tree import with_constants_at_root
from eddyline.sql.joins import read_from
from eddyline.sql.linear import with_linear_measures_apart
from eddyline.sql.query import AnyQuery, Query
from eddyline.sql.sets import read_set_query
from eddyline.types import Column

# Alternative names, rewritten to the one that the rest of the reader supports.
#
# APPROX_COUNT_DISTINCT(x)  COUNT(DISTINCT x)
# COUNT_IF(c)               COUNT(*) FILTER (WHERE c)
# try_divide(a, b)          a / NULLIF(b, 0)
# dayofmonth(t)             day(t)
# date_part('field', t)     EXTRACT(field FROM t)


def with_plain_spellings(select: exp.Select) -> exp.Select:
    """Return a SELECT without alternative names."""
    made = select.copy()
    for node in reversed(list(made.walk())):  # inner nodes come first
        plain = _PLAIN[type(node)](node) if type(node) in _PLAIN else node
        if plain is not node:
            node.replace(plain)
    return made


def _distinct_count(node: exp.Expr) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[node.this]), big_int=True)


def _division(node: exp.Expr) -> exp.Expr:
    number = literal_number(node.expression)
    safe = number is not None and float(number) != 0
    divisor = node.expression if safe else exp.Nullif(this=node.expression, expression=exp.Literal.number(0))
    made = exp.Div(this=operand(node.this), expression=operand(divisor), typed=False, safe=True)
    return exp.Paren(this=made)


def _extraction(node: exp.Expr) -> exp.Expr:
    named = node.name.lower() in ("date_part", "datepart") and len(node.expressions) == 2
    if not named or not node.expressions[0].is_string:
        return node
    field, time = node.expressions
    return exp.Extract(this=exp.var(field.name.upper()), expression=time)


_PLAIN: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.ApproxDistinct: _distinct_count,
    exp.CountIf: filtered_count,
    exp.SafeDivide: _division,
    exp.DayOfMonth: lambda node: exp.Day(this=node.this),
    exp.Anonymous: _extraction,
}


# APPROX_TOP_K: the most frequent values of a column, read as the grouped query that returns them.
#
# SELECT APPROX_TOP_K(x, k) FROM ...
# SELECT x AS item, COUNT(*) AS count FROM ... GROUP BY x ORDER BY count DESC LIMIT k
#
# Spark returns one array of (item, count), and NULL is an item like any other; here they are the rows of a
# table. The number of items that Spark tracks is a size of its sketch. Ours has no such size, so the number
# is only checked.


ITEM, COUNT = "item", "count"
_DEFAULT_K, _DEFAULT_TRACKED, _MOST_TRACKED = 5, 10_000, 1_000_000
"""As in Spark."""


def with_top_k_grouped(select: exp.Select) -> exp.Select:
    """Return a SELECT of only APPROX_TOP_K as one with GROUP BY, and any other unchanged."""
    if not any(item.find(exp.ApproxTopK) for item in select.expressions):
        return select
    only = select.expressions[0]
    asked = unparenthesised(only.this if isinstance(only, exp.Alias) else only)
    if len(select.expressions) > 1 or select.args.get("group") or not isinstance(asked, exp.ApproxTopK):
        raise UnsupportedQuery(_not_alone(select))
    extra = [clause for clause in ("having", "order", "limit") if select.args.get(clause)]
    if extra:
        raise UnsupportedQuery(
            f"{fragment(asked)!r} with {extra[0].upper()}: APPROX_TOP_K is supported as a table with its own order and "
            "limit; leave the clause out, or group by the column yourself."
        )
    if isinstance(asked.this, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(asked)!r}: only COUNT takes it.")
    made = select.select(
        exp.alias_(asked.this.copy(), ITEM), exp.alias_(exp.Count(this=exp.Star()), COUNT), append=False
    )
    return made.group_by("1").order_by(exp.column(COUNT).desc()).limit(_limit(asked))


def _not_alone(select: exp.Select) -> str:
    """Return the message that refuses APPROX_TOP_K with other outputs, with what to write instead."""
    found = next(node for item in select.expressions for node in item.find_all(exp.ApproxTopK))
    group = select.args.get("group")
    groups = [fragment(part) for part in group.expressions] if group else []
    columns = ", ".join([*groups, fragment(found.this)])
    return (
        f"{fragment(found)!r} is supported as the only column of a query without GROUP BY: ask SELECT {columns}, "
        f"COUNT(*) AS {COUNT} ... GROUP BY {columns} ORDER BY {COUNT} DESC, and other aggregates in a query of their "
        "own."
    )


def _limit(asked: exp.ApproxTopK) -> int:
    """Return how many values are asked for, or raise UnsupportedQuery where Spark would refuse these numbers."""
    k = _number(asked, "expression", _DEFAULT_K)
    tracked = _number(asked, "counters", _DEFAULT_TRACKED)
    if not k <= tracked <= _MOST_TRACKED:
        raise UnsupportedQuery(
            f"{fragment(asked)!r}: the items that are tracked, {tracked:,}, must be at least k, which is {k:,}, and at "
            f"most {_MOST_TRACKED:,}."
        )
    return k


def _number(asked: exp.ApproxTopK, argument: str, default: int) -> int:
    given = asked.args.get(argument)
    if given is None:
        return default
    number = literal_number(given)
    if number is None or not number.isdigit() or int(number) < 1:
        raise UnsupportedQuery(
            f"{fragment(asked)!r}: k and the items that are tracked are whole numbers of 1 or more."
        )
    return int(number)


# SQL strings to queries: all steps, in order.


MAX_LENGTH = 100_000
MAX_NODES = 5_000


def parse_query(text: str, streams: Mapping[str, tuple[Column, ...]]) -> AnyQuery:
    """Return the query of a SQL string, or raise SqlError or UnsupportedQuery with the fragment at fault.

    >>> from eddyline.expressions.schema import parse_schema
    >>> parse_query("SELECT COUNT(*) FROM s WHERE x > 1", {"s": parse_schema("s", "x INT")}).relations[0].predicates
    ('`x` > 1',)
    """
    try:
        return _read(text, streams)
    except RecursionError as error:
        raise SqlError("the query is too deeply nested: use fewer levels.") from error


def _read(text: str, streams: Mapping[str, tuple[Column, ...]]) -> AnyQuery:
    select = with_linear_measures_apart(with_derived_columns(_parse_select(text), streams), streams)
    _check_aggregated(select)
    check_double_quotes(text, select, _columns_in_scope(select, streams))
    if is_grouped(select):
        return read_group_query(text, select, streams)
    sets = read_set_query(text, select, streams)
    if sets is not None:
        return sets
    check_clauses(select, {"expressions", "from_", "joins", "where"})
    relations, links, sources, conditions = read_from(select, streams)
    if conditions:  # they are read like groups; without groups the answer is one row
        return read_group_query(text, select, streams)
    aggregate = read_aggregate(select.expressions[0], sources)
    return Query.scalar(text, with_constants_at_root(aggregate, len(relations), links), relations, links)


def parse_by_values(text: str, streams: Mapping[str, tuple[Column, ...]]) -> Query | None:
    """Return COUNT(DISTINCT ...) as an aggregate of the single values of one group, None for other queries.

    This form is for samples that hold the values without following them.
    """
    select = with_derived_columns(_parse_select(text), streams)
    if len(select.expressions) != 1 or not counts_distinct(select.expressions[0]):
        return None
    return read_group_query(text, select, streams)


def _check_aggregated(select: exp.Select) -> None:
    """Raise UnsupportedQuery where a query asks for rows, or for window functions over them."""
    window = select.find(exp.Window)
    if window is not None:
        raise UnsupportedQuery(
            f"{fragment(window)!r} is a window function, and those are not supported: rows are not kept, only "
            "aggregates of them. GROUP BY with ORDER BY and LIMIT has the first groups."
        )
    if not select.args.get("from_"):
        return
    items = [item for item in select.expressions if not item.find(exp.AggFunc, exp.Anonymous)]
    if (
        len(items) == len(select.expressions)
        and not select.args.get("group")
        and not select.args.get("distinct")
    ):
        raise UnsupportedQuery(rows_are_not_kept(fragment(select)))


def _columns_in_scope(select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> list[Column]:
    """Return the columns of all streams that a query names."""
    named = {table.name.lower() for table in select.find_all(exp.Table)}
    return [column for name, columns in streams.items() if name.lower() in named for column in columns]


def _parse_select(text: str) -> exp.Select:
    if len(text) > MAX_LENGTH:
        raise SqlError(f"the query is {len(text):,} characters long; at most {MAX_LENGTH:,} are read.")
    try:
        statements = sqlglot.parse(spelled_for_parser(text), dialect="spark")
    except (SqlglotError, ValueError) as error:
        raise SqlError(f"the query cannot be read as Spark SQL: {parser_reason(error)}.") from error
    if len(statements) != 1:
        raise SqlError(f"one query is expected and {len(statements)} statements were given.")
    statement = statements[0]
    if statement is None:
        raise SqlError("the SQL has no query: write a SELECT.")
    if sum(1 for _ in statement.walk()) > MAX_NODES:
        raise SqlError(f"the query has more than {MAX_NODES:,} parts; split it.")
    if not isinstance(statement, exp.Select):
        raise UnsupportedQuery(f"{fragment(statement)!r} is not a SELECT that eddyline supports.")
    _check_arguments(statement)
    check_precedence(statement)
    return with_top_k_grouped(with_filter_in_where(with_plain_spellings(statement)))


def parser_reason(error: Exception) -> str:
    """Return what the parser reports in one line, without the names of its own classes."""
    reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
    reason = re.sub(r"but got <Token token_type: .*SENTINEL.*?>", "but the text ends", reason)
    return re.sub(
        r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>", r"\1 lacks an argument", reason
    )


def _check_arguments(select: exp.Select) -> None:
    """Raise SqlError where a required argument is missing and the parser accepts it: COUNT(), x IN (), year()."""
    for node in select.walk():
        if isinstance(node, exp.Count) and (
            node.this is None or (isinstance(node.this, exp.Distinct) and not node.this.expressions)
        ):
            raise SqlError(f"{fragment(node)!r} does not say what is counted: write COUNT(*) for all rows.")
        if isinstance(node, exp.In) and not (node.expressions or node.args.keys() - {"this", "expressions"}):
            raise SqlError(f"{fragment(node)!r} has no values to compare with: name some.")
        missing = any(needed and node.args.get(name) is None for name, needed in node.arg_types.items())
        if missing and not isinstance(node, exp.AggFunc):  # the readers of aggregates have better messages
            raise SqlError(f"{fragment(node.parent or node)!r} lacks an argument.")


# Contributors: which values of a column contribute most to an aggregate, as a grouped query.


CONTRIBUTION = "contribution"


def contributors_text(name: str, text: str, column: str, top: int) -> str:
    """Return the query for the values of a column that contribute most to a query of one aggregate.

    >>> contributors_text("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k", "a.k", 3)
    'SELECT a.k, COUNT(*) AS contribution FROM a JOIN b ON a.k = b.k GROUP BY a.k ORDER BY contribution DESC LIMIT 3'
    """
    if not isinstance(top, int) or top < 1:
        raise PlanError(f"top={top!r} is not a number of values: give a whole number of 1 or more.")
    select = sqlglot.parse_one(spelled_for_parser(text), dialect="spark")
    if (
        not isinstance(select, exp.Select)
        or is_grouped(select)
        or select.find(exp.Distinct, exp.SetOperation, exp.ApproxTopK)
    ):
        raise PlanError(
            f"query {name!r} is not one COUNT, SUM or other aggregate of a stream or a join: ask its groups instead."
        )
    parts = column.split(".")
    if not all(parts) or len(parts) > 2:
        raise PlanError(f"{column!r} is not a column of query {name!r}: write customer, or o.customer.")
    group = exp.column(parts[-1], table=parts[0] if len(parts) == 2 else None)
    only = select.expressions[0]
    value = exp.alias_(only.this if isinstance(only, exp.Alias) else only, CONTRIBUTION)
    made = select.select(group, value, append=False).group_by(group.copy())
    return made.order_by(f"{CONTRIBUTION} DESC").limit(top).sql(dialect="spark")
