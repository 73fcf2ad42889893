"""Sketch partitioning: when a join is partitioned, and which key values share a sketch."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod, sqrt

import msgspec
import numpy as np

from eddyline.errors import PlanError
from eddyline.plan.demands import WorkloadQuery, links_of
from eddyline.plan.partition.histograms import (
    Histogram,
    LiteralType,
    Value,
    ValueRange,
    aligned,
    bucket_ranges,
    ranges_predicate,
)
from eddyline.plan.statistics import Statistics
from eddyline.sql.query import Expression

# What histograms show about a join link: both sides on common buckets, and the variance of sketching them.


Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class LinkStatistics:
    """What is known about the two sides of a join link, bucket by bucket.

    lows: the least value of each bucket; left, right: sums of f1^2 and of f2^2; joined: sums of f1 f2;
    joined_squares: sums of f1^2 f2^2.
    """

    lows: tuple[Value, ...]
    left: Floats
    right: Floats
    joined: Floats
    joined_squares: Floats

    def variance(self, buckets: Sequence[int] | slice) -> float:
        """Return Var(X_P), the variance of one atomic sketch of the join over some buckets.

        Paper: multi-join, equation (1). Rough statistics can make it negative: it is then 0.
        """
        products = self.left[buckets].sum() * self.right[buckets].sum() + self.joined[buckets].sum() ** 2
        return max(float(products - 2 * self.joined_squares[buckets].sum()), 0.0)


def link_statistics(left: Histogram, right: Histogram) -> LinkStatistics:
    """Return the statistics of a link, from histograms of its two key columns.

    Within a bucket we assume that the values of the side with fewer values are among the other's, and that the
    frequencies of the two sides are independent.
    """
    left, right = aligned(left, right)
    rows = np.array(left.rows), np.array(right.rows)
    distinct = np.array(left.distinct, dtype=np.float64), np.array(right.distinct, dtype=np.float64)
    squares = left.self_joins(), right.self_joins()
    more = np.maximum(*distinct)
    some = np.minimum(*distinct) > 0
    joined, joined_squares = (
        np.divide(one * two, more, out=np.zeros(len(more)), where=some) for one, two in (rows, squares)
    )
    return LinkStatistics(left.lows, squares[0], squares[1], joined, joined_squares)


# Sketch partitioning: which key values of a join link share a sketch, so that the estimate varies least.
#
# Each part of the values gets its own sketches, and the estimates of the parts are added up. Values that are
# frequent only on one side are thus separated from those that are frequent on the other: in a common sketch
# they add only noise to each other. Paper: multi-join, section 4.


_NO_GAIN = 1e-9
"""Parts that lower the cost by less than this share of it are not used: such a gain is a rounding error."""


class LinkPart(msgspec.Struct, frozen=True):
    """Some buckets of a link: the sizes of its two self-joins and of its join there, and a sketch's variance."""

    buckets: tuple[int, ...]
    ranges: tuple[ValueRange, ...]
    left_self_join: float
    right_self_join: float
    join_size: float
    variance: float

    @property
    def cost(self) -> float:
        """The square root of the product of self-join sizes, by which parts are chosen (equation (2))."""
        return sqrt(self.left_self_join * self.right_self_join)

    def predicate(self, column: str, typed: LiteralType = "") -> str:
        """Return the Spark SQL condition that a column's value is in the part, and not NULL."""
        return ranges_predicate(self.ranges, column, typed)


class Partitioning(msgspec.Struct, frozen=True):
    """The parts of a link, none of them empty, which together cover all values, and their expected gain."""

    lows: tuple[Value, ...]
    parts: tuple[LinkPart, ...]
    unpartitioned_variance: float

    @property
    def variance(self) -> float:
        """The variance of the estimate times the number of its atomic sketches, if parts share them optimally.

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
        """The size of the join, as estimated from the statistics."""
        return sum(part.join_size for part in self.parts)

    def locate(self, values: np.ndarray) -> np.ndarray:
        """Return the index of the part that holds each value."""
        part_of_bucket = np.zeros(len(self.lows), dtype=np.int64)
        for index, part in enumerate(self.parts):
            part_of_bucket[list(part.buckets)] = index
        bucket = np.searchsorted(np.array(self.lows), values, side="right") - 1
        return part_of_bucket[np.maximum(bucket, 0)]


def partition_link(link: LinkStatistics, most: int) -> Partitioning:
    """Return the best partitioning of a link's values into at most `most` parts.

    Paper: multi-join, Theorem 4.4 (for two parts, 4.3) with its dynamic program.
    Deviation: parts may be empty, and are then left out; a bucket with f2 = 0 has the ratio infinity; buckets
    without rows go to the part of their lower neighbor, which keeps the number of ranges small.
    """
    return _partitioning(link, _split_table(link, most), most)


def partition_links(links: Sequence[LinkStatistics], most: int) -> tuple[Partitioning, ...]:
    """Return the partitioning of each link of an acyclic join, with at most `most` cells of parts in all.

    A cell is a choice of one part for each link. It is optimal if the attributes of each relation are independent.
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

    It replaces the variance when space is divided: on rough statistics the errors were smaller than with
    equation (1). Self-joins of the cells measured by a pilot would be better still.
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
    """Return each part's share of the words: in proportion to the square root of its variance, and at least one.

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
    """Return the cost of a part that holds the elements j to u - 1, at [j, u]; infinite if j > u.

    Summed again from each j: differences of prefix sums would lose the small terms.
    """
    size = len(left) + 1
    sums = np.zeros((2, size, size))
    for side, values in enumerate((left, right)):
        sums[side, :-1, 1:] = np.cumsum(np.triu(np.broadcast_to(values, (size - 1, size - 1))), axis=1)
    return np.where(np.tri(size, k=-1, dtype=bool), np.inf, np.sqrt(sums[0] * sums[1]))


def _partitioning(link: LinkStatistics, table: _SplitTable, most: int) -> Partitioning:
    """Return the table's best partitioning into at most `most` parts, with fewer if more gain nothing."""
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


