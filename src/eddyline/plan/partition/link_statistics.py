"""What histograms say of a join link: both sides on common buckets, and the variance of sketching them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.plan.partition.histograms import Histogram, Value, aligned

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class LinkStatistics:
    """What is known of the two sides of a join link, bucket by bucket.

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

    Within a bucket, the values of the side that has fewer of them are taken to be among the other's, and the
    frequencies of the two sides to be independent.
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
