"""Set expressions as their document estimates them, under its names, for `method="document"`.

A bucket is an array whose last axis holds the total and the bit counters; all tests take whole arrays of buckets
(one for each copy) and return one truth value per bucket. `sketches` are views (copies, levels, 1 + bits), one for
each stream, as `TwoLevelSpec.buckets` returns them. The interval is not from the document, which only states a size
for a guarantee: the shares of buckets that are not empty, and of singletons that are witnesses, are binomial, and
their Clopper-Pearson bounds are propagated through the estimator. Paper: set expressions, Tables 1-9.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, hypot, log, log2

import numpy as np
import scipy  # its subpackages are loaded where they are touched

from eddyline.answer import notes
from eddyline.answer.sets.expression import Condition, SetReading, holds, only_unions
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.two_level import TwoLevelSpec, at_common_shape

Truths = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
_BETA = 2.0
EPSILON = 0.1
"""The epsilon of the estimators where no guarantee gives another: chosen; it hardly changes the levels read."""
_UNION_LEVEL = 1.15
"""How much wider the union's bounds are, because the level is chosen by the count that is then used. The count is
below its mean in 60% of cases. Measured by tests/answer/test_document_sets.py."""


def empty_bucket(bucket: Int64Array) -> Truths:
    """Return whether buckets hold no element. Paper: set expressions, EmptyBucket (Table 1)."""
    return np.asarray(bucket[..., 0] == 0)


def singleton_bucket(bucket: Int64Array) -> Truths:
    """Return whether buckets hold one distinct element. Paper: set expressions, SingletonBucket (Table 2)."""
    total, bits = bucket[..., :1], bucket[..., 1:]
    return np.asarray(~empty_bucket(bucket) & ~((bits > 0) & (total > bits)).any(axis=-1))


def identical_singleton_bucket(left: Int64Array, right: Int64Array) -> Truths:
    """Return whether two buckets hold the same single element.

    Paper: set expressions, IdenticalSingletonBucket (Table 3).
    """
    same = ((left[..., 1:] > 0) == (right[..., 1:] > 0)).all(axis=-1)
    return np.asarray(singleton_bucket(left) & singleton_bucket(right) & same)


def singleton_union_bucket(left: Int64Array, right: Int64Array) -> Truths:
    """Return whether the union of two buckets is one element.

    Paper: set expressions, SingletonUnionBucket (Table 4).
    """
    alone = (singleton_bucket(left) & empty_bucket(right)) | (singleton_bucket(right) & empty_bucket(left))
    return alone | identical_singleton_bucket(left, right)


def union_singletons(buckets: list[Int64Array]) -> Truths:
    """Return whether the union of the buckets of any number of streams is one element (paragraph 0059)."""
    clean = np.logical_and.reduce([empty_bucket(bucket) | singleton_bucket(bucket) for bucket in buckets])
    same = np.ones(clean.shape, dtype=np.bool_)
    for index, left in enumerate(buckets):
        for right in buckets[index + 1 :]:
            either = empty_bucket(left) | empty_bucket(right)
            same &= either | identical_singleton_bucket(left, right)
    some = np.logical_or.reduce([~empty_bucket(bucket) for bucket in buckets])
    return np.asarray(clean & same & some)


def union_level(sketches: Sequence[Int64Array], epsilon: float) -> tuple[int, int]:
    """Return (index, count) of SetUnionEstimator: the first level where at most (1 + epsilon)/8 are not empty.

    If there is no such level, the last one. Paper: set expressions, Table 5, lines 1-11.
    """
    copies, levels, _ = sketches[0].shape
    limit = (1 + epsilon) * copies / 8
    for index in range(levels):
        count = int(np.logical_or.reduce([~empty_bucket(sketch[:, index]) for sketch in sketches]).sum())
        if count <= limit:
            break
    return index, count


def union_of_share(share: float, index: int, copies: int, *, spread: bool) -> float:
    """Return u for the share of buckets of a level that are not empty. Paper: set expressions, Table 5, line 13.

    Deviation: with `spread` the chance of a bucket is 1/(b 2^(index+1)); the text omits the factor b.
    """
    chance = 1 / (2.0 ** (index + 1) * (copies if spread else 1))
    return log(1 - min(share, 1 - 1 / (2 * copies))) / log(1 - chance)


def set_union_estimator(sketches: list[Int64Array], epsilon: float, *, spread: bool) -> float:
    """Return the estimated union of all streams. Paper: set expressions, SetUnionEstimator (Table 5)."""
    index, count = union_level(sketches, epsilon)
    copies = len(sketches[0])
    return union_of_share(count / copies, index, copies, spread=spread)


def witness_index(union: float, epsilon: float, copies: int, levels: int, *, spread: bool) -> int:
    """Return the first-level index at which witnesses are counted (line 1 of Tables 6 and 8)."""
    mean = 2 * union / (copies * (1 - epsilon) ** 2) if spread else _BETA * union / (1 - epsilon)
    return min(max(ceil(log2(max(mean, 1.0))), 0), levels - 1)


@dataclass(frozen=True)
class Witnesses:
    """What the estimators read: the union's level and its non-empty buckets, then the level of witnesses.

    singletons: buckets of that level whose union over all streams is one element; witnesses: those for which B(E)
    holds.
    """

    copies: int
    union_level: int
    filled: int
    union: float
    level: int
    singletons: int
    witnesses: int


def witnesses_of(
    condition: Condition, sketches: list[Int64Array], epsilon: float, *, spread: bool
) -> Witnesses:
    """Return the witnesses of an expression. Paper: set expressions, paragraphs 0058-0064 and 0076."""
    copies, levels, _ = sketches[0].shape
    at, filled = union_level(sketches, epsilon)
    union = union_of_share(filled / copies, at, copies, spread=spread)
    index = witness_index(union, epsilon, copies, levels, spread=spread)
    buckets = [sketch[:, index] for sketch in sketches]
    single = union_singletons(buckets)
    present = np.stack([~empty_bucket(bucket) for bucket in buckets])[:, single]
    true = sum(holds(condition, frozenset(np.flatnonzero(column).tolist())) for column in present.T)
    return Witnesses(copies, at, filled, union, index, int(single.sum()), true)


def set_expression_estimator(
    condition: Condition, sketches: list[Int64Array], epsilon: float = EPSILON, *, spread: bool
) -> float | None:
    """Return the estimated cardinality of an expression, or None (noEstimate) where there is no singleton.

    The union times the share of its singleton buckets for which B(E) is true.
    Paper: set expressions, paragraphs 0058-0064 and 0076.
    """
    found = witnesses_of(condition, sketches, epsilon, spread=spread)
    return found.union * found.witnesses / found.singletons if found.singletons else None


def document_cardinality(
    condition: Condition,
    sketches: list[tuple[TwoLevelSpec, Int64Array]],
    confidence: float,
    epsilon: float = EPSILON,
) -> tuple[SetReading | None, Witnesses]:
    """Return (the cardinality of an expression with its interval, what it was read from); None for noEstimate."""
    spec, buckets = at_common_shape(sketches)
    found = witnesses_of(condition, buckets, epsilon, spread=spec.spread)
    if not any(each.any() for each in buckets):
        return SetReading(0.0, 0.0, 0.0, exact=True, witnesses=0), found
    shares = binomial_bounds(found.filled, found.copies, confidence)
    low, high = (union_of_share(each, found.union_level, found.copies, spread=spec.spread) for each in shares)
    below, above = _UNION_LEVEL * (found.union - low), _UNION_LEVEL * (high - found.union)
    if only_unions(condition):
        return SetReading(
            found.union,
            max(found.union - below, 0.0),
            found.union + above,
            exact=False,
            witnesses=found.filled,
        ), found
    if not found.singletons:
        return None, found
    share = found.witnesses / found.singletons
    least, most = binomial_bounds(found.witnesses, found.singletons, confidence)
    value = found.union * share
    lower = value - hypot(below * share, found.union * (share - least))
    upper = value + hypot(above * share, found.union * (most - share), above * (most - share))
    note = notes.few_witnesses(found.witnesses)
    return SetReading(value, max(lower, 0.0), upper, exact=False, witnesses=found.witnesses, note=note), found


def binomial_bounds(count: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return the Clopper-Pearson bounds of a share, given `count` successes in a number of trials."""
    tail = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(count, trials - count + 1, tail)) if count else 0.0
    high = float(scipy.special.betaincinv(count + 1, trials - count, 1 - tail)) if count < trials else 1.0
    return low, high


