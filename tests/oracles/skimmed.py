"""Slow and obvious forms of the skimmed-sketch procedures, on dictionaries and exact arithmetic."""

from collections import Counter
from statistics import median

import numpy as np

from eddyline.sketch.hash_sketch import HashSketchSpec


def net_frequencies(keys, weights):
    """Return the net frequency of every key that does not cancel."""
    total = Counter()
    for key, weight in zip(keys, weights, strict=True):
        total[int(key)] += int(weight)
    return {key: count for key, count in total.items() if count}


def exact_join(left, right):
    """Return the join size of two frequency dictionaries."""
    return sum(count * right.get(key, 0) for key, count in left.items())


def place(spec: HashSketchSpec, key: int):
    """Return [(bucket, sign)] of a key, row by row."""
    buckets, signs = spec.locate(np.array([[key]], dtype=np.uint64))
    return [(int(bucket), int(sign)) for bucket, sign in zip(buckets[:, 0], signs[:, 0], strict=True)]


def point_estimate(spec, sketch, key):
    """Return the median over rows of H[p, h_p(u)] * xi_p(u)."""
    return median(sketch[p][q] * sign for p, (q, sign) in enumerate(place(spec, key)))


def est_join_size(left, right):
    """ESTJOINSIZE: the median over groups of the mean of products of atomic sketches."""
    means = [sum(x * y for x, y in zip(a, b, strict=True)) / len(a) for a, b in zip(left, right, strict=True)]
    return median(means)


def skim_dense(spec, sketch, domain, total, multiple):
    """SKIMDENSE: (skimmed sketch, {dense key: frequency})."""
    dense = {}
    for key in domain:
        estimate = point_estimate(spec, sketch, key)
        if estimate >= 2 * multiple * total / spec.width:
            dense[key] = estimate
    skimmed = [list(map(float, row)) for row in sketch]
    for key, frequency in dense.items():
        for p, (q, sign) in enumerate(place(spec, key)):
            skimmed[p][q] -= frequency * sign
    return skimmed, dense


def est_sub_join_size(spec, dense, sketch):
    """ESTSUBJOINSIZE: the median over rows of the dense frequencies joined with a skimmed sketch."""
    rows = [0.0] * spec.depth
    for key, frequency in dense.items():
        for p, (q, sign) in enumerate(place(spec, key)):
            rows[p] += sketch[p][q] * frequency * sign
    return median(rows)


def est_skim_join_size(spec, left, right, domain, totals, multiple):
    """ESTSKIMJOINSIZE: the sum of the four sub-joins."""
    left_skimmed, f = skim_dense(spec, left, domain, totals[0], multiple)
    right_skimmed, g = skim_dense(spec, right, domain, totals[1], multiple)
    sparse = median(
        sum(x * y for x, y in zip(a, b, strict=True))
        for a, b in zip(left_skimmed, right_skimmed, strict=True)
    )
    return (
        exact_join(f, g)
        + est_sub_join_size(spec, f, right_skimmed)
        + est_sub_join_size(spec, g, left_skimmed)
        + sparse
    )


def left_out_estimate(spec, left, right, f, g, row):
    """Return <HF_p, HG_p> + f^.g^ - <S_p f^, S_p g^> of one row, for dense frequencies as dictionaries."""
    images = []
    for dense in (f, g):
        image = [0.0] * spec.width
        for key, frequency in dense.items():
            bucket, sign = place(spec, key)[row]
            image[bucket] += sign * frequency
        images.append(image)
    plain = sum(x * y for x, y in zip(left[row], right[row], strict=True))
    return plain + exact_join(f, g) - sum(x * y for x, y in zip(*images, strict=True))
