"""Distinct counts over a join as their document estimates them, under its names, for `method="document"`.

Compose turns a parallel pair of JD sketches into a bitmap over pairs (a, c). JDEstimator reads the bitmaps of all
copies. The full projection sketches (AB, B) and (BC, B) in place of (A, B) and (C, B). COUNT(DISTINCT a, b) is the
document's semi-join: C is replaced with B. COUNT(DISTINCT a) has an empty C, for which the document gives no
procedure: only the bucket of a decides, and its b are compared with all b of the other side.
docs/internals/join-distinct.md says what this requires. Paper: join-distinct, FIG. 4, FIG. 5, paragraphs 0048-0063.
"""

from dataclasses import dataclass
from math import exp, inf, log
from typing import Literal, NamedTuple

import numpy as np

from eddyline.answer.sets.document import (
    binomial_bounds,
    empty_bucket,
    identical_singleton_bucket,
    set_intersection_estimator,
    set_union_estimator,
    singleton_bucket,
)
from eddyline.answer.sets.expression import SetReading
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.jd_sketch import JdSketchSpec, at_common_copies

Bitmaps = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Test = Literal["estimate", "witness"]
EPSILON = 0.3
"""The epsilon of JDEstimator where no guarantee gives another: an index at which 1.5% to 39% of the bits are set is
read. Chosen; the document needs it below 1/2."""
_SET_EPSILON = 0.1  # of the set estimators inside
_SINGLETONS = 1.44
"""Union-singleton cells that one 2-level sketch shows on average, over all its levels: 1 / ln 2."""


def intersects(left: Int64Array, right: Int64Array, test: Test) -> bool:
    """Return whether two buckets, (s1, levels, counters) each, share a value of b.

    Paper: join-distinct, FIG. 4, line 4: IntersectionEstimator >= 1. `witness` is a stronger test: some pair of
    cells of any level holds the same single value, which proves that the intersection is at least 1.
    """
    if empty_bucket(left).all() or empty_bucket(right).all():
        return False
    if test == "witness":
        return bool(identical_singleton_bucket(left, right).any())
    union = set_union_estimator([left, right], _SET_EPSILON, spread=False)
    return (set_intersection_estimator(left, right, union) or 0.0) >= 1


def compose(left: Int64Array, right: Int64Array, test: Test = "estimate") -> Bitmaps:
    """Return the bitmap Y of a parallel pair of JD sketches, (levels, s1, b levels, counters) each.

    Paper: join-distinct, Compose (FIG. 4).
    """
    bitmap = np.zeros(len(left), dtype=np.bool_)
    some = [np.flatnonzero(~empty_bucket(side).all(axis=(1, 2))) for side in (left, right)]
    for k in some[0]:
        for l in some[1]:
            at = min(k, l)
            if k != l and not bitmap[at] and intersects(left[k], right[l], test):
                bitmap[at] = True
    return bitmap


class _Cells(NamedTuple):
    """The cells of one copy, (levels, s1, b levels): which are not empty, and the values of those that hold one."""

    filled: np.ndarray
    single: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, copy: Int64Array) -> "_Cells":
        bits = copy[..., 1:] > 0
        powers = np.uint64(1) << np.arange(bits.shape[-1], dtype=np.uint64)
        return cls(
            ~empty_bucket(copy), singleton_bucket(copy), np.where(bits, powers, np.uint64(0)).sum(axis=-1)
        )

    def meets(self, other: "_Cells") -> np.ndarray:
        """Return whether a bucket of this side and one of the other show the same single value, for all pairs."""
        same = self.single[:, None] & other.single[None] & (self.value[:, None] == other.value[None])
        return np.asarray(same.any(axis=(2, 3)))


def compose_by_witnesses(left: Int64Array, right: Int64Array) -> Bitmaps:
    """Return what `compose` returns, using the test for witnesses on all pairs of buckets at once."""
    met = _Cells.of(left).meets(_Cells.of(right))
    np.fill_diagonal(met, False)
    return np.array([met[k, k:].any() or met[k:, k].any() for k in range(len(met))])


def compose_one_sided(left: Int64Array, right: Int64Array) -> Bitmaps:
    """Return whether each bucket of a shares a value of b with the whole other side: C is empty."""
    return _Cells.of(left).meets(_Cells.of(right.sum(axis=0, keepdims=True)))[:, 0]


def mapping_chance(index: int | np.ndarray) -> float | np.ndarray:
    """Return p_i, the chance of min(k, l) = i and k != l (0054)."""
    return 2 * 4.0 ** -(index + 1)


def chosen_index(bitmaps: Bitmaps, epsilon: float) -> int | None:
    """Return the index that JDEstimator reads: the highest whose share of set bits is in its range; None for fail.

    Paper: join-distinct, FIG. 5, lines 3-9.
    """
    for index in range(bitmaps.shape[1] - 1, -1, -1):
        share = float(bitmaps[:, index].mean())
        if (1 - 2 * epsilon) * epsilon / 8 <= share <= (1 + epsilon) * epsilon:
            return index
    return None


