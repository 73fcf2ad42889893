"""FROM and WHERE: relations, how they are joined, and the predicates of each relation."""

from collections.abc import Iterator, Mapping

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.expressions import Source, conjuncts, fragment, resolve
from eddyline.sql.join_kinds import JoinKind, join_kind
from eddyline.sql.join_tree import Joined, JoinTree
from eddyline.sql.query import Role
from eddyline.sql.subqueries import add_subquery, read_subquery
from eddyline.types import Column

MAX_RELATIONS = 32
_ROLES: dict[JoinKind, Role] = {"left": "outer", "full": "full", "semi": "semi", "anti": "anti"}
_OF_EITHER = ""
"""In place of a relation: the column that FULL JOIN ... USING merged is of neither side."""


def read_from(select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> Joined:
    """Return what FROM and WHERE of a SELECT say."""
    tree = JoinTree()
    _read_tables(tree, select, streams)
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
        add_subquery(tree, subquery, lambda table: _source(table, streams))
    if len(tree.sources) > MAX_RELATIONS:
        raise UnsupportedQuery(
            f"the query joins {len(tree.sources)} relations; at most {MAX_RELATIONS} are answered."
        )
    return tree.joined()


def _read_tables(tree: JoinTree, select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> None:
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
            raise SqlError(f"two relations are called {right.alias!r}: give one of them an alias.")
        if tree.is_full or (kind == "full" and len(tree.sources) > 1):
            raise UnsupportedQuery(
                f"{fragment(join)!r}: a FULL JOIN is answered between two relations, with no other join beside it."
            )
        conditions = list(_using(join, kind, tree.sources, right, merged))
        added = tree.add(right)
        conditions.extend(_qualified(part, tuple(tree.sources)) for part in conjuncts(join.args.get("on")))
        if kind == "right" and crossed:
            raise UnsupportedQuery(
                f"{fragment(join)!r} stands behind a comma or a CROSS JOIN: write every join as JOIN ... ON."
            )
        crossed = crossed or str(join.args.get("kind") or "").upper() == "CROSS"
        _add_join(tree, kind, added, conditions, join)
    _qualify_merged(select, merged)


def _add_join(tree: JoinTree, kind: JoinKind, added: int, conditions: list[exp.Expr], join: exp.Join) -> None:
    """Add a join of a relation that was added to the tree."""
    if kind == "inner":
        tree.join(added, conditions)
    elif kind == "right":
        tree.preserve(added, conditions, join)
    else:
        tree.branch(_ROLES[kind], [added], conditions, join)
        if kind in ("semi", "anti"):
            tree.hide([added], f"the right side of a LEFT {kind.upper()} JOIN, which only its ON can see")


def _qualify_merged(select: exp.Select, merged: Mapping[str, str]) -> None:
    """Give the columns that USING merged their owner, wherever the query names them bare."""
    for column in select.find_all(exp.Column):
        name = column.name.lower()
        if column.table or name not in merged or column.parent_select is not select:
            continue
        if merged[name] == _OF_EITHER:
            raise UnsupportedQuery(
                f"{fragment(column)!r} is of either side of a FULL JOIN ... USING: name the side, or join by ON."
            )
        column.set("table", exp.to_identifier(merged[name]))


def _qualified(condition: exp.Expr, sources: tuple[Source, ...]) -> exp.Expr:
    """Return a condition of ON with its columns qualified: it sees the relations that stand before it, no others."""

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
    if extra or table.args.get("joins"):
        raise UnsupportedQuery(
            f"{fragment(table)!r} says more than a stream and an alias: {', '.join(extra) or 'JOIN'}."
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
    """Yield the equalities that USING (a, b) stands for; a column that an earlier USING merged is one column.

    merged: the relation that a merged column is of, the preserved one of an outer join.
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
