"""Distinct counts of groups: how many tuples each group has, seen and not seen.

A tuple that one followed value alone shows stands for others of which that value is not followed. If a tuple had n
such values, it would be counted n times as unseen; how often two values show a tuple tells how large n is (Chao's
estimate of unseen species, with unequal rates). With n = 1 for all it is an upper bound, of which the upper end of the
interval is made; what is seen is the lower end. Where every tuple has one value by its nature, because its columns are
what is followed, the count is unbiased and its interval goes both ways.
"""

from math import inf

import numpy as np

from eddyline.answer.groups.sampled import GroupIntervals
from eddyline.answer.groups.tuples import Tuples
from eddyline.answer.interval import FloatArray, GroupSpread, ends_of_groups, most_unsampled
from eddyline.sample.sorting import IntArray


def count_distinct(tuples: Tuples, most_rows: FloatArray, confidence: float) -> GroupIntervals:
    """Return the number of distinct tuples of each group; most_rows: the rows that it has at most."""
    seen = np.bincount(tuples.owners, minlength=tuples.groups).astype(np.float64)
    if tuples.exact:
        return GroupIntervals(seen, seen, seen)
    assert tuples.sampled is not None
    assert tuples.places is not None
    rare = tuples.sampled.entries.rare
    of_tuple = tuples.places[rare.groups]
    used = of_tuple >= 0
    of_tuple, rates = of_tuple[used], rare.rates[used]
    alone = rare.witnesses[used] == 1
    chance = np.ones(len(tuples.owners))
    np.multiply.at(chance, of_tuple[alone], rates[alone])
    stands_for = 1.0 / chance
    if tuples.one_value_each:
        found = _unbiased(tuples, seen, stands_for, chance, confidence)
    else:
        pairs = np.bincount(of_tuple[~alone & (rates < 1.0)], minlength=len(tuples.owners)) > 0
        most = np.bincount(tuples.owners, weights=stands_for - 1.0, minlength=tuples.groups)
        unseen = most / _values_each(pairs, chance)
        above = _spread(tuples, of_tuple, rare.values[used], alone, stands_for - 1.0, confidence)
        found = GroupIntervals(seen + unseen, seen, seen + most + above)
    highs = np.where(_tells(tuples, chance), found.highs, seen + _hidden(tuples, confidence))
    highs = np.maximum(np.minimum(highs, np.maximum(most_rows, seen)), seen)
    return GroupIntervals(np.minimum(found.values, highs), np.minimum(found.lows, highs), highs)


def _tells(tuples: Tuples, chance: FloatArray) -> np.ndarray:
    """Return of which groups a tuple is seen that might not have been: others say nothing of what is unseen."""
    assert tuples.sampled is not None
    if not tuples.sampled.sampled_links:
        return np.ones(tuples.groups, dtype=np.bool_)
    return np.bincount(tuples.owners[chance < 1.0], minlength=tuples.groups) > 0


def _hidden(tuples: Tuples, confidence: float) -> float:
    """Return how many tuples a group may have of which none is seen, if each has one value; any number otherwise."""
    assert tuples.sampled is not None
    return most_unsampled(tuples.sampled.base, confidence) if tuples.one_value_each else inf


def _unbiased(
    tuples: Tuples, seen: FloatArray, stands_for: FloatArray, chance: FloatArray, confidence: float
) -> GroupIntervals:
    values = np.bincount(tuples.owners, weights=stands_for, minlength=tuples.groups).astype(np.float64)
    spread = GroupSpread.of(stands_for, chance, tuples.owners, tuples.groups)
    below, above = ends_of_groups(spread, confidence)
    return GroupIntervals(values, np.maximum(values - below, seen), values + above)


def _values_each(pairs: np.ndarray, chance: FloatArray) -> float:
    """Return how many values show a tuple, as told by how many are seen by two and by one."""
    single = chance < 1.0
    expected = float((chance[single] / (1.0 - chance[single])).sum())
    return 1.0 + 2.0 * float(pairs.sum()) / expected if expected > 0.0 else 1.0


def _spread(
    tuples: Tuples,
    of_tuple: IntArray,
    values: IntArray,
    alone: np.ndarray,
    unseen: FloatArray,
    confidence: float,
) -> FloatArray:
    """Return how far above its estimate the number of unseen tuples may lie: values that show many are few."""
    width = int(values.max(initial=0)) + 1
    number = tuples.owners[of_tuple[alone]] * width + values[alone]
    keys, places = np.unique(number, return_inverse=True)
    added = np.bincount(places, weights=unseen[of_tuple[alone]], minlength=len(keys)).astype(np.float64)
    spread = GroupSpread.of(added, np.zeros(len(keys)), keys // width, tuples.groups)
    return ends_of_groups(spread, confidence)[1]