def jd_estimator(bitmaps: Bitmaps, epsilon: float) -> float | None:
    """Return the estimate from s2 composed bitmaps (s2, levels), or None for the document's fail.

    Paper: join-distinct, JDEstimator (FIG. 5), from line 3.
    """
    index = chosen_index(bitmaps, epsilon)
    return None if index is None else float(bitmaps[:, index].mean()) / float(mapping_chance(index))


def jd_bitmaps(
    left: JdSketchSpec, one: Int64Array, right: JdSketchSpec, two: Int64Array, test: Test = "estimate"
) -> Bitmaps:
    """Return the composed bitmaps of all copies of two parallel JD sketches (FIG. 5, lines 1-2)."""
    pairs = zip(*at_common_copies(left, one, right, two), strict=True)
    if test == "witness":
        return np.stack([compose_by_witnesses(own, other) for own, other in pairs])
    return np.stack([compose(own, other, test) for own, other in pairs])


@dataclass(frozen=True)
class Composed:
    """What JDEstimator read: how many copies have their bit set at an index, and how surely a common b is seen.

    left, right: about how many distinct values either side has, at most. seen: the chance that two buckets at that
    index which share one value of b show it.
    """

    copies: int
    index: int | None
    count: int
    left: float
    right: float
    seen: float


def document_pairs_count(
    left: tuple[JdSketchSpec, Int64Array],
    right: tuple[JdSketchSpec, Int64Array],
    confidence: float,
    *,
    one_sided: bool = False,
    epsilon: float = EPSILON,
) -> tuple[SetReading | None, Composed]:
    """Return (the number of distinct pairs with its interval, what it was read from); None for the document's fail.

    The lower end: a bit is set with a chance of at most m p_i, whatever the data. The upper end: by the second
    moment of the number of pairs that map to the index, that chance is at least m p_i / (1 + m p_i (1 + 2^i (1/|A|
    + 1/|C|))) if pairs are spread evenly over the values of a and of c. This end is divided by the chance to see a
    common b, and never exceeds |A| |C|.
    """
    one, two = at_common_copies(*left, *right)
    if not one.any() or not two.any():
        return SetReading(0.0, 0.0, 0.0, exact=True, witnesses=0), Composed(len(one), None, 0, 0.0, 0.0, 1.0)
    make = compose_one_sided if one_sided else compose_by_witnesses
    bitmaps = np.stack([make(own, other) for own, other in zip(one, two, strict=True)])
    numbers = [_most_values(side, confidence) for side in (one, two)]
    most = numbers[0] if one_sided else numbers[0] * numbers[1]
    index = chosen_index(bitmaps, epsilon)
    if index is None:
        return None, Composed(len(one), None, 0, numbers[0], numbers[1], 0.0)
    seen = _chance_to_see(one, two, index, one_sided=one_sided)
    count = int(bitmaps[:, index].sum())
    found = Composed(len(one), index, count, numbers[0], numbers[1], seen)
    chance = 2.0 ** -(index + 1) if one_sided else float(mapping_chance(index))
    low, high = binomial_bounds(count, len(one), confidence)
    shared = 0.0 if one_sided else 2.0**index * (1 / max(numbers[0], 1.0) + 1 / max(numbers[1], 1.0))
    left_over = 1 - high * (1 + shared)
    upper = high / left_over / chance / seen if left_over > 0 and seen > 0 else inf
    value = min(count / len(one) / chance, most)
    return SetReading(
        value, min(low / chance, value), max(min(upper, most), value), exact=False, witnesses=count
    ), found


def _most_values(side: Int64Array, confidence: float) -> float:
    """Return how many distinct values a side has at most, from the non-empty buckets of all copies.

    It reads the first level at which at most half of the copies are filled: the share is 1 - exp(-n / 2^(level+1)).
    """
    filled = (~empty_bucket(side).all(axis=(2, 3))).sum(axis=0)
    level = next((k for k, count in enumerate(filled) if 2 * count <= len(side)), len(filled) - 1)
    sure = (
        1 - (1 - confidence) / 2
    )  # the bound is one of several, and its level was chosen by the same counts
    high = binomial_bounds(int(filled[level]), len(side), sure)[1]
    return -log(max(1 - high, 1e-12)) * 2.0 ** (level + 1)


def _chance_to_see(one: Int64Array, two: Int64Array, index: int, *, one_sided: bool) -> float:
    """Return the chance that two buckets with one common b among u show it: 1 - exp(-1.44 s1 / u).

    u: the values of b in a bucket at the index and in those that it meets, from the sketches of all copies.
    """
    others = two.sum(axis=1) if one_sided else two[:, index + 1 :].sum(axis=1)
    pooled = [side.reshape(-1, *side.shape[2:]) for side in (one[:, index], others)]
    union = set_union_estimator(pooled, _SET_EPSILON, spread=False)
    return 1 - exp(-_SINGLETONS * one.shape[2] / max(union, 1.0))
