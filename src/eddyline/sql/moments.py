"""The moment that SQL asks about: `FROM orders VERSION AS OF 12`, `FROM orders TIMESTAMP AS OF '2026-01-31 12:00'`."""

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eddyline.errors import UnsupportedQuery
from eddyline.sql.clauses import spelled_for_parser
from eddyline.sql.expressions import fragment

_AS_OF = re.compile(r"\bas\s+of\b", re.IGNORECASE)


def split_moment(text: str) -> tuple[str, int | str | None]:
    """Return SQL without AS OF, and the epoch or the time that it names; None for the current state.

    All tables of a statement must be read at one moment: a join of rows of two moments cannot be answered.
    """
    if not isinstance(text, str) or _AS_OF.search(text) is None:
        return text, None
    try:
        tree = sqlglot.parse_one(spelled_for_parser(text), dialect="spark")
    except (SqlglotError, ValueError, RecursionError):
        return text, None  # the parser of queries reports what is wrong with it
    versions = list(tree.find_all(exp.Version))
    if not versions:
        return text, None
    moments = {_moment(each) for each in versions}
    own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    read = [each for each in tree.find_all(exp.Table) if each.name.lower() not in own]
    if len(moments) > 1 or any(each.args.get("version") is None for each in read):
        raise UnsupportedQuery(
            "the tables of a query must all be read AS OF the same moment. For the difference of two moments use "
            "state.change(), `eddyline ask STORE --since`, or the parameter since= over HTTP."
        )
    for each in read:
        each.set("version", None)
    return tree.sql(dialect="spark"), moments.pop()


def _moment(version: exp.Version) -> int | str:
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
