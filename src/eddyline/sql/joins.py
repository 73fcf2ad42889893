"""FROM and WHERE: relations, equi-joins, and the predicates of each relation."""

from collections.abc import Iterator, Mapping

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.expressions import Source, bare, check_allowed, conjuncts, fragment, relations_of, text
from eddyline.sql.key_columns import check_meet, key_column
from eddyline.sql.query import Join, Key, Relation
from eddyline.types import Column

_Pair = tuple[exp.Expr, exp.Expr]
MAX_RELATIONS = 2


def read_from(
    select: exp.Select, streams: Mapping[str, tuple[Column, ...]]
) -> tuple[tuple[Relation, ...], tuple[Join, ...], tuple[Source, ...]]:
    """Return (relations, joins, sources) of a SELECT."""
    sources, conditions = _read_tables(select, streams)
    where = select.args.get("where")
    conditions.extend(conjuncts(where.this if where else None))
    predicates: dict[int, set[str]] = {i: set() for i in range(len(sources))}
    pairs: dict[tuple[int, int], list[_Pair]] = {}
    for condition in conditions:
        check_allowed(condition)
        used = sorted(relations_of(condition, sources))
        if len(used) <= 1:
            predicates[used[0] if used else 0].add(text(bare(condition, sources)))
        else:
            pairs.setdefault((used[0], used[-1]), []).append(_equi_pair(condition, used, sources))
    relations = tuple(
        Relation(source.alias, source.stream, tuple(sorted(predicates[i])))
        for i, source in enumerate(sources)
    )
    joins = tuple(_join(left, right, keys, sources) for (left, right), keys in sorted(pairs.items()))
    _check_connected(sources, joins)
    return relations, joins, sources


def _read_tables(
    select: exp.Select, streams: Mapping[str, tuple[Column, ...]]
) -> tuple[tuple[Source, ...], list[exp.Expr]]:
    start = select.args.get("from_")
    if start is None:
        raise SqlError("the query has no FROM: name the stream that it reads.")
    sources = [_source(start.this, streams)]
    conditions: list[exp.Expr] = []
    for join in select.args.get("joins") or []:
        _check_inner(join)
        right = _source(join.this, streams)
        if right.alias.lower() in [source.alias.lower() for source in sources]:
            raise SqlError(f"two relations are called {right.alias!r}: give one of them an alias.")
        conditions.extend(_using(join, sources, right))
        sources.append(right)
        conditions.extend(conjuncts(join.args.get("on")))
    if len(sources) > MAX_RELATIONS:
        raise UnsupportedQuery(
            f"the query joins {len(sources)} relations; this version joins {MAX_RELATIONS}."
        )
    return tuple(sources), conditions


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


def _using(join: exp.Join, lefts: list[Source], right: Source) -> Iterator[exp.Expr]:
    """Yield the equalities that USING (a, b) stands for."""
    for identifier in join.args.get("using") or []:
        owners = [source for source in lefts if source.find(identifier.name)]
        if len(owners) != 1 or not right.find(identifier.name):
            raise SqlError(f"USING ({identifier.name}): the column must be in one relation on either side.")
        yield exp.EQ(
            this=exp.column(identifier.name, table=owners[0].alias),
            expression=exp.column(identifier.name, table=right.alias),
        )


def _equi_pair(condition: exp.Expr, used: list[int], sources: tuple[Source, ...]) -> _Pair:
    """Return the two sides of an equality between two relations, lower relation first."""
    if isinstance(condition, exp.EQ) and len(used) == 2:
        sides = {tuple(relations_of(side, sources)): side for side in (condition.left, condition.right)}
        if set(sides) == {(used[0],), (used[1],)}:
            return sides[(used[0],)], sides[(used[1],)]
    raise UnsupportedQuery(
        f"{fragment(condition)!r} ties {' and '.join(sources[i].alias for i in used)} together by something other "
        "than one equality: only conjunctions of equi-joins and of predicates on one relation are answered."
    )


def _join(left: int, right: int, pairs: list[_Pair], sources: tuple[Source, ...]) -> Join:
    keys = sorted(
        {(key_column(a, sources), key_column(b, sources)) for a, b in pairs},
        key=lambda pair: (pair[0].text, pair[1].text),
    )
    for a, b in keys:
        check_meet(a, sources[left].alias, b, sources[right].alias)
    return Join(left, right, Key(tuple(a for a, _ in keys)), Key(tuple(b for _, b in keys)))


def _check_connected(sources: tuple[Source, ...], joins: tuple[Join, ...]) -> None:
    reached = {0}
    for _ in sources:
        reached |= {
            side for join in joins if reached & {join.left, join.right} for side in (join.left, join.right)
        }
    if len(reached) < len(sources):
        lost = next(source.alias for i, source in enumerate(sources) if i not in reached)
        raise UnsupportedQuery(
            f"no equality joins {lost!r} to the other relations: a cross product is not answered."
        )
