"""The size of the join of two sketched streams: contraction of rows, the plain and the skimmed estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2, prod, sqrt
from typing import Literal, NamedTuple

import numpy as np

from eddyline.answer.interval import FloatArray, half_width_of_rows
from eddyline.answer.joins.skimming import (
    Places,
    Skimmed,
    UInt64Array,
    in_threads,
    named,
    noise_of,
    places,
    refit_dense_keys,
    standing_out,
    strongest,
    without_dense_keys,
)
from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.kernels import skimming as kernel
from eddyline.sketch.counters import Int64Array
from eddyline.sketch.hash_sketch import HashSketchSpec

# A reading: an estimator's value for each row of a sketch, and how far it may be off.


@dataclass(frozen=True)
class RowEstimates:
    """Nearly unbiased row estimates of one quantity, and the variance that theory expects of one row.

    dense: how many dense values stand out. dense_squares: for each link of the join, the sum over its dense values
    of the square of what joins through them.
    """

    rows: FloatArray
    row_variance: float
    dense: int = 0
    center: Literal["mean", "median"] = "mean"
    rounding: float = 0.0
    dense_squares: tuple[float, ...] = ()

    @property
    def value(self) -> float:
        """The estimate: the mean over rows, or their median where rows are heavy-tailed."""
        return float(self.rows.mean() if self.center == "mean" else np.median(self.rows))

    def scaled(self, factor: float) -> "RowEstimates":
        """Return the reading scaled by `factor`."""
        return RowEstimates(
            self.rows * factor,
            self.row_variance * factor**2,
            self.dense,
            self.center,
            self.rounding * abs(factor),
            tuple(square * factor**2 for square in self.dense_squares),
        )

    def in_units(
        self, units: Sequence[float], cut_off: Sequence[float], norms: Sequence[float]
    ) -> "RowEstimates":
        """Return the reading of a join in the units of its relations' counters, allowing for what is cut off them.

        cut_off: the total over all rows of each relation; norms: of their counters. What is cut off one relation
        moves the join by at most that amount times the norms of the others (Cauchy-Schwarz).
        """
        found = self.scaled(prod(units))
        moved = 0.0
        for place, lost in enumerate(cut_off):
            if lost:
                moved += lost * prod(
                    n * u for k, (n, u) in enumerate(zip(norms, units, strict=True)) if k != place
                )
        return replace(found, rounding=found.rounding + moved)

    def half_width(self, confidence: float) -> float:
        """Return half the width of the interval."""
        return half_width_of_rows(self.rows, self.row_variance, confidence) + self.rounding


def sum_of(parts: Sequence[RowEstimates]) -> RowEstimates:
    """Return the reading of a sum whose parts hold different keys.

    Each part has hash functions of its own, so that variances add up. In plans of earlier versions all parts have
    the same ones, and the sum of their variances is too small by 1% to 18% in simulations.
    """
    if len(parts) == 1:
        return parts[0]
    return RowEstimates(
        rows=np.sum([part.rows for part in parts], axis=0),
        row_variance=sum(part.row_variance for part in parts),
        dense=max(part.dense for part in parts),
        center=parts[0].center,
        rounding=sum(part.rounding for part in parts),
        dense_squares=tuple(map(sum, zip(*(part.dense_squares for part in parts), strict=True))),
    )


# The contraction of a join tree: from one row of every relation's sketch to an estimate of the join size.
#
# A row of a relation goes to the bucket that is the sum of the buckets of its keys. So what the rest of the
# tree sends to a relation over its links enters by convolution, and what the relation sends on is a
# correlation:
#
# - relation to link: msg(j) = sum over j_1, j_2, ... of C[j + j_1 + j_2 + ...] msg_1(j_1) msg_2(j_2) ...
# - link to relation: the product of the messages of its other members, bucket by bucket
#
# Both are products in frequency space. Paper: multi-join, section 3.1, X = product of X_k. Deviation: hash
# sketches, one counter per sketch row and tuple whatever the number of joins.
#
# Rounding. Counters are integers, the transforms are in float64. Each transform, product and inverse adds a
# relative error of a few 2^-53 log2(width) to the Euclidean norm of its result, and no intermediate result
# has a larger norm than the product of the norms of all rows that it holds. So the error of an estimate is
# at most c log2(width) relations 2^-53 times the product of the norms. The estimate's own standard error is
# that product over sqrt(width): rounding is smaller by a factor of more than 10^8 for all widths up to
# 2^40, whatever the size of the counters. Conversion of counters beyond 2^53 adds as little.


_ROUNDING = 8 * 2.0**-53


@dataclass(frozen=True)
class LinkTree:
    """For each relation the links of its keys, in the order of the keys."""

    links: tuple[tuple[int, ...], ...]

    @cached_property
    def members(self) -> dict[int, list[int]]:
        """The relations of each link."""
        found: dict[int, list[int]] = {}
        for relation, links in enumerate(self.links):
            for link in links:
                found.setdefault(link, []).append(relation)
        return found


def contract(tree: LinkTree, rows: list[FloatArray]) -> FloatArray:
    """Return the estimate of each sketch row, (depth,): rows holds (depth, width) counters per relation."""
    width = rows[0].shape[1]

    def to_link(relation: int, link: int) -> FloatArray:
        spectrum = _product([np.fft.rfft(to_relation(each, relation)) for each in _others(relation, link)])
        if spectrum is None:
            return rows[relation]
        back: FloatArray = np.fft.irfft(np.fft.rfft(rows[relation]) * spectrum.conj(), n=width)
        return back

    def to_relation(link: int, relation: int) -> FloatArray:
        message = _product([to_link(each, link) for each in tree.members[link] if each != relation])
        assert message is not None
        return message

    def _others(relation: int, link: int) -> list[int]:
        return [each for each in tree.links[relation] if each != link]

    first = tree.links[0][0]
    with np.errstate(over="ignore", invalid="ignore"):
        estimates: FloatArray = np.einsum("pq,pq->p", to_link(0, first), to_relation(first, 0))
    if not np.all(np.isfinite(estimates)):
        raise SketchError(
            "the product of these sketches is beyond what 64-bit floating point holds: ask for a smaller measure, "
            "for example in thousands."
        )
    return estimates


def _product(factors: list[np.ndarray]) -> np.ndarray | None:
    if not factors:
        return None
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


def rounding_bound(rows: list[FloatArray]) -> float:
    """Return a bound on how far rounding moves any row's estimate."""
    norms = np.prod([np.linalg.norm(each, axis=1) for each in rows], axis=0)
    return _ROUNDING * (1 + log2(rows[0].shape[1])) * len(rows) * float(np.max(norms))


