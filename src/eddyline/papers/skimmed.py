"""The procedures of the skimmed-sketch document as it gives them: the reference that ours is held to.

Paper: skimmed, tables 1-4; ESTJOINSIZE is in answer/joins/agms.py. Here s1 is the width and s2 the depth of a sketch.
The document asks for the threshold T' = Theta(n / s1) and calls a value dense from 2 T' on; `multiple` is the constant
in Theta, which the document leaves open: 4 did best of 1/2 ... 8 on the set-up of its FIG. 5 at 2,000 words.
"""

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.answer.joins.row_estimates import RowEstimates
from eddyline.answer.joins.skimming import UInt64Array, places, point_estimates
from eddyline.answer.joins.two_way import SketchedRelation, row_variance
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec

BEST_MULTIPLE = 4.0


def skim_dense(
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


def est_skim_join_size(
    left: SketchedRelation,
    right: SketchedRelation,
    totals: tuple[float, float] | None = None,
    multiple: float = BEST_MULTIPLE,
) -> RowEstimates:
    """Return the join size as the sum of four sub-joins: exact dense-dense, and three medians over rows.

    totals: n of either stream; unless given, the median over rows of sum |H[p, q]|, which n is at least.
    The rows of the reading are the sums of sub-joins row by row, moved so that their median is the answer.
    Paper: skimmed, ESTSKIMJOINSIZE.
    """
    spec = left.spec
    if spec != right.spec:
        raise IncompatibleSpecs(f"these sketches cannot be joined: {spec} and {right.spec}.")
    n_left, n_right = totals or (_least_total(left), _least_total(right))
    left_sketch, left_keys, f = skim_dense(spec, left.counters, left.candidates, n_left, multiple)
    right_sketch, right_keys, g = skim_dense(spec, right.counters, right.candidates, n_right, multiple)
    _, at_left, at_right = np.intersect1d(left_keys, right_keys, assume_unique=True, return_indices=True)
    dense_dense = float(f[at_left] @ g[at_right])
    dense_sparse = _sub_join_rows(spec, left_keys, f, right_sketch)
    sparse_dense = _sub_join_rows(spec, right_keys, g, left_sketch)
    sparse_sparse = np.einsum("pq,pq->p", left_sketch, right_sketch)
    parts = (dense_sparse, sparse_dense, sparse_sparse)
    answer = dense_dense + sum(float(np.median(part)) for part in parts)
    rows = dense_dense + dense_sparse + sparse_dense + sparse_sparse
    rows += answer - np.median(rows)
    pairs = zip(left_sketch, right_sketch, strict=True)
    variance = float(np.mean([row_variance(f, g, dense_dense, *pair) for pair in pairs]))
    return RowEstimates(rows=rows, row_variance=variance, dense=max(len(f), len(g)), center="median")


def _least_total(side: SketchedRelation) -> float:
    return float(np.median(np.abs(side.spec.rows(side.counters)).sum(axis=1)))