def _part(link: LinkStatistics, buckets: np.ndarray) -> LinkPart:
    chosen = buckets.tolist()
    left, right, joined = (float(sums[chosen].sum()) for sums in (link.left, link.right, link.joined))
    return LinkPart(
        tuple(chosen), bucket_ranges(link.lows, chosen), left, right, joined, link.variance(chosen)
    )


# When a join is partitioned, and into which parts: one sketch for each part and relation.
#
# Parts come from histograms. They help if the relations rank their values differently, and only for what
# is left after skimming: if a histogram shows values that skimming would remove, the join stays whole.
# Paper: multi-join, section 4. Deviation: a part is a predicate on either side, so that any synopsis can
# have it.


MOST_PARTS = 4
"""More parts gain nothing beyond this: measured, figures/partitioning.py."""
LEAST_GAIN = 1.5
"""The expected gain in space from which a join is partitioned."""
LEAST_SHARE = 0.1
"""The least share of a part, relative to an equal share."""
MOST_GAIN = float(MOST_PARTS**2)
"""Histograms without common values promise infinite gains; values that they do not show limit the gain to this."""
_STANDS_OUT = 4.5


class Parts(msgspec.Struct, frozen=True):
    """The parts of a join: for each the predicates of each relation, and its share of the words.

    gain: how many times less memory they are expected to need.
    """

    predicates: tuple[tuple[tuple[str, ...], ...], ...] = ()
    shares: tuple[float, ...] = (1.0,)
    gain: float = 1.0


def parts_of(asked: WorkloadQuery, statistics: Statistics, words: int) -> Parts:
    """Return the parts of a query's join; none if it stays whole. Paper: multi-join, Theorem 4.1."""
    query = asked.query
    found = None if asked.partitions in ("off", 1) else partitioning_of(asked, statistics, words)
    if found is None:
        return Parts()
    links = [links_of(query, index) for index in range(len(query.relations))]
    columns = {
        (member.relation, i): member.key.columns[0]
        for i, link in enumerate(query.links)
        for member in link.members
    }
    predicates = tuple(
        tuple(
            tuple(
                cell[link].predicate(columns[index, link].text, _literal_type(columns[index, link]))
                for link in of
                if len(found[link].parts) > 1
            )
            for index, of in enumerate(links)
        )
        for cell in product(*(each.parts for each in found))
    )
    shares = _shares(np.sqrt(cell_self_joins(found)).ravel())
    return Parts(predicates, shares, min(joint_gain(found), MOST_GAIN))


def _shares(roots: np.ndarray) -> tuple[float, ...]:
    """Return the parts' shares of the words, in proportion to the roots of their self-joins, none below a floor.

    A part in which the histograms show only one side, or nothing, keeps some memory: rows may come later.
    """
    if not roots.any():
        return (1 / len(roots),) * len(roots)
    raised = np.maximum(roots / roots.sum(), LEAST_SHARE / len(roots))
    return tuple((raised / raised.sum()).tolist())


_TYPED: dict[str, LiteralType] = {
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
}


def _literal_type(column: Expression) -> LiteralType:
    """Return the type with which a bound of the column is written: dates and timestamps are not strings."""
    return _TYPED.get(column.type.kind, "")


def partitioning_of(
    asked: WorkloadQuery, statistics: Statistics, words: int
) -> tuple[Partitioning, ...] | None:
    """Return the partitioning of each link that is expected to gain enough; None if no link is."""
    query, given = asked.query, isinstance(asked.partitions, int)
    if not query.is_scalar or any(len(link.members) > 2 for link in query.links):
        if given:
            raise PlanError(f"query {asked.name!r}: only links of two relations can be partitioned.")
        return None
    histograms = _histograms(asked, statistics)
    if histograms is None:
        if given:
            raise PlanError(
                f"query {asked.name!r}: partitions={asked.partitions} needs histograms of its join keys: give "
                "w.plan(statistics=...), from w.analyze."
            )
        return None
    if isinstance(asked.partitions, int):
        return partition_links([link_statistics(*pair) for pair in histograms], asked.partitions)
    if asked.method in ("skimmed", "document") and any(
        _has_dense_values(each, words) for pair in histograms for each in pair
    ):
        return None
    found = partition_links([link_statistics(*pair) for pair in histograms], MOST_PARTS)
    return found if joint_gain(found) >= LEAST_GAIN else None


def _histograms(asked: WorkloadQuery, statistics: Statistics) -> list[tuple[Histogram, Histogram]] | None:
    """Return the histograms of both sides of each link, None if one is not known."""
    query = asked.query
    relations = next(iter(asked.quantities.values())).whole
    pairs = []
    for link in query.links:
        left, right = (statistics.histogram(relations[m.relation], m.key) for m in link.members)
        if left is None or right is None:
            return None
        pairs.append((left, right))
    return pairs


def _has_dense_values(histogram: Histogram, words: int) -> bool:
    """Return whether some bucket's values are so frequent that a sketch of `words` words would skim them."""
    self_join = float(histogram.self_joins().sum())
    pairs = zip(histogram.rows, histogram.distinct, strict=True)
    return max(rows / max(distinct, 1) for rows, distinct in pairs) > _STANDS_OUT * sqrt(
        self_join / max(words, 1)
    )