# The plain reading and the skimmed one.
#
# Row p of two hash sketches with equal seeds gives <HF_p, HG_p>, an unbiased estimate of J = f.g whose noise comes
# from keys that meet in a bucket. Most of that noise comes from the dense keys, and nearly all of these are known.
# So for each row the dense frequencies f^, g^ are read from the *other* rows, and row p's estimate of their join is
# replaced by the exact value:
#
# Y_p = <HF_p, HG_p> + f^.g^ - <S_p f^, S_p g^>
#
# Because f^ and g^ never saw row p, Y_p is unbiased whatever the skimming did, and where nothing is dense
# it is the plain row. Its four parts (dense with dense, dense with residual twice, residual with residual)
# are the four sub-joins of ESTSKIMJOINSIZE.
#
# Paper: skimmed, ESTSKIMJOINSIZE. Deviation: leave-one-row-out control variates, mean instead of medians.


_WHOLE = 2.0**53


@dataclass(frozen=True)
class SketchedRelation:
    """One side of a join: a sketch and the keys that may be dense in it.

    population: the number of keys among which a scan chose the candidates by looking at this very sketch; 0 for
    candidates that come from elsewhere, such as a candidate table. unit: the unit of the counters. cut_off: the
    most that digits which the sketch does not hold may add up to, over all rows.
    """

    spec: HashSketchSpec
    counters: Int64Array
    candidates: UInt64Array = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    population: int = 0
    unit: float = 1.0
    cut_off: float = 0.0


