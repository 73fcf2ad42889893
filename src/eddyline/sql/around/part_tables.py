"""The tables that answers of parts become: their columns, with types that are the same for every state."""

from collections.abc import Mapping
from dataclasses import dataclass

from eddyline.sql.query import Aggregate, AnyQuery, Detail, Formula, FormulaNode, FormulaNumber, FormulaPart
from eddyline.types import SqlType

BIGINT, DOUBLE = SqlType("bigint"), SqlType("double")
_MOST_DIGITS = 38
"""The digits of Spark's largest DECIMAL."""


@dataclass(frozen=True)
class PartColumn:
    """A column of a part's table.

    estimate: it is an aggregate, which comes with the ends of its interval. sum: it is a SUM, which may be a DECIMAL;
    its ends are floats, as they may be infinite.
    """

    name: str
    type: SqlType
    estimate: bool
    sum: bool = False


@dataclass(frozen=True)
class QueryPart:
    """A supported query, and the table that its answer becomes; text: as the user would recognize it.

    together: the intervals of all parts hold together at the confidence of the result.
    """

    name: str
    text: str
    columns: tuple[PartColumn, ...]
    grouped: bool
    together: bool = False


def measure_types(query: AnyQuery, names: list[str]) -> dict[str, SqlType]:
    """Return the type of each aggregate of a query, the same for every state that answers it.

    COUNT, and SUM of whole numbers, are BIGINT; SUM of DECIMALs is one with 38 digits; a value of a column has the
    column's type; all else is a DOUBLE.
    """
    if not query.is_table:
        kind = _aggregate_type(query.aggregates[0].aggregate) if query.is_scalar else BIGINT
        return dict.fromkeys(names, kind)
    kinds = {each.name: _aggregate_type(each.aggregate) for each in query.aggregates}
    kinds |= {each.name: _detail_type(each) for each in query.details}
    kinds |= {each.name: _formula_type(each.formula, kinds) for each in query.formulas}
    return {name: kinds[name] for name in names}


def names_of_sums(query: AnyQuery, names: list[str]) -> frozenset[str]:
    """Return the names of the aggregates of a query that are SUMs."""
    if not query.is_table:
        return frozenset(names if query.is_scalar and query.aggregates[0].aggregate.function == "sum" else ())
    return frozenset(each.name for each in query.aggregates if each.aggregate.function == "sum")


def _aggregate_type(aggregate: Aggregate) -> SqlType:
    kinds = [factor.expression.type for factor in aggregate.factors]
    if aggregate.function == "count":
        return BIGINT
    if aggregate.function != "sum" or not all(each.is_integer or each.kind == "decimal" for each in kinds):
        return DOUBLE
    scale = sum(each.scale for each in kinds if each.kind == "decimal")
    if all(each.is_integer for each in kinds):
        return BIGINT
    return SqlType("decimal", _MOST_DIGITS, scale) if scale <= _MOST_DIGITS // 2 else DOUBLE


def _detail_type(detail: Detail) -> SqlType:
    if detail.kind is not None:
        return detail.kind
    if detail.function == "distinct":
        return BIGINT
    whole = detail.value_type.is_integer and detail.function != "percentile"
    return BIGINT if whole else DOUBLE


def _formula_type(formula: Formula, kinds: Mapping[str, SqlType]) -> SqlType:
    if isinstance(formula, FormulaNumber):
        return BIGINT if formula.digits.lstrip("-").isdigit() else DOUBLE
    if isinstance(formula, FormulaPart):
        return DOUBLE if formula.over is not None else kinds[formula.name]
    if isinstance(formula, FormulaNode) and formula.operator in ("/", "round"):
        return DOUBLE
    both = {_formula_type(formula.left, kinds), _formula_type(formula.right, kinds)}
    return BIGINT if both == {BIGINT} else DOUBLE
