"""Distinct counts over a join, from the dictionaries that hold the followed values of its join column.

All rows of a followed value are known, and so are all pairs that meet at it. An element that contains the join value
itself, as in the full projection, counts 1/rate times. For other pairs, the number that meet only at values that are
not followed is estimated:

A value that joins a pair is a witness of it. Each seen pair comes with its followed witnesses and their rates. A pair
is missed if none of its witnesses is followed. Let o be (1 - rate) / rate. The sum of the products of o over the pairs
that have exactly k followed witnesses is an unbiased estimate of

    M_k = sum over all pairs of P(missed) C(n, k),        n: the witnesses of the pair

whatever the rates are. So the M_k are the binomial moments of n among the missed pairs, and a distribution of n
over 1, 2, ... with these moments gives their number, M_0. The distribution is fitted by least squares under its
constraint, with the covariance of the moments; the interval holds every number of pairs for which some distribution
fits nearly as well. docs/internals/join-distinct.md has the derivation, figures/distinct_joins.py the measurements.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
import scipy

from eddyline.answer.distinct_joins.samples import MOST_PAIRS, MOST_TRIPLES
from eddyline.answer.interval import (
    FloatArray,
    Spread,
    ends_of_sampled_values,
    most_unsampled,
    student,
)
from eddyline.plan.size.specs import two_sided_z
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.join import Join
from eddyline.sample.messages import added
from eddyline.sample.packing import IntArray, first_of_each, numbered
from eddyline.sample.state import Roster
from eddyline.sql.query import JoinDistinctQuery

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


_SEEDS = (0x5851F42D4C957F2D, 0x14057B7EF767814F)
"""Seeds of the hashes that thin out the counted values, one for each side."""
_NEARLY_ONE = 1.0 - 1e-9
"""The largest rate of a state that does not follow everything: only a state that follows everything is exact."""


class FollowedSide(NamedTuple):
    """The different (counted value, place of the join value) with rows on one side, in the order of places.

    x: the number of the counted value, codes: its key, by number.
    """

    x: IntArray
    places: IntArray
    codes: IntArray


def count_followed(join: Join, query: JoinDistinctQuery, confidence: float) -> PairCount:
    """Return how many different values a join projects, with an interval; exact where it has no width."""
    form = query.form
    left, right = (
        side_of(join, relation, null_is_value=key.null_is_value)
        for relation, key in enumerate((query.left, query.right))
    )
    rates = join.probabilities[0]
    roster = join.state.rosters[join.shape.classes[0]]
    base = 1.0 if join.follows_all else min(roster.base, _NEARLY_ONE)
    size = len(rates)
    held, other = (np.bincount(side.places, minlength=size) for side in (left, right))
    if form == "full":
        return _one_witness_each(held * other, rates, base, confidence)
    if form == "semi" and set(query.join.left_key.columns) <= set(query.left.columns):
        return _one_witness_each(held * (other > 0), rates, base, confidence)
    if form == "semi":
        met = other[left.places] > 0
        return count_pairs_by_witnesses(left.x[met], left.places[met], rates, base, confidence)
    met_left, met_right = other[left.places] > 0, held[right.places] > 0
    left = left._replace(x=left.x[met_left], places=left.places[met_left])
    right = right._replace(x=right.x[met_right], places=right.places[met_right])
    return _two_sided(left, right, rates, base, confidence)


def side_of(join: Join, relation: int, *, null_is_value: bool) -> FollowedSide:
    """Return what one side of a distinct count holds; a side that only decides has just its join values.

    null_is_value: a row whose counted columns are NULL counts as well, as in SELECT DISTINCT.
    """
    node = join.first.nodes[relation]
    mine, view, dictionary = (
        join.whole_relations(join.first)[relation],
        join.view(node),
        join.dictionary(node),
    )
    used = mine.weights != 0
    for column in () if null_is_value else view.groups:
        used &= ~dictionary.is_null(column)
    rows = np.flatnonzero(used)
    codes, x = _counted(dictionary, view.groups, rows)
    number = mine.places[0][rows].astype(np.int64) * len(codes) + x
    order = np.argsort(number, kind="stable")
    number = number[order]
    first = first_of_each(number)
    net = added(mine.weights[rows][order], np.cumsum(first) - 1, int(first.sum()))
    number = number[first][net > 0]
    return FollowedSide(number % max(len(codes), 1), number // max(len(codes), 1), codes)


def _counted(dictionary: Dictionary, columns: Sequence[int], rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return (codes of counted values, the number of each row's code); several columns are numbered together."""
    if len(columns) == 1 and not dictionary.is_null(columns[0])[rows].any():
        return numbered(dictionary.key(columns[0])[rows])
    x: IntArray = np.zeros(len(rows), dtype=np.int64)
    codes: IntArray = np.zeros(1, dtype=np.int64)
    for column in columns:
        for part in (dictionary.key(column)[rows], dictionary.is_null(column)[rows].astype(np.int64)):
            values, own = numbered(part)
            codes, x = numbered(x * len(values) + own)
    return codes, x


