"""Clauses: which parts of a SELECT are read, and that every other part is refused by name."""

from sqlglot import exp

from eddyline.errors import UnsupportedQuery

_ADVICE = {
    "with_": "WITH: FROM names declared streams",
    "distinct": "SELECT DISTINCT",
    "group": "GROUP BY here: groups are those of the outermost SELECT",
    "order": "ORDER BY: the answer is one row",
    "limit": "LIMIT: the answer is one row",
    "laterals": "LATERAL VIEW",
    "sample": "TABLESAMPLE",
    "by_name": "BY NAME: put the columns in order",
}


def check_clauses(node: exp.Expr, read: set[str]) -> None:
    """Raise UnsupportedQuery at the first clause that is not among those that the caller reads."""
    for clause, value in node.args.items():
        if value and clause not in read:
            raise UnsupportedQuery(
                f"eddyline does not answer queries with {_ADVICE.get(clause, clause.upper())}."
            )
