"""The size of the join of two sketched streams: the plain reading and the skimmed one.

Row p of two hash sketches with equal seeds gives <HF_p, HG_p>, an unbiased estimate of J = f.g whose
noise comes from keys that meet in a bucket. Most of that noise is made by the dense keys, and of those we
know nearly all. So for each row the dense frequencies f^, g^ are read off the *other* rows, and what
row p makes of them is replaced by what it should have made:

    Y_p = <HF_p, HG_p> + f^.g^ - <S_p f^, S_p g^>

Because f^ and g^ never saw row p, Y_p is unbiased whatever the skimming did, and where nothing is dense it
is the plain row. Its four parts (dense with dense, dense with residual twice, residual with residual) are
the four sub-joins of ESTSKIMJOINSIZE.

Paper: skimmed, ESTSKIMJOINSIZE. Deviation: leave-one-row-out control variates, mean instead of medians.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.answer.joins.contraction import rounding_bound
from eddyline.answer.joins.row_estimates import RowEstimates
from eddyline.answer.joins.skimming import (
    Places,
    Skimmed,
    UInt64Array,
    in_threads,
    named,
    places,
    refit_shrunk,
    skim_dense,
    standing_out,
    strongest,
)
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec

_WHOLE = 2.0**53


@dataclass(frozen=True)
class SketchedRelation:
    """One side of a join: a sketch and the keys that may be dense in it.

    population: the number of keys among which a scan chose the candidates by looking at this very sketch;
    0 for candidates that come from elsewhere, such as a candidate table. unit: what 1 of the counters is. cut_off: how
    much digits that the sketch does not hold may add up to, over all rows.
    """

    spec: HashSketchSpec
    counters: Int64Array
    candidates: UInt64Array = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    population: int = 0
    unit: float = 1.0
    cut_off: float = 0.0


def in_units(reading: RowEstimates, sides: Sequence[SketchedRelation]) -> RowEstimates:
    """Return the reading of a join, made of its sides' counters, in their units, allowing for what is cut off."""
    norms = [sqrt(float((side.counters.astype(np.float64) ** 2).sum()) / side.spec.depth) for side in sides]
    return reading.in_units([side.unit for side in sides], [side.cut_off for side in sides], norms)


def hash_join(
    left_spec: HashSketchSpec,
    left_counters: Int64Array,
    right_spec: HashSketchSpec,
    right_counters: Int64Array,
) -> RowEstimates:
    """Return the plain reading of a join size: the median over rows of <HF_p, HG_p>."""
    _, left, right = _common_rows(
        SketchedRelation(left_spec, left_counters), SketchedRelation(right_spec, right_counters)
    )
    nothing = np.zeros(0)
    variances = [row_variance(nothing, nothing, 0.0, *pair) for pair in zip(left, right, strict=True)]
    products = np.einsum("pq,pq->p", left, right)
    bound = _rounding(left, right)
    return RowEstimates(
        rows=products, row_variance=float(np.mean(variances)), center="median", rounding=bound
    )


def skimmed_join(left: SketchedRelation, right: SketchedRelation) -> RowEstimates:
    """Return the skimmed reading of a join size; a self-join is the same side given twice.

    Deterministic in the counters and the set of candidates. Frequencies may be negative.
    """
    spec, left_rows, right_rows = _common_rows(left, right)
    at = strongest(places(spec, left.candidates, right.candidates), left_rows, right_rows)
    one, other = _Stream.of(left, left_rows, at), _Stream.of(right, right_rows, at)

    def read(row: int) -> tuple[float, float, float, int]:
        """Return a row's estimate, its variance, the sum of the dense values' squared products, and their number."""
        f, g = _skim_without(row, at, one, other)
        plain = _inner(left_rows[row], right_rows[row])
        image = _inner(left_rows[row] - f.residual[row], right_rows[row] - g.residual[row])
        dense_dense = _inner(f.dense, g.dense)
        squares = _inner(f.dense * g.dense, f.dense * g.dense)
        variance = row_variance(f.dense, g.dense, dense_dense, f.residual[row], g.residual[row])
        return plain + dense_dense - image, variance, squares, max(standing_out(f), standing_out(g))

    estimates, variances, squares, dense = zip(*in_threads(read, range(spec.depth), len(at)), strict=True)
    made = RowEstimates(
        rows=np.array(estimates),
        row_variance=float(np.mean(variances)),
        dense=max(dense),
        rounding=_rounding(left_rows, right_rows),
        dense_squares=(float(np.mean(squares)),),
    )
    return in_units(made, (left, right))


