"""Conditions of WHERE that ask a subquery: [NOT] EXISTS and [NOT] IN, as semi-joins and anti-joins."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.sql.clauses import check_clauses
from eddyline.sql.compose import operand
from eddyline.sql.expressions import Source, conjuncts, fragment, resolve, unparenthesised
from eddyline.sql.join_kinds import join_kind
from eddyline.sql.join_tree import JoinTree
from eddyline.sql.query import Role
from eddyline.sql.semi_joins import check_rows, compared_pairs, subquery_of

_HIDDEN = "a relation of a subquery, which the query around it cannot see"


@dataclass(frozen=True)
class Subquery:
    """A condition on a subquery: what it asks of its rows, and the condition as it was written."""

    role: Role
    condition: exp.Expr
    test: exp.Expr
    select: exp.Select


def read_subquery(condition: exp.Expr) -> Subquery | None:
    """Return the subquery that a condition asks, None where it is a condition on rows."""
    test, negated = unparenthesised(condition), False
    while isinstance(test, exp.Not):
        test, negated = unparenthesised(test.this), not negated
    select = subquery_of(test)
    if select is None:
        return None
    role: Role = "semi" if not negated else "anti" if isinstance(test, exp.Exists) else "not in"
    return Subquery(role, condition, test, select)


def add_subquery(tree: JoinTree, asked: Subquery, source_of: Callable[[exp.Expr], Source]) -> None:
    """Hang the relations of a subquery on the tree; source_of: the relation that a table of FROM names."""
    test = asked.test.copy()
    select = subquery_of(test)
    assert select is not None
    check_clauses(select, {"expressions", "from_", "joins", "where", "distinct"})
    check_rows(select)
    if select.args.get("from_") is None:
        raise UnsupportedQuery(f"the subquery of {fragment(test)!r} reads no stream: name one in FROM.")
    joins = select.args.get("joins") or []
    if any(join_kind(join) != "inner" or join.args.get("using") for join in joins):
        raise UnsupportedQuery(
            f"the subquery {fragment(select)!r} joins otherwise than by JOIN ... ON: write its joins so."
        )
    outer = tuple(tree.sources)
    inner = [source_of(table) for table in (select.args["from_"].this, *(join.this for join in joins))]
    side, named = [], []
    for source in inner:
        alias = _fresh(source.alias, [each.alias for each in tree.sources])
        side.append(tree.add(replace(source, alias=alias)))
        named.append(replace(source, alias=alias))
    _qualify(test, inner, named, outer)
    where = select.args.get("where")
    conditions = [part for join in joins for part in conjuncts(join.args.get("on"))]
    conditions += conjuncts(where.this if where else None)
    if isinstance(test, exp.In):
        conditions += [
            exp.EQ(this=operand(a), expression=operand(b)) for a, b in compared_pairs(test, select)
        ]
    tree.branch(asked.role, side, conditions, asked.condition)
    tree.hide(side, _HIDDEN)


def _fresh(alias: str, taken: list[str]) -> str:
    """Return a name for a relation of a subquery that no other relation has."""
    lower = [each.lower() for each in taken]
    number, name = 1, alias
    while name.lower() in lower:
        number += 1
        name = f"{alias}_{number}"
    return name


def _qualify(test: exp.Expr, inner: list[Source], named: list[Source], outer: tuple[Source, ...]) -> None:
    """Give every column its relation: one of the subquery if it has such a column, else one of the query around it."""
    for column in list(test.find_all(exp.Column)):
        inside = column.find_ancestor(exp.Select) is not None
        own = [
            i
            for i, source in enumerate(inner)
            if inside
            and (
                source.alias.lower() == column.table.lower()
                if column.table
                else source.find(column.name) is not None
            )
        ]
        scope = tuple(inner) if own else outer
        relation, found = resolve(column, scope)
        alias = named[relation].alias if own else outer[relation].alias
        column.replace(exp.column(found.name, table=alias, quoted=True))
