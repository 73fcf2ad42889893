"""The parts of a query that are aggregates over streams, each extracted and replaced by a table.

A SELECT over streams is split: its group columns and its aggregates become one query that eddyline supports. What
it does with them (other expressions, window functions, HAVING, ORDER BY, LIMIT, DISTINCT) stays in the rest, over a
table with those columns. Supported formulas of aggregates stay in the part, where their intervals are narrower.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import text, unparenthesised
from eddyline.sql.aggregates import is_formula
from eddyline.sql.around.part_tables import PartColumn, QueryPart, measure_types, names_of_sums
from eddyline.sql.around.patterns import truncation_of
from eddyline.sql.around.rows import (
    END_OF,
    Scene,
    is_rows_only,
    reads_streams_alone,
    relations_of_from,
    unquoted,
)
from eddyline.sql.clauses import rows_are_not_kept
from eddyline.sql.parse import parse_query
from eddyline.sql.query import ENDS, AnyQuery

_AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Filter)
_MOST_VALUES = 1_000
"""Most values of an IN subquery that become constants: chosen; a condition of that length is still fast."""


@dataclass(frozen=True)
class Values:
    """The values of a subquery, as SQL literals; exact: they are certain."""

    literals: tuple[str, ...]
    exact: bool


Resolve = Callable[[str], Values]
"""Answers a subquery of one column, whose values become constants of the outer query."""


@dataclass
class Taken:
    """The parts that are extracted so far.

    conditions: subqueries whose values are not exact, as they are written. resolved: values of subqueries became
    constants, so the parts are valid for one state only.
    """

    scene: Scene
    resolve: Resolve
    parts: list[QueryPart] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    resolved: bool = False

    def query(self, query: exp.Expr, ctes: Mapping[str, exp.CTE]) -> exp.Expr:
        """Return a query in which tables replace the aggregates over streams."""
        ctes = dict(ctes)
        clause = query.args.get("with_")
        if clause is not None:
            if clause.args.get("recursive"):
                raise UnsupportedQuery("WITH RECURSIVE is not supported.")
            for cte in clause.expressions:
                written = cte.copy()
                cte.set("this", self.query(cte.this, ctes))
                ctes[cte.alias.lower()] = written
        if isinstance(query, exp.SetOperation):
            query.set("this", self.query(query.this, ctes))
            query.set("expression", self.query(query.expression, ctes))
            return query
        if isinstance(query, exp.Subquery):
            query.set("this", self.query(query.this, ctes))
            return query
        if not isinstance(query, exp.Select):
            raise UnsupportedQuery(f"{unquoted(query)!r} is not a SELECT.")
        return self._select(query, ctes)

    def _select(self, select: exp.Select, ctes: Mapping[str, exp.CTE]) -> exp.Expr:
        if reads_streams_alone(select, self.scene, set(ctes)):
            return _Peeled(self, select, ctes).outer()
        whole = self._of_sets(select, ctes)
        if whole is not None:
            return whole
        for compared in select.find_all(exp.Any, exp.All):
            raise UnsupportedQuery(
                f"{unquoted(compared)!r}: compare with MAX or MIN of the subquery instead."
            )
        for relation in list(relations_of_from(select)):
            if isinstance(relation, exp.Table):
                if relation.name.lower() not in ctes:
                    raise UnsupportedQuery(
                        f"{unquoted(relation)!r} in {unquoted(select)!r} is a stream and is joined with a query: a "
                        "stream's rows are not kept, only aggregates of them. Group the stream by the columns that it "
                        "is joined on, in a subquery of its own."
                    )
            elif isinstance(relation, exp.Subquery):
                relation.set("this", self.query(relation.this, ctes))
            elif isinstance(relation, exp.Lateral) and isinstance(relation.this, exp.Subquery):
                relation.this.set("this", self.query(relation.this.this, ctes))
            else:
                raise UnsupportedQuery(f"{unquoted(relation)!r} in FROM is not supported.")
        self.subqueries(select, ctes)
        return select

    def subqueries(self, select: exp.Expr, ctes: Mapping[str, exp.CTE]) -> None:
        """Extract the parts of the subqueries in a SELECT's expressions."""
        for node in list(select.find_all(exp.Subquery, exp.Exists, exp.In)):
            inner = node.args.get("query") if isinstance(node, exp.In) else node.this
            if isinstance(inner, exp.Subquery):
                continue  # it is visited separately
            if (
                not isinstance(inner, exp.Query)
                or isinstance(node.parent, exp.From | exp.Join | exp.Lateral)
                or _is_inside(node, select)
            ):
                continue
            name = "query" if isinstance(node, exp.In) else "this"
            node.set(name, self.query(inner, ctes))

    def _of_sets(self, select: exp.Select, ctes: Mapping[str, exp.CTE]) -> exp.Expr | None:
        """Return a count over sets of streams' columns as one part; None for any other SELECT."""
        tables = [table.name.lower() for table in select.find_all(exp.Table)]
        if not tables or any(name in ctes for name in tables) or len(select.expressions) != 1:
            return None
        try:
            parsed = parse_query(text(select), self.scene.streams)
        except SqlError:
            return None
        alias = select.expressions[0].alias or "n"
        part = self.add(text(select), parsed, [], ["a0"])
        return exp.select(exp.alias_(exp.column("a0", table=part.name), alias, quoted=True)).from_(part.name)

    def add(self, written: str, parsed: AnyQuery, groups: list[str], measures: list[str]) -> QueryPart:
        """Return the part of a query, a new one unless the same query was extracted before."""
        known = next((each for each in self.parts if each.text == written), None)
        if known is not None:
            return known
        kinds = measure_types(parsed, measures)
        group_types = {g.name: g.expression.type for g in parsed.groups}
        columns = [PartColumn(name, group_types[name], estimate=False) for name in groups]
        sums = names_of_sums(parsed, measures)
        columns += [PartColumn(name, kinds[name], estimate=True, sum=name in sums) for name in measures]
        name = f"part_{len(self.parts) + 1}"
        part = QueryPart(name, written, tuple(columns), bool(groups), self.scene.together)
        self.parts.append(part)
        return part


