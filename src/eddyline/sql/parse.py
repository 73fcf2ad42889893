"""Query texts to queries: the whole way, in the order in which a reader would check it."""

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.aggregates import read_aggregate
from eddyline.sql.expressions import fragment
from eddyline.sql.joins import read_from
from eddyline.sql.query import Query
from eddyline.types import Column

MAX_LENGTH = 100_000
MAX_NODES = 5_000

_READ_CLAUSES = frozenset({"expressions", "from_", "joins", "where"})
_ADVICE = {
    "with_": "WITH: write the relations in FROM",
    "distinct": "SELECT DISTINCT",
    "group": "GROUP BY: ask one aggregate per query",
    "order": "ORDER BY: the answer is one row",
    "limit": "LIMIT: the answer is one row",
    "laterals": "LATERAL VIEW",
    "sample": "TABLESAMPLE",
}


def parse_query(text: str, streams: Mapping[str, tuple[Column, ...]]) -> Query:
    """Return the query that a text asks, or raise SqlError or UnsupportedQuery with the fragment at fault.

    >>> from eddyline.sql.schema import parse_schema
    >>> parse_query("SELECT COUNT(*) FROM s WHERE x > 1", {"s": parse_schema("s", "x INT")}).relations[0].predicates
    ('`x` > 1',)
    """
    select = _parse_select(text)
    for clause, value in select.args.items():
        if value and clause not in _READ_CLAUSES:
            raise UnsupportedQuery(
                f"eddyline does not answer queries with {_ADVICE.get(clause, clause.upper())}."
            )
    relations, joins, sources = read_from(select, streams)
    return Query(text, read_aggregate(select, sources), relations, joins)


def _parse_select(text: str) -> exp.Select:
    if len(text) > MAX_LENGTH:
        raise SqlError(f"the query is {len(text):,} characters long; at most {MAX_LENGTH:,} are read.")
    try:
        statements = sqlglot.parse(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        reason = " ".join(str(error).split("\n")[0].split()) or "too deeply nested"
        raise SqlError(f"the query cannot be read as Spark SQL: {reason}.") from error
    if len(statements) != 1 or statements[0] is None:
        raise SqlError(f"one query is expected and {len(statements)} statements were given.")
    statement = statements[0]
    if sum(1 for _ in statement.walk()) > MAX_NODES:
        raise SqlError(f"the query has more than {MAX_NODES:,} parts; split it.")
    if not isinstance(statement, exp.Select):
        raise UnsupportedQuery(f"{fragment(statement)!r} is not a SELECT that eddyline answers.")
    return statement
