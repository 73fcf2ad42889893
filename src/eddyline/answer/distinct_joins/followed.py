"""Distinct counts over a join, from the dictionaries that hold the followed values of its join column.

All rows of a followed value are known, and so are all pairs that meet at it. `witnesses` estimates how many pairs
meet only at values that are not followed. An element that contains the join value itself, as in the full
projection, has one witness, and counts 1/rate times.
"""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from eddyline.answer.distinct_joins.samples import MOST_PAIRS, MOST_TRIPLES
from eddyline.answer.distinct_joins.witnesses import PairCount, count_pairs_by_witnesses
from eddyline.answer.interval import FloatArray, Spread, ends_of_sampled_values, most_unsampled, two_sided_z
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.join import Join
from eddyline.sample.messages import added
from eddyline.sample.packing import IntArray, first_of_each, numbered
from eddyline.sample.state import Roster
from eddyline.sql.query import JoinDistinctQuery

_SEEDS = (0x5851F42D4C957F2D, 0x14057B7EF767814F)
"""Seeds of the hashes that thin out the counted values, one for each side."""
_NEARLY_ONE = 1.0 - 1e-9
"""The largest rate of a state that does not follow everything: only a state that follows everything is exact."""


class Side(NamedTuple):
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


def side_of(join: Join, relation: int, *, null_is_value: bool) -> Side:
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
    return Side(number % max(len(codes), 1), number // max(len(codes), 1), codes)


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


def _two_sided(left: Side, right: Side, rates: FloatArray, base: float, confidence: float) -> PairCount:
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


def _triples(left: Side, right: Side, size: int) -> float:
    """Return how many triples meet at the places of a link."""
    held, other = (np.bincount(side.places, minlength=size) for side in (left, right))
    return float((held.astype(np.float64) * other).sum())


def _joined(left: Side, right: Side, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return (left value, right value, place) of all triples; both sides are in the order of places."""
    starts = np.searchsorted(right.places, np.arange(size + 1))
    times = np.diff(starts)[left.places]
    x, places = np.repeat(left.x, times), np.repeat(left.places, times)
    within = np.arange(len(x)) - np.repeat(np.cumsum(times) - times, times)
    return x, right.x[np.repeat(starts[left.places], times) + within], places
