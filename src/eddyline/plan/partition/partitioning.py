"""Sketch partitioning: which key values of a join link share a sketch, so that the estimate varies least.

Each part of the values gets sketches of its own, and the estimates of the parts are added up. Values that
are frequent on one side only are thus kept apart from those that are frequent on the other: what they have
in a common sketch is noise alone.
Paper: multi-join, section 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod, sqrt

import msgspec
import numpy as np

from eddyline.errors import PlanError
from eddyline.plan.partition.histograms import Value
from eddyline.plan.partition.link_statistics import Floats, LinkStatistics
from eddyline.plan.partition.value_ranges import LiteralType, ValueRange, bucket_ranges, ranges_predicate

_NO_GAIN = 1e-9
"""Parts that lower the cost by less than this share of it do not pay: such a gain is a rounding."""


class Part(msgspec.Struct, frozen=True):
    """Some buckets of a link: the sizes of its two self-joins and of its join there, the variance of a sketch."""

    buckets: tuple[int, ...]
    ranges: tuple[ValueRange, ...]
    left_self_join: float
    right_self_join: float
    join_size: float
    variance: float

    @property
    def cost(self) -> float:
        """The root of the product of self-join sizes, by which parts are chosen (equation (2))."""
        return sqrt(self.left_self_join * self.right_self_join)

    def predicate(self, column: str, typed: LiteralType = "") -> str:
        """Return the Spark SQL condition that a column's value is in the part, and not NULL."""
        return ranges_predicate(self.ranges, column, typed)


class Partitioning(msgspec.Struct, frozen=True):
    """The parts of a link, none empty, which share all values out, and what they promise."""

    lows: tuple[Value, ...]
    parts: tuple[Part, ...]
    unpartitioned_variance: float

    @property
    def variance(self) -> float:
        """The variance of the estimate times the number of its atomic sketches, if parts share them as is best.

        Paper: multi-join, Theorem 4.1: with s sketches in all, Var(Y) = (sum of sqrt(Var(X_p)))^2 / s.
        """
        return sum(sqrt(part.variance) for part in self.parts) ** 2

    @property
    def gain(self) -> float:
        """How many times less space the parts need than one sketch, for an equal variance of the estimate."""
        return _gain(self.unpartitioned_variance, self.variance)

    @property
    def cost(self) -> float:
        """The sum of the parts' costs: the document's F(P), equation (3)."""
        return sum(part.cost for part in self.parts)

    @property
    def join_size(self) -> float:
        """The size of the join, as far as the statistics tell."""
        return sum(part.join_size for part in self.parts)

    def locate(self, values: np.ndarray) -> np.ndarray:
        """Return the index of the part that holds each value."""
        part_of_bucket = np.zeros(len(self.lows), dtype=np.int64)
        for index, part in enumerate(self.parts):
            part_of_bucket[list(part.buckets)] = index
        bucket = np.searchsorted(np.array(self.lows), values, side="right") - 1
        return part_of_bucket[np.maximum(bucket, 0)]


def partition_link(link: LinkStatistics, most: int) -> Partitioning:
    """Return the best partitioning of a link's values into at most so many parts.

    Paper: multi-join, Theorem 4.4 (for two parts, 4.3) with its dynamic program.
    Deviation: parts may be empty, and are then left out; a bucket with f2 = 0 has the ratio infinity; buckets
    without rows follow their lower neighbour, which keeps the ranges few.
    """
    return _partitioning(link, _split_table(link, most), most)


