"""FROM and WHERE: relations, equi-joins, and the predicates of each relation."""

from collections.abc import Iterator, Mapping

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.expressions import (
    Source,
    bare,
    check_allowed,
    conjuncts,
    fragment,
    relations_of,
    resolve,
    text,
)
from eddyline.sql.key_columns import check_meet, key_column
from eddyline.sql.links import LinkEnd, find_links
from eddyline.sql.query import Link, Relation
from eddyline.sql.typing import check_predicate
from eddyline.types import Column

MAX_RELATIONS = 32


def read_from(
    select: exp.Select, streams: Mapping[str, tuple[Column, ...]]
) -> tuple[tuple[Relation, ...], tuple[Link, ...], tuple[Source, ...]]:
    """Return (relations, links, sources) of a SELECT."""
    sources, conditions = _read_tables(select, streams)
    where = select.args.get("where")
    conditions.extend(conjuncts(where.this if where else None))
    predicates: dict[int, set[str]] = {i: set() for i in range(len(sources))}
    equalities: list[tuple[LinkEnd, LinkEnd]] = []
    for condition in conditions:
        check_allowed(condition)
        used = sorted(relations_of(condition, sources))
        check_predicate(condition, sources)
        if len(used) <= 1:
            predicates[used[0] if used else 0].add(text(bare(condition, sources)))
        else:
            equalities.append(_equality(condition, used, sources))
    links, implied = find_links([source.alias for source in sources], equalities)
    for relation, predicate in implied:
        predicates[relation].add(predicate)
    relations = tuple(
        Relation(source.alias, source.stream, tuple(sorted(predicates[i])))
        for i, source in enumerate(sources)
    )
    return relations, links, sources


def _read_tables(
    select: exp.Select, streams: Mapping[str, tuple[Column, ...]]
) -> tuple[tuple[Source, ...], list[exp.Expr]]:
    start = select.args.get("from_")
    if start is None:
        raise SqlError("the query has no FROM: name the stream that it reads.")
    sources = [_source(start.this, streams)]
    conditions: list[exp.Expr] = []
    merged: dict[str, str] = {}
    for join in select.args.get("joins") or []:
        _check_inner(join)
        right = _source(join.this, streams)
        if right.alias.lower() in [source.alias.lower() for source in sources]:
            raise SqlError(f"two relations are called {right.alias!r}: give one of them an alias.")
        conditions.extend(_using(join, sources, right, merged))
        sources.append(right)
        conditions.extend(_qualified(part, tuple(sources)) for part in conjuncts(join.args.get("on")))
    _qualify_merged(select, merged)
    if len(sources) > MAX_RELATIONS:
        raise UnsupportedQuery(
            f"the query joins {len(sources)} relations; at most {MAX_RELATIONS} are answered."
        )
    return tuple(sources), conditions


def _qualify_merged(select: exp.Select, merged: Mapping[str, str]) -> None:
    """Give the columns that USING merged their first owner, wherever the query names them bare."""
    for column in select.find_all(exp.Column):
        if not column.table and column.name.lower() in merged:
            column.set("table", exp.to_identifier(merged[column.name.lower()]))


def _qualified(condition: exp.Expr, sources: tuple[Source, ...]) -> exp.Expr:
    """Return a condition of ON with its columns qualified: it sees the relations that stand before it, no others."""

    def qualify(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            owner, column = resolve(part, sources)
            return exp.column(column.name, table=sources[owner].alias, quoted=True)
        return part

    return condition.copy().transform(qualify)


def _check_inner(join: exp.Join) -> None:
    kind = " ".join(str(join.args[key]) for key in ("method", "side", "kind") if join.args.get(key)).upper()
    if kind not in ("", "INNER", "CROSS"):
        raise UnsupportedQuery(
            f"{fragment(join)!r} is a {kind} JOIN: only inner equi-joins are answered; write it as JOIN ... ON."
        )


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


def _using(join: exp.Join, lefts: list[Source], right: Source, merged: dict[str, str]) -> Iterator[exp.Expr]:
    """Yield the equalities that USING (a, b) stands for; a column that an earlier USING merged is one column."""
    for identifier in join.args.get("using") or []:
        owners = [source for source in lefts if source.find(identifier.name)]
        name = identifier.name.lower()
        if not owners or (len(owners) > 1 and name not in merged) or not right.find(name):
            raise SqlError(f"USING ({identifier.name}): the column must be in one relation on either side.")
        merged.setdefault(name, owners[0].alias)
        yield exp.EQ(
            this=exp.column(identifier.name, table=owners[0].alias),
            expression=exp.column(identifier.name, table=right.alias),
        )


def _equality(condition: exp.Expr, used: list[int], sources: tuple[Source, ...]) -> tuple[LinkEnd, LinkEnd]:
    """Return the two sides of an equality between two relations."""
    if isinstance(condition, exp.EQ) and len(used) == 2:
        sides = {tuple(relations_of(side, sources)): side for side in (condition.left, condition.right)}
        if set(sides) == {(used[0],), (used[1],)}:
            left, right = (key_column(sides[(i,)], sources) for i in used)
            check_meet(left, sources[used[0]].alias, right, sources[used[1]].alias)
            return (used[0], left), (used[1], right)
    raise UnsupportedQuery(
        f"{fragment(condition)!r} ties {' and '.join(sources[i].alias for i in used)} together by something other "
        "than one equality: only conjunctions of equi-joins and of predicates on one relation are answered."
    )
