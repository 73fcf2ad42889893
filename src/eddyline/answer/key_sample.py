"""COUNT, SUM and AVG over joins of several relations, from coordinated key samples.

Every relation keeps the rows whose keys are sampled, on every link the same values; joined rows are sampled when
the values of all their links are. So the samples are joined exactly, and the sum over joined rows is divided by
the product of the rates of the links (Horvitz-Thompson).

Variance. P_S is the product of the rates p_e of the links e in S, P that of all. Two joined rows whose values
agree on exactly the links S are both sampled with the chance P^2/P_S, so that

    V = sum over S of (1 - P_S)/P^2 * (sum of y y' over sampled pairs that agree on exactly S)
      = 1/P^2 * sum over non-empty S of -(-1)^|S| * Q_S * product over e in S of (1 - p_e)

is unbiased, where Q_S sums (sum of y)^2 over the groups of joined rows with equal values on S. But it misses what the
sample missed. So the squares of larger groups that its tail lets expect are added, at least one of the largest group
seen; and that once more for each pair of different values which are expected to have the same fingerprint.
Where joined rows are too many to list, or links too many, 1 - P_S <= sum of (1 - p_e) gives the safe
V <= 1/P^2 * sum over e of (1 - p_e) * Q_e, with |y| for y. It needs the sums through each value only.
Paper: none has it; algorithms.md, section 3, "Where product sketches fail, and what to use there".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import expm1, inf, isclose, log, nan
from typing import NamedTuple

import numpy as np

from eddyline.answer.key_sample_join import (
    MatchedSamples,
    SampledRelation,
    joined_rows,
    matched,
    sums_through,
)
from eddyline.answer.reading import FloatArray
from eddyline.sketch.key_sample import EVERYTHING

_MOST_ROWS = 1 << 21
_MOST_GROUPS = 1 << 23  # of joined rows, over all sets of links
_NEGLIGIBLE = 1e-5  # chance of two values taken for one, up to which a whole sample is exact
_LIKELY = 0.01  # chance from which a whole sample allows for one such pair
_FEWEST_OF_TAIL = 3  # groups from which the tail is estimated
_FLOAT_INTEGERS = 2.0**53


class JoinedRows(NamedTuple):
    """Sampled joined rows: hashes of their link values (uint64, n x links), and their values.

    On every link all values whose hashes are below its limit are sampled; the low `shifts` bits are not known.
    """

    hashes: np.ndarray
    values: FloatArray
    limits: tuple[int, ...]
    shifts: tuple[int, ...]

    @property
    def rates(self) -> FloatArray:
        """The chance of a value to be sampled, per link."""
        return np.array(self.limits) / EVERYTHING

    def within(self, limits: Sequence[int], shifts: Sequence[int]) -> "JoinedRows":
        """Return the rows below smaller limits, as if their hashes were known to fewer bits."""
        kept = (self.hashes < np.array(limits, dtype=np.uint64)).all(axis=1)
        drop = np.array(shifts, dtype=np.uint64)
        return JoinedRows(self.hashes[kept] >> drop << drop, self.values[kept], tuple(limits), tuple(shifts))


@dataclass(frozen=True)
class SampleReading:
    """What the samples say of a sum over a join, and the variance of that.

    `exact`: every value of every link was sampled and told apart, and `value` is an integer. `rate` is the chance
    of a joined row. `witnesses`: joined rows or, where fewer, joined values of a sampled link. `rows` is None
    where the joined rows were too many to list. `tail`: by what the variance was raised because the sample is known
    to miss large elements; `norm`: the root of the product of the relations' self-joins.
    """

    value: float
    variance: float
    witnesses: int
    exact: bool
    rate: float
    rows: JoinedRows | None
    tail: float = 1.0
    norm: float = 0.0


def sample_join(relations: Sequence[SampledRelation]) -> SampleReading:
    """Return the sum over the join of the products of the relations' values.

    A relation in two roles of a self-join is given twice. The relations and links must form a tree.
    """
    if any(relation.sample.first is None for relation in relations):
        return SampleReading(0.0, inf, 0, exact=False, rate=0.0, rows=None)
    join = matched(relations)
    rates = np.array(join.limits) / EVERYTHING
    rate = float(rates.prod())
    rows = JoinedRows(*joined_rows(join), join.limits, join.shifts) if join.rows <= _MOST_ROWS else None
    if rate == 1 and max(join.collisions) < _NEGLIGIBLE:
        return SampleReading(_exact_total(join), 0.0, int(join.rows), exact=True, rate=1.0, rows=rows)
    sums = sums_through(join, np.float64)
    counts = zip(join.joined_values, rates, strict=True)
    witnesses = min([int(join.rows), *(count for count, p in counts if p < 1)])
    variance = inf
    if witnesses or rate == 1:
        variance = (_spread(join, rows, rates) + _unseen(join, sums, rates)) / rate**2
    return SampleReading(float(sums[0].sum()) / rate, variance, witnesses, exact=False, rate=rate, rows=rows)


def _unseen(join: MatchedSamples, sums: Sequence[FloatArray], rates: FloatArray) -> float:
    """Return what is added for groups that the sample may have missed, and for values taken for one."""
    sampled = bool((rates < 1).any())
    added = []
    for through, rate, collisions in zip(sums, rates, join.collisions, strict=True):
        chance = collisions + (not sampled and collisions >= _LIKELY)
        added.append(
            _missed_squares(through, float(rate)) + chance * float(np.square(through).max(initial=0))
        )
    return max(added)


def _missed_squares(sums: FloatArray, rate: float) -> float:
    """Return the expected squares of groups larger than all that were sampled, times rate (1 - rate).

    Groups larger than y are taken to be proportional to y^-a, by Hill's estimate of a from the largest fifth. Up to the
    largest group of all, which is rate^(-1/a) times that of the sample, their squares sum to
    Y^2/rate * (rate^-c - 1)/c with c = 2/a - 1 and Y the largest sampled. Of groups of equal size it is one.
    """
    y = np.sort(np.abs(sums[sums != 0]))[::-1]
    if not len(y) or rate == 1:
        return 0.0
    number = min(len(y) - 1, max(_FEWEST_OF_TAIL, len(y) // 5))
    c = 2 * float(np.log(y[:number] / y[number]).mean()) - 1 if number else -1.0
    growth = -log(rate) if isclose(c, 0, abs_tol=1e-9) else expm1(-c * log(rate)) / c
    return float(y[0] ** 2 * (1 - rate) * growth)


def _exact_total(join: MatchedSamples) -> int:
    """Return the sum over the joined rows: in floats while all integers on the way fit them."""
    largest = sums_through(join, np.float64, absolute=True)[0].sum()
    return int(sums_through(join, np.float64 if largest < _FLOAT_INTEGERS else np.object_)[0].sum())


def _spread(join: MatchedSamples, rows: JoinedRows | None, rates: FloatArray) -> float:
    """Return the variance times the square of the rate, or a safe bound of it."""
    sampled = np.flatnonzero(rates < 1)
    if rows is not None and _can_group(rows):
        return _spread_of_rows(rows)
    sums = sums_through(join, np.float64, absolute=len(sampled) > 1)
    return float(sum((1 - rates[e]) * np.square(sums[e]).sum() for e in sampled))


def _can_group(rows: JoinedRows) -> bool:
    return len(rows.values) << int(np.count_nonzero(rows.rates < 1)) <= _MOST_GROUPS


def _spread_of_rows(rows: JoinedRows) -> float:
    """Return the variance times the square of the rate: sums of squares over groups, by inclusion and exclusion.

    Values of both signs can make the unbiased estimate too small or negative. Then it is that of rows which
    share nothing.
    """
    missed = 1 - rows.rates
    sampled = np.flatnonzero(missed).tolist()
    groups: dict[tuple[int, ...], np.ndarray] = {(): np.zeros(len(rows.values), dtype=np.int64)}
    codes = {e: np.unique(rows.hashes[:, e], return_inverse=True)[1] for e in sampled}
    total, squares = 0.0, 0.0
    for size in range(1, len(sampled) + 1):
        for links in combinations(sampled, size):
            joint = groups[links[:-1]] * (codes[links[-1]].max(initial=0) + 1) + codes[links[-1]]
            groups[links] = np.unique(joint, return_inverse=True)[1]
            squares = float(np.square(np.bincount(groups[links], rows.values)).sum())
            total -= (-1) ** size * float(missed[list(links)].prod()) * squares
    return max(total, float(1 - rows.rates.prod()) * squares)


def sample_ratio(numerator: SampleReading, denominator: SampleReading) -> tuple[float, float]:
    """Return the quotient of two readings over the same links, for AVG = SUM / COUNT, and its variance.

    With R the quotient, the sum of y - R x over joined rows is near zero, and its variance over the square of
    the denominator is that of R. Where the readings differ in rates, both are cut to the smaller ones.
    """
    if numerator.rows is None or denominator.rows is None:
        return _ratio_of_totals(numerator, denominator)
    limits = list(map(min, numerator.rows.limits, denominator.rows.limits))
    shifts = list(map(max, numerator.rows.shifts, denominator.rows.shifts))
    above, below = numerator.rows.within(limits, shifts), denominator.rows.within(limits, shifts)
    count = float(below.values.sum())
    if count == 0:
        return nan, inf
    value = float(above.values.sum()) / count
    both = JoinedRows(
        np.concatenate([above.hashes, below.hashes]),
        np.concatenate([above.values, -value * below.values]),
        below.limits,
        below.shifts,
    )
    if not _can_group(both):
        return _ratio_of_totals(numerator, denominator)
    return value, _centred_spread(both) / count**2


def _ratio_of_totals(numerator: SampleReading, denominator: SampleReading) -> tuple[float, float]:
    """Return the quotient and the variance that it has at most, whatever the two have in common."""
    if denominator.value == 0:
        return nan, inf
    value = numerator.value / denominator.value
    deviation = numerator.variance**0.5 + abs(value) * denominator.variance**0.5
    return value, (deviation / denominator.value) ** 2


def _centred_spread(rows: JoinedRows) -> float:
    """Return the variance, times the square of the rate, of values that were centred by their own mean."""
    sampled = np.flatnonzero(rows.rates < 1)
    if not len(sampled):
        return 0.0
    largest, fewest = 0.0, len(rows.values)
    for e in sampled:
        codes = np.unique(rows.hashes[:, e], return_inverse=True)[1]
        sums = np.asarray(np.bincount(codes, rows.values), dtype=np.float64)
        largest = max(largest, _missed_squares(sums, float(rows.rates[e])))
        fewest = min(fewest, len(sums))
    return (_spread_of_rows(rows) + largest) * fewest / (fewest - 1) if fewest > 1 else inf
