"""FILTER (WHERE ...), COUNT_IF and one-armed CASE: aggregates of the rows that meet conditions of their own.

COUNT_IF(c)                      COUNT(*) FILTER (WHERE c)
SUM(CASE WHEN c THEN x END)      SUM(x) FILTER (WHERE c), read so where c and x are of different relations

The only aggregate of a SELECT without groups is that of the rows that its conditions leave: they go to WHERE. Beside
others, and in groups, a condition makes what is aggregated NULL in rows that do not meet it; no aggregate counts those.
Over a join each condition does so to what its own relation gives, and 1 where the aggregate reads nothing of it.
"""

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.compose import only_where
from eddyline.sql.conditions import relations_read
from eddyline.sql.expressions import Source, bare, conjuncts, fragment, relations_of, text, unparenthesised
from eddyline.sql.failing import safe_first
from eddyline.sql.query import Expression
from eddyline.types import SqlType

Conditions = dict[int, tuple[str, ...]]
"""The conditions on each relation that an aggregate's rows meet, in the order in which they are evaluated."""


def filtered_count(node: exp.CountIf) -> exp.Filter:
    """Return COUNT_IF(c) as COUNT(*) FILTER (WHERE c)."""
    if isinstance(node.this, exp.Distinct):
        raise UnsupportedQuery(f"DISTINCT in {fragment(node)!r}: only COUNT takes it.")
    return exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=node.this))


def aggregate_of(node: exp.Expr) -> exp.Expr:
    """Return the aggregate that an expression of the SELECT list is, without its alias and FILTER."""
    node = unparenthesised(node.this if isinstance(node, exp.Alias) else node)
    return unparenthesised(node.this) if isinstance(node, exp.Filter) else node


def own_conditions(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions of an aggregate's FILTER."""
    node = unparenthesised(node.this if isinstance(node, exp.Alias) else node)
    return list(conjuncts(node.expression.this)) if isinstance(node, exp.Filter) else []


def with_filter_in_where(select: exp.Select) -> exp.Select:
    """Return a SELECT of one aggregate without groups with its FILTER in WHERE, and any other as it is."""
    only = select.expressions[0] if len(select.expressions) == 1 else None
    if only is None or select.args.get("group") or not own_conditions(only):
        return select
    select = select.copy()
    only = select.expressions[0]
    where = select.args.get("where")
    parts = [*(conjuncts(where.this) if where else ()), *own_conditions(only)]
    select.set("where", exp.Where(this=exp.and_(*(part.copy() for part in parts))))
    select.set("expressions", [aggregate_of(only)])
    return select


def without_choice(argument: exp.Expr, sources: tuple[Source, ...]) -> tuple[exp.Expr, list[exp.Expr]]:
    """Return (x, conditions) of an argument CASE WHEN c THEN x END that reads several relations; others as they are."""
    found: list[exp.Expr] = []
    argument = unparenthesised(argument)
    while len(relations_of(argument, sources)) > 1:
        branch = _only_branch(argument)
        if branch is None:
            break
        found += conjuncts(branch.this)
        argument = unparenthesised(branch.args["true"])
    return argument, found


def _only_branch(node: exp.Expr) -> exp.If | None:
    """Return the branch of a CASE or IF that has one, and is NULL otherwise."""
    if isinstance(node, exp.Case):
        only = len(node.args["ifs"]) == 1 and node.this is None
        branch, other = node.args["ifs"][0] if only else None, node.args.get("default")
    else:
        branch, other = (node, node.args.get("false")) if isinstance(node, exp.If) else (None, None)
    return branch if other is None or isinstance(other, exp.Null) else None


def by_relation(conditions: list[exp.Expr], sources: tuple[Source, ...], constant: int = 0) -> Conditions:
    """Return conditions by the relation that each reads; constant: the relation of those that read none."""
    found: dict[int, set[str]] = {}
    for condition in conditions:
        if condition.find(exp.Subquery, exp.Exists) or condition.args.get("query") is not None:
            raise UnsupportedQuery(
                f"the subquery in {fragment(condition)!r} is a condition of one aggregate: subqueries are answered in "
                "WHERE, in a query of its own."
            )
        if condition.find(exp.AggFunc):
            raise SqlError(f"{fragment(condition)!r} is a condition on rows and holds an aggregate.")
        used = relations_read(condition, sources)
        if len(used) > 1:
            raise UnsupportedQuery(
                f"the condition {fragment(condition)!r} of one aggregate reads several relations: ask the aggregate "
                "alone, without GROUP BY and with FILTER (WHERE ...), and it is answered as a condition of WHERE."
            )
        found.setdefault(used[0] if used else constant, set()).add(text(bare(condition, sources)))
    return {relation: safe_first(sorted(texts)) for relation, texts in sorted(found.items())}


def conditioned(expression: Expression, conditions: tuple[str, ...]) -> Expression:
    """Return an expression that is NULL in rows that do not meet all conditions."""
    return Expression(only_where(conditions, expression.text), expression.type) if conditions else expression


PRESENT = Expression("1", SqlType("int"))
"""What a relation gives to an aggregate that reads nothing else of it than its conditions."""
