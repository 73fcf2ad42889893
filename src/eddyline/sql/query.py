"""A parsed query: relations, joins and aggregates, as plain values."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from eddyline.aggregates.catalog import ValueAggregate, moment_named, value_aggregate_named
from eddyline.aggregates.moments import Moment
from eddyline.types import SqlType


class Expression(msgspec.Struct, frozen=True, order=True):
    """A deterministic expression over one stream's row: Spark SQL over bare column names, and its type."""

    text: str
    type: SqlType


class Key(msgspec.Struct, frozen=True, order=True):
    """What identifies a row's element: one column or several. NULL is not a value in joins, but is one in sets."""

    columns: tuple[Expression, ...]
    null_is_value: bool = False

    def __str__(self) -> str:
        return "(" + ", ".join(column.text for column in self.columns) + ")"


class Relation(msgspec.Struct, frozen=True):
    """A relation of the FROM clause: an alias, its stream and the conjuncts that its rows must satisfy."""

    alias: str
    stream: str
    predicates: tuple[str, ...] = ()


class Join(msgspec.Struct, frozen=True):
    """An equi-join of two relations (by index): the keys of either side, in the same order."""

    left: int
    right: int
    left_key: Key
    right_key: Key


Role = Literal["inner", "preserved", "outer", "full", "semi", "anti", "not in"]
"""The role of a relation in a link: see Member."""


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A relation (by index) that takes part in a link, its own spelling of the link's key, and its role there.

    inner: a row of the others counts once for each match among its rows, and not at all without one.
    outer: the same, but a row without a match counts once, with NULL columns (the right side of LEFT JOIN).
    semi, anti: a row of the others counts once if there is a match (semi) or no match (anti).
    not in: like anti, with the rule of NOT IN for NULL.
    preserved: its own rows stay where another member is missing; a NULL key matches nothing but may still count.
    full: both outer and preserved, like both sides of FULL JOIN.
    """

    relation: int
    key: Key
    role: Role = "inner"


class Link(msgspec.Struct, frozen=True):
    """Relations that meet on one key: two or more. The links of a query form a tree with its relations."""

    members: tuple[Member, ...]


class Factor(msgspec.Struct, frozen=True):
    """A relation's part in the measure: the aggregate sums the product of all factors."""

    relation: int
    expression: Expression


class Aggregate(msgspec.Struct, frozen=True):
    """An aggregate of a product of factors; COUNT(*) has none. function: its name in `aggregates.catalog`.

    second: the factors of the second argument, where there is one.
    """

    function: str
    factors: tuple[Factor, ...] = ()
    second: tuple[Factor, ...] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Raise ValueError where there is no such aggregate."""
        moment_named(self.function)

    @property
    def arguments(self) -> tuple[tuple[Factor, ...], ...]:
        """The factors of each argument."""
        return (self.factors,) if self.second is msgspec.UNSET else (self.factors, self.second)

    @classmethod
    def of(cls, function: str, arguments: Sequence[Iterable[Factor]]) -> "Aggregate":
        """Return the aggregate of these arguments' factors."""
        first, *others = (tuple(factors) for factors in arguments)
        return cls(function, first, *others)

    @property
    def moment(self) -> Moment:
        """What it computes."""
        return moment_named(self.function)


QueryKind = Literal["join", "ratio", "set", "pairs"]
"""How stream samples read a query: see `sample.spec.Shape`."""


