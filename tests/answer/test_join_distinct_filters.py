"""Triples by the product of both sides' filters, held to counts of the tuples themselves."""

import numpy as np
import pytest

from eddyline.answer.distinct_joins.filters import missed_share, triples_by_filters
from eddyline.answer.distinct_joins.samples import SketchedSide, decode
from eddyline.sketch.join_distinct import JoinDistinctSpec


def side(x, b, place, seed, cells=192, weight=1):
    spec = JoinDistinctSpec.sized(cells, 1 << 30, seed, place)
    keys = np.unique(np.stack([x, b]).astype(np.uint64), axis=1)
    counters = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(counters, keys, np.full(keys.shape[1], weight, dtype=np.int64))
    return SketchedSide(spec, counters), keys


def triples(left, right):
    one, two = (np.bincount(keys[1].astype(np.int64), minlength=3000) for keys in (left, right))
    return int(one @ two)


def filtered(left, right):
    return triples_by_filters(left, right, decode(left), decode(right))


def random_pair(seed, cells=(192, 192), weight=1):
    rng = np.random.default_rng(seed)
    return [
        side(rng.integers(0, 3000, 20_000), rng.integers(0, 3000, 20_000), place, seed, cells[place], weight)
        for place in (0, 1)
    ]


@pytest.mark.parametrize(("cells", "weight"), [((192, 192), 1), ((192, 768), 1), ((192, 192), 5)])
def test_the_product_is_right_on_average_and_as_far_off_as_it_says(cells, weight):
    # 40 numbers, each off by a standard deviation of its own error: their mean by 0.16, and the mean of the squares by
    # 0.22; 0.8 and 2.5 are five standard errors and more
    off = []
    for seed in range(40):
        (left, one), (right, two) = random_pair(seed, cells, weight)
        found = filtered(left, right)
        off.append((found.value - triples(one, two)) / found.error)
        assert found.most >= triples(one, two)
    assert abs(np.mean(off)) < 0.8
    assert np.mean(np.square(off)) < 2.5


def test_a_side_that_is_known_whole_counts_its_tuples_once():
    rng = np.random.default_rng(1)
    left, one = side(np.arange(60), np.arange(60) % 7, 0, 3, weight=9)
    right, two = side(rng.integers(0, 9000, 9000), rng.integers(0, 7, 9000), 1, 3)
    found = filtered(left, right)
    assert decode(left).whole
    assert found.value == pytest.approx(triples(one, two), rel=0.1)


def test_rows_that_were_deleted_leave_no_trace():
    (left, _), (right, _) = random_pair(2)
    (guest, _), _ = random_pair(2, weight=3)
    spec = left.spec
    churned = SketchedSide(spec, spec.subtract(spec.add(left.counters, guest.counters), guest.counters))
    assert filtered(churned, right) == filtered(left, right)


def test_join_values_too_heavy_for_the_samples_on_b_are_missed():
    rng = np.random.default_rng(4)
    even, _ = side(rng.integers(0, 9000, 9000), rng.integers(0, 3000, 9000), 0, 5)
    heavy, _ = side(np.arange(9000), np.where(rng.random(9000) < 0.6, np.arange(9000) % 40, 3000), 0, 5)
    assert missed_share(even, decode(even)) < 0.4
    assert missed_share(heavy, decode(heavy)) > 0.1