def _is_inside(node: exp.Expr, select: exp.Expr) -> bool:
    """Return whether a subquery belongs to a query inside a SELECT."""
    around = node.parent
    while around is not None and around is not select:
        if isinstance(around, exp.Query):
            return True
        around = around.parent
    return False


class _Peeled:
    """A SELECT over streams, split into a supported query and what is done with its columns."""

    def __init__(self, taken: Taken, select: exp.Select, ctes: Mapping[str, exp.CTE]) -> None:
        self.taken, self.select, self.ctes = taken, select, ctes
        self.groups: list[exp.Expr] = []
        self.sets: list[tuple[int, ...]] | None = None
        self.measures: list[exp.Expr] = []
        self.table = "part"

    def outer(self) -> exp.Expr:  # noqa: C901 - one step per clause
        """Return what is done with the part's columns."""
        select = self.select
        for clause in ("laterals", "pivots", "match", "sample", "cluster", "distribute", "sort", "connect"):
            if select.args.get(clause):
                raise UnsupportedQuery(f"eddyline does not support queries with {clause.upper()}.")
        self.groups = self._group_nodes()
        if not self.groups and not any(item.find(exp.AggFunc) for item in select.expressions):
            raise UnsupportedQuery(rows_are_not_kept(unquoted(select)))
        self._check_own_columns()
        self._with_values_of_subqueries()
        items = [
            exp.alias_(self._outer(item.unalias()), item.alias or f"_col_{place}", quoted=True)
            for place, item in enumerate(select.expressions)
        ]
        having, qualified = select.args.get("having"), select.args.get("qualify")
        conditions = [self._outer(having.this)] if having is not None else []
        order = (
            [self._ordered(each) for each in select.args["order"].expressions]
            if select.args.get("order")
            else []
        )
        qualify = self._outer(qualified.this) if qualified is not None else None
        if not self.groups and not self.measures:
            raise UnsupportedQuery(rows_are_not_kept(unquoted(select)))
        made = exp.select(*items)
        if select.args.get("distinct") is not None:
            made.set("distinct", select.args["distinct"].copy())
        if conditions:
            made = made.where(*conditions)
            made.args["where"].meta["what"] = "HAVING"
        if qualify is not None:
            made.set("qualify", exp.Qualify(this=qualify))
        if order:
            made.set("order", exp.Order(expressions=order))
        if select.args.get("windows"):
            made.set("windows", [self._outer(each) for each in select.args["windows"]])
        for clause in ("limit", "offset", "with_"):
            if select.args.get(clause) is not None:
                made.set(clause, select.args[clause].copy())
        self._set_source(made)
        self.taken.subqueries(made, self.ctes)
        return made

    def _check_own_columns(self) -> None:
        """Raise UnsupportedQuery where a subquery over streams reads a column of the outer query."""
        own = {table.alias_or_name for table in self.select.find_all(exp.Table)}
        own |= {each.alias for each in self.select.find_all(exp.Subquery) if each.alias}
        for column in self.select.find_all(exp.Column):
            if column.table and column.table not in own:
                raise UnsupportedQuery(
                    f"the subquery {unquoted(self.select)!r} reads {column.table}.{column.name} of the query around "
                    "it: write it as a grouped query by that column, and join that."
                )

    def _group_nodes(self) -> list[exp.Expr]:
        clause = self.select.args.get("group")
        items = [item.unalias() for item in self.select.expressions]
        if clause is not None and clause.args.get("all"):
            return _each_once([item for item in items if not item.find(exp.AggFunc)])
        if clause is not None:
            if any(value for name, value in clause.args.items() if name not in ("expressions", "all")):
                raise UnsupportedQuery(f"{unquoted(clause)!r} is not a list of columns to group by.")
            if isinstance(clause.expressions[0], exp.GroupingSets):
                return self._groups_of_sets(clause.expressions[0])
            return _each_once([self._plain_group(unparenthesised(each)) for each in clause.expressions])
        is_distinct = self.select.args.get("distinct") is not None
        if is_distinct and not any(item.find(exp.AggFunc, exp.Window) for item in items):
            return _each_once(items)
        return []

    def _groups_of_sets(self, clause: exp.GroupingSets) -> list[exp.Expr]:
        """Return the columns of all GROUPING SETS, and note which of them each set has."""
        written = [[unparenthesised(each) for each in columns.expressions] for columns in clause.expressions]
        plain = {each: self._plain_group(each) for columns in written for each in _each_once(columns)}
        groups = _each_once(list(plain.values()))
        self.sets = [
            tuple(dict.fromkeys(groups.index(plain[each]) for each in columns)) for columns in written
        ]
        return groups

    def _plain_group(self, node: exp.Expr) -> exp.Expr:
        """Return a group column; for date_format(t, 'yyyy-MM') the truncated time, which is formatted later."""
        unit = truncation_of(node) if isinstance(node, exp.TimeToStr) else None
        if unit is None:
            return node
        column = unparenthesised(node.this)
        while isinstance(column, exp.TimeStrToTime | exp.TsOrDsToDate):
            column = unparenthesised(column.this)
        kind = self._kind_of(column)
        if kind == "date":
            truncated = exp.DateTrunc(this=column.copy(), unit=exp.Literal.string(unit))  # type: ignore[no-untyped-call]
            plain = column if unit in ("DAY", "HOUR", "MINUTE", "SECOND") else truncated
        else:
            plain = exp.TimestampTrunc(this=column.copy(), unit=exp.var(unit))
        made = node.copy()
        made.set("this", plain.copy())
        for place in list(self.select.find_all(exp.TimeToStr)):
            if place == node and place is not node and place.find_ancestor(exp.Where) is None:
                place.replace(made.copy())
        return plain

    def _kind_of(self, column: exp.Expr) -> str | None:
        """Return the kind of a column of a stream."""
        if not isinstance(column, exp.Column):
            return None
        for relation in relations_of_from(self.select):
            stream = self.taken.scene.stream(relation.name)
            if relation.alias_or_name == column.table and stream is not None:
                columns = self.taken.scene.streams[stream]
                return next((c.type.kind for c in columns if c.name.lower() == column.name.lower()), None)
        return None

    def _with_values_of_subqueries(self) -> None:
        """Put the values of scalar subqueries, and of grouped IN subqueries, into the conditions on rows."""
        places = [
            self.select.args.get("where"),
            *(join.args.get("on") for join in self.select.args.get("joins") or ()),
        ]
        for place in places:
            for node in list(place.find_all(exp.Subquery)) if isinstance(place, exp.Expr) else ():
                if isinstance(node.parent, exp.From | exp.Join) or _is_inside(node, place):
                    continue
                inner = node.this
                if isinstance(node.parent, exp.In) and node.parent.args.get("query") is node:
                    if not _is_of_class(inner):
                        self._put_list(node.parent, inner)
                elif not isinstance(node.parent, exp.Exists):
                    (value,) = self._values(inner, 1) or ("NULL",)
                    node.replace(exp.maybe_parse(value, dialect="spark"))

    def _put_list(self, around: exp.In, inner: exp.Query) -> None:
        values = self._values(inner, _MOST_VALUES)
        if isinstance(around.parent, exp.Not) and "NULL" in values:
            raise UnsupportedQuery(
                f"{unquoted(around.parent)!r}: the subquery has a NULL, so that no row meets NOT IN: filter it out."
            )
        listed: list[exp.Expr] = [exp.maybe_parse(each, dialect="spark") for each in values if each != "NULL"]
        if listed:
            around.replace(exp.In(this=around.this.copy(), expressions=listed))
        else:
            around.replace(exp.EQ(this=around.this.copy(), expression=exp.Null()))

    def _values(self, inner: exp.Query, most: int) -> tuple[str, ...]:
        """Return the values of a subquery of one column as literals."""
        if len(inner.selects) != 1:
            raise SqlError(f"the subquery {unquoted(inner)!r} has {len(inner.selects)} columns: select one.")
        known = {table.alias_or_name for table in inner.find_all(exp.Table)}
        outside = [
            column for column in inner.find_all(exp.Column) if column.table and column.table not in known
        ]
        if outside and not inner.find(exp.Subquery):
            raise UnsupportedQuery(
                f"the subquery {unquoted(inner)!r} reads {unquoted(outside[0])!r} of the query around it: write it as "
                "a grouped query, and join that."
            )
        made = inner.copy()
        used = [each for name, each in self.ctes.items() if _names_table(made, name)]
        if used:
            made.set("with_", exp.With(expressions=[each.copy() for each in self.ctes.values()]))
        found = self.taken.resolve(text(made))
        self.taken.resolved = True
        if not found.exact:
            self.taken.conditions.append(unquoted(inner))
        if len(found.literals) > most:
            raise UnsupportedQuery(
                f"the subquery {unquoted(inner)!r} has {len(found.literals):,} rows, and at most {most:,} are put "
                "into the conditions of the query around it: limit it."
            )
        return found.literals

    def _ordered(self, ordered: exp.Ordered) -> exp.Expr:
        """Return a part of ORDER BY; names of the SELECT list take precedence, as in Spark."""
        node, made = unparenthesised(ordered.this.copy()), ordered.copy()
        names = {
            item.alias.lower(): item.this for item in self.select.expressions if isinstance(item, exp.Alias)
        }
        for column in list(node.find_all(exp.Column)):
            named = names.get(column.name.lower()) if not column.table else None
            if named is not None and column is not node:
                column.replace(exp.Paren(this=named.copy()))
        alias = names.get(node.name.lower()) if isinstance(node, exp.Column) and not node.table else None
        if alias is None and isinstance(node, exp.Literal) and node.is_int:
            place = int(node.name)
            if not 1 <= place <= len(self.select.expressions):
                raise SqlError(f"position {place} is not in the SELECT list.")
            alias = self.select.expressions[place - 1].unalias()
        made.set("this", self._outer(alias if alias is not None else node))
        return made

    def _outer(self, node: exp.Expr) -> exp.Expr:  # noqa: C901, PLR0911 - one step per kind
        """Return an expression of the SELECT over the part's columns."""
        bare = unparenthesised(node)
        if bare in self.groups:
            return self._column(f"g{self.groups.index(bare)}", bare)
        if isinstance(bare, exp.Grouping):
            return self._grouping(bare)
        if isinstance(bare, exp.Column):
            raise SqlError(
                f"{unquoted(bare)!r} is neither grouped by nor inside an aggregate: add it to GROUP BY, or aggregate "
                "it."
            )
        if isinstance(bare, exp.Anonymous) and bare.name.lower() in END_OF.values():
            return self._end(bare)
        if isinstance(bare, exp.Window):
            made = bare.copy()
            function = bare.this
            inner = (
                function.this
                if isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter)
                else function
            )
            outer = self._rebuilt(inner)
            if inner is not function:
                outer = self._rebuilt(function)
            made.set("this", outer)
            for name in ("partition_by",):
                made.set(name, [self._outer(each) for each in bare.args.get(name) or ()])
            if bare.args.get("order") is not None:
                ordered = [self._ordered(each) for each in bare.args["order"].expressions]
                made.set("order", exp.Order(expressions=ordered))
            return made
        if bare.find(exp.AggFunc) and not bare.find(exp.Window) and self._is_measure(bare):
            return self._measure(bare)
        if isinstance(bare, exp.Query | exp.Subquery | exp.Exists):
            return bare.copy()  # its own parts are extracted afterwards
        return self._rebuilt(node)

    def _rebuilt(self, node: exp.Expr) -> exp.Expr:
        """Return a node over the part's columns, child by child."""
        made = node.copy()
        for name, value in node.args.items():
            if isinstance(value, exp.Query):
                continue
            if isinstance(value, exp.Expr) and not isinstance(value, exp.DataType | exp.Identifier | exp.Var):
                made.set(name, self._outer(value))
            elif isinstance(value, list):
                made.set(name, [self._outer(each) if isinstance(each, exp.Expr) else each for each in value])
        return made

    def _end(self, node: exp.Anonymous) -> exp.Expr:
        """Return the end of the interval of an aggregate."""
        end = next(each for each, name in END_OF.items() if name == node.name.lower())
        outer = self._outer(node.expressions[0])
        if isinstance(outer, exp.Column) and outer.name.startswith("a"):
            return self._column(f"{outer.name}{end}", node)
        raise UnsupportedQuery(
            f"{unquoted(node)!r}: only an aggregate over streams has an interval of its own."
        )

    def _grouping(self, node: exp.Grouping) -> exp.Expr:
        """Return GROUPING(...): a bit for each column, 1 where a row is not grouped by it."""
        columns = [unparenthesised(each) for each in node.expressions]
        unknown = next((each for each in columns if each not in self.groups), None)
        if self.sets is None or unknown is not None:
            raise SqlError(
                f"{unquoted(node)!r} takes columns of ROLLUP, CUBE or GROUPING SETS of the same query."
            )
        made: exp.Expr = exp.Literal.number(0)
        for each in columns:
            twice = exp.Mul(this=exp.Paren(this=made), expression=exp.Literal.number(2))
            made = exp.Add(this=twice, expression=self._column(f"f{self.groups.index(each)}", node))
        return exp.Paren(this=made)

    def _is_measure(self, node: exp.Expr) -> bool:
        """Return whether an aggregate, or a formula of aggregates, is supported as it is."""
        if isinstance(node, _AGGREGATES):
            return True
        if not is_formula(node):
            return False
        try:
            parse_query(text(self._inner([node])), self.taken.scene.streams)
        except SqlError:
            return False
        return True

    def _measure(self, node: exp.Expr) -> exp.Expr:
        if node not in self.measures:
            self.measures.append(node)
        return self._column(f"a{self.measures.index(node)}", node)

    def _column(self, name: str, of: exp.Expr) -> exp.Column:
        """Return a column of the part; of: what it stands for, which messages show."""
        made = exp.column(name, table=self.table)
        made.meta["of"] = of.copy()
        return made

    def _inner(self, measures: list[exp.Expr], places: Sequence[int] | None = None) -> exp.Select:
        """Return the supported query with these aggregates, grouped by all group columns or by those in `places`."""
        select = self.select
        groups = [(p, self.groups[p]) for p in (range(len(self.groups)) if places is None else places)]
        named = [exp.alias_(node.copy(), f"g{place}") for place, node in groups]
        named += [exp.alias_(node.copy(), f"a{place}") for place, node in enumerate(measures)]
        made = exp.Select(expressions=named)
        for clause in ("from_", "joins", "where"):
            value = select.args.get(clause)
            if value:
                made.set(clause, [each.copy() for each in value] if isinstance(value, list) else value.copy())
        if groups:
            made.set("group", exp.Group(expressions=[node.copy() for _, node in groups]))
        return made

    def _part(self, places: Sequence[int]) -> QueryPart:
        """Return the part that is grouped by the columns in `places`."""
        written = text(self._inner(self.measures, places))
        parsed = parse_query(written, self.taken.scene.streams)
        measures = [f"a{place}" for place in range(len(self.measures))]
        return self.taken.add(written, parsed, [f"g{place}" for place in places], measures)

    def _set_source(self, made: exp.Select) -> None:
        """Let the outer query read the table of its part, or those of one part for each grouping set."""
        if not self.measures:
            self.measures.append(exp.Count(this=exp.Star(), big_int=True))
        if self.sets is None:
            part = self._part(range(len(self.groups)))
            made.from_(exp.to_table(part.name, dialect="spark"), copy=False)
            self.table, source = part.name, self.table
            for column in made.find_all(exp.Column):
                if column.table == source:
                    column.set("table", exp.to_identifier(part.name))
            return
        parts = [self._part(places) for places in self.sets]
        kinds = {column.name: column.type for part in parts for column in part.columns}
        ends = {column.name for column in made.find_all(exp.Column) if column.name.endswith(ENDS)}
        union: exp.Query | None = None
        for part, places in zip(parts, self.sets, strict=True):
            items: list[exp.Expr] = []
            for place in range(len(self.groups)):
                name = f"g{place}"
                value = (
                    exp.column(name)
                    if place in places
                    else exp.cast(exp.Null(), exp.DataType.build(str(kinds[name]), dialect="spark"))
                )
                items.append(exp.alias_(value, name))
                items.append(exp.alias_(exp.Literal.number(int(place not in places)), f"f{place}"))
            items += [exp.column(f"a{place}") for place in range(len(self.measures))]
            items += [exp.column(name) for name in sorted(ends)]
            branch = exp.select(*items).from_(exp.to_table(part.name, dialect="spark"))
            union = branch if union is None else exp.union(union, branch, distinct=False)
        assert union is not None
        made.from_(union.subquery(self.table), copy=False)


def _is_of_class(inner: exp.Query) -> bool:
    """Return whether an IN subquery selects rows, like those that are supported as semi-joins."""
    return isinstance(inner, exp.Select) and is_rows_only(inner)


def _names_table(query: exp.Expr, name: str) -> bool:
    return any(table.name.lower() == name for table in query.find_all(exp.Table))


def _each_once(nodes: list[exp.Expr]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for node in nodes:
        if node not in found:
            found.append(node)
    return found
