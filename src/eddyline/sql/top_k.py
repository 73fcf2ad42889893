"""APPROX_TOP_K: the most frequent values of a column, read as the grouped query that tells them.

SELECT APPROX_TOP_K(x, k) FROM ...
SELECT x AS item, COUNT(*) AS count FROM ... GROUP BY x ORDER BY count DESC LIMIT k

Spark returns one array of (item, count), NULL being an item like any other; here they are the rows of a table. How many
items Spark should track is a size of its sketch. Ours has none, so that the number is checked and means nothing more.
"""

from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.sql.expressions import fragment, unparenthesised
from eddyline.sql.typing import literal_number

ITEM, COUNT = "item", "count"
_DEFAULT_K, _DEFAULT_TRACKED, _MOST_TRACKED = 5, 10_000, 1_000_000
"""As in Spark."""


def with_top_k_grouped(select: exp.Select) -> exp.Select:
    """Return a SELECT of APPROX_TOP_K alone as one with GROUP BY, and any other as it is."""
    if not any(item.find(exp.ApproxTopK) for item in select.expressions):
        return select
    only = select.expressions[0]
    asked = unparenthesised(only.this if isinstance(only, exp.Alias) else only)
    if len(select.expressions) > 1 or select.args.get("group") or not isinstance(asked, exp.ApproxTopK):
        raise UnsupportedQuery(_not_alone(select))
    extra = [clause for clause in ("having", "order", "limit") if select.args.get(clause)]
    if extra:
        raise UnsupportedQuery(
            f"{fragment(asked)!r} with {extra[0].upper()}: APPROX_TOP_K is answered as a table with its own order and "
            "limit; leave the clause out, or group by the column yourself."
        )
    if isinstance(asked.this, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(asked)!r}: only COUNT takes it.")
    made = select.select(
        exp.alias_(asked.this.copy(), ITEM), exp.alias_(exp.Count(this=exp.Star()), COUNT), append=False
    )
    return made.group_by("1").order_by(exp.column(COUNT).desc()).limit(_limit(asked))


def _not_alone(select: exp.Select) -> str:
    """Return the refusal of APPROX_TOP_K among other things, with what to ask instead."""
    found = next(node for item in select.expressions for node in item.find_all(exp.ApproxTopK))
    group = select.args.get("group")
    groups = [fragment(part) for part in group.expressions] if group else []
    columns = ", ".join([*groups, fragment(found.this)])
    return (
        f"{fragment(found)!r} is answered as the only column of a query without GROUP BY: ask SELECT {columns}, "
        f"COUNT(*) AS {COUNT} ... GROUP BY {columns} ORDER BY {COUNT} DESC, and other aggregates in a query of their "
        "own."
    )


def _limit(asked: exp.ApproxTopK) -> int:
    """Return how many values are asked for, or raise UnsupportedQuery where Spark would take no such numbers."""
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
            f"{fragment(asked)!r}: k and the items that are tracked are whole numbers from 1 on."
        )
    return int(number)
