"""FROM and WHERE: relations, how they are joined, their predicates, and subqueries as semi-joins and anti-joins."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import (
    Source,
    check_allowed,
    conjuncts,
    fragment,
    operand,
    resolve,
    unparenthesised,
)
from eddyline.sql.clauses import JoinKind, check_clauses, join_kind
from eddyline.sql.join_tree import Joined, JoinTree
from eddyline.sql.query import Role
from eddyline.types import Column

# Conditions of WHERE with a subquery: [NOT] EXISTS and [NOT] IN, as semi-joins and anti-joins.


_HIDDEN = "a relation of a subquery, which the query around it cannot see"
_OF_RIGHT_SIDE = "the right side of a LEFT {} JOIN, which only its ON can see: move conditions on it into ON"


def check_rows(inner: exp.Select) -> None:
    """Raise UnsupportedQuery where a subquery returns other rows than those of its stream, as an aggregate does."""
    for node in inner.expressions:
        value = node.this if isinstance(node, exp.Alias) else node
        if value.find(exp.AggFunc):
            raise UnsupportedQuery(
                f"the subquery {fragment(inner)!r} selects an aggregate, which is one row whatever its stream "
                "holds: select columns of the stream."
            )
        if not value.is_star:
            check_allowed(value)


def subquery_of(part: exp.Expr) -> exp.Select | None:
    """Return the SELECT of an IN or EXISTS, or None where the conjunct is something else."""
    if isinstance(part, exp.Exists):
        return part.this if isinstance(part.this, exp.Select) else None
    query = part.args.get("query") if isinstance(part, exp.In) else None
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    return inner if isinstance(inner, exp.Select) else None


def compared_pairs(semi: exp.In, inner: exp.Select) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return what IN compares: (an expression of the outer query, one of the subquery) for each column."""
    outer = semi.this.expressions if isinstance(semi.this, exp.Tuple) else [semi.this]
    found = [part.this if isinstance(part, exp.Alias) else part for part in inner.expressions]
    if len(outer) != len(found):
        raise UnsupportedQuery(f"{fragment(semi)!r} compares {len(outer)} columns with {len(found)}.")
    return list(zip(outer, found, strict=True))


@dataclass(frozen=True)
class Subquery:
    """A condition on a subquery: what it requires of its rows, and the condition as written."""

    role: Role
    condition: exp.Expr
    test: exp.Expr
    select: exp.Select


def read_subquery(condition: exp.Expr) -> Subquery | None:
    """Return the subquery in a condition, None where it is a condition on rows."""
    test, negated = unparenthesised(condition), False
    while isinstance(test, exp.Not):
        test, negated = unparenthesised(test.this), not negated
    select = subquery_of(test)
    if select is None:
        return None
    role: Role = "semi" if not negated else "anti" if isinstance(test, exp.Exists) else "not in"
    return Subquery(role, condition, test, select)


def add_subquery(
    tree: JoinTree, asked: Subquery, source_of: Callable[[exp.Expr], Source], *, as_inner: bool
) -> None:
    """Attach the relations of a subquery to the tree; source_of: returns the relation of a table of FROM.

    as_inner: by an inner join.
    """
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
            f"the subquery {fragment(select)!r} has a join without ON: write it as JOIN ... ON."
        )
    outer = tuple(tree.sources)
    inner = [source_of(table) for table in (select.args["from_"].this, *(join.this for join in joins))]
    side, named = [], []
    for source in inner:
        alias = _fresh(source.alias, [each.alias for each in tree.sources], "_matched" if as_inner else "")
        side.append(tree.add(replace(source, alias=alias)))
        named.append(replace(source, alias=alias))
    _qualify_test(test, inner, named, outer)
    where = select.args.get("where")
    conditions = [part for join in joins for part in conjuncts(join.args.get("on"))]
    conditions += conjuncts(where.this if where else None)
    if isinstance(test, exp.In):
        conditions += [
            exp.EQ(this=operand(a), expression=operand(b)) for a, b in compared_pairs(test, select)
        ]
    if as_inner:
        tree.join(side, conditions)
    else:
        tree.branch(asked.role, side, conditions, asked.condition)
    tree.hide(side, _HIDDEN)


def _fresh(alias: str, taken: list[str], ending: str) -> str:
    """Return a name for a relation of a subquery that no other relation has; ending: tried first."""
    lower = [each.lower() for each in taken]
    number, name = 1, alias
    if name.lower() in lower:
        name = alias + ending
    while name.lower() in lower:
        number += 1
        name = f"{alias}_{number}"
    return name


def _qualify_test(
    test: exp.Expr, inner: list[Source], named: list[Source], outer: tuple[Source, ...]
) -> None:
    """Qualify every column: with a relation of the subquery if one has the column, else of the outer query."""
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


# Reading FROM and WHERE.


MAX_RELATIONS = 32
_ROLES: dict[JoinKind, Role] = {"left": "outer", "full": "full", "semi": "semi", "anti": "anti"}
_OF_EITHER = ""
"""Stands for a relation: a column merged by FULL JOIN ... USING belongs to neither side."""


