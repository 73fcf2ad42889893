"""GROUP BY: group columns, the aggregates of each group, HAVING, ORDER BY and LIMIT."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace
from sqlglot import exp, parse_one

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import (
    Source,
    bare,
    check_allowed,
    conjuncts,
    fragment,
    one_where_not_null,
    operand,
    relations_of,
    text,
    unparenthesised,
)
from eddyline.expressions.typing import literal_number
from eddyline.sql.aggregates import is_formula, read_aggregate, read_formula
from eddyline.sql.clauses import check_clauses
from eddyline.sql.details import counts_distinct, is_detail, read_detail
from eddyline.sql.join_tree import check_missing_is_null, sides_of, with_constants_at_root
from eddyline.sql.joins import read_from
from eddyline.sql.links import key_column
from eddyline.sql.query import (
    ENDS,
    RESERVED,
    Comparison,
    Detail,
    FormulaNode,
    FormulaNumber,
    FormulaPart,
    GroupColumn,
    HavingTest,
    Link,
    NamedAggregate,
    NamedFormula,
    Ordering,
    Query,
)
from eddyline.types import Column

# The columns of a grouped query's answer: its groups, and the aggregates that SELECT, HAVING and ORDER BY
# name.


_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}
_DIGITS = 15
"""Numbers with up to this many digits are distinct as floats."""
_TURNED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass
class Outputs:
    """The columns of the answer: group columns, and aggregates in the order in which they are read."""

    groups: list[GroupColumn]
    sources: tuple[Source, ...]
    links: tuple[Link, ...]
    aggregates: list[NamedAggregate] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    formulas: list[NamedFormula] = field(default_factory=list)

    @property
    def measures(self) -> list[str]:
        """The names of all aggregates and formulas."""
        of_rows = [*(each.name for each in self.aggregates), *(each.name for each in self.details)]
        return [*of_rows, *(each.name for each in self.formulas)]

    def read(self, name: str, node: exp.Expr) -> str:
        """Return the name of an output; an aggregate is added to the query."""
        if node.find(exp.AggFunc):
            self._add(name, node)
            return name
        group = self.group_of(node)
        if group is None:
            raise SqlError(
                f"{fragment(node)!r} is neither grouped by nor inside an aggregate: add it to GROUP BY, or aggregate "
                "it."
            )
        return group.name

    def _add(self, name: str, node: exp.Expr) -> None:
        if is_formula(node):
            read = read_formula(node, self._part, self._is_average)
            self.formulas.append(NamedFormula(name, read))
        elif is_detail(node):
            detail = read_detail(name, node, self.sources)
            for column in detail.columns:
                check_missing_is_null(sides_of(self.links), column.relation, column.expression, "the column")
            self.details.append(detail)
        else:
            aggregate = read_aggregate(node, self.sources)
            made = with_constants_at_root(aggregate, len(self.sources), self.links)
            self.aggregates.append(NamedAggregate(name, made))

    def _part(self, node: exp.Expr) -> str:
        """Return the name of an aggregate in a formula, which must be a number."""
        name = self.measure(node)
        if any(each.name == name and (each.kind is not None or not each.is_numeric) for each in self.details):
            raise UnsupportedQuery(
                f"{fragment(node)!r} in a formula does not return a number: select it in a column of its own."
            )
        return name

    def _is_average(self, name: str, count: str) -> bool:
        """Return whether an aggregate over a COUNT is an average, of all rows or of those with a measure."""
        found = {each.name: each.aggregate for each in self.aggregates}
        over, under = found.get(name), found.get(count)
        if over is None or under is None or not under.moment.is_count or not over.moment.is_sum:
            return False
        there = {
            f.relation: text(one_where_not_null(parse_one(f.expression.text, dialect="spark")))
            for f in over.factors
        }
        return not under.factors or there == {f.relation: f.expression.text for f in under.factors}

    def group_of(self, node: exp.Expr) -> GroupColumn | None:
        """Return the group column that an expression equals, if any."""
        return next(
            (g for g in self.groups if is_same_column(node, g.relation, g.expression.text, self.sources)),
            None,
        )

    def measure(self, node: exp.Expr) -> str:
        """Return the name of the aggregate in an expression of HAVING or ORDER BY; a new one is added."""
        node = unparenthesised(node)
        if isinstance(node, exp.Column) and not node.table:
            for name in self.measures:
                if name.lower() == node.name.lower():
                    return name
        if not isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Filter) and not is_formula(node):
            raise UnsupportedQuery(
                f"{fragment(node)!r} is not an aggregate of this query: compare one with a number."
            )
        if is_formula(node):
            read = read_formula(node, self._part, self._is_average)
            same = (each.name for each in self.formulas if each.formula == read)
            return next(same, None) or self._added(node)
        made = Outputs(self.groups, self.sources, self.links)
        made._add("", node)
        for each in self.aggregates:
            if [each.aggregate] == [new.aggregate for new in made.aggregates]:
                return each.name
        for detail in self.details:
            if [replace(detail, name="")] == made.details:
                return detail.name
        return self._added(node)

    def _added(self, node: exp.Expr) -> str:
        self._add(fragment(node), node)
        return fragment(node)

    def having(self, condition: exp.Expr) -> HavingTest:
        """Return a condition of HAVING."""
        comparison = _COMPARISONS.get(type(condition))
        if comparison is None or not isinstance(condition, exp.Binary):
            raise UnsupportedQuery(
                f"{fragment(condition)!r} in HAVING: only comparisons of an aggregate with a number, joined by AND, "
                "are supported."
            )
        left, right = unparenthesised(condition.left), unparenthesised(condition.right)
        number = literal_number(right)
        if number is None:
            number, left = literal_number(left), right
            comparison = _TURNED.get(comparison, comparison)
        if number is None and condition.left.find(exp.AggFunc) and condition.right.find(exp.AggFunc):
            comparison = _COMPARISONS[type(condition)]
            number, left = "0", exp.Sub(this=operand(condition.left), expression=operand(condition.right))
        if number is None:
            raise UnsupportedQuery(
                f"{fragment(condition)!r} in HAVING compares with something other than a number."
            )
        name = self.measure(left)
        if any(each.name == name and not each.is_numeric for each in self.details):
            raise UnsupportedQuery(
                f"{fragment(condition)!r} in HAVING compares {fragment(left)!r}, which is not a number, with a number."
            )
        if sum(map(str.isdigit, number)) > _DIGITS and not self._is_double(name):
            name, number = self._difference(name, number), "0"
        return HavingTest(name, comparison, float(number))

    def _is_double(self, name: str) -> bool:
        """Return whether an aggregate is a DOUBLE, which Spark compares with a number as a DOUBLE."""
        found = next((each.aggregate for each in self.aggregates if each.name == name), None)
        if found is None or not found.moment.is_sum:
            return True
        return any(factor.expression.type.is_float for factor in found.factors)

    def _difference(self, name: str, number: str) -> str:
        """Return the name of an aggregate minus a number, to compare with 0 where no float equals the number."""
        formula = FormulaNode("-", FormulaPart(name), FormulaNumber(number))
        made = NamedFormula(f"{name} - {number}", formula)
        if made not in self.formulas:
            self.formulas.append(made)
        return made.name


def is_same_column(node: exp.Expr, relation: int, written: str, sources: tuple[Source, ...]) -> bool:
    """Return whether an expression is this column of a relation."""
    if node.find(exp.AggFunc) or len(relations_of(node, sources)) > 1:
        return False
    return min(relations_of(node, sources), default=0) == relation and text(bare(node, sources)) == written


# Reading a SELECT with GROUP BY.
#
# A SELECT without GROUP BY that asks for several aggregates is read here, too: its answer has one row. Names
# are resolved as in Spark: GROUP BY prefers the streams' columns to the SELECT list's aliases; ORDER BY and
# HAVING prefer the aliases.


_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit"}
MAX_LIMIT = 1_000_000


def is_grouped(select: exp.Select) -> bool:
    """Return whether a SELECT asks for groups, several aggregates in one row, a formula of them, or single values.

    A single distinct count is read by `sql.sets`.
    """
    if select.args.get("group") or len(select.expressions) != 1:
        return True
    only = select.expressions[0]
    if is_formula(only):
        return True
    return is_detail(only) and not counts_distinct(only)


def read_group_query(written: str, select: exp.Select, streams: Mapping[str, tuple[Column, ...]]) -> Query:
    """Return the grouped query of a SELECT, or raise SqlError or UnsupportedQuery."""
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
            f"{fragment(select)!r} selects no aggregate: select COUNT(*) next to the groups, or ask "
            "COUNT(DISTINCT ...) for how many there are."
        )
    having = tuple(outputs.having(part) for part in _conditions(select))
    order = tuple(_ordering(part, outputs, items) for part in _ordered(select))
    _check_names([group.name for group in groups], outputs.measures, selected)
    return Query(
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
            f"two columns of the answer would have the name {twice[0]!r}: it has the group columns, each aggregate "
            f"with {' and '.join(ENDS)} behind its name, and {' and '.join(RESERVED)}; give another alias, or "
            "select it once."
        )


@dataclass
class _Items:
    """The SELECT list: the name of each item, and the item."""

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
                raise SqlError(
                    f"two columns of the answer have the name {name!r}: give one of them an alias."
                )
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
    """Return a SELECT whose HAVING has only aggregates: conditions on group columns move to WHERE."""
    having = select.args.get("having")
    if having is None:
        return select
    if not select.args.get("group"):
        raise UnsupportedQuery(
            "HAVING without GROUP BY is not supported: leave it out, and compare the one row of the result."
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
            f"{fragment(clause)!r} asks for several groupings at once: ask state.sql, or write one query for each."
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
        raise SqlError(f"{fragment(node)!r} is an aggregate: rows cannot be grouped by it.")
    check_allowed(node)
    relations = relations_of(node, sources)
    if len(relations) > 1:
        raise UnsupportedQuery(
            f"the group {fragment(node)!r} mixes columns of several relations: group by one column of each, "
            "and merge the groups that it cannot distinguish."
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
