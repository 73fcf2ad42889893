"""The contraction of a join tree: from one row of every relation's sketch to an estimate of the join size.

A row of a relation goes to the bucket that is the sum of the buckets of its keys. So what the rest of the tree
sends to a relation over its links enters by convolution, and what the relation sends on is a correlation:

    relation to link   msg(j) = sum over j_1, j_2, ... of C[j + j_1 + j_2 + ...] msg_1(j_1) msg_2(j_2) ...
    link to relation   the product of the messages of its other members, bucket by bucket

Both are products in frequency space. Paper: multi-join, section 3.1, X = product of X_k. Deviation: hash
sketches, one counter per sketch row and tuple whatever the number of joins.

Rounding. Counters are integers, the transforms are in float64. Each transform, product and inverse adds a
relative error of a few 2^-53 log2(width) to the Euclidean norm of its result, and no intermediate result has
a larger norm than the product of the norms of all rows that it holds. So the error of an estimate is at most
c log2(width) relations 2^-53 times the product of the norms. The estimate's own standard error is that
product over sqrt(width): rounding is smaller by a factor of more than 10^8 for all widths up to 2^40, whatever
the size of the counters. Conversion of counters beyond 2^53 adds as little.
"""

from dataclasses import dataclass
from functools import cached_property
from math import log2

import numpy as np

from eddyline.answer.interval import FloatArray
from eddyline.errors import SketchError

_ROUNDING = 8 * 2.0**-53


@dataclass(frozen=True)
class JoinTree:
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


def contract(tree: JoinTree, rows: list[FloatArray]) -> FloatArray:
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