def _one_witness_each(met: IntArray, rates: FloatArray, base: float, confidence: float) -> PairCount:
    """Return how many elements there are that contain their join value: `met` of them at each value."""
    there = met > 0
    scaled, rates = met[there] / rates[there], rates[there]
    seen, value = int(met.sum()), float(scaled.sum())
    if base >= 1.0 and not (rates < 1.0).any():
        return PairCount(float(seen), float(seen), float(seen), seen)
    below, above = ends_of_sampled_values(Spread.of(scaled, rates), 0.0, 0.0, confidence)
    above = max(above, most_unsampled(base, confidence))
    return PairCount(value, max(value - below, float(seen)), value + above, seen)


def _two_sided(
    left: FollowedSide, right: FollowedSide, rates: FloatArray, base: float, confidence: float
) -> PairCount:
    """Return the number of pairs that meet; if there are too many, from a part of either side's counted values."""
    exact = base >= 1.0 and not (rates < 1.0).any()
    chances, sides, most = [1.0, 1.0], [left, right], MOST_PAIRS if exact else MOST_TRIPLES
    hashes = [Roster(seed).hashes(side.codes) for seed, side in zip(_SEEDS, sides, strict=True)]
    while _triples(sides[0], sides[1], len(rates)) > most:
        thinned = max((0, 1), key=lambda k: chances[k] * len(sides[k].codes))
        chances[thinned] /= 2.0
        side = sides[thinned]
        kept = hashes[thinned][side.x] < chances[thinned]
        sides[thinned] = side._replace(x=side.x[kept], places=side.places[kept])
        most = MOST_TRIPLES
    x, c, places = _joined(sides[0], sides[1], len(rates))
    width = max(len(right.codes), 1)
    found = count_pairs_by_witnesses(x * width + c, places, rates, base, confidence)
    if chances == [1.0, 1.0]:
        return found
    return _of_part(found, x * width + c, width, chances, confidence)


def _of_part(
    found: PairCount, pairs: IntArray, width: int, chances: list[float], confidence: float
) -> PairCount:
    """Return the count of all pairs from that of a part of the counted values: each value brings all its pairs."""
    number, _ = numbered(pairs)
    scale, variance = found.value / max(len(number), 1), 0.0
    for values, chance in zip((number // width, number % width), chances, strict=True):
        of_each = scale * np.unique(values, return_counts=True)[1].astype(np.float64)
        variance += (1.0 - chance) * float((of_each**2).sum())
    rate = chances[0] * chances[1]
    return found.scaled(rate, two_sided_z(confidence) * sqrt(variance) / rate)


def _triples(left: FollowedSide, right: FollowedSide, size: int) -> float:
    """Return how many triples meet at the places of a link."""
    held, other = (np.bincount(side.places, minlength=size) for side in (left, right))
    return float((held.astype(np.float64) * other).sum())


def _joined(left: FollowedSide, right: FollowedSide, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return (left value, right value, place) of all triples; both sides are in the order of places."""
    starts = np.searchsorted(right.places, np.arange(size + 1))
    times = np.diff(starts)[left.places]
    x, places = np.repeat(left.x, times), np.repeat(left.places, times)
    within = np.arange(len(x)) - np.repeat(np.cumsum(times) - times, times)
    return x, right.x[np.repeat(starts[left.places], times) + within], places