@dataclass(frozen=True)
class _Stream:
    """The counters of one side as float64 rows, and which of the places it named itself."""

    rows: FloatArray
    own: np.ndarray
    population: int

    @classmethod
    def of(cls, side: SketchedRelation, rows: FloatArray, at: Places) -> "_Stream":
        return cls(rows, np.isin(at.keys, side.candidates), side.population)


def _skim_without(row: int, at: Places, *streams: _Stream) -> list[Skimmed]:
    """Return each stream skimmed without looking at a row, all on the union of the keys that any names."""
    if len(streams[0].rows) == 1 or len(at) == 0:
        return [Skimmed(np.zeros(len(at)), stream.rows) for stream in streams]
    started = [skim_dense(stream.rows, at, row) for stream in streams]
    names = [
        named(skimmed, at, stream.own, stream.population, row)
        for skimmed, stream in zip(started, streams, strict=True)
    ]
    support = np.logical_or.reduce(names)
    return [
        refit_shrunk(skimmed, at, support, own, stream.population, row)
        for skimmed, own, stream in zip(started, names, streams, strict=True)
    ]


def row_variance(
    f: FloatArray, g: FloatArray, dense_dense: float, left: FloatArray, right: FloatArray
) -> float:
    """Return the variance of one row's estimate: of dense frequencies f, g (dense_dense = f.g) and residuals.

    With F, G the squared norms of the dense frequencies, R, S those of the residuals and C their inner
    product, it is (F S + R G + R S + 2 f.g C + C^2) / width; the quantities in C are dropped where they would
    lower it. Without dense values it is the hash sketch's (F2(f) F2(g) + J^2) / width.
    """
    cross, residuals = _inner(left, right), (_inner(left, left), _inner(right, right))
    sides = _inner(f, f) * residuals[1] + residuals[0] * _inner(g, g) + residuals[0] * residuals[1]
    return (sides + max(2 * dense_dense * cross + cross * cross, 0.0)) / len(left)


def _inner(one: FloatArray, other: FloatArray) -> float:
    """Return an inner product, not by BLAS, which would start threads of its own in each of ours."""
    return float(np.einsum("i,i->", one, other))


def _rounding(left: FloatArray, right: FloatArray) -> float:
    """Return how far rounding may move an inner product: not at all while all its sums are integers of 53 bits."""
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return rounding_bound([left, right]) if float(np.max(norms)) >= _WHOLE else 0.0


def _common_rows(
    left: SketchedRelation, right: SketchedRelation
) -> tuple[HashSketchSpec, FloatArray, FloatArray]:
    """Return the spec that both sides fold to, and their counters at that width as float64 rows."""
    one, other = left.spec, right.spec
    if (one.seeds, one.depth, one.hash) != (other.seeds, other.depth, other.hash):
        raise IncompatibleSpecs(
            f"these sketches differ in seeds, depth or hash family and cannot be joined: {one} and {other}; "
            "build both from one plan."
        )
    width = min(one.width, other.width)
    spec = HashSketchSpec(width, one.depth, one.seeds, one.hash)
    return spec, _folded_rows(left, width), _folded_rows(right, width)


def _folded_rows(side: SketchedRelation, width: int) -> FloatArray:
    spec, counters = side.spec, side.counters
    while spec.width > width:
        spec, counters = spec.folded(), spec.fold(counters)
    return spec.rows(counters).astype(np.float64)
