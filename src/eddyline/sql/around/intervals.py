"""The origin of each result column: its parts, and whether the interval of an estimate carries over to it.

A column that is a monotone function of one estimate has ends, computed from those of the estimate. Any other column
that depends on an estimate has none. Rows that are chosen, joined, ordered or grouped by estimates are noted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import unparenthesised
from eddyline.sql.around.part_tables import QueryPart
from eddyline.sql.around.rows import relations_of_from

ColumnEnds = tuple[exp.Expr, exp.Expr]
LOW, HIGH = " low", " high"
"""Suffixes of a column's name for its ends inside the rest of a query: no user's name ends like this."""


@dataclass(frozen=True)
class ColumnOrigin:
    """What a column depends on: the parts by name, whether it depends on an estimate, and on the number of rows.

    ends: the expressions of its interval, in the query that has the column. is_end: it is an end itself.
    """

    parts: frozenset[str] = frozenset()
    estimate: bool = False
    ends: ColumnEnds | None = None
    is_end: bool = False


@dataclass
class Decisions:
    """The parts whose estimates choose, order or group rows, by the clause that uses them."""

    by: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, what: str, parts: frozenset[str]) -> None:
        """Note that estimates of some parts decide something."""
        if parts:
            self.by[what] = self.by.get(what, frozenset()) | parts


_Columns = dict[str, ColumnOrigin]


def follow(
    query: exp.Expr,
    parts: Sequence[QueryPart],
    decisions: Decisions,
    known: Mapping[str, _Columns] | None = None,
    outer: Mapping[str, _Columns] | None = None,
) -> list[tuple[str, ColumnOrigin]]:
    """Return the columns of a query with their origins; derived tables inside it get columns for the ends.

    known: the tables of WITH by name. outer: the relations of the queries around it, which it may read.
    """
    if "origins" in query.meta:  # its tables already have their ends
        found: list[tuple[str, ColumnOrigin]] = query.meta["origins"]
        return found
    query.meta["origins"] = made = _follow(query, parts, decisions, dict(known or {}), outer or {})
    return made


def _follow(
    query: exp.Expr,
    parts: Sequence[QueryPart],
    decisions: Decisions,
    known: dict[str, _Columns],
    outer: Mapping[str, _Columns],
) -> list[tuple[str, ColumnOrigin]]:
    clause = query.args.get("with_")
    for cte in clause.expressions if clause is not None else ():
        known[cte.alias.lower()] = _with_ends(cte.this, follow(cte.this, parts, decisions, known, outer))
    if isinstance(query, exp.Subquery):
        return follow(query.this, parts, decisions, known, outer)
    if isinstance(query, exp.SetOperation):
        sides = (follow(each, parts, decisions, known, outer) for each in (query.this, query.expression))
        return _of_set(query, decisions, *sides)
    assert isinstance(query, exp.Select)
    return _Followed(query, parts, decisions, known, outer).columns()


def _of_set(
    query: exp.SetOperation,
    decisions: Decisions,
    left: list[tuple[str, ColumnOrigin]],
    right: list[tuple[str, ColumnOrigin]],
) -> list[tuple[str, ColumnOrigin]]:
    if len(left) != len(right):
        kind = type(query).__name__.upper()
        raise UnsupportedQuery(f"{kind} of results with {len(left)} and with {len(right)} columns.")
    every = frozenset().union(*(origin.parts for _, origin in (*left, *right)))
    if not isinstance(query, exp.Union) or query.args.get("distinct"):
        estimated = any(origin.estimate for _, origin in (*left, *right))
        decisions.add(type(query).__name__.upper(), every if estimated else frozenset())
        return [
            (name, ColumnOrigin(every, one.estimate or two.estimate))
            for (name, one), (_, two) in zip(left, right, strict=True)
        ]
    made = []
    for (name, one), (_, two) in zip(left, right, strict=True):
        carried = all(each.ends is not None or not each.estimate for each in (one, two))
        estimate = one.estimate or two.estimate
        ends = (exp.Null(), exp.Null()) if carried and estimate else None
        made.append((name, ColumnOrigin(one.parts | two.parts, estimate, ends, one.is_end and two.is_end)))
    return made


def add_ends(query: exp.Expr, names: Sequence[str], origins: Sequence[ColumnOrigin]) -> None:
    """Add the ends of some columns, by name, to what a query selects."""
    if isinstance(query, exp.Subquery):
        add_ends(query.this, names, origins)
    elif isinstance(query, exp.SetOperation):
        add_ends(query.this, names, origins)
        add_ends(query.expression, names, origins)
    else:
        own: list[ColumnEnds | None] = query.meta["ends"]
        if query.meta.get("has ends"):
            return
        query.meta["has ends"] = True
        items = list(query.expressions)
        for place, name in enumerate(names):
            if origins[place].ends is None:
                continue
            plain = items[place].unalias()
            low, high = own[place] or (plain, plain)
            query.append("expressions", exp.alias_(low.copy(), f"{name}{LOW}", quoted=True))
            query.append("expressions", exp.alias_(high.copy(), f"{name}{HIGH}", quoted=True))


def _with_ends(query: exp.Expr, columns: list[tuple[str, ColumnOrigin]]) -> _Columns:
    """Return the columns of a derived table as other queries read them; its ends are separate columns."""
    names = [name for name, _ in columns]
    twice = next((name for name in names if [each.lower() for each in names].count(name.lower()) > 1), None)
    if twice is not None:
        raise SqlError(f"a subquery has two columns with the name {twice!r}: give one of them another alias.")
    add_ends(query, names, [origin for _, origin in columns])
    return dict(columns)


@dataclass
class _Followed:
    """A SELECT whose columns are traced back to the parts."""

    select: exp.Select
    parts: Sequence[QueryPart]
    decisions: Decisions
    known: Mapping[str, _Columns]
    outer: Mapping[str, _Columns]
    sources: dict[str, _Columns] = field(default_factory=dict)

    def columns(self) -> list[tuple[str, ColumnOrigin]]:  # noqa: C901 - one step per clause
        """Return the columns of the SELECT, each with its ends."""
        select = self.select
        rows = self._read_from()
        for name in ("where", "having", "qualify"):
            clause = select.args.get(name)
            if clause is not None:
                rows |= self._decides(clause, clause.meta.get("what", name.upper()))
        for join in select.args.get("joins") or ():
            if join.args.get("on") is not None:
                rows |= self._decides(join.args["on"], "JOIN")
        if select.args.get("limit") is not None or select.args.get("offset") is not None:
            for ordered in select.args["order"].expressions if select.args.get("order") else ():
                rows |= self._decides(ordered, "ORDER BY with LIMIT", self._aliased(ordered))
        grouped = self._is_grouped()
        group = select.args.get("group")
        for node in group.expressions if group is not None else ():
            self._decides(node, "GROUP BY")
        if grouped:
            self.decisions.add("aggregate", rows)
        distinct = select.args.get("distinct") is not None
        found = []
        for item in select.expressions:
            origin = self._origin(item.unalias())
            if distinct and origin.estimate:
                self.decisions.add("DISTINCT", origin.parts)
            ends = None if grouped or distinct else origin.ends
            found.append((item.alias_or_name, replace(origin, parts=origin.parts | rows, ends=ends)))
        select.meta["ends"] = [origin.ends for _, origin in found]
        return found

    def _read_from(self) -> frozenset[str]:
        """Read the relations of FROM, and return the parts that provide their rows."""
        select, rows = self.select, frozenset[str]()
        joins = select.args.get("joins") or []
        for place, relation in enumerate(relations_of_from(select)):
            alias = relation.alias_or_name.lower()
            columns = self._relation(relation)
            sides = (
                [join.side for join in joins[max(place - 1, 0) :]] if place else [join.side for join in joins]
            )
            own = joins[place - 1].side if place else ""
            later = sides[1:] if place else sides
            missing = own in ("LEFT", "FULL") or any(side in ("RIGHT", "FULL") for side in later)
            if missing:  # a NULL of an outer join is uncertain where a part may lack groups
                columns = {name: replace(origin, ends=None) for name, origin in columns.items()}
            self.sources[alias] = columns
            rows |= frozenset().union(*(origin.parts for origin in columns.values()))
        return rows

    def _relation(self, relation: exp.Expr) -> _Columns:
        if isinstance(relation, exp.Subquery | exp.Lateral):
            is_lateral = isinstance(relation, exp.Lateral)
            inner = relation.this.this if is_lateral else relation.this
            outer = {**self.outer, **self.sources} if is_lateral else self.outer
            return _with_ends(inner, follow(inner, self.parts, self.decisions, self.known, outer))
        name = relation.name.lower()
        if name in self.known:
            return self.known[name]
        part = next(each for each in self.parts if each.name == name)
        of = frozenset([part.name])
        columns: _Columns = {}
        for column in part.columns:
            ends = (exp.Null(), exp.Null()) if column.estimate else None
            columns[column.name] = ColumnOrigin(of, column.estimate, ends)
            if column.estimate:
                columns[f"{column.name}_low"] = columns[f"{column.name}_high"] = ColumnOrigin(
                    of, estimate=True, is_end=True
                )
        return columns

    def _is_grouped(self) -> bool:
        if self.select.args.get("group") is not None:
            return True
        return any(
            not isinstance(each.parent, exp.Window)
            and not _in_window(each)
            and not _in_query(each, self.select)
            for item in self.select.expressions
            for each in item.find_all(exp.AggFunc)
        )

    def _aliased(self, ordered: exp.Expr) -> exp.Expr | None:
        node = unparenthesised(ordered.this)
        if isinstance(node, exp.Column) and not node.table:
            return next((e.unalias() for e in self.select.expressions if e.alias_or_name == node.name), None)
        return None

    def _decides(self, node: exp.Expr, what: str, instead: exp.Expr | None = None) -> frozenset[str]:
        """Return the parts that a condition or an order reads, and note that their estimates decide."""
        origin = self._origin(instead if instead is not None else node)
        if origin.estimate:
            self.decisions.add(what, origin.parts)
        return origin.parts

    def _origin(self, node: exp.Expr) -> ColumnOrigin:
        """Return what an expression depends on, with its ends where it is a monotone function of one estimate."""
        found = self._depends(node)
        if isinstance(node, exp.Column) and node.table:
            origin = self._source(node)
            found = replace(found, is_end=origin is not None and origin.is_end)
        return replace(found, ends=self._ends(node)) if found.estimate else found

    def _source(self, column: exp.Column) -> ColumnOrigin | None:
        """Return the origin of a column of FROM, or of a query around this one."""
        table = column.table.lower()
        columns = self.sources.get(table, self.outer.get(table, {})) if table else {}
        return columns.get(column.name.lower())

    def _depends(self, node: exp.Expr) -> ColumnOrigin:
        parts, estimate = frozenset[str](), False
        stack = [node]
        while stack:
            each = stack.pop()
            if isinstance(each, exp.Query):
                around = {**self.outer, **self.sources}
                inner = follow(each, self.parts, self.decisions, self.known, around)
                parts |= frozenset().union(*(origin.parts for _, origin in inner))
                is_test = isinstance(each.parent, exp.In | exp.Exists)
                estimate |= bool(parts) and (is_test or any(origin.estimate for _, origin in inner))
                continue
            if isinstance(each, exp.Column):
                origin = self._source(each)
                if origin is not None:
                    parts |= origin.parts
                    estimate |= origin.estimate
                continue
            if isinstance(each, exp.AggFunc | exp.Window) and not isinstance(each, exp.Grouping):
                estimate = True  # because the number and choice of rows are estimates
                parts |= frozenset().union(
                    *(origin.parts for columns in self.sources.values() for origin in columns.values())
                )
            stack += list(each.iter_expressions())
        return ColumnOrigin(parts, estimate)

    def _ends(self, node: exp.Expr) -> ColumnEnds | None:  # noqa: PLR0911 - one line per kind
        """Return the ends of an expression; None where it is not a monotone function of one estimate."""
        node = unparenthesised(node)
        if isinstance(node, exp.Column):
            return self._column_ends(node)
        if isinstance(node, exp.Subquery):
            return self._subquery_ends(node)
        if isinstance(node, exp.Neg):
            inner = self._ends(node.this)
            return None if inner is None else (_neg(inner[1]), _neg(inner[0]))
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return self._of_two(node)
        if isinstance(node, exp.Cast) and node.to.this in exp.DataType.NUMERIC_TYPES:
            inner = self._ends(node.this)
            if inner is None or node.to.this not in exp.DataType.INTEGER_TYPES:
                return inner
            return _call("trunc", inner[0]), _call("trunc", inner[1])
        if isinstance(node, exp.Floor | exp.Ceil) and node.args.get("decimals") is None:
            inner, name = self._ends(node.this), "floor" if isinstance(node, exp.Floor) else "ceil"
            return None if inner is None else (_call(name, inner[0]), _call(name, inner[1]))
        if isinstance(node, exp.Round):
            inner = self._ends(node.this)
            return None if inner is None else (_same(node, inner[0]), _same(node, inner[1]))
        if (
            isinstance(node, exp.Coalesce)
            and len(node.expressions) == 1
            and self._is_certain(node.expressions[0])
        ):
            inner = self._ends(node.this)
            return None if inner is None else _coalesced(node, inner)
        return None

    def _is_certain(self, node: exp.Expr) -> bool:
        return not self._depends(node).estimate

    def _column_ends(self, column: exp.Column) -> ColumnEnds | None:
        name = column.name.lower()
        origin = self.sources.get(column.table.lower(), {}).get(name)
        if origin is None or origin.ends is None:
            return None
        table = self._table_of(column.table.lower())
        ends = ("_low", "_high") if table is not None else (LOW, HIGH)
        low, high = (exp.column(f"{name}{end}", table=column.table, quoted=True) for end in ends)
        return low, high

    def _table_of(self, alias: str) -> QueryPart | None:
        """Return the part that an alias of FROM names; None for a derived table."""
        for relation in relations_of_from(self.select):
            if relation.alias_or_name.lower() == alias and isinstance(relation, exp.Table):
                name = relation.name.lower()
                return None if name in self.known else next(each for each in self.parts if each.name == name)
        return None

    def _subquery_ends(self, node: exp.Subquery) -> ColumnEnds | None:
        """Return the ends of a scalar subquery, where it does not read the outer query."""
        made = node.copy()
        if not isinstance(made.this, exp.Select) or not made.this.args.get("from_"):
            return None
        (_, origin), *more = follow(made.this, self.parts, Decisions(), self.known)
        if more or origin.ends is None or made.this.args.get("limit") is not None:
            return None
        found = []
        for end in origin.ends:
            inner = made.this.copy()
            inner.set("expressions", [exp.alias_(end.copy(), "end")])
            found.append(exp.Subquery(this=inner))
        return found[0], found[1]

    def _of_two(self, node: exp.Binary) -> ColumnEnds | None:  # noqa: PLR0911 - one line per case
        """Return the ends of a sum, difference, product or quotient of an estimate and a certain value.

        Sums and differences of two estimates have ends only if the intervals of all parts hold together.
        """
        left_certain, right_certain = self._is_certain(node.left), self._is_certain(node.right)
        if not left_certain and not right_certain and all(part.together for part in self.parts):
            return self._of_two_estimates(node)
        if left_certain == right_certain:
            return None
        inner = self._ends(node.right if left_certain else node.left)
        if inner is None:
            return None
        (low, high), other = inner, (node.left if left_certain else node.right)
        if isinstance(node, exp.Add):
            return _op(exp.Add, low, other), _op(exp.Add, high, other)
        if isinstance(node, exp.Sub):
            if left_certain:
                return _op(exp.Sub, other, high), _op(exp.Sub, other, low)
            return _op(exp.Sub, low, other), _op(exp.Sub, high, other)
        if isinstance(node, exp.Div) and left_certain:
            return None  # this needs its sign, and whether it crosses 0
        one, two = _op(type(node), low, other), _op(type(node), high, other)
        number = unparenthesised(other)
        turned = isinstance(number, exp.Neg) and isinstance(number.this, exp.Literal)
        if isinstance(number, exp.Literal) or turned:
            if isinstance(node, exp.Mul) and float((number.this if turned else number).name) == 0:
                return node.copy(), node.copy()
            return (two, one) if turned else (one, two)
        of_zero = exp.Null() if isinstance(node, exp.Div) else exp.Literal.number(0)
        return _by_sign(other, one, two, of_zero), _by_sign(other, two, one, of_zero)

    def _of_two_estimates(self, node: exp.Binary) -> ColumnEnds | None:
        one, other = self._ends(node.left), self._ends(node.right)
        if one is None or other is None or not isinstance(node, exp.Add | exp.Sub):
            return None
        first, last = other if isinstance(node, exp.Add) else other[::-1]
        return _op(type(node), one[0], first), _op(type(node), one[1], last)


def _in_window(node: exp.Expr) -> bool:
    """Return whether an aggregate is itself the window function, and not its argument."""
    around = node.parent
    while isinstance(around, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        around = around.parent
    return isinstance(around, exp.Window)


def _in_query(node: exp.Expr, select: exp.Expr) -> bool:
    return node.find_ancestor(exp.Select) is not select


def _op(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    more = {"typed": False, "safe": True} if kind is exp.Div else {}
    return exp.Paren(this=kind(this=_operand(left), expression=_operand(right), **more))


def _operand(node: exp.Expr) -> exp.Expr:
    made = node.copy()
    return exp.Paren(this=made) if isinstance(made, exp.Binary) else made


def _neg(node: exp.Expr) -> exp.Expr:
    return exp.Neg(this=exp.Paren(this=node.copy()))


def _call(name: str, node: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=f"ends_{name}", expressions=[node.copy()])


def _same(node: exp.Expr, end: exp.Expr) -> exp.Expr:
    made = node.copy()
    made.set("this", exp.cast(end.copy(), "DOUBLE"))
    return made


def _by_sign(other: exp.Expr, positive: exp.Expr, negative: exp.Expr, of_zero: exp.Expr) -> exp.Expr:
    """Return one of two ends by the sign of a factor that is a column."""
    zero = exp.Literal.number(0)
    return exp.Case(
        ifs=[
            exp.If(this=exp.GT(this=_operand(other), expression=zero), true=positive.copy()),
            exp.If(this=exp.LT(this=_operand(other), expression=zero.copy()), true=negative.copy()),
            exp.If(this=exp.EQ(this=_operand(other), expression=zero.copy()), true=of_zero.copy()),
        ]
    )


def _coalesced(node: exp.Coalesce, inner: ColumnEnds) -> ColumnEnds:
    """Return the ends of COALESCE(x, number): they are infinite where x is not known."""
    made = []
    for end, sign in zip(inner, ("-", ""), strict=True):
        unknown = exp.and_(
            exp.Is(this=node.this.copy(), expression=exp.Null()),
            exp.Not(this=exp.Is(this=end.copy(), expression=exp.Null())),
        )
        infinite = exp.cast(exp.Literal.string(f"{sign}Infinity"), "DOUBLE")
        known = exp.Coalesce(this=end.copy(), expressions=[node.expressions[0].copy()])
        made.append(exp.Case(ifs=[exp.If(this=unknown, true=infinite)], default=known))
    return made[0], made[1]
