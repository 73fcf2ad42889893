"""How many different pairs a join has, from the pairs that meet at the followed values of its join column.

A value that joins a pair is a witness of it. All rows of a followed value are known, so each seen pair comes with
its followed witnesses and their rates. A pair is missed if none of its witnesses is followed. Let o be (1 - rate) /
rate. The sum of the products of o over the pairs that have exactly k followed witnesses is an unbiased estimate of

    M_k = sum over all pairs of P(missed) C(n, k),        n: the witnesses of the pair

whatever the rates are. So the M_k are the binomial moments of n among the missed pairs, and a distribution of n
over 1, 2, ... with these moments gives their number, M_0. The distribution is fitted by least squares under its
constraint, with the covariance of the moments; the interval holds every number of pairs for which some distribution
fits nearly as well. docs/internals/join-distinct.md has the derivation, figures/distinct_joins.py the measurements.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import scipy  # its subpackages are loaded where they are touched

from eddyline.answer.interval import FloatArray, student
from eddyline.sample.packing import IntArray, numbered

_STEPS = np.array([1, 2, 3, 4, 5, 6, 8, 11, 15, 21, 41])
"""Steps of the number of followed witnesses of a pair. Pairs with more are never missed, so they are left out."""
_MOST = int(_STEPS[-1]) - 1
_SMALL, _NEXT, _ENOUGH = 15, 1.15, 60.0
"""Numbers of witnesses that are tried: all small ones, then each _NEXT times the previous one, up to _ENOUGH
expected followed ones, from which on a pair is not missed. The steps are chosen, not measured."""
_RIDGE = 0.05
"""The share of itself added to each variance, as covariances of few values are nearly singular. Chosen."""
_HALVINGS = 24
_MOST_COLUMNS, _NO_GAIN = 60, 1e-9


@dataclass(frozen=True)
class PairCount:
    """A number of pairs with its interval; seen: those that followed values show."""

    value: float
    low: float
    high: float
    seen: int

    @property
    def width(self) -> float:
        """The width of the interval."""
        return self.high - self.low

    def scaled(self, rate: float, half: float) -> "PairCount":
        """Return the count of all pairs from pairs chosen at a rate, which adds `half` to the half-width."""
        value = self.value / rate
        below, above = (
            sqrt((each / rate) ** 2 + half**2) for each in (self.value - self.low, self.high - self.value)
        )
        return PairCount(value, max(value - below, self.seen), value + above, self.seen)


def count_pairs_by_witnesses(
    pairs: IntArray, values: IntArray, rates: FloatArray, base: float, confidence: float
) -> PairCount:
    """Return how many different pairs there are; pairs, values: for each followed witness of each seen pair.

    rates: the rate of each value, by its number. base: the lowest rate at which a value may be followed.
    """
    number, of_witness = numbered(pairs)
    seen = len(number)
    if base >= 1.0 and not (rates < 1.0).any():
        return PairCount(float(seen), float(seen), float(seen), seen)
    if base <= 0.0:
        return PairCount(float(seen), float(seen), inf, seen)
    moments = _Moments.of(of_witness, values, rates, min(base, float(rates.min(initial=1.0))), seen)
    return moments.fitted(confidence)


@dataclass(frozen=True)
class _Moments:
    """The moments of the pairs that may be missed, over powers of the odds at the base rate, in steps of witnesses.

    They are then what a sample at this one rate would show: at most 1 for a pair. covariance: of the moments,
    followed by the number of seen pairs. carriers: the values that carry the variance of the first moment.
    """

    first: FloatArray
    covariance: FloatArray
    rate: float
    seen: int
    carriers: float

    @classmethod
    def of(
        cls, of_witness: IntArray, values: IntArray, rates: FloatArray, rate: float, seen: int
    ) -> "_Moments":
        odds = (1.0 - rates) / rates / ((1.0 - rate) / rate)
        times = np.bincount(of_witness, minlength=seen)
        sure = np.zeros(seen, dtype=np.bool_)
        sure[of_witness[odds[values] <= 0.0]] = True
        open_ = ~sure & (times <= _MOST)
        kept = open_[of_witness]
        of_witness, values = of_witness[kept], values[kept]
        logs = np.bincount(of_witness, np.log(odds[values]), minlength=seen)
        weights, own = np.exp(logs[open_]), times[open_]
        steps = len(_STEPS) - 1
        first = np.bincount(_step(own), weights, minlength=steps).astype(np.float64)
        size = steps + 1
        at, mine = times[of_witness], np.exp(logs[of_witness])
        _, place = numbered(values)
        added = np.zeros((int(place.max(initial=-1)) + 1) * size)
        added += np.bincount(place * size + _step(at), mine, minlength=len(added))
        alone = at == 1
        added += np.bincount(place[alone] * size + steps, minlength=len(added))
        less = mine[~alone] / odds[values[~alone]]
        added -= np.bincount(place[~alone] * size + _step(at[~alone] - 1), less, minlength=len(added))
        changes = added.reshape(-1, size)
        chance = np.zeros(len(changes))
        chance[place] = 1.0 - rates[values]
        covariance = (changes * chance[:, None]).T @ changes
        parts = chance * changes[:, 0] ** 2
        carriers = float(parts.sum()) ** 2 / max(float((parts**2).sum()), 1e-300)
        return cls(first, covariance, rate, seen, max(carriers, 1.0))

    def fitted(self, confidence: float) -> PairCount:
        """Return the number of pairs by the moments, and the numbers that some distribution fits nearly as well."""
        model, missed = self._model()
        variances = np.diag(self.covariance)
        whole = self.covariance + np.diag(np.where(variances > 0.0, _RIDGE * variances, 1.0))
        whiten = np.linalg.inv(np.linalg.cholesky(whole))
        rows = whiten @ np.vstack([model, -missed])
        number = whiten[:, -1]

        def misfit(pairs: float) -> float:
            target = whiten @ np.append(self.first, self.seen - pairs)
            return _nonnegative(rows, target)[1]

        target = whiten @ np.append(self.first, self.seen)
        found, best = _nonnegative(np.column_stack([rows, number]), target)
        value = max(float(found[-1]), float(self.seen))
        most = best + student(confidence, self.carriers + 1.0) ** 2
        low = _last(misfit, value, float(self.seen), most)
        high = value + 1.0
        while misfit(high) < most:
            high = value + 4.0 * (high - value)
        return PairCount(value, low, _last(misfit, value, high, most), self.seen)

    def _model(self) -> tuple[FloatArray, FloatArray]:
        """Return the moments of a pair for each number of witnesses, and its chance to be missed."""
        numbers = [*range(1, _SMALL + 1)]
        while numbers[-1] * self.rate < _ENOUGH:
            numbers.append(int(np.ceil(numbers[-1] * _NEXT)))
        each = np.array(numbers)
        shown = scipy.stats.binom.pmf(np.arange(1, _MOST + 1)[:, None], each[None, :], self.rate)
        return np.add.reduceat(shown, _STEPS[:-1] - 1, axis=0), (1.0 - self.rate) ** each


def _nonnegative(rows: FloatArray, target: FloatArray) -> tuple[FloatArray, float]:
    """Return the nonnegative least squares solution, and the sum of squares that is left (Lawson and Hanson).

    scipy's own solver fails on columns that are nearly alike. Here a column that brings no improvement ends the
    search: the solution so far is feasible, and as good to all relevant digits.
    """
    norms = np.sqrt((rows**2).sum(axis=0))
    scaled = rows / norms
    used, found = list[int](), np.zeros(rows.shape[1])
    left, size = target, float(target @ target)
    for _ in range(_MOST_COLUMNS):
        gains = scaled.T @ left
        gains[used] = -inf
        best = int(np.argmax(gains))
        if gains[best] <= _NO_GAIN * sqrt(size):
            break
        trial, mine = [*used, best], np.append(found[used], 0.0)
        while True:
            wanted = np.linalg.lstsq(scaled[:, trial], target, rcond=None)[0]
            if (wanted > 0.0).all():
                break
            falling = wanted <= 0.0
            step = float(np.min(mine[falling] / np.maximum(mine[falling] - wanted[falling], 1e-300)))
            mine = mine + step * (wanted - mine)
            kept = (mine > 1e-12 * mine.max(initial=0.0)) & ~(falling & (mine <= 0.0))
            trial, mine = [each for each, stays in zip(trial, kept, strict=True) if stays], mine[kept]
            if not trial:
                break
        if best not in trial:
            break
        rest = target - scaled[:, trial] @ wanted
        if rest @ rest >= left @ left * (1.0 - _NO_GAIN):
            break
        used, left = trial, rest
        found = np.zeros(rows.shape[1])
        found[used] = wanted
    return found / norms, float(left @ left)


def _step(times: IntArray) -> IntArray:
    """Return the step of each number of followed witnesses."""
    return np.searchsorted(_STEPS, times, side="right") - 1


def _last(misfit: Callable[[float], float], inside: float, outside: float, most: float) -> float:
    """Return the farthest number that still fits, going from one that fits towards another number."""
    if misfit(outside) <= most:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2.0
        inside, outside = (middle, outside) if misfit(middle) <= most else (inside, middle)
    return inside
