"""The joins of figures/multijoin.py: the multi-join document's synthetic data, and chains of Zipf relations.

The document's settings are those of its section 5.1 (figures/regions.py), with one million rows per relation in
place of ten: shares of the rows are the same, and so are relative errors. A join of two relations on several
attributes has one composite key, as the product keeps it.

The Zipf chains are ours. Every relation has 100,000 rows, and every attribute a Zipf law over 1,024 values. Both
attributes of an inner relation are drawn independently. On the link between relations i and i + 1 the second one's
ranks are shifted by 3 values (i even) or 2 (i odd), so that the frequent values of one are less frequent, but not
rare, in the other: AGMS then has the error levels that the design's prototypes report. (Equi-depth histograms do
badly there for a reason of their own: values that come just before a frequent one share its bucket.)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from regions import SPARSE_LINE, JoinQuery, Relation, Space, binary, chain, self_join

ROWS, DOMAIN = 100_000, 1024
SHIFTS = 3, 2
DOCUMENT_ROWS = 1_000_000


@dataclass(frozen=True)
class Setting:
    """A join query of every seed, and how many values an attribute may take."""

    query: Callable[[int], JoinQuery]
    domain: int = DOMAIN
    zipf: float = 0.0


def zipf_chain(exponent: float, joins: int, seed: int) -> JoinQuery:
    """Return a chain of Zipf relations, drawn again for each seed."""
    rng = np.random.default_rng([seed, joins, int(10 * exponent)])
    links = [tuple(link for link in (k - 1, k) if 0 <= link < joins) for k in range(joins + 1)]
    shares = np.arange(1, DOMAIN + 1, dtype=np.float64) ** -exponent
    shares /= shares.sum()
    relations = []
    for index, own in enumerate(links):
        shifts = [SHIFTS[link % 2] if link < index else 0 for link in own]
        columns = [(rng.choice(DOMAIN, ROWS, p=shares) + shift) % DOMAIN for shift in shifts]
        relations.append(_counted(columns))
    return JoinQuery(tuple(relations), tuple(links))


def _counted(columns: list[np.ndarray]) -> Relation:
    """Return the distinct tuples of rows, and how often each occurs."""
    together = sum(column * DOMAIN**place for place, column in enumerate(columns))
    distinct, counts = np.unique(together, return_counts=True)
    keys = [distinct // DOMAIN**place % DOMAIN for place in range(len(columns))]
    return Relation(np.array(keys, dtype=np.uint64), counts)


def _document(attributes: int) -> Space:
    return Space(attributes, tuples=DOCUMENT_ROWS)


def _chain(seed: int) -> JoinQuery:
    return chain(_document(2), 3, seed)


SETTINGS = {
    "self-join, sparse line": Setting(
        partial(self_join, replace(SPARSE_LINE, tuples=DOCUMENT_ROWS)), SPARSE_LINE.domain
    ),
    "two relations, 1 attribute": Setting(partial(binary, _document(1))),
    "two relations, 2 attributes": Setting(partial(binary, _document(2))),
    "two relations, 3 attributes": Setting(partial(binary, _document(3))),
    "chain of 3": Setting(_chain),
    "Zipf 1.0, two joins": Setting(partial(zipf_chain, 1.0, 2), zipf=1.0),
    "Zipf 1.0, three joins": Setting(partial(zipf_chain, 1.0, 3), zipf=1.0),
    "Zipf 1.5, two joins": Setting(partial(zipf_chain, 1.5, 2), zipf=1.5),
    "Zipf 1.5, three joins": Setting(partial(zipf_chain, 1.5, 3), zipf=1.5),
}