def partition_links(links: Sequence[LinkStatistics], most: int) -> tuple[Partitioning, ...]:
    """Return the partitioning of each link of an acyclic join, with at most so many cells of parts in all.

    A cell is a choice of one part for each link. Best if the attributes of each relation are independent.
    Paper: multi-join, Theorem 4.6 and the recursion M(u, v), which takes O(n K^2) steps.
    """
    tables = [_split_table(link, most) for link in links]
    best = np.ones(most)  # best[v - 1] is M(u, v), relative to no partitioning
    spent = []
    for table in tables:
        found = [
            [best[l - 1] * table.relative[v // l - 1] for l in range(1, v + 1)] for v in range(1, most + 1)
        ]
        spent.append([int(np.argmin(options)) + 1 for options in found])
        best = np.array([min(options) for options in found])
    parts, left = [], most
    for before in reversed(spent):
        parts.append(left // before[left - 1])
        left = before[left - 1]
    return tuple(
        _partitioning(link, table, count)
        for link, table, count in zip(links, tables, reversed(parts), strict=True)
    )


def cell_self_joins(partitionings: Sequence[Partitioning]) -> Floats:
    """Return the product of self-join sizes in each cell, one axis for each link, up to a constant factor.

    It stands for the variance when space is shared out: on rough statistics the errors came out smaller than with
    equation (1). Self-joins of the cells that a pilot measured are better still (figures/partitioning.py).
    Paper: multi-join, Theorem 4.6.
    """
    return _outer([[part.cost**2 for part in each.parts] for each in partitionings])


def joint_gain(partitionings: Sequence[Partitioning]) -> float:
    """Return how many times less space the cells need than one sketch, if attributes are independent.

    An atomic sketch is then a product of independent ones of single links, and so is the mean of its square.
    Deviation: products of self-join sizes alone, as in Theorem 4.6, overstate the gain. They leave out the part of
    the variance that grows with the join itself, which partitioning lowers least.
    """
    means = _outer([[part.join_size for part in each.parts] for each in partitionings])
    squares = _outer([[part.variance + part.join_size**2 for part in each.parts] for each in partitionings])
    roots = np.sqrt(np.maximum(squares - means**2, 0.0))
    square = prod(each.unpartitioned_variance + each.join_size**2 for each in partitionings)
    return _gain(square - float(means.sum()) ** 2, float(roots.sum()) ** 2)


def _outer(factors: Sequence[Sequence[float]]) -> Floats:
    out = np.ones(())
    for factor in factors:
        out = np.multiply.outer(out, factor)
    return out


def _gain(unpartitioned: float, partitioned: float) -> float:
    if partitioned <= 0:
        return inf if unpartitioned > 0 else 1.0
    return unpartitioned / partitioned


def allocate_space(variances: Sequence[float], words: int) -> tuple[int, ...]:
    """Return each part's share of the words: in proportion to the root of its variance, and at least one.

    Paper: multi-join, Theorem 4.1, for a given space rather than for a given error.
    """
    if words < len(variances):
        raise PlanError(f"{words} words are too few for {len(variances)} parts: each takes at least one.")
    roots = np.sqrt(np.asarray(variances, dtype=np.float64))
    shares = roots / roots.sum() if roots.any() else np.full(len(roots), 1 / len(roots))
    ideal = (words - len(roots)) * shares
    whole = np.floor(ideal).astype(np.int64)
    missing = words - len(roots) - int(whole.sum())
    whole[np.argsort(whole - ideal, kind="stable")[:missing]] += 1
    return tuple((whole + 1).tolist())


@dataclass(frozen=True, eq=False)
class _SplitTable:
    """The dynamic program's result for one link.

    order: the buckets that have rows, by rising f1/f2; costs[v - 1]: least cost with at most v parts;
    starts[v - 1][u]: where in the order the last of v parts starts, if they hold the first u buckets.
    """

    order: np.ndarray
    costs: Floats
    starts: np.ndarray

    @property
    def relative(self) -> Floats:
        """The costs as shares of that of a single part."""
        return self.costs / self.costs[0] if self.costs[0] else np.ones(len(self.costs))


def _split_table(link: LinkStatistics, most: int) -> _SplitTable:
    """Return the best splits of a link's buckets, sorted by f1/f2, into 1 to `most` parts."""
    if most < 1:
        raise PlanError(f"a link is partitioned into at least one part, not {most}.")
    occupied = np.flatnonzero((link.left > 0) | (link.right > 0))
    left, right = link.left[occupied], link.right[occupied]
    ratio = np.divide(left, right, out=np.full(len(occupied), np.inf), where=right > 0)
    order = np.argsort(ratio, kind="stable")
    segment = _segment_costs(left[order], right[order])
    best = segment[0]
    costs, starts = [best[-1]], [np.zeros(len(best), dtype=np.int64)]
    for _ in range(1, most):
        options = best[:, None] + segment
        starts.append(options.argmin(axis=0))
        best = options.min(axis=0)
        costs.append(best[-1])
    return _SplitTable(occupied[order], np.array(costs), np.array(starts))


def _segment_costs(left: Floats, right: Floats) -> Floats:
    """Return the cost of a part that holds the elements j to u - 1, at [j, u]; infinite where j > u.

    Summed from each j anew: differences of prefix sums would lose the small terms.
    """
    size = len(left) + 1
    sums = np.zeros((2, size, size))
    for side, values in enumerate((left, right)):
        sums[side, :-1, 1:] = np.cumsum(np.triu(np.broadcast_to(values, (size - 1, size - 1))), axis=1)
    return np.where(np.tri(size, k=-1, dtype=bool), np.inf, np.sqrt(sums[0] * sums[1]))


def _partitioning(link: LinkStatistics, table: _SplitTable, most: int) -> Partitioning:
    """Return the table's best partitioning into at most so many parts, fewer where more do not pay."""
    enough = int(np.argmax(table.costs[:most] <= table.costs[most - 1] * (1 + _NO_GAIN))) + 1
    label = np.full(len(link.lows), -1)
    end = len(table.order)
    for part in range(enough, 0, -1):
        start = table.starts[part - 1][end]
        label[table.order[start:end]] = part
        end = start
    last = np.maximum.accumulate(np.where(label < 0, -1, np.arange(len(label))))
    first = int(np.argmax(label >= 0))
    label = label[np.where(last < 0, first, last)]
    parts = tuple(_part(link, np.flatnonzero(label == each)) for each in np.unique(label))
    return Partitioning(link.lows, parts, link.variance(slice(None)))


def _part(link: LinkStatistics, buckets: np.ndarray) -> Part:
    chosen = buckets.tolist()
    left, right, joined = (float(sums[chosen].sum()) for sums in (link.left, link.right, link.joined))
    return Part(tuple(chosen), bucket_ranges(link.lows, chosen), left, right, joined, link.variance(chosen))
