"""GROUP BY: several aggregates for each combination of group columns, with HAVING, ORDER BY and LIMIT.

A SELECT without GROUP BY that asks for several aggregates is read here, too: its answer has one row. Names are resolved
as Spark does: GROUP BY sees the streams' columns before the SELECT list's aliases, ORDER BY and HAVING the other way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.clauses import check_clauses
from eddyline.sql.details import counts_distinct, is_detail
from eddyline.sql.expressions import (
    Source,
    bare,
    check_allowed,
    conjuncts,
    fragment,
    relations_of,
    text,
    unparenthesised,
)
from eddyline.sql.formulas import is_formula
from eddyline.sql.joins import read_from
from eddyline.sql.key_columns import key_column
from eddyline.sql.outputs import Outputs, is_same_column
from eddyline.sql.query import (
    ENDS,
    RESERVED,
    GroupColumn,
    GroupQuery,
    Ordering,
)
from eddyline.sql.sides import check_missing_is_null, sides_of
from eddyline.sql.typing import literal_number
from eddyline.types import Column

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit"}
MAX_LIMIT = 1_000_000


def is_grouped(select: exp.Select) -> bool:
    """Return whether a SELECT asks for groups, for several aggregates in one row, a formula of them, or single values.

    A distinct count of its own is one of sets, or over an inner or semi-join of two streams, if it joins no more.
    """
    if select.args.get("group") or len(select.expressions) != 1:
        return True
    only = select.expressions[0]
    if is_formula(only):
        return True
    return is_detail(only) and (not counts_distinct(only) or _joins_otherwise(select))


def _joins_otherwise(select: exp.Select) -> bool:
    """Return whether a SELECT joins more than two relations, or by an outer or anti join."""
    joins = select.args.get("joins") or []
    outer = any(join.args.get("side") and join.args.get("kind") != "SEMI" for join in joins)
    where = select.args.get("where")
    denied = (
        [part for part in where.find_all(exp.Not) if part.find(exp.Subquery, exp.Exists)] if where else []
    )
    return len(joins) > 1 or outer or bool(denied)


def read_group_query(
    written: str, select: exp.Select, streams: Mapping[str, tuple[Column, ...]]
) -> GroupQuery:
    """Return the grouped query that a SELECT asks, or raise SqlError or UnsupportedQuery."""
    check_clauses(select, _CLAUSES)
    select = _with_having_of_rows(select, streams)
    relations, links, sources, conditions = read_from(select, streams)
    items = _Items(select, sources)
    groups = _read_groups(select, items, sources)
    for group in groups:
        check_missing_is_null(sides_of(links), group.relation, group.expression, "the group")
    outputs = Outputs(groups, sources, links)
    selected = tuple(outputs.read(name, node) for name, node in items.named)
    if not outputs.measures:
        raise UnsupportedQuery(
            f"{fragment(select)!r} selects no aggregate: select COUNT(*) beside the groups, or ask "
            "COUNT(DISTINCT ...) for how many there are."
        )
    having = tuple(outputs.having(part) for part in _conditions(select))
    order = tuple(_ordering(part, outputs, items) for part in _ordered(select))
    _check_names([group.name for group in groups], outputs.measures, selected)
    return GroupQuery(
        written,
        tuple(groups),
        tuple(outputs.aggregates),
        relations,
        links,
        selected,
        having,
        order,
        _limit(select),
        tuple(outputs.details),
        conditions,
        tuple(outputs.formulas),
    )


def _check_names(groups: list[str], aggregates: list[str], selected: tuple[str, ...]) -> None:
    """Raise SqlError where two columns of the answer's table would have one name."""
    names = [*groups, *RESERVED]
    names += [name + suffix for name in aggregates for suffix in ("", *ENDS)]
    lower = [name.lower() for name in names]
    twice = [name for name in names if lower.count(name.lower()) > 1]
    twice += [name for name in selected if selected.count(name) > 1]
    if twice:
        raise SqlError(
            f"two columns of the answer would be called {twice[0]!r}: it has the group columns, each aggregate with "
            f"{' and '.join(ENDS)} behind its name, and {' and '.join(RESERVED)}; give another alias, or select it "
            "once."
        )


