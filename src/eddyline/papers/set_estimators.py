"""The document's estimators over 2-level hash sketches, under their names: a reference, not what we ship.

A bucket is an array whose last axis holds the total and the bit counters; all tests take whole arrays of
buckets (one for each copy) and return one truth value for each. `sketches` are views
(copies, levels, 1 + bits), one for each stream, as `TwoLevelSpec.buckets` gives them.
Paper: set expressions, Tables 1-9.
"""

from math import ceil, log, log2

import numpy as np

from eddyline.answer.sets.condition import Condition, holds
from eddyline.sketch.counters import Int64Array

Truths = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
_BETA = 2.0


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


def set_union_estimator(sketches: list[Int64Array], epsilon: float, *, spread: bool) -> float:
    """Return the estimated union of all streams. Paper: set expressions, SetUnionEstimator (Table 5).

    Deviation: with `spread` the chance of a bucket is 1/(b 2^(index+1)); the text omits the factor b.
    """
    copies, levels, _ = sketches[0].shape
    limit = (1 + epsilon) * copies / 8
    for index in range(levels):
        count = int(np.logical_or.reduce([~empty_bucket(sketch[:, index]) for sketch in sketches]).sum())
        if count <= limit:
            break
    chance = 1 / (2.0 ** (index + 1) * (copies if spread else 1))
    share = min(count / copies, 1 - 1 / (2 * copies))  # all non-empty at the last level: a lower bound
    return log(1 - share) / log(1 - chance)


def witness_index(union: float, epsilon: float, copies: int, levels: int, *, spread: bool) -> int:
    """Return the first-level index at which witnesses are counted (line 1 of Tables 6 and 8)."""
    mean = 2 * union / (copies * (1 - epsilon) ** 2) if spread else _BETA * union / (1 - epsilon)
    return min(max(ceil(log2(max(mean, 1.0))), 0), levels - 1)


def set_expression_estimator(
    condition: Condition, sketches: list[Int64Array], epsilon: float = 0.1, *, spread: bool
) -> float | None:
    """Return the estimated cardinality of an expression, or None (noEstimate) where no bucket tells.

    The union times the share of its singleton buckets for which B(E) is true.
    Paper: set expressions, paragraphs 0058-0064 and 0076.
    """
    union = set_union_estimator(sketches, epsilon, spread=spread)
    copies, levels, _ = sketches[0].shape
    index = witness_index(union, epsilon, copies, levels, spread=spread)
    buckets = [sketch[:, index] for sketch in sketches]
    single = union_singletons(buckets)
    if not single.any():
        return None
    present = np.stack([~empty_bucket(bucket) for bucket in buckets])[:, single]
    true = [holds(condition, frozenset(np.flatnonzero(column).tolist())) for column in present.T]
    return union * sum(true) / len(true)


def atomic_diff_estimator(left: Int64Array, right: Int64Array, index: int) -> tuple[Truths, Truths]:
    """Return (estimate, known) of every copy: known false is the document's noEstimate.

    Paper: set expressions, AtomicDiffEstimator (Table 6) and BucketDiffEstimator (Table 8), which differ in
    the index alone.
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
