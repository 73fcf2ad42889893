"""The columns of a grouped query's answer: its groups, and the aggregates that SELECT, HAVING and ORDER BY name."""

from dataclasses import dataclass, field

from msgspec.structs import replace
from sqlglot import exp, parse_one

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.aggregates import read_aggregate
from eddyline.sql.compose import one_where_not_null, operand
from eddyline.sql.details import is_detail, read_detail
from eddyline.sql.expressions import Source, bare, fragment, relations_of, text, unparenthesised
from eddyline.sql.formulas import is_formula, read_formula
from eddyline.sql.query import (
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
)
from eddyline.sql.sides import check_missing_is_null, sides_of, with_constants_at_root
from eddyline.sql.typing import literal_number

_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}
_DIGITS = 15
"""Numbers of so many digits are told apart as floats."""
_TURNED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass
class Outputs:
    """The columns of the answer: group columns, and aggregates as they are met."""

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
        """Return the name of an output, an aggregate being added to the query's."""
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
        """Return the name of an aggregate in a formula, which is a number."""
        name = self.measure(node)
        if any(each.name == name and (each.kind is not None or not each.is_numeric) for each in self.details):
            raise UnsupportedQuery(
                f"{fragment(node)!r} in a formula is not told as a number: ask it in a column of its own."
            )
        return name

    def _is_average(self, name: str, count: str) -> bool:
        """Return whether an aggregate over a COUNT is an average, of all rows or of those with a measure."""
        found = {each.name: each.aggregate for each in self.aggregates}
        over, under = found.get(name), found.get(count)
        if (
            over is None
            or under is None
            or under.function != "count"
            or over.function not in ("sum", "count")
        ):
            return False
        there = {
            f.relation: text(one_where_not_null(parse_one(f.expression.text, dialect="spark")))
            for f in over.factors
        }
        return not under.factors or there == {f.relation: f.expression.text for f in under.factors}

    def group_of(self, node: exp.Expr) -> GroupColumn | None:
        """Return the group column that an expression is, if any."""
        return next(
            (g for g in self.groups if is_same_column(node, g.relation, g.expression.text, self.sources)),
            None,
        )

    def measure(self, node: exp.Expr) -> str:
        """Return the name of the aggregate that an expression of HAVING or ORDER BY is; one that is new is added."""
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
                "are answered."
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
                f"{fragment(condition)!r} in HAVING compares {fragment(left)!r}, which is no number, with a number."
            )
        if sum(map(str.isdigit, number)) > _DIGITS and not self._is_double(name):
            name, number = self._difference(name, number), "0"
        return HavingTest(name, comparison, float(number))

    def _is_double(self, name: str) -> bool:
        """Return whether an aggregate is of type DOUBLE, as which Spark compares it with a number."""
        found = next((each.aggregate for each in self.aggregates if each.name == name), None)
        if found is None or found.function not in ("count", "sum"):
            return True
        return any(factor.expression.type.is_float for factor in found.factors)

    def _difference(self, name: str, number: str) -> str:
        """Return the name of an aggregate less a number, which is compared with 0 where no float is the number."""
        formula = FormulaNode("-", FormulaPart(name), FormulaNumber(number))
        made = NamedFormula(f"{name} - {number}", formula)
        if made not in self.formulas:
            self.formulas.append(made)
        return made.name


def is_same_column(node: exp.Expr, relation: int, written: str, sources: tuple[Source, ...]) -> bool:
    """Return whether an expression is a column of a relation, as that is written."""
    if node.find(exp.AggFunc) or len(relations_of(node, sources)) > 1:
        return False
    return min(relations_of(node, sources), default=0) == relation and text(bare(node, sources)) == written
