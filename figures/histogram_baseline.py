"""The multi-join document's rival: one equi-depth histogram for each join attribute, at equal memory.

Paper: multi-join, section 5.1 "Equi-depth histograms". They are one-dimensional and built off-line. A bucket
takes two words, its boundary and its count. Rows spread evenly over the domain values of a bucket, and the
attributes of a relation count as independent. Under these two assumptions a join has the expected size

    product of |R_k| over relations * product over links of sum_i p_left(i) p_right(i).

    histogram_estimate(query, words)     # words for the whole query, shared evenly by its histograms
"""

import numpy as np
from regions import JoinQuery, Relation

from eddyline.plan.partition.histograms import equi_depth

WORDS_PER_BUCKET = 2


def shares_of_values(relation: Relation, attribute: int, buckets: int, domain: int) -> np.ndarray:
    """Return what a histogram of an attribute says of each value in range(domain): its share of the rows."""
    column = relation.projected(attribute)
    histogram = equi_depth(column.keys[0].astype(np.int64), column.counts, buckets)
    bounds = [int(bound) for bound in (*histogram.lows, int(histogram.high) + 1)]
    out = np.zeros(domain)
    for low, high, rows in zip(bounds, bounds[1:], histogram.rows, strict=False):
        out[low:high] = rows / (high - low) / relation.counts.sum()
    return out


def histogram_estimate(query: JoinQuery, words: int, domain: int = 1024) -> float:
    """Return the estimated size of a join; a relation that occurs twice keeps its histograms once."""
    kept = {id(relation): len(links) for relation, links in zip(query.relations, query.links, strict=True)}
    buckets = max(words // (WORDS_PER_BUCKET * sum(kept.values())), 1)
    shares: dict[int, list[np.ndarray]] = {}
    for relation, links in zip(query.relations, query.links, strict=True):
        for attribute, link in enumerate(links):
            found = shares_of_values(relation, attribute, buckets, domain)
            shares.setdefault(link, []).append(found)
    size = np.prod([float(relation.counts.sum()) for relation in query.relations])
    return float(size * np.prod([left @ right for left, right in shares.values()]))
