"""The columns of a grouped query's answer: its groups, and the aggregates that SELECT, HAVING and ORDER BY name."""

from dataclasses import dataclass, field

from msgspec.structs import replace
from sqlglot import exp

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.sql.aggregates import read_aggregate
from eddyline.sql.details import is_detail, read_detail
from eddyline.sql.expressions import Source, bare, fragment, relations_of, text, unparenthesised
from eddyline.sql.query import Comparison, Detail, GroupColumn, HavingTest, Link, NamedAggregate
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
_TURNED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass
class Outputs:
    """The columns of the answer: group columns, and aggregates as they are met."""

    groups: list[GroupColumn]
    sources: tuple[Source, ...]
    links: tuple[Link, ...]
    aggregates: list[NamedAggregate] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)

    @property
    def measures(self) -> list[str]:
        """The names of all aggregates."""
        return [*(each.name for each in self.aggregates), *(each.name for each in self.details)]

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
        if is_detail(node):
            detail = read_detail(name, node, self.sources)
            for column in detail.columns:
                check_missing_is_null(sides_of(self.links), column.relation, column.expression, "the column")
            self.details.append(detail)
        else:
            read = read_aggregate(node, self.sources)
            made = with_constants_at_root(read, len(self.sources), self.links)
            self.aggregates.append(NamedAggregate(name, made))

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
        if not isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Filter):
            raise UnsupportedQuery(
                f"{fragment(node)!r} is not an aggregate of this query: compare one with a number."
            )
        made = Outputs(self.groups, self.sources, self.links)
        made._add("", node)
        for each in self.aggregates:
            if [each.aggregate] == [new.aggregate for new in made.aggregates]:
                return each.name
        for detail in self.details:
            if [replace(detail, name="")] == made.details:
                return detail.name
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
        if number is None:
            raise UnsupportedQuery(
                f"{fragment(condition)!r} in HAVING compares with something other than a number."
            )
        name = self.measure(left)
        if any(each.name == name and not each.is_numeric for each in self.details):
            raise UnsupportedQuery(
                f"{fragment(condition)!r} in HAVING compares {fragment(left)!r}, which is no number, with a number."
            )
        return HavingTest(name, comparison, float(number))


def is_same_column(node: exp.Expr, relation: int, written: str, sources: tuple[Source, ...]) -> bool:
    """Return whether an expression is a column of a relation, as that is written."""
    if node.find(exp.AggFunc) or len(relations_of(node, sources)) > 1:
        return False
    return min(relations_of(node, sources), default=0) == relation and text(bare(node, sources)) == written
