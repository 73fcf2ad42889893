"""Query texts to queries: the whole way, in the order in which a reader would check it."""

import re
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.aggregates import read_aggregate
from eddyline.sql.clauses import check_clauses
from eddyline.sql.expressions import fragment
from eddyline.sql.filters import with_filter_in_where
from eddyline.sql.groups import is_grouped, read_group_query
from eddyline.sql.joins import read_from
from eddyline.sql.literals import check_double_quotes, spelled_for_parser
from eddyline.sql.query import AnyQuery, Query
from eddyline.sql.sets import read_set_query
from eddyline.sql.sides import with_constants_at_root
from eddyline.sql.spellings import with_plain_spellings
from eddyline.sql.top_k import with_top_k_grouped
from eddyline.types import Column

MAX_LENGTH = 100_000
MAX_NODES = 5_000


def parse_query(text: str, streams: Mapping[str, tuple[Column, ...]]) -> AnyQuery:
    """Return the query that a text asks, or raise SqlError or UnsupportedQuery with the fragment at fault.

    >>> from eddyline.sql.schema import parse_schema
    >>> parse_query("SELECT COUNT(*) FROM s WHERE x > 1", {"s": parse_schema("s", "x INT")}).relations[0].predicates
    ('`x` > 1',)
    """
    try:
        return _read(text, streams)
    except RecursionError as error:
        raise SqlError("the query is too deeply nested: write it flatter.") from error


def _read(text: str, streams: Mapping[str, tuple[Column, ...]]) -> AnyQuery:
    select = _parse_select(text)
    _check_aggregated(select)
    check_double_quotes(text, select, _columns_in_scope(select, streams))
    if is_grouped(select):
        return read_group_query(text, select, streams)
    sets = read_set_query(text, select, streams)
    if sets is not None:
        return sets
    check_clauses(select, {"expressions", "from_", "joins", "where"})
    relations, links, sources, conditions = read_from(select, streams)
    if conditions:  # they are read as groups are, and without groups the answer is one row
        return read_group_query(text, select, streams)
    aggregate = read_aggregate(select.expressions[0], sources)
    return Query(text, with_constants_at_root(aggregate, len(relations), links), relations, links)


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
        raise UnsupportedQuery(
            f"{fragment(select)!r} selects rows, and rows are not kept, only aggregates of them: select COUNT(*), SUM, "
            "AVG or another aggregate, or GROUP BY the columns and count them."
        )


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
        raise SqlError(f"the query cannot be read as Spark SQL: {_reason(error)}.") from error
    if len(statements) != 1:
        raise SqlError(f"one query is expected and {len(statements)} statements were given.")
    statement = statements[0]
    if statement is None:
        raise SqlError("the text has no query: write a SELECT.")
    if sum(1 for _ in statement.walk()) > MAX_NODES:
        raise SqlError(f"the query has more than {MAX_NODES:,} parts; split it.")
    if not isinstance(statement, exp.Select):
        raise UnsupportedQuery(f"{fragment(statement)!r} is not a SELECT that eddyline answers.")
    _check_arguments(statement)
    return with_top_k_grouped(with_filter_in_where(with_plain_spellings(statement)))


def _reason(error: Exception) -> str:
    """Return what the parser says in one line, without the names of its own classes."""
    reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
    reason = re.sub(r"but got <Token token_type: .*SENTINEL.*?>", "but the text ends", reason)
    return re.sub(
        r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>", r"\1 lacks an argument", reason
    )


def _check_arguments(select: exp.Select) -> None:
    """Raise SqlError where something is left out that the parser lets pass: COUNT(), x IN (), year()."""
    for node in select.walk():
        if isinstance(node, exp.Count) and (
            node.this is None or (isinstance(node.this, exp.Distinct) and not node.this.expressions)
        ):
            raise SqlError(f"{fragment(node)!r} does not say what is counted: write COUNT(*) for all rows.")
        if isinstance(node, exp.In) and not (node.expressions or node.args.keys() - {"this", "expressions"}):
            raise SqlError(f"{fragment(node)!r} has no values to compare with: name some.")
        missing = any(needed and node.args.get(name) is None for name, needed in node.arg_types.items())
        if missing and not isinstance(node, exp.AggFunc):  # of aggregates their own readers say it better
            raise SqlError(f"{fragment(node.parent or node)!r} lacks an argument.")
