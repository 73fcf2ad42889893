"""What a query is once it is read: relations, joins and one aggregate, as plain values."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from eddyline.types import SqlType


class Expression(msgspec.Struct, frozen=True, order=True):
    """A deterministic expression over one stream's row: Spark SQL over bare column names, and its type."""

    text: str
    type: SqlType


class Key(msgspec.Struct, frozen=True, order=True):
    """What identifies a row's element: one column or several. NULL is no value for joins, and one for sets."""

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
    """An equi-join of two relations (by index): the keys of either side, in one order."""

    left: int
    right: int
    left_key: Key
    right_key: Key


Role = Literal["inner", "preserved", "outer", "full", "semi", "anti", "not in"]
"""What a relation is to a link: see Member."""


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A relation (by index) that takes part in a link, its own spelling of the link's key, and its role there.

    inner: a row of the others counts once for each match among its rows, and not at all without one.
    outer: the same, but without a match once, its columns being NULL (the right side of LEFT JOIN).
    semi, anti: a row of the others counts once if there is a match, or if there is none.
    not in: as anti, under the rule of NOT IN for NULL.
    preserved: its own rows stay where another member is missing; a NULL of its key matches nothing and may still count.
    full: outer and preserved at once, as both sides of FULL JOIN are.
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


Function = Literal["count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"]


class Aggregate(msgspec.Struct, frozen=True):
    """An aggregate of a product of factors; COUNT(*) has none."""

    function: Function
    factors: tuple[Factor, ...] = ()


class Query(msgspec.Struct, frozen=True, tag="join"):
    """An aggregate over an acyclic equi-join, or over one relation."""

    text: str
    aggregate: Aggregate
    relations: tuple[Relation, ...]
    links: tuple[Link, ...] = ()


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


class SetQuery(msgspec.Struct, frozen=True, tag="set"):
    """The number of distinct elements of a set expression over members; one member is COUNT(DISTINCT)."""

    text: str
    members: tuple[SetMember, ...]
    expression: SetExpression


ProjectionForm = Literal["two-sided", "semi", "full"]


class JoinDistinctQuery(msgspec.Struct, frozen=True, tag="join-distinct"):
    """The number of distinct values over an equi-join of two relations, projected from either side.

    form "semi" counts the left side alone: its right key is the join key.
    """

    text: str
    form: ProjectionForm
    relations: tuple[Relation, ...]
    join: Join
    left: Key
    right: Key


ENDS = ("_low", "_high")
"""What stands behind an aggregate's name for the ends of its interval, in the table of a grouped query."""
RESERVED = ("exact", "selected")
"""Columns that such a table has beside those that were selected."""


class GroupColumn(msgspec.Struct, frozen=True):
    """A column of GROUP BY: its name in the answer, the relation (by index) that has it, and its value."""

    name: str
    relation: int
    expression: Expression


class NamedAggregate(msgspec.Struct, frozen=True):
    """An aggregate of a grouped query, and its name in the answer."""

    name: str
    aggregate: Aggregate


_DIGITS_OF_A_FLOAT = 15
"""Decimal digits that a float always keeps."""
DetailFunction = Literal["distinct", "quantile", "percentile", "min", "max"]


class Detail(msgspec.Struct, frozen=True):
    """An aggregate that needs the single values of a group: of how many tuples of columns, or of which numbers.

    share: of the rows, those up to a quantile; "percentile" lies between two values where the share does.
    """

    name: str
    function: DetailFunction
    columns: tuple[GroupColumn, ...]
    share: float = 0.0

    @property
    def is_numeric(self) -> bool:
        """Whether it tells a number."""
        return self.function == "distinct" or self.columns[0].expression.type.is_numeric

    @property
    def kind(self) -> SqlType | None:
        """The type of what it tells, where that is a value of its column as it is; None for integers and floats.

        A DECIMAL is told as a float, as sums of it are, unless that might lose a digit.
        """
        kind = self.columns[0].expression.type
        wide = kind.kind == "decimal" and kind.scale > 0 and kind.precision > _DIGITS_OF_A_FLOAT
        is_value = self.function in ("quantile", "min", "max")
        return kind if is_value and (wide or not kind.is_numeric) else None


class FormulaNumber(msgspec.Struct, frozen=True, tag="number"):
    """A number in a formula, as it is written."""

    digits: str


class FormulaPart(msgspec.Struct, frozen=True, tag="part"):
    """An aggregate in a formula, by name; over: the COUNT, by name, that it is divided by as an average is.

    guarded: NULLIF makes the count NULL where it is 0.
    """

    name: str
    over: str | None = None
    guarded: bool = False


class FormulaNode(msgspec.Struct, frozen=True, tag="node"):
    """An operation on two formulas; of round, coalesce and nullif the second is a number."""

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
        """What it is made of, each once."""
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

    written: as the query has it. text: over the columns, by their names. comparison: of its first column with its
    second, of another relation, where it is nothing but that; two that are equal are so by their keys, as in joins.
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


class GroupQuery(msgspec.Struct, frozen=True, tag="groups"):
    """Aggregates over an acyclic equi-join, or over one relation, for each combination of its group columns.

    Without group columns it has one row. selected: the names of the answer's columns; an aggregate that only HAVING or
    ORDER BY reads is not among them. having: conditions that all must hold. details: aggregates that need the single
    values of a group. conditions: on joined rows, beyond the links. formulas: made of the aggregates and details, some
    of which nothing else reads.
    """

    text: str
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

    @property
    def held(self) -> tuple[GroupColumn, ...]:
        """The columns whose values elements hold: those of the groups, then others that conditions read, each once."""
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

    @property
    def needs_single_links(self) -> bool:
        """Whether a sample answers it only where no column stands in two links: it has groups, or conditions."""
        return bool(self.groups or self.conditions)

    def part(self, detail: Detail) -> "GroupQuery":
        """Return the query whose groups are the single values that a detail needs, and their rows."""
        columns = _each_once((*self.groups, *detail.columns))
        return GroupQuery(self.text, columns, (), self.relations, self.links, conditions=self.conditions)

    def single(self, aggregate: Aggregate) -> Query:
        """Return the query of one aggregate over all groups together."""
        return Query(self.text, aggregate, self.relations, self.links)


def _each_once(columns: tuple[GroupColumn, ...]) -> tuple[GroupColumn, ...]:
    """Return columns without those that are another one under another name."""
    found: dict[tuple[int, Expression], GroupColumn] = {}
    for column in columns:
        found.setdefault((column.relation, column.expression), column)
    return tuple(found.values())


AnyQuery = Query | SetQuery | JoinDistinctQuery | GroupQuery


def is_for_samples_alone(query: AnyQuery) -> bool:
    """Return whether no sketch answers a query: one of groups or cross conditions, or of outer, semi and anti joins."""
    if isinstance(query, Query):
        return any(member.role != "inner" for link in query.links for member in link.members)
    return isinstance(query, GroupQuery)