class BaseQuery(msgspec.Struct, frozen=True):
    """A query of any kind, and what the rest of the package asks of it. Properties are those of a distinct count."""

    text: str

    @property
    def relations(self) -> "tuple[Relation | SetMember, ...]":
        """The relations of FROM, or the SELECTs of a set expression."""
        raise NotImplementedError

    @property
    def streams(self) -> tuple[str, ...]:
        """The stream of each relation."""
        return tuple(each.stream for each in self.relations)

    @property
    def links(self) -> tuple[Link, ...]:
        """Where relations meet."""
        return ()

    @property
    def groups(self) -> "tuple[GroupColumn, ...]":
        """The columns of GROUP BY."""
        return ()

    @property
    def aggregates(self) -> "tuple[NamedAggregate, ...]":
        """The aggregates of joined rows."""
        return ()

    @property
    def details(self) -> "tuple[Detail, ...]":
        """The aggregates that need the single values of a group."""
        return ()

    @property
    def formulas(self) -> "tuple[NamedFormula, ...]":
        """What is computed from aggregates and details."""
        return ()

    @property
    def parts(self) -> "tuple[Query, ...]":
        """For each detail the query of the single values that it needs."""
        return ()

    @property
    def conditions(self) -> "tuple[CrossCondition, ...]":
        """The conditions on joined rows besides the links."""
        return ()

    @property
    def selected(self) -> tuple[str, ...]:
        """The names of the columns of its table."""
        return ()

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of its aggregates, and of formulas of them."""
        return ()

    @property
    def kind(self) -> QueryKind:
        """How stream samples read it: see `sample.spec.Shape`."""
        raise NotImplementedError

    @property
    def is_scalar(self) -> bool:
        """Whether it is one aggregate, whose answer is one estimate."""
        return False

    @property
    def is_table(self) -> bool:
        """Whether its answer is a table, or comes from one: groups, several aggregates, formulas, conditions."""
        return False

    @property
    def is_total(self) -> bool:
        """Whether exact totals answer it: one aggregate over one relation."""
        return self.is_scalar and not self.links

    @property
    def is_distinct(self) -> bool:
        """Whether it counts distinct values."""
        return True

    @property
    def is_count(self) -> bool:
        """Whether its answer is one number, of rows or of values."""
        return self.is_distinct

    @property
    def needs_sample(self) -> bool:
        """Whether no sketch answers it."""
        return False

    @property
    def needs_single_links(self) -> bool:
        """Whether a sample answers it only where no column is in two links: it has groups, or conditions."""
        return bool(self.groups or self.conditions)


class SetMember(msgspec.Struct, frozen=True):
    """A SELECT of a set expression: the distinct keys of a stream's rows that satisfy its predicates."""

    stream: str
    key: Key
    predicates: tuple[str, ...] = ()


class SetLeaf(msgspec.Struct, frozen=True, tag="member"):
    """The elements of one member, by index."""

    member: int


class SetNode(msgspec.Struct, frozen=True, tag="node"):
    """Two set expressions under an operator of sets."""

    operator: Literal["union", "intersect", "except"]
    left: "SetExpression"
    right: "SetExpression"


SetExpression = SetLeaf | SetNode


class SetQuery(BaseQuery, frozen=True, tag="set"):
    """The number of distinct elements of a set expression over members; one member is COUNT(DISTINCT)."""

    members: tuple[SetMember, ...]
    expression: SetExpression

    @property
    def relations(self) -> tuple[SetMember, ...]:
        """The members."""
        return self.members

    @property
    def kind(self) -> QueryKind:
        """How stream samples read it."""
        return "set"


ProjectionForm = Literal["two-sided", "semi", "full"]


class JoinDistinctQuery(BaseQuery, frozen=True, tag="join-distinct"):
    """The number of distinct values over an equi-join of two relations, projected from either side.

    form "semi" counts the left side alone: its right key is the join key.
    """

    form: ProjectionForm
    relations: tuple[Relation, ...]
    join: Join
    left: Key
    right: Key

    @property
    def links(self) -> tuple[Link, ...]:
        """The join."""
        return (Link((Member(0, self.join.left_key), Member(1, self.join.right_key))),)

    @property
    def kind(self) -> QueryKind:
        """How stream samples read it."""
        return "pairs"


ENDS = ("_low", "_high")
"""Suffixes of an aggregate's name for the ends of its interval, in the table of a grouped query."""
RESERVED = ("exact", "selected")
"""Columns that such a table has in addition to the selected ones."""


class GroupColumn(msgspec.Struct, frozen=True):
    """A column of GROUP BY: its name in the answer, its relation (by index), and its expression."""

    name: str
    relation: int
    expression: Expression


class NamedAggregate(msgspec.Struct, frozen=True):
    """An aggregate of a grouped query, and its name in the answer."""

    name: str
    aggregate: Aggregate


_DIGITS_OF_A_FLOAT = 15
"""Decimal digits that a float always keeps."""


