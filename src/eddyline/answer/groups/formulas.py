"""Formulas of aggregates: exact where all their parts are, else by interval arithmetic on joint intervals.

Parts are read at the confidence at which all parts of a formula hold at once (Bonferroni). So however they depend
on each other, the formula lies between its ends at the requested confidence. An average is one part, read as AVG
is. A part that is unknown, because no sampled row counts, is not a number between its ends, and may be NULL.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import inf, isfinite, isnan, nan
from typing import Any

from eddyline.answer.groups.columns import Column, Value, column_of_values
from eddyline.errors import PlanError
from eddyline.sql.query import Formula, FormulaNumber, FormulaPart, NamedFormula

Ends = tuple[Any, Any, Any]
"""A number with its ends: fractions where it is exact, else floats."""
_NULL: Value = (None, None, None)
_NOT_KNOWN: Ends = (nan, -inf, inf)
_BEYOND = 10**76
_DECIMALS = 10**18


def formula_column(
    named: NamedFormula,
    columns: Mapping[str, Column],
    averages: Mapping[FormulaPart, Column],
    unrounded: Mapping[str, Sequence[Fraction | None]],
    *,
    exact: bool,
) -> tuple[Column, bool]:
    """Return (a formula of every group, whether one divides by zero).

    averages: those that are not exact. unrounded: exact aggregates that columns hold as floats.
    """
    names = dict.fromkeys(name for part in named.parts for name in (part.name, part.over) if name is not None)
    values: dict[str, Sequence[Any]] = {name: _values(columns[name]) for name in names}
    known = {part: _values(averages[part]) for part in named.parts if part in averages and not exact}
    whole = exact and _is_whole(named.formula, values)
    held: dict[str, list[Any]] = {
        name: [(each,) * 3 for each in unrounded[name]] for name in names if name in unrounded
    }
    values |= held
    read = [
        _Read(
            {name: each[row] for name, each in values.items()},
            {part: each[row] for part, each in known.items()},
            exact=exact,
        )
        for row in range(len(next(iter(values.values()))))
    ]
    found = [each.value_of(named, whole=whole) for each in read]
    return column_of_values(found), any(each.divided_by_zero for each in read)


def _values(column: Column) -> Sequence[Value]:
    return list(zip(*(part.to_pylist() for part in column), strict=True))


def _is_whole(formula: Formula, values: Mapping[str, Sequence[Value]]) -> bool:
    """Return whether a formula uses only integers and + - *."""
    if isinstance(formula, FormulaNumber):
        return "." not in formula.digits and "e" not in formula.digits.lower()
    if isinstance(formula, FormulaPart):
        parts = values[formula.name]
        return formula.over is None and not any(isinstance(each[0], float | Decimal) for each in parts)
    return formula.operator in ("+", "-", "*", "coalesce", "nullif") and all(
        _is_whole(side, values) for side in (formula.left, formula.right)
    )


@dataclass
class _Read:
    """The parts of a formula in one group."""

    values: Mapping[str, Value]
    averages: Mapping[FormulaPart, Value]
    exact: bool
    divided_by_zero: bool = field(default=False, init=False)

    def value_of(self, named: NamedFormula, *, whole: bool) -> Value:
        """Return a formula as an entry of the table; whole: as an integer."""
        found = self.of(named.formula)
        if found is None:
            return _NULL
        if _is_unknown(found):
            return None, found[1], found[2]
        if not abs(found[0]) < _BEYOND:
            raise PlanError(
                f"the formula {named.name!r} is a number beyond 1e76, which is not shown: leave a factor out."
            )
        value, low, high = ((int(end) if whole else float(end)) for end in found)
        return value, low, high

    def of(self, formula: Formula) -> Ends | None:
        """Return a formula, None where it is NULL."""
        if isinstance(formula, FormulaNumber):
            return self._number(formula.digits)
        if isinstance(formula, FormulaPart):
            return self._part(formula)
        left = self.of(formula.left)
        if formula.operator == "coalesce":
            return (
                left if left is not None and not _is_unknown(left) else _first(left, self.of(formula.right))
            )
        return self._combined(formula.operator, left, self.of(formula.right))

    def _combined(self, operator: str, left: Ends | None, right: Ends | None) -> Ends | None:
        """Return the result of an operator on two numbers; NULL if either is NULL."""
        if left is None or right is None:
            return None
        if operator == "nullif":
            if _is_unknown(left) or _is_unknown(right):
                return nan, left[1], left[2]
            return None if _as_spark_has_it(left[0]) == _as_spark_has_it(right[0]) else left
        return self._divided(left, right) if operator == "/" else _OPERATIONS[operator](left, right)

    def _number(self, digits: str) -> Ends:
        number = Fraction(digits) if self.exact else float(digits)
        return number, number, number

    def _part(self, part: FormulaPart) -> Ends | None:
        over = self._aggregate(self.values[part.name])
        if part.over is None or over is None:
            return over
        if part in self.averages:
            return self._aggregate(self.averages[part])
        count = self._aggregate(self.values[part.over])
        assert count is not None
        if part.guarded and count[0] == 0:
            return None if _is_certain(count) else _NOT_KNOWN
        return self._divided(over, count)

    def _aggregate(self, value: Value) -> Ends | None:
        if value[0] is None and (self.exact or value[1] is None):
            return None
        if self.exact:
            number = value[0] if isinstance(value[0], Fraction) else Fraction(str(value[0]))
            return number, number, number
        return tuple(  # type: ignore[return-value]
            missing if end is None else float(end)  # type: ignore[arg-type]
            for end, missing in zip(value, _NOT_KNOWN, strict=True)
        )

    def _divided(self, left: Ends, right: Ends) -> Ends | None:
        if right[0] == 0 and not _is_certain(right):
            return _NOT_KNOWN
        if right[0] == 0:
            self.divided_by_zero = True
            return None
        if right[1] <= 0 <= right[2]:
            return left[0] / right[0], -inf, inf
        return _times(left, (1 / right[0], 1 / right[2], 1 / right[1]))


def _first(left: Ends | None, right: Ends | None) -> Ends | None:
    """Return COALESCE of two numbers, where the first is or may be NULL; unknown where it may be anything."""
    if left is None or right is None:
        return right if left is None else left
    if left[1:] == (-inf, inf):
        return left
    return right[0], min(left[1], right[1]), max(left[2], right[2])


def _is_unknown(ends: Ends) -> bool:
    return isinstance(ends[0], float) and isnan(ends[0])


def _is_certain(ends: Ends) -> bool:
    return bool(ends[1] == ends[0] == ends[2])


def _times(left: Ends, right: Ends) -> Ends:
    ends = [0 if 0 in (one, other) else one * other for one in left[1:] for other in right[1:]]
    return left[0] * right[0], min(ends), max(ends)


def _rounded(left: Ends, right: Ends) -> Ends:
    unit = Fraction(1, 10 ** int(right[0]))
    value, low, high = (_half_up(end, unit) for end in left)
    return value, low, high


def _as_spark_has_it(number: Any) -> Fraction:
    """Return a number with the digits that Spark rounds and compares: a DECIMAL's own, else the DOUBLE's."""
    decimal = isinstance(number, Fraction) and _DECIMALS % number.denominator == 0
    return number if decimal else Fraction(repr(float(number)))


def _half_up(number: Any, unit: Fraction) -> Any:
    if isinstance(number, float) and not isfinite(number):
        return number
    exact = _as_spark_has_it(number)
    steps = abs(exact) / unit
    whole = (2 * steps.numerator + steps.denominator) // (2 * steps.denominator)
    made = whole * unit * (-1 if exact < 0 else 1)
    return made if isinstance(number, Fraction) else float(made)


_OPERATIONS: dict[str, Callable[[Ends, Ends], Ends]] = {
    "+": lambda left, right: (left[0] + right[0], left[1] + right[1], left[2] + right[2]),
    "-": lambda left, right: (left[0] - right[0], left[1] - right[2], left[2] - right[1]),
    "*": _times,
    "round": _rounded,
}
