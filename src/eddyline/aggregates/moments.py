"""Aggregates that are smooth functions of sums over rows: COUNT, SUM, AVG, variances and standard deviations.

A subclass of `Moment` defines which sums it needs, as powers of its arguments, and what it computes from them.
Exact answers, samples and groups need nothing else: near an estimate a smooth function of sums is one linear
combination of them over the number of rows, and what each sampled value adds to that combination gives the error
(the delta method).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import repeat
from math import inf, isqrt, nan, prod, sqrt
from operator import truediv
from typing import Any

import numpy as np

Powers = tuple[int, ...]
"""The power of each argument in a product; a power of 0 asks only that the argument is not NULL."""
Units = tuple[Fraction, ...]
"""The value of 1 in the exact sum of each argument."""
Number = Any
"""A number for one group, or an array with a number for each group: floats, Python's integers or fractions."""
LEAST_VARIANCE = 1e-50
"""Nothing is divided by a smaller variance: too few digits are held of numbers below 1e-25."""
_ROOT_BITS = 128
"""Bits of a quotient whose root is taken: more than twice as many as a float has."""


@dataclass(frozen=True)
class Moment:
    """An aggregate of sums: its name, as SQL writes it, and what it needs.

    sums: the powers of each sum, by name; the first is the largest, and "count" is the number of rows that count.
    fewest: the smallest number of rows for which it is not NULL. unit_powers: how the aggregate's unit follows from
    those of its arguments. least, most: the bounds of its value. is_root: the exact value is the root of
    `quotient`, with its sign. is_sketched: sketches of a join can provide its sums.
    """

    name: str
    sql_names: tuple[str, ...]
    sums: Mapping[str, Powers] = field(hash=False)
    unit_powers: Powers = (1,)
    fewest: int = 1
    least: float = -inf
    most: float = inf
    is_root: bool = False
    is_sketched: bool = True

    @property
    def arguments(self) -> int:
        """The number of columns that it takes."""
        return len(self.unit_powers)

    @property
    def is_sum(self) -> bool:
        """Whether it is one of its sums, and not a function of several."""
        return False

    @property
    def is_count(self) -> bool:
        """Whether it is a number of rows."""
        return False

    @property
    def degree(self) -> int:
        """The highest power of a measure among its sums: large values carry sums of a high degree."""
        return max(sum(powers) for powers in self.sums.values())

    @property
    def is_spread(self) -> bool:
        """Whether it is a variance or its root: with few values, the chi-square distribution bounds it."""
        return False

    def sketched_sums(self, *, joined: bool) -> Mapping[str, Powers]:
        """Return the sums that synopses keep for it; joined: over a join, not over one stream."""
        del joined
        order = sorted(self.sums.items(), key=lambda each: _KEPT_ORDER.get(each[0], len(_KEPT_ORDER)))
        return dict(order)

    def unit(self, units: Units) -> Fraction:
        """Return the unit of the aggregate, given the units of its arguments."""
        return prod(
            (each**power for each, power in zip(units, self.unit_powers, strict=True)), start=Fraction(1)
        )

    # exact values

    def is_null(self, totals: Mapping[str, Number]) -> Number:
        """Return whether SQL answers NULL."""
        count = totals["count"]
        if self.fewest == 0:
            return np.zeros(np.shape(count), dtype=np.bool_)
        return (count == 0) | (count == 1) if self.fewest > 1 else count == 0

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the numerator and the denominator of the exact value, or of its square where it is a root.

        Only for numbers for which `is_null` does not hold.
        """
        raise NotImplementedError

    def exact(self, totals: Mapping[str, Number], units: Units) -> Fraction | None:
        """Return the value from exact totals, or None for NULL; only a root is rounded."""
        if self.is_null(totals):
            return None
        numerator, denominator = self.quotient(totals, units)
        if self.is_root:
            return Fraction(signed_root(numerator, denominator))
        return Fraction(numerator, denominator)

    def exact_floats(self, totals: Mapping[str, np.ndarray], units: Units, null: np.ndarray) -> np.ndarray:
        """Return the floats nearest to the exact values of many groups; arbitrary values where they are NULL."""
        whole = {name: each.astype(np.object_) for name, each in totals.items()}
        numerators, denominators = (
            repeat(each) if np.ndim(each) == 0 else np.where(null, 1, each).tolist()
            for each in self.quotient(whole, units)
        )
        # a quotient of Python's integers is the nearest float to the true one
        made = map(signed_root if self.is_root else truediv, numerators, denominators)
        return np.fromiter(made, dtype=np.float64, count=len(null))

    def rounded(self, sums: Mapping[str, Fraction]) -> float:
        """Return the value from exact sums in the units of their numbers; nan where SQL answers NULL."""
        found = self.exact(sums, (Fraction(1),) * self.arguments)
        return nan if found is None else float(found)

    # estimates: from floats, one or an array of many

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the value at which `factors` linearizes: that of the population, before any root."""
        raise NotImplementedError

    def centre(self, sums: Mapping[str, float]) -> float:
        """Return the estimate before any root; nan where SQL answers NULL."""
        if sums["count"] < self.fewest:
            return nan
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.population({name: np.float64(each) for name, each in sums.items()})
            return float(self.corrected(found, np.float64(sums["count"])))

    def corrected(self, value: Number, count: Number) -> Number:
        """Return the sample value (such as VAR_SAMP) from the population value."""
        del count
        return value

    def factors(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the factors of the sums in the linear form, whose value is 0 at the estimate.

        The aggregate changes by the sum of each factor times the change of its sum, over the count. The first is
        the sum whose exact total helps most.
        """
        raise NotImplementedError

    def size(self, sums: Mapping[str, Number]) -> Number:
        """Return the size of what cancels in the linear form: float errors are a fraction of it."""
        parts = self.factors(sums).items()
        return np.sum([np.abs(factor * sums[name]) for name, factor in parts], axis=0)

    def tail(self, sums: Mapping[str, float]) -> tuple[dict[str, float], float]:
        """Return the combination that large values dominate; its tail bounds what unseen values may add.

        (The factors of sums, a constant added for each row): the linear form without the subtracted value.
        """
        return self.factors(sums), self.centre(sums)

    def scarcity(self, values: Number) -> Number:
        """Return how many times wider an interval is because its means are estimated from few values.

        As in a regression: one parameter for each sum except the count. Infinite unless there are more values than
        parameters.
        """
        left = values - (len(self.sums) - 1.0)
        return np.sqrt(np.divide(values, left, out=np.full(np.shape(values), inf), where=left >= 1.0))

    def sums_of_row(self, measure: float) -> dict[str, float] | None:
        """Return what a row with this measure adds to each sum; None where rows have no single measure."""
        del measure
        return None

    def ends(self, value: Number, low: Number, high: Number) -> tuple[Number, Number, Number]:
        """Return the estimate and its ends from those of the linear form, within its bounds and after any root."""
        return value, low, high

    def cut_off(self, most: float, highs: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """Return how far the aggregate may move by digits that were cut off, up to `most` of each row's measure.

        None where there is no bound, because it divides by a number that such digits may determine. Estimates then
        ignore these digits, and are not known where a whole variance is of that size.
        """
        del most, highs, rows
        return None

    # words

    @property
    def written(self) -> str:
        """The name in messages."""
        return self.sql_names[0]

    @property
    def of_one_row(self) -> str | None:
        """The message for a single row, for which it is NULL; None where it is not NULL."""
        return f"{self.written} of one row is NULL: it takes two rows." if self.fewest > 1 else None

    @property
    def of_too_few(self) -> str | None:
        """The message where a sample shows fewer rows than it needs; None where any number is enough."""
        if self.fewest < 2:
            return None
        return f"fewer than two rows of the join are seen, and {self.written} takes two."


_KEPT_ORDER = {"sum": 0, "count": 1, "squares": 2}
"""The order of sums in synopses, part of the format of states; other sums follow in their own order."""


@dataclass(frozen=True)
class Total(Moment):
    """COUNT or SUM: the sum that has the aggregate's name."""

    @property
    def is_sum(self) -> bool:
        """Always true."""
        return True

    @property
    def is_count(self) -> bool:
        """Whether it is COUNT."""
        return self.name == "count"

    def sketched_sums(self, *, joined: bool) -> Mapping[str, Powers]:
        """Return the sums to keep: COUNT(x) sums flags; over one stream, SUM also needs a count for its NULL."""
        if self.is_count:
            return {"count": (1,)}
        return {"sum": (1,)} if joined else {"sum": (1,), "count": (0,)}

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the total in its unit."""
        unit = Fraction(1) if self.is_count else units[0]
        return totals[self.name] * unit.numerator, unit.denominator

    def rounded(self, sums: Mapping[str, Fraction]) -> float:
        """Return the sum itself, also of no rows."""
        return float(sums[self.name])

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the sum itself."""
        return sums[self.name]

    def cut_off(self, most: float, highs: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """Return what is cut off from all rows: nothing for a COUNT."""
        del highs
        return np.zeros(len(rows)) if self.is_count else most * np.maximum(np.abs(rows), 1.0)


@dataclass(frozen=True)
class Quotient(Moment):
    """A combination of sums divided by the count: an average of something that may contain the mean."""

    def numerator(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the factors of the combination that is divided by the count.

        It must not change to first order with the means that it contains, so that only the sums cause its error.
        """
        raise NotImplementedError

    def factors(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the numerator less the value times the count."""
        made = self.numerator(sums)
        return made | {"count": made.get("count", 0.0) - self.population(sums)}

    def scarcity(self, values: Number) -> Number:
        """Return 1: for these, the effect of few values is added to the variance of the estimate."""
        return np.ones(np.shape(values))


@dataclass(frozen=True)
class Average(Quotient):
    """AVG."""

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the sum and the count."""
        (unit,) = units
        return totals["sum"] * unit.numerator, unit.denominator * totals["count"]

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the mean."""
        return sums["sum"] / sums["count"]

    def centre(self, sums: Mapping[str, float]) -> float:
        """Return the mean; nan where there are no rows."""
        return sums["sum"] / sums["count"] if sums["count"] else nan

    def rounded(self, sums: Mapping[str, Fraction]) -> float:
        """Return the mean of exact sums, each rounded first."""
        return self.centre({name: float(each) for name, each in sums.items()})

    def numerator(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the sum."""
        del sums
        return {"sum": 1.0}

    def size(self, sums: Mapping[str, Number]) -> Number:
        """Return the size of the sum."""
        return abs(sums["sum"])

    def sums_of_row(self, measure: float) -> dict[str, float] | None:
        """Return what a row with this measure adds to each sum."""
        return {"count": 1.0, "sum": measure}

    def cut_off(self, most: float, highs: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """Return what is cut off from one row."""
        del rows
        return np.full(len(highs), most)


@dataclass(frozen=True)
class Variance(Quotient):
    """VARIANCE and STDDEV, of a sample or of the population."""

    @property
    def is_spread(self) -> bool:
        """Always true."""
        return True

    def quotient(self, totals: Mapping[str, Number], units: Units) -> tuple[Number, Number]:
        """Return the sum of squared deviations, and what it is divided by, both times the count."""
        (unit,), count = units, totals["count"]
        deviations = (totals["squares"] * count - totals["sum"] * totals["sum"]) * unit.numerator**2
        by = count * (count - 1 if self.fewest > 1 else count) * unit.denominator**2
        return not_negative(deviations, always=self.is_root, count=count), by

    def population(self, sums: Mapping[str, Number]) -> Number:
        """Return the population variance."""
        mean = sums["sum"] / sums["count"]
        return sums["squares"] / sums["count"] - mean * mean

    def centre(self, sums: Mapping[str, float]) -> float:
        """Return the variance from the sum of squared deviations; nan where there are too few rows."""
        count = sums["count"]
        rows = count - 1.0 if self.fewest > 1 else count
        if rows <= 0.0:
            return nan
        return max(sums["squares"] - sums["sum"] ** 2 / count, 0.0) / rows

    def corrected(self, value: Number, count: Number) -> Number:
        """Return the sample variance from the population variance."""
        if self.fewest < 2:
            return value
        return np.where(count > 1, value * count / (count - 1), np.nan)

    def rounded(self, sums: Mapping[str, Fraction]) -> float:
        """Return the value from exact sums: deviations from the mean are computed before rounding."""
        count = sums["count"]
        deviations = sums["squares"] - sums["sum"] ** 2 / count if count else Fraction(0)
        found = self.centre({"squares": float(deviations), "sum": 0.0, "count": float(count)})
        return sqrt(found) if self.is_root else found

    def numerator(self, sums: Mapping[str, Number]) -> dict[str, Number]:
        """Return the factors of the sum of squared deviations from the mean."""
        mean = sums["sum"] / sums["count"]
        return {"squares": 1.0, "sum": -2.0 * mean, "count": mean * mean}

    def size(self, sums: Mapping[str, Number]) -> Number:
        """Return the size of the sum of squares, which nearly cancels where the mean is large."""
        return abs(sums["squares"])

    def sums_of_row(self, measure: float) -> dict[str, float] | None:
        """Return what a row with this measure adds to each sum."""
        return {"count": 1.0, "sum": measure, "squares": measure * measure}

    def ends(self, value: Number, low: Number, high: Number) -> tuple[Number, Number, Number]:
        """Return the variance and its ends, none below 0, or the root of each."""
        value, low, high = (np.maximum(each, 0.0) for each in (value, low, high))
        return (np.sqrt(value), np.sqrt(low), np.sqrt(high)) if self.is_root else (value, low, high)

    def cut_off(self, most: float, highs: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """Return how far it moves: a deviation by that of the cut-off digits, a variance as its square does."""
        del rows
        half = np.full(len(highs), 2.0 * most)
        return half if self.is_root else 2.0 * half * (np.sqrt(np.maximum(highs, 0.0)) + half)

    @property
    def of_one_row(self) -> str | None:
        """The message for a single row."""
        if self.fewest < 2:
            return None
        return (
            "a sample of one row has no variance: VARIANCE and STDDEV take two, VAR_POP and STDDEV_POP one."
        )

    @property
    def of_too_few(self) -> str | None:
        """The message where a sample shows fewer than two rows."""
        if self.fewest < 2:
            return None
        return "fewer than two rows of the join are seen, and VARIANCE and STDDEV of a sample take two."


def signed_root(numerator: int, denominator: int) -> float:
    """Return the float that is nearest to the square root of a quotient, with the sign of the numerator.

    0 where the denominator is not positive.
    """
    if numerator == 0 or denominator <= 0:
        return 0.0
    size = abs(numerator)
    shift = max(_ROOT_BITS - size.bit_length() + denominator.bit_length(), 0)
    shift += shift % 2
    quotient, rest = divmod(size << shift, denominator)
    root = isqrt(quotient)
    inexact = rest != 0 or root * root != quotient
    found = (2 * root + inexact) / (1 << shift // 2 + 1)
    return found if numerator > 0 else -found


def not_negative(deviations: Number, count: Number, *, always: bool = False) -> Number:
    """Return sums of squared deviations, at least 0: they are below only after deletes of rows never inserted.

    always: also where more rows were deleted than inserted, and nothing is known.
    """
    if isinstance(count, np.ndarray):
        return np.where(((count > 0) | always) & (deviations < 0), 0, deviations)
    return max(deviations, 0) if count > 0 or always else deviations


_COUNT, _SUM, _SQUARES = {"count": (0,)}, {"sum": (1,)}, {"squares": (2,)}
_VARIANCE = {**_SQUARES, **_SUM, **_COUNT}

MOMENTS: tuple[Moment, ...] = (
    Total("count", ("COUNT",), _COUNT, (0,), fewest=0, least=0),
    Total("sum", ("SUM",), {**_SUM, **_COUNT}),
    Average("avg", ("AVG",), {**_SUM, **_COUNT}),
    Variance("var_samp", ("VARIANCE", "VARIANCE_SAMP", "VAR_SAMP"), _VARIANCE, (2,), fewest=2, least=0),
    Variance("var_pop", ("VAR_POP", "VARIANCE_POP"), _VARIANCE, (2,), least=0),
    Variance("stddev_samp", ("STDDEV", "STDEV", "STDDEV_SAMP"), _VARIANCE, fewest=2, least=0, is_root=True),
    Variance("stddev_pop", ("STDDEV_POP",), _VARIANCE, least=0, is_root=True),
)
