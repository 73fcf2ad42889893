"""Query texts to queries: the whole way, in the order in which a reader would check it."""

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.aggregates import read_aggregate
from eddyline.sql.clauses import check_clauses
from eddyline.sql.expressions import fragment
from eddyline.sql.groups import is_grouped, read_group_query
from eddyline.sql.joins import read_from
from eddyline.sql.literals import spelled_for_parser
from eddyline.sql.query import AnyQuery, Query
from eddyline.sql.sets import read_set_query
from eddyline.sql.sides import with_constants_at_root
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


def _parse_select(text: str) -> exp.Select:
    if len(text) > MAX_LENGTH:
        raise SqlError(f"the query is {len(text):,} characters long; at most {MAX_LENGTH:,} are read.")
    try:
        statements = sqlglot.parse(spelled_for_parser(text), dialect="spark")
    except SqlglotError as error:
        reason = " ".join(str(error).split("\n")[0].split())
        raise SqlError(f"the query cannot be read as Spark SQL: {reason}.") from error
    if len(statements) != 1 or statements[0] is None:
        raise SqlError(f"one query is expected and {len(statements)} statements were given.")
    statement = statements[0]
    if sum(1 for _ in statement.walk()) > MAX_NODES:
        raise SqlError(f"the query has more than {MAX_NODES:,} parts; split it.")
    if not isinstance(statement, exp.Select):
        raise UnsupportedQuery(f"{fragment(statement)!r} is not a SELECT that eddyline answers.")
    return with_top_k_grouped(_with_plain_spellings(statement))


def _with_plain_spellings(select: exp.Select) -> exp.Select:
    """Return a SELECT in which other names of what we answer are gone: APPROX_COUNT_DISTINCT is COUNT(DISTINCT ...)."""

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.ApproxDistinct):
            return exp.Count(this=exp.Distinct(expressions=[node.this]), big_int=True)
        return node

    made = select.transform(plain)
    assert isinstance(made, exp.Select)
    return made
