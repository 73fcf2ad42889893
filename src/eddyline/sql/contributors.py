"""Contributors: which values of a column carry an aggregate, as a grouped query."""

import sqlglot
from sqlglot import exp

from eddyline.errors import PlanError
from eddyline.sql.groups import is_grouped
from eddyline.sql.literals import spelled_for_parser

CONTRIBUTION = "contribution"


def contributors_text(name: str, text: str, column: str, top: int) -> str:
    """Return the query that tells the values of a column that contribute most to a query of one aggregate.

    >>> contributors_text("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k", "a.k", 3)
    'SELECT a.k, COUNT(*) AS contribution FROM a JOIN b ON a.k = b.k GROUP BY a.k ORDER BY contribution DESC LIMIT 3'
    """
    if not isinstance(top, int) or top < 1:
        raise PlanError(f"top={top!r} is not a number of values: give a whole number from 1 on.")
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