def in_units(reading: RowEstimates, sides: Sequence[SketchedRelation]) -> RowEstimates:
    """Return a reading made from its sides' counters in the sides' units, allowing for what is cut off."""
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
        """Return a row's estimate, its variance, the sum of the dense values' squared products, their number."""
        f, g = _skim_without(row, at, one, other)
        plain = _inner(left_rows[row], right_rows[row])
        image = _inner(left_rows[row] - f.residual[row], right_rows[row] - g.residual[row])
        dense_dense = _inner(f.dense, g.dense)
        squares = _squared_products(f, g, row)
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


def _squared_products(f: Skimmed, g: Skimmed, row: int) -> float:
    """Return the sum of the squares of what joins through dense keys, without what noise adds to it.

    A heavy key of one side that the other side lacks has a product of noise alone, which can exceed the whole join.
    """
    squares = _inner(f.dense * g.dense, f.dense * g.dense)
    if squares == 0.0:  # a sketch of one row has no dense keys, and no other row to read noise from
        return 0.0
    mine, others = (kernel.noise_level(each.residual, row) ** 2 for each in (f, g))
    noise = _inner(f.dense, f.dense) * others + _inner(g.dense, g.dense) * mine
    return max(squares - noise, 0.0)


class SplitRow(NamedTuple):
    """What one row shows of a skimmed join: the sub-joins dense-dense, dense-sparse, sparse-dense, sparse-sparse.

    dense: numbers of dense keys; dense_squares, second_moments: squared norms of what was subtracted, and of what
    is left in the row; noise: the noise level of either side; variance: of the row's estimate.
    """

    sub_joins: tuple[float, float, float, float]
    dense: tuple[int, int]
    dense_squares: tuple[float, float]
    second_moments: tuple[float, float]
    noise: tuple[float, float]
    variance: float


def split_rows(left: SketchedRelation, right: SketchedRelation) -> list[SplitRow]:
    """Return the rows of `skimmed_join`, each split into its four sub-joins, in the units of the counters."""
    spec, left_rows, right_rows = _common_rows(left, right)
    at = strongest(places(spec, left.candidates, right.candidates), left_rows, right_rows)
    one, other = _Stream.of(left, left_rows, at), _Stream.of(right, right_rows, at)
    made = []
    for row in range(spec.depth):
        f, g = _skim_without(row, at, one, other)
        taken = left_rows[row] - f.residual[row], right_rows[row] - g.residual[row]
        dense_dense = _inner(f.dense, g.dense)
        rest = f.residual[row], g.residual[row]
        sub_joins = (dense_dense, _inner(taken[0], rest[1]), _inner(rest[0], taken[1]), _inner(*rest))
        made.append(
            SplitRow(
                sub_joins,
                (standing_out(f), standing_out(g)),
                (_inner(f.dense, f.dense), _inner(g.dense, g.dense)),
                (_inner(rest[0], rest[0]), _inner(rest[1], rest[1])),
                (noise_of(f), noise_of(g)),
                row_variance(f.dense, g.dense, dense_dense, *rest),
            )
        )
    return made


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
    """Return each stream skimmed without reading one row, all on the union of the keys that any stream names."""
    if len(streams[0].rows) == 1 or len(at) == 0:
        return [Skimmed(np.zeros(len(at)), stream.rows) for stream in streams]
    started = [without_dense_keys(stream.rows, at, row) for stream in streams]
    names = [
        named(skimmed, at, stream.own, stream.population, row)
        for skimmed, stream in zip(started, streams, strict=True)
    ]
    support = np.logical_or.reduce(names)
    return [
        refit_dense_keys(skimmed, at, support, own, stream.population, row)
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
    """Return an inner product without BLAS, which would start its own threads in each of ours."""
    return float(np.einsum("i,i->", one, other))


def _rounding(left: FloatArray, right: FloatArray) -> float:
    """Return how far rounding may move an inner product: 0 while all its sums are integers of 53 bits."""
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