@dataclass
class _Items:
    """The SELECT list: what each of its parts is called, and the part."""

    named: list[tuple[str, exp.Expr]]

    def __init__(self, select: exp.Select, sources: tuple[Source, ...]) -> None:
        self.named = []
        for item in select.expressions:
            node = unparenthesised(item.this if isinstance(item, exp.Alias) else item)
            if node.is_star and not isinstance(node, exp.Count):
                raise UnsupportedQuery(
                    f"{fragment(item)!r} in a grouped query: name the group columns and aggregates."
                )
            name = item.alias if isinstance(item, exp.Alias) else _own_name(node)
            if name.lower() in [each.lower() for each, _ in self.named]:
                raise SqlError(f"two columns of the answer are called {name!r}: give one of them an alias.")
            self.named.append((name, node))
        self.sources = sources

    def alias(self, node: exp.Expr) -> exp.Expr | None:
        """Return the part of the SELECT list that an unqualified name means."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        return next((part for name, part in self.named if name.lower() == node.name.lower()), None)

    def at(self, node: exp.Expr) -> exp.Expr | None:
        """Return the part of the SELECT list that a position, counted from 1, means."""
        if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
            return None
        if not 1 <= int(node.name) <= len(self.named):
            raise SqlError(
                f"position {node.name} is not in the SELECT list, which has {len(self.named)} columns."
            )
        return self.named[int(node.name) - 1][1]


def _own_name(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Column) else fragment(node)


def _with_having_of_rows(select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> exp.Select:
    """Return a SELECT whose HAVING speaks of aggregates only: conditions on group columns go to WHERE."""
    having = select.args.get("having")
    if having is None:
        return select
    if not select.args.get("group"):
        raise UnsupportedQuery(
            "HAVING without GROUP BY is not answered: leave it out, and compare the one row that comes."
        )
    select = select.copy()
    of_groups: list[exp.Expr] = []
    of_rows: list[exp.Expr] = []
    aliases = {
        item.alias.lower()
        for item in select.expressions
        if isinstance(item, exp.Alias) and item.find(exp.AggFunc)
    }
    for part in conjuncts(select.args["having"].this):
        names = {column.name.lower() for column in part.find_all(exp.Column) if not column.table}
        (of_groups if part.find(exp.AggFunc) or names & aliases else of_rows).append(part)
    if of_rows:
        _check_grouped(select, of_rows, streams)
        where = select.args.get("where")
        parts = [*(conjuncts(where.this) if where else ()), *of_rows]
        select.set("where", exp.Where(this=exp.and_(*(part.copy() for part in parts))))
    kept = exp.Having(this=exp.and_(*(part.copy() for part in of_groups))) if of_groups else None
    select.set("having", kept)
    return select


def _check_grouped(
    select: exp.Select, conditions: list[exp.Expr], streams: Mapping[str, tuple[Column, ...]]
) -> None:
    """Raise SqlError where a condition of HAVING reads a column that is not grouped by."""
    bare_select = select.copy()
    bare_select.set("having", None)
    sources = read_from(bare_select, streams).sources
    items = _Items(bare_select, sources)
    known = {(g.relation, g.expression.text) for g in _read_groups(bare_select, items, sources)}
    for condition in conditions:
        for column in condition.find_all(exp.Column):
            check_allowed(column)
            at = (min(relations_of(column, sources)), text(bare(column, sources)))
            if at not in known:
                raise SqlError(
                    f"{fragment(column)!r} in HAVING is neither grouped by nor inside an aggregate."
                )


def _read_groups(select: exp.Select, items: _Items, sources: tuple[Source, ...]) -> list[GroupColumn]:
    clause = select.args.get("group")
    if clause is None:
        return []
    extra = [key for key, value in clause.args.items() if value and key not in ("expressions", "all")]
    many = [part for part in clause.expressions if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets)]
    if extra or many:
        raise UnsupportedQuery(
            f"{fragment(clause)!r} asks for several groupings at once: write one query for each of them."
        )
    if clause.args.get("all"):
        nodes = [node for _, node in items.named if not node.find(exp.AggFunc)]
    else:
        nodes = [_group_node(part, items, sources) for part in clause.expressions]
    groups: list[GroupColumn] = []
    for node in nodes:
        made = _group_column(node, items, sources)
        if made not in groups:
            groups.append(made)
    return groups


def _group_node(part: exp.Expr, items: _Items, sources: tuple[Source, ...]) -> exp.Expr:
    """Return what a part of GROUP BY means: a position, a column of a stream, or an alias."""
    part = unparenthesised(part)
    by_position = items.at(part)
    if by_position is not None:
        return by_position
    alias = items.alias(part)
    is_column = isinstance(part, exp.Column) and any(source.find(part.name) for source in sources)
    return alias if alias is not None and not is_column else part


def _group_column(node: exp.Expr, items: _Items, sources: tuple[Source, ...]) -> GroupColumn:
    if node.find(exp.AggFunc):
        raise SqlError(f"{fragment(node)!r} is an aggregate, by which rows cannot be grouped.")
    check_allowed(node)
    relations = relations_of(node, sources)
    if len(relations) > 1:
        raise UnsupportedQuery(
            f"the group {fragment(node)!r} mixes columns of several relations: group by one column of each, "
            "and put the groups together that it does not tell apart."
        )
    column = key_column(node, sources)
    relation = min(relations, default=0)
    same = (name for name, part in items.named if is_same_column(part, relation, column.text, sources))
    return GroupColumn(next(same, _own_name(node)), relation, column)


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    having = select.args.get("having")
    for part in conjuncts(having.this if having else None):
        if isinstance(part, exp.Between) and not part.args.get("symmetric"):
            yield exp.GTE(this=part.this, expression=part.args["low"])
            yield exp.LTE(this=part.this, expression=part.args["high"])
        else:
            yield part


def _ordered(select: exp.Select) -> list[exp.Ordered]:
    order = select.args.get("order")
    return list(order.expressions) if order is not None else []


def _ordering(part: exp.Ordered, outputs: Outputs, items: _Items) -> Ordering:
    node = unparenthesised(part.this)
    node = items.at(node) or items.alias(node) or node
    nulls_first = bool(part.args.get("nulls_first"))
    if node.find(exp.AggFunc):
        name = outputs.measure(node)
    else:
        group = outputs.group_of(node)
        if group is None:
            raise SqlError(
                f"ORDER BY {fragment(part.this)!r}: it is neither a group column nor an aggregate of the query."
            )
        name = group.name
    return Ordering(name, bool(part.args.get("desc")), nulls_first)


def _limit(select: exp.Select) -> int | None:
    limit = select.args.get("limit")
    if limit is None:
        return None
    number = literal_number(limit.expression)
    if number is None or not number.isdigit() or int(number) > MAX_LIMIT:
        raise UnsupportedQuery(f"{fragment(limit)!r}: LIMIT takes a number up to {MAX_LIMIT:,}.")
    return int(number)