def atomic_diff_estimator(left: Int64Array, right: Int64Array, index: int) -> tuple[Truths, Truths]:
    """Return (estimate, known) of every copy: known false is the document's noEstimate.

    Paper: set expressions, AtomicDiffEstimator (Table 6) and BucketDiffEstimator (Table 8), which differ only in
    the index.
    """
    a, b = left[:, index], right[:, index]
    known = singleton_union_bucket(a, b)
    return known & singleton_bucket(a) & empty_bucket(b), known


bucket_diff_estimator = atomic_diff_estimator


def atomic_intersect_estimator(left: Int64Array, right: Int64Array, index: int) -> tuple[Truths, Truths]:
    """Return (estimate, known) of every copy. Paper: set expressions, paragraphs 0057 and 0076."""
    a, b = left[:, index], right[:, index]
    known = singleton_union_bucket(a, b)
    return known & singleton_bucket(a) & singleton_bucket(b), known


def set_difference_estimator(
    left: Int64Array, right: Int64Array, union: float, epsilon: float = 0.1, *, spread: bool = False
) -> float | None:
    """Return the estimate of |A - B|, or None where no copy gives one.

    Paper: set expressions, SetDifferenceEstimator (Table 7) and, with `spread`, HashDifferenceEstimator
    (Table 9).
    """
    index = witness_index(union, epsilon, left.shape[0], left.shape[1], spread=spread)
    estimate, known = atomic_diff_estimator(left, right, index)
    return union * float(estimate.sum()) / float(known.sum()) if known.any() else None


def set_intersection_estimator(
    left: Int64Array, right: Int64Array, union: float, epsilon: float = 0.1, *, spread: bool = False
) -> float | None:
    """Return the estimate of |A n B|, or None where no copy gives one (paragraphs 0057 and 0076)."""
    index = witness_index(union, epsilon, left.shape[0], left.shape[1], spread=spread)
    estimate, known = atomic_intersect_estimator(left, right, index)
    return union * float(estimate.sum()) / float(known.sum()) if known.any() else None