def read_from(
    select: exp.Select, streams: Mapping[str, tuple[Column, ...]], *, matches_once: bool = False
) -> Joined:
    """Return the relations, joins and conditions in FROM and WHERE of a SELECT.

    matches_once: it does not matter how often a row matches, as in a distinct count. Semi-joins are then inner joins.
    """
    tree = JoinTree()
    inner: set[str] = {"inner", "semi"} if matches_once else {"inner"}
    _read_tables(tree, select, streams, inner)
    where = select.args.get("where")
    conditions, subqueries = [], []
    for condition in conjuncts(where.this if where else None):
        found = read_subquery(condition)
        if found is None:
            conditions.append(condition)
        else:
            subqueries.append(found)
    tree.filter(conditions)
    for subquery in subqueries:
        as_inner = subquery.role in inner
        add_subquery(tree, subquery, lambda table: _source(table, streams), as_inner=as_inner)
    if len(tree.sources) > MAX_RELATIONS:
        raise UnsupportedQuery(
            f"the query joins {len(tree.sources)} relations; at most {MAX_RELATIONS} are supported."
        )
    return tree.joined()


def _read_tables(
    tree: JoinTree, select: exp.Select, streams: Mapping[str, tuple[Column, ...]], inner: Collection[str]
) -> None:
    start = select.args.get("from_")
    if start is None:
        raise SqlError("the query has no FROM: name the stream that it reads.")
    tree.add(_source(start.this, streams))
    merged: dict[str, str] = {}
    crossed = False
    for join in select.args.get("joins") or []:
        kind = join_kind(join)
        right = _source(join.this, streams)
        if right.alias.lower() in [source.alias.lower() for source in tree.sources]:
            raise SqlError(f"two relations have the name {right.alias!r}: give one of them an alias.")
        if tree.is_full or (kind == "full" and len(tree.sources) > 1):
            raise UnsupportedQuery(
                f"{fragment(join)!r}: a FULL JOIN is supported between two relations, with no other join next to it."
            )
        conditions = list(_using(join, kind, tree.sources, right, merged))
        added = tree.add(right)
        conditions.extend(_qualified(part, tuple(tree.sources)) for part in conjuncts(join.args.get("on")))
        if kind == "right" and crossed:
            raise UnsupportedQuery(
                f"{fragment(join)!r} follows a comma or a CROSS JOIN: write every join as JOIN ... ON."
            )
        crossed = crossed or str(join.args.get("kind") or "").upper() == "CROSS"
        _add_join(tree, "inner" if kind in inner else kind, added, conditions, join)
        if kind in ("semi", "anti"):
            tree.hide([added], _OF_RIGHT_SIDE.format(kind.upper()))
    _qualify_merged(select, merged)


def _add_join(tree: JoinTree, kind: JoinKind, added: int, conditions: list[exp.Expr], join: exp.Join) -> None:
    """Add a join of a relation that is already in the tree."""
    if kind == "inner":
        tree.join([added], conditions)
    elif kind == "right":
        tree.preserve(added, conditions, join)
    else:
        tree.branch(_ROLES[kind], [added], conditions, join)


def _qualify_merged(select: exp.Select, merged: Mapping[str, str]) -> None:
    """Qualify the columns merged by USING with their owner, wherever the query has them unqualified."""
    for column in select.find_all(exp.Column):
        name = column.name.lower()
        if column.table or name not in merged or column.parent_select is not select:
            continue
        if merged[name] == _OF_EITHER:
            raise UnsupportedQuery(
                f"{fragment(column)!r} is ambiguous after a FULL JOIN ... USING: qualify it, or join by ON."
            )
        column.set("table", exp.to_identifier(merged[name]))


def _qualified(condition: exp.Expr, sources: tuple[Source, ...]) -> exp.Expr:
    """Return a condition of ON with its columns qualified: it sees only the relations before it."""

    def qualify(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            owner, column = resolve(part, sources)
            return exp.column(column.name, table=sources[owner].alias, quoted=True)
        return part

    return condition.copy().transform(qualify)


def _source(table: exp.Expr, streams: Mapping[str, tuple[Column, ...]]) -> Source:
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise UnsupportedQuery(f"{fragment(table)!r} is not a stream: FROM names declared streams only.")
    extra = [key for key, value in table.args.items() if value and key not in ("this", "alias", "joins")]
    if "sample" in extra:
        raise UnsupportedQuery(
            f"TABLESAMPLE of {table.name!r} next to aggregates: they are computed from all rows that the state holds. "
            "Leave TABLESAMPLE out, or select columns of rows."
        )
    if extra or table.args.get("joins"):
        raise UnsupportedQuery(
            f"{fragment(table)!r} has more than a stream and an alias: {', '.join(extra) or 'JOIN'}."
        )
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise UnsupportedQuery(f"{fragment(table)!r} renames columns: use the declared names.")
    name = next((stream for stream in streams if stream.lower() == table.name.lower()), None)
    if name is None:
        raise SqlError(f"there is no stream {table.name!r}: declared are {', '.join(streams) or 'none'}.")
    return Source(table.alias or name, name, streams[name])


def _using(
    join: exp.Join, kind: JoinKind, lefts: list[Source], right: Source, merged: dict[str, str]
) -> Iterator[exp.Expr]:
    """Yield the equalities of USING (a, b); a column that an earlier USING merged is one column.

    merged: the relation that owns a merged column, the preserved one of an outer join.
    """
    for identifier in join.args.get("using") or []:
        owners = [source.alias for source in lefts if not source.hidden and source.find(identifier.name)]
        name = identifier.name.lower()
        if not owners or (len(owners) > 1 and name not in merged) or not right.find(name):
            raise SqlError(f"USING ({identifier.name}): the column must be in one relation on either side.")
        owner = merged.setdefault(name, owners[0])
        if kind in ("right", "full"):
            merged[name] = right.alias if kind == "right" else _OF_EITHER
        yield exp.EQ(
            this=exp.column(identifier.name, table=owner),
            expression=exp.column(identifier.name, table=right.alias),
        )
