"""Triples by the product of both sides' filters, held to counts of the tuples themselves."""

import numpy as np
import pytest

from eddyline.answer.distinct_joins.filters import missed_share, triples_by_filters
from eddyline.answer.distinct_joins.reading import join_distinct
from eddyline.answer.distinct_joins.samples import SketchedSide, decode_side
from eddyline.sketch.join_distinct import JoinDistinctSpec
from tests.oracles.coverage import Coverage


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
    return triples_by_filters(left, right, decode_side(left), decode_side(right))


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
    assert decode_side(left).whole
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
    assert missed_share(even, decode_side(even)) < 0.4
    assert missed_share(heavy, decode_side(heavy)) > 0.1


def test_heavy_x_that_are_repeated_most_are_not_taken_for_more_tuples():
    # rows drawn from Zipf x and b: the sample on x shows tuples that occur once, those of heavy x's occur often
    coverage = Coverage()
    for seed in range(20):
        rng = np.random.default_rng([seed, 7])
        chance = np.arange(1, 801) ** -1.3
        sides, counted = [], []
        for place in (0, 1):
            spec = JoinDistinctSpec.sized(192, 1 << 30, seed, place)
            keys = rng.choice(800, (2, 8000), p=chance / chance.sum())
            counters = np.zeros(spec.words, dtype=np.int64)
            spec.accumulate(counters, keys.astype(np.uint64), np.ones(8000, dtype=np.int64))
            sides.append(SketchedSide(spec, counters))
            counted.append(np.unique(keys, axis=1))
        found, truth = join_distinct(*sides, "full"), triples(*counted)
        coverage.add(seed, found.low <= truth <= found.high)
    coverage.check(wrong=0.63)


def test_a_number_of_pairs_that_is_all_there_can_be_is_no_surer_than_the_numbers_of_x():
    # 10 x's on the left and 65 on the right, all of which join
    coverage = Coverage()
    for seed in range(20):
        rng = np.random.default_rng([seed, 8])
        left, _ = side(np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10), 0, seed)
        right, _ = side(rng.integers(0, 65, 3000), rng.integers(0, 10, 3000), 1, seed)
        found = join_distinct(left, right, "two-sided")
        coverage.add(seed, found.low <= 650 <= found.high)
    coverage.check(wrong=0.63)
