"""The size of a join of two relations as the skimmed-sketch document estimates it, for `method="document"`.

SKIMDENSE subtracts dense frequencies from both sketches. They are found by the dyadic search or, over a small
domain, by trying every key. ESTSKIMJOINSIZE adds up four sub-joins. Here s1 is the width and s2 the depth of a
sketch. The document requires the threshold T' = Theta(n / s1) and calls a value dense from 2 T' on; `multiple` is
the constant in Theta, which the document leaves open: 4 was the best of 1/2 ... 8 on the setup of its FIG. 5 at
2,000 words. Paper: skimmed, tables 1-4 and paragraphs 0059-0062; ESTJOINSIZE is in answer/joins/tree.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.answer.joins.skimming import STANDS_OUT, UInt64Array, places, point_estimates
from eddyline.answer.joins.two_way import RowEstimates, SketchedRelation, row_variance, split_rows
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec

BEST_MULTIPLE = 4.0
_MOST_NODES = 1 << 16
"""The most nodes of a level that the search follows, largest first: in theory s1 / 8 are above the threshold."""


def dense_keys(spec: DyadicSpec, counters: Int64Array, threshold: float) -> UInt64Array:
    """Return, in ascending order, the keys whose estimate, and every ancestor's, reaches the threshold.

    Paper: skimmed, the optimized SKIMDENSE of paragraph 0061. It may miss dense keys where frequencies are
    negative.
    """
    if spec.is_scanned:
        keys = np.arange(1 << spec.bits, dtype=np.uint64)
        return keys[_estimates(spec, counters, 0, keys) >= threshold]
    nodes = np.zeros(1, dtype=np.uint64)
    for level in reversed(range(spec.bits)):
        children = np.concatenate([nodes << np.uint64(1), nodes << np.uint64(1) | np.uint64(1)])
        estimates = _estimates(spec, counters, level, children)
        dense = np.nonzero(estimates >= threshold)[0]
        if len(dense) > _MOST_NODES:
            dense = dense[np.argsort(-estimates[dense], kind="stable")[:_MOST_NODES]]
        nodes = children[dense]
    return np.sort(nodes)


def _estimates(spec: DyadicSpec, counters: Int64Array, level: int, nodes: UInt64Array) -> FloatArray:
    """Return the median over rows of the estimated frequency of each node of a level."""
    sketch = spec.level(level)
    buckets, signs = sketch.locate(nodes.reshape(1, -1))
    rows = sketch.rows(spec.levels(counters)[level])
    found = [row[at] * sign for row, at, sign in zip(rows, buckets, signs, strict=True)]
    return np.asarray(np.median(np.array(found, dtype=np.float64).reshape(spec.depth, -1), axis=0))


def document_side(spec: DyadicSpec, counters: Int64Array) -> tuple[SketchedRelation, float]:
    """Return (the leaves of a hierarchy with the keys that its search calls dense, n)."""
    leaves = SketchedRelation(spec.level(0), np.ascontiguousarray(spec.levels(counters)[0]))
    n = max(abs(float(spec.total(counters))), _least_total(leaves))
    keys = dense_keys(spec, counters, 2 * BEST_MULTIPLE * n / spec.width) if n else np.empty(0, np.uint64)
    return SketchedRelation(leaves.spec, leaves.counters, keys), n


def skim_dense_document(
    spec: HashSketchSpec,
    counters: Int64Array,
    domain: UInt64Array,
    total: float,
    multiple: float = BEST_MULTIPLE,
) -> tuple[FloatArray, UInt64Array, FloatArray]:
    """Return (skimmed sketch H', dense keys E in ascending order, their frequencies f^).

    total: n, the number of elements of the stream. Paper: skimmed, SKIMDENSE.
    """
    at = places(spec, domain)
    sketch = spec.rows(counters).astype(np.float64)
    estimates = point_estimates(sketch, at)
    dense = np.nonzero(estimates >= 2 * multiple * total / spec.width)[0]
    part, frequencies = at.subset(dense), estimates[dense]
    for row in range(spec.depth):
        np.subtract.at(sketch[row], part.buckets[:, row], frequencies * part.signs[:, row])
    return sketch, part.keys, frequencies


def est_sub_join_size(
    spec: HashSketchSpec, keys: UInt64Array, frequencies: FloatArray, sketch: FloatArray
) -> float:
    """Return the sub-join of dense frequencies with a skimmed sketch: the median over rows.

    Paper: skimmed, ESTSUBJOINSIZE.
    """
    return float(np.median(_sub_join_rows(spec, keys, frequencies, sketch)))


def _sub_join_rows(
    spec: HashSketchSpec, keys: UInt64Array, frequencies: FloatArray, sketch: FloatArray
) -> FloatArray:
    buckets, signs = spec.locate(keys.reshape(1, -1))
    rows = [sketch[row, buckets[row]] @ (frequencies * signs[row]) for row in range(spec.depth)]
    return np.array(rows, dtype=np.float64)


@dataclass(frozen=True)
class SubJoins:
    """What ESTSKIMJOINSIZE found: thresholds, dense keys of both sides, the four sub-joins and what is left.

    values and variances: dense with dense, dense with sparse, sparse with dense, sparse with sparse.
    second_moments: those of the skimmed sketches of both sides.
    """

    thresholds: tuple[float, float]
    dense: tuple[int, int]
    values: tuple[float, float, float, float]
    variances: tuple[float, float, float, float]
    second_moments: tuple[float, float]
    rows: FloatArray = field(repr=False)
    row_variance: float

    def in_units(self, units: Sequence[float]) -> "SubJoins":
        """Return the sub-joins in the units of both sides' counters."""
        one, two = units
        both = one * two
        return SubJoins(
            (self.thresholds[0] * one, self.thresholds[1] * two),
            self.dense,
            tuple(value * both for value in self.values),  # type: ignore[arg-type]
            tuple(variance * both**2 for variance in self.variances),  # type: ignore[arg-type]
            (self.second_moments[0] * one**2, self.second_moments[1] * two**2),
            self.rows * both,
            self.row_variance * both**2,
        )

    @property
    def reading(self) -> RowEstimates:
        """The join size: its rows are sums of the sub-joins' rows, shifted so that their median is the answer."""
        rows = self.rows + (sum(self.values) - np.median(self.rows))
        return RowEstimates(rows=rows, row_variance=self.row_variance, dense=max(self.dense), center="median")


def est_skim_join_size(
    left: SketchedRelation,
    right: SketchedRelation,
    totals: tuple[float, float] | None = None,
    multiple: float = BEST_MULTIPLE,
) -> RowEstimates:
    """Return the join size as the sum of four sub-joins: exact dense-dense, and three medians over rows.

    totals: n of either stream; by default the median over rows of sum |H[p, q]|, a lower bound of n. Paper:
    skimmed, ESTSKIMJOINSIZE.
    """
    return sub_joins(left, right, totals or (_least_total(left), _least_total(right)), multiple).reading


def sub_joins(
    left: SketchedRelation,
    right: SketchedRelation,
    totals: tuple[float, float],
    multiple: float = BEST_MULTIPLE,
) -> SubJoins:
    """Return the four sub-joins of ESTSKIMJOINSIZE; totals: n of either stream."""
    spec = left.spec
    if spec != right.spec:
        raise IncompatibleSpecs(f"these sketches cannot be joined: {spec} and {right.spec}.")
    left_sketch, left_keys, f = skim_dense_document(spec, left.counters, left.candidates, totals[0], multiple)
    right_sketch, right_keys, g = skim_dense_document(
        spec, right.counters, right.candidates, totals[1], multiple
    )
    _, at_left, at_right = np.intersect1d(left_keys, right_keys, assume_unique=True, return_indices=True)
    dense_dense = float(f[at_left] @ g[at_right])
    parts = (
        _sub_join_rows(spec, left_keys, f, right_sketch),
        _sub_join_rows(spec, right_keys, g, left_sketch),
        np.einsum("pq,pq->p", left_sketch, right_sketch),
    )
    pairs = zip(left_sketch, right_sketch, strict=True)
    moments = tuple(float(np.median((side**2).sum(axis=1))) for side in (left_sketch, right_sketch))
    squares = (float(f @ f), float(g @ g))
    variances = (squares[0] * moments[1], squares[1] * moments[0], moments[0] * moments[1])
    return SubJoins(
        thresholds=(2 * multiple * totals[0] / spec.width, 2 * multiple * totals[1] / spec.width),
        dense=(len(f), len(g)),
        values=(dense_dense, *(float(np.median(part)) for part in parts)),  # type: ignore[arg-type]
        variances=(0.0, *(each / spec.width for each in variances)),  # type: ignore[arg-type]
        second_moments=(moments[0], moments[1]),
        rows=dense_dense + parts[0] + parts[1] + parts[2],
        row_variance=float(np.mean([row_variance(f, g, dense_dense, *pair) for pair in pairs])),
    )


def skimmed_sub_joins(left: SketchedRelation, right: SketchedRelation) -> SubJoins:
    """Return the same four sub-joins by our own skimming, whose sum is the mean over rows of its estimate.

    Dense frequencies of a row are read from the other rows, so the numbers of dense keys are those of most rows.
    """
    found = split_rows(left, right)
    parts = np.array([each.sub_joins for each in found]).mean(axis=0)
    moments = np.array([each.second_moments for each in found]).mean(axis=0)
    squares = np.array([each.dense_squares for each in found]).mean(axis=0)
    width = min(left.spec.width, right.spec.width)
    return SubJoins(
        thresholds=tuple((STANDS_OUT * np.array([each.noise for each in found]).mean(axis=0)).tolist()),
        dense=tuple(np.median([each.dense for each in found], axis=0).astype(int).tolist()),
        values=tuple(parts.tolist()),
        variances=(
            0.0,
            float(squares[0] * moments[1] / width),
            float(squares[1] * moments[0] / width),
            float(moments[0] * moments[1] / width),
        ),
        second_moments=(float(moments[0]), float(moments[1])),
        rows=np.array([sum(each.sub_joins) for each in found]),
        row_variance=float(np.mean([each.variance for each in found])),
    )


def _least_total(side: SketchedRelation) -> float:
    return float(np.median(np.abs(side.spec.rows(side.counters)).sum(axis=1)))
