"""The moments that SQL asks about: `FROM orders VERSION AS OF 12`, `FROM orders TIMESTAMP AS OF '2026-01-31 12:00'`.

If a query reads all its tables at one moment, that state answers it. In any other query, each table of an earlier
moment gets a name of its own, `orders__at_12`, so that aggregates of several moments can stand in one statement.
"""

import re
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import UnsupportedQuery
from eddyline.expressions.nodes import fragment
from eddyline.sql.clauses import spelled_for_parser

PastMoment = int | str
"""The number of an epoch, or a time."""
_AS_OF = re.compile(r"\bas\s+of\b", re.IGNORECASE)


def split_moment(text: str) -> tuple[str, PastMoment | None]:
    """Return SQL without AS OF, and the epoch or the time that it names; None for the current state.

    All tables must be read at one moment: a join of rows of two moments cannot be answered.
    """
    if not isinstance(text, str) or _AS_OF.search(text) is None:
        return text, None
    try:
        tree = sqlglot.parse_one(spelled_for_parser(text), dialect="spark")
    except (SqlglotError, ValueError, RecursionError):
        return text, None  # the parser of queries reports what is wrong with it
    moments = moments_of(tree)
    if moments <= {None}:
        return text, None
    if len(moments) > 1:
        raise UnsupportedQuery(
            "the tables of an aggregate must all be read AS OF the same moment. Aggregates of two moments are compared "
            "by state.sql, or state.change(), `eddyline ask STORE --since`, or the parameter since= over HTTP."
        )
    return without_moments(tree).sql(dialect="spark"), moments.pop()


def moments_of(tree: exp.Expr) -> set[PastMoment | None]:
    """Return the moments at which a statement reads its tables; None for the current state."""
    versions = [each.args.get("version") for each in _tables_of(tree)]
    return {None if version is None else _moment(version) for version in versions}


def without_moments(tree: exp.Expr) -> exp.Expr:
    """Return a copy of a statement whose tables are those of the current state."""
    copied = tree.copy()
    for each in _tables_of(copied):
        each.set("version", None)
    return copied


def _tables_of(tree: exp.Expr) -> list[exp.Table]:
    """Return the tables that are streams or planned queries, not WITH names."""
    own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    return [each for each in tree.find_all(exp.Table) if each.name.lower() not in own]


def mark_moments(text: str) -> tuple[str, dict[str, PastMoment]]:
    """Return SQL in which the names of tables of earlier moments have suffixes, and the moment of each suffix.

    There is no suffix if all tables are read at the same moment: `split_moment` returns that moment.
    """
    if not isinstance(text, str) or _AS_OF.search(text) is None:
        return text, {}
    try:
        tree = sqlglot.parse_one(spelled_for_parser(text), dialect="spark")
    except (SqlglotError, ValueError, RecursionError):
        return text, {}
    if len(moments_of(tree)) < 2:
        return text, {}
    found = [(each, each.args.get("version")) for each in _tables_of(tree)]
    marked: dict[str, PastMoment] = {}
    names = {table.name for table, _ in found}
    for table, version in found:
        if version is None:
            continue
        moment = _moment(version)
        suffix = "__at_" + re.sub(r"\W+", "_", str(moment)).strip("_")
        while marked.get(suffix, moment) != moment or any(name.endswith(suffix) for name in names):
            suffix += "_"
        marked[suffix] = moment
        table.set("version", None)
        _rename(table, suffix)
    return tree.sql(dialect="spark"), marked


def _rename(table: exp.Table, suffix: str) -> None:
    """Rename a table, and keep its old name as the alias that its columns use."""
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    table.set("this", exp.to_identifier(f"{table.name}{suffix}"))


def marked_query(text: str, suffix: str) -> str:
    """Return a planned query with a suffix to the names of all of its tables."""
    tree = sqlglot.parse_one(spelled_for_parser(text), dialect="spark")
    for table in _tables_of(tree):
        _rename(table, suffix)
    return tree.sql(dialect="spark")


def moment_of_part(text: str, moments: Mapping[str, PastMoment]) -> tuple[str, PastMoment | None]:
    """Return a part of a marked statement with the tables' own names, and the moment of all of its tables."""
    read = {
        table.name
        for table in sqlglot.parse_one(spelled_for_parser(text), dialect="spark").find_all(exp.Table)
    }
    asked = {next((mark for mark in moments if name.endswith(mark)), None) for name in read}
    if len(asked) > 1:
        raise UnsupportedQuery(
            "rows of two moments cannot be joined: join or subtract aggregates, each of one moment, such as SELECT a.n "
            "- b.n FROM (SELECT COUNT(*) AS n FROM orders) a, (SELECT COUNT(*) AS n FROM orders VERSION AS OF 12) b."
        )
    mark = asked.pop() if asked else None
    return (text, None) if mark is None else (text.replace(mark, ""), moments[mark])


def _moment(version: exp.Version) -> PastMoment:
    value = version.expression
    if version.args.get("kind") != "AS OF" or not isinstance(value, exp.Literal):
        raise UnsupportedQuery(
            f"{fragment(version)!r}: write VERSION AS OF with the number of an epoch, or TIMESTAMP AS OF with a time "
            "such as '2026-01-31 12:00'."
        )
    if version.name.upper() == "VERSION":
        if not value.name.isdigit():
            raise UnsupportedQuery(f"{fragment(version)!r}: a version is the number of an epoch, such as 12.")
        return int(value.name)
    return str(value.name)