class Computed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that is computed from columns of joined rows when a query is answered.

    text: Spark SQL over the columns by their names. subtracted: a time that is subtracted from that of `text`; the
    value is then an interval. columns: how many of a detail's columns it reads; the others are conditions, which
    are NULL in rows that do not count.
    """

    text: str
    type: SqlType
    columns: int
    subtracted: str = ""


class Detail(msgspec.Struct, frozen=True):
    """An aggregate that needs the single values of a group: distinct tuples of columns, or numbers.

    function: its name in `aggregates.catalog`. share: the share of the rows up to a quantile; "percentile"
    interpolates where the share lies between two values. computed: the value, where it is not that of the column.
    """

    name: str
    function: str
    columns: tuple[GroupColumn, ...]
    share: float = 0.0
    computed: Computed | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Raise ValueError where there is no such aggregate."""
        value_aggregate_named(self.function)

    @property
    def aggregate(self) -> ValueAggregate:
        """What it computes."""
        return value_aggregate_named(self.function)

    @property
    def is_numeric(self) -> bool:
        """Whether its answer is a number."""
        return self.aggregate.counts or self.value_type.is_numeric

    @property
    def value_type(self) -> SqlType:
        """The type of the values that it reads."""
        return self.columns[0].expression.type if self.computed is msgspec.UNSET else self.computed.type

    @property
    def kind(self) -> SqlType | None:
        """The type of its answer, where that is an unchanged value of its column; None for integers and floats.

        A DECIMAL is returned as a float, like its sums, unless that might lose a digit. A quantile of intervals is
        an interval, also between two values.
        """
        kind = self.value_type
        if kind.kind == "interval" and not self.aggregate.counts:
            return kind
        wide = kind.kind == "decimal" and kind.scale > 0 and kind.precision > _DIGITS_OF_A_FLOAT
        return kind if self.aggregate.returns_value and (wide or not kind.is_numeric) else None


class FormulaNumber(msgspec.Struct, frozen=True, tag="number"):
    """A number in a formula, as it is written."""

    digits: str


class FormulaPart(msgspec.Struct, frozen=True, tag="part"):
    """An aggregate in a formula, by name; over: the name of the COUNT that it is divided by, if it is an average.

    guarded: NULLIF makes the count NULL where it is 0.
    """

    name: str
    over: str | None = None
    guarded: bool = False


class FormulaNode(msgspec.Struct, frozen=True, tag="node"):
    """An operation on two formulas; for round, coalesce and nullif the second is a number."""

    operator: Literal["+", "-", "*", "/", "round", "coalesce", "nullif"]
    left: "Formula"
    right: "Formula"


Formula = FormulaNumber | FormulaPart | FormulaNode


class NamedFormula(msgspec.Struct, frozen=True):
    """A formula of aggregates, such as SUM(a) / COUNT(*), and its name in the answer."""

    name: str
    formula: Formula

    @property
    def parts(self) -> tuple[FormulaPart, ...]:
        """Its parts, each once."""
        return tuple(dict.fromkeys(_parts_of(self.formula)))


def _parts_of(formula: Formula) -> Iterator[FormulaPart]:
    if isinstance(formula, FormulaPart):
        yield formula
    elif isinstance(formula, FormulaNode):
        yield from _parts_of(formula.left)
        yield from _parts_of(formula.right)


Comparison = Literal["<", "<=", ">", ">=", "=", "<>"]


class CrossCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition on columns of two relations or more, which all joined rows must meet.

    written: as in the query. text: over the columns, by their names. comparison: the operator, where the condition
    only compares its first column with its second, of another relation; equality is by their keys, as in joins.
    """

    written: str
    text: str
    columns: tuple[GroupColumn, ...]
    comparison: Comparison | None = None


class HavingTest(msgspec.Struct, frozen=True):
    """A condition of HAVING: an aggregate, by its name, compared with a number."""

    name: str
    comparison: Comparison
    number: float


class Ordering(msgspec.Struct, frozen=True):
    """A part of ORDER BY: a column of the answer, by name."""

    name: str
    descending: bool = False
    nulls_first: bool = True


class Query(BaseQuery, frozen=True, tag="groups"):
    """Aggregates over an acyclic equi-join, or over one relation, for each combination of its group columns.

    Without group columns it has one row. selected: the names of the answer's columns; an aggregate that only HAVING
    or ORDER BY reads is not among them. having: conditions that must all hold. details: aggregates that need the
    single values of a group. conditions: those on joined rows besides the links. formulas: made of the aggregates
    and details, some of which only formulas read.
    """

    groups: tuple[GroupColumn, ...]
    aggregates: tuple[NamedAggregate, ...]
    relations: tuple[Relation, ...]
    links: tuple[Link, ...] = ()
    selected: tuple[str, ...] = ()
    having: tuple[HavingTest, ...] = ()
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    details: tuple[Detail, ...] = ()
    conditions: tuple[CrossCondition, ...] = ()
    formulas: tuple[NamedFormula, ...] = ()

    @classmethod
    def scalar(
        cls, text: str, aggregate: Aggregate, relations: tuple[Relation, ...], links: tuple[Link, ...] = ()
    ) -> "Query":
        """Return the query of one aggregate, which has no name, because its answer is not a table."""
        return cls(text, (), (NamedAggregate("", aggregate),), relations, links)

    @property
    def aggregate(self) -> Aggregate:
        """The aggregate of a scalar query."""
        (only,) = self.aggregates
        return only.aggregate

    @property
    def kind(self) -> QueryKind:
        """How stream samples read it."""
        return "ratio" if self.is_scalar and not self.aggregate.moment.is_sum else "join"

    @property
    def is_scalar(self) -> bool:
        """Whether it is one aggregate, whose answer is one estimate."""
        return bool(self.aggregates) and not self.selected

    @property
    def is_table(self) -> bool:
        """Whether its answer is a table, or a cell of one."""
        return not self.is_scalar

    @property
    def is_distinct(self) -> bool:
        """Never: COUNT(DISTINCT) is one of its details."""
        return False

    @property
    def is_count(self) -> bool:
        """Whether its answer is one number of rows."""
        return self.is_scalar and self.aggregate.moment.is_count

    @property
    def needs_sample(self) -> bool:
        """Whether no sketch answers it: tables, outer, semi and anti joins, and joins of sums that none provides."""
        if self.is_table or (self.links and not self.aggregate.moment.is_sketched):
            return True
        return any(member.role != "inner" for link in self.links for member in link.members)

    @property
    def parts(self) -> "tuple[Query, ...]":
        """For each detail the query whose groups are the single values that it needs, with their numbers of rows."""
        return tuple(self.part(detail) for detail in self.details)

    def part(self, detail: Detail) -> "Query":
        """Return the query whose groups are the single values that a detail needs, with their numbers of rows."""
        columns = _each_once((*self.groups, *detail.columns))
        return Query(self.text, columns, (), self.relations, self.links, conditions=self.conditions)

    @property
    def held(self) -> tuple[GroupColumn, ...]:
        """The columns whose values elements hold: group columns, then others that conditions read, each once."""
        read = [column for condition in self.conditions for column in condition.columns]
        return _each_once((*self.groups, *read))

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of all aggregates and formulas of them."""
        of_rows = (*(each.name for each in self.aggregates), *(each.name for each in self.details))
        return (*of_rows, *(each.name for each in self.formulas))

    @property
    def averages(self) -> tuple[FormulaPart, ...]:
        """The parts of formulas that are averages, each once."""
        return tuple(
            dict.fromkeys(part for each in self.formulas for part in each.parts if part.over is not None)
        )


def _each_once(columns: tuple[GroupColumn, ...]) -> tuple[GroupColumn, ...]:
    """Return columns without duplicates under other names."""
    found: dict[tuple[int, Expression], GroupColumn] = {}
    for column in columns:
        found.setdefault((column.relation, column.expression), column)
    return tuple(found.values())


AnyQuery = Query | SetQuery | JoinDistinctQuery


# Queries as plans have them on disk. There, a scalar query has a form of its own: it was a type of its own when the
# first stores were written, and the digest of a plan is that of its text.


class ScalarForm(msgspec.Struct, frozen=True, tag="join"):
    """A scalar query as plans have it on disk."""

    text: str
    aggregate: Aggregate
    relations: tuple[Relation, ...]
    links: tuple[Link, ...] = ()


WrittenQuery = ScalarForm | Query | SetQuery | JoinDistinctQuery


def written(query: WrittenQuery) -> WrittenQuery:
    """Return a query as plans have it on disk."""
    if isinstance(query, Query) and query.is_scalar:
        return ScalarForm(query.text, query.aggregate, query.relations, query.links)
    return query


def read_back(query: WrittenQuery) -> AnyQuery:
    """Return a query from the form that it has on disk."""
    if isinstance(query, ScalarForm):
        return Query.scalar(query.text, query.aggregate, query.relations, query.links)
    return query
