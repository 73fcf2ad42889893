"""The document's estimators over JD sketches, under its names: a reference, not what we ship.

The semi-join is had by sketching S(B, B) in place of S(B, C), the full projection by sketching (AB, B) and (BC, B)
(`paired`); both are then read by the same estimator. docs/concepts/join-distinct.md says what it takes.
Paper: join-distinct, FIG. 4, FIG. 5, paragraphs 0048-0064.
"""

from math import exp
from typing import Literal

import numpy as np

from eddyline.errors import IncompatibleSpecs
from eddyline.papers.jd_sketch import JdSketchSpec, ThetaBSpec
from eddyline.papers.set_estimators import (
    empty_bucket,
    identical_singleton_bucket,
    set_intersection_estimator,
    set_union_estimator,
)
from eddyline.sketch.counters import Int64Array

Bitmaps = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Test = Literal["estimate", "witness"]
_EPSILON = 0.1  # of the set estimators inside


def intersects(left: Int64Array, right: Int64Array, test: Test) -> bool:
    """Return whether two buckets, (s1, levels, counters) each, share a value of b.

    Paper: join-distinct, FIG. 4, line 4: IntersectionEstimator >= 1. `witness` is our stronger test: some pair of
    cells of any level holds the same single value.
    """
    if empty_bucket(left).all() or empty_bucket(right).all():
        return False
    if test == "witness":
        return bool(identical_singleton_bucket(left, right).any())
    union = set_union_estimator([left, right], _EPSILON, spread=False)
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


def mapping_chance(index: int | np.ndarray) -> float | np.ndarray:
    """Return p_i, the chance of min(k, l) = i and k != l (0054)."""
    return 2 * 4.0 ** -(index + 1)


def jd_estimator(bitmaps: Bitmaps, epsilon: float) -> float | None:
    """Return the estimate from s2 composed bitmaps (s2, levels), or None for the document's fail.

    Paper: join-distinct, JDEstimator (FIG. 5), from line 3.
    """
    copies, levels = bitmaps.shape
    for index in range(levels - 1, -1, -1):
        share = float(bitmaps[:, index].sum()) / copies
        if (1 - 2 * epsilon) * epsilon / 8 <= share <= (1 + epsilon) * epsilon:
            return share / float(mapping_chance(index))
    return None


def inverted_estimator(bitmaps: Bitmaps) -> float:
    """Return the most likely number of pairs, taking every bit for set with the chance 1 - exp(-m p_i).

    Deviation: the document scans for one index; this uses them all and is far better.
    """
    copies, levels = bitmaps.shape
    chances = np.asarray(mapping_chance(np.arange(levels)), dtype=np.float64)
    counts = bitmaps.sum(axis=0)
    if not counts.any():
        return 0.0
    low, high = -2.0, 60.0  # of ln m; the slope of the likelihood falls with it
    for _ in range(60):
        middle = (low + high) / 2
        mean = np.minimum(exp(middle) * chances, 700.0)
        slope = float((counts * chances / np.expm1(mean) - (copies - counts) * chances).sum())
        low, high = (middle, high) if slope > 0 else (low, middle)
    return exp(middle)


def jd_bitmaps(
    left: JdSketchSpec, one: Int64Array, right: JdSketchSpec, two: Int64Array, test: Test = "estimate"
) -> Bitmaps:
    """Return the composed bitmaps of all copies of two parallel JD sketches (FIG. 5, lines 1-2)."""
    _check_parallel(left, right)
    views = zip(one.reshape(left.shape), two.reshape(right.shape), strict=True)
    return np.stack([compose(own, other, test) for own, other in views])


def theta_b_bitmaps(left: ThetaBSpec, one: Int64Array, right: ThetaBSpec, two: Int64Array) -> Bitmaps:
    """Return the bitmaps of all copies, composed for each value of b and united (0064)."""
    _check_parallel(left, right)
    own, other = one.reshape(left.shape) != 0, two.reshape(right.shape) != 0
    both = (own & _later(other)) | (other & _later(own))
    return np.asarray(both.any(axis=0))


def _later(bits: np.ndarray) -> np.ndarray:
    """Return whether any bit of a later index is set."""
    out = np.zeros_like(bits)
    out[..., :-1] = np.logical_or.accumulate(bits[..., :0:-1], axis=-1)[..., ::-1]
    return out


def _check_parallel(left: JdSketchSpec | ThetaBSpec, right: JdSketchSpec | ThetaBSpec) -> None:
    if left.shape != right.shape or left.seed != right.seed or left.side == right.side:
        raise IncompatibleSpecs(f"these sketches are not parallel: {left} and {right}.")
