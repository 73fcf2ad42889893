from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.answer.distinct_joins.reading import join_distinct, samples_of
from eddyline.answer.distinct_joins.samples import SketchedSide
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.join_distinct import JoinDistinctSpec
from tests.oracles.coverage import Coverage
from tests.oracles.join_distinct import answer, answers, counters_of, net_tuples, side_of

FORMS = ("two-sided", "semi", "full")
SMALL = tuple(JoinDistinctSpec(cells=192, levels=3, seed=5, side=side) for side in (0, 1))
TUPLES = st.lists(st.tuples(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(1, 3)), max_size=40)


@given(TUPLES, TUPLES, TUPLES)
@settings(max_examples=60, deadline=None)
def test_exact_while_everything_decodes(one, two, gone):
    left = counters_of(SMALL[0], one + gone + [(key, -weight) for key, weight in gone])
    right = SMALL[1].add(counters_of(SMALL[1], two[:7]), counters_of(SMALL[1], two[7:]))
    for form in FORMS:
        reading = join_distinct(SketchedSide(SMALL[0], left), SketchedSide(SMALL[1], right), form)
        assert reading.exact
        assert reading.value == reading.low == reading.high == answer(net_tuples(one), net_tuples(two), form)


def specs(cells, seed):
    return [JoinDistinctSpec.sized(cells, 2**30, seed, side) for side in (0, 1)]


def distinct(x, b):
    return tuple(np.unique(np.stack([x, b]), axis=1))


def random_sides(seed, n=30_000, values=3000, keys=3000):
    rng = np.random.default_rng(seed)
    return [distinct(rng.integers(0, values, n), rng.integers(0, keys, n)) for _ in range(2)]


def read(sides, cells, seed):
    both = [side_of(spec, *own) for spec, own in zip(specs(cells, seed), sides, strict=True)]
    return {form: join_distinct(*both, form) for form in FORMS}


@pytest.mark.calibration
def test_estimates_are_near_and_intervals_hold():
    # errors of 7-9%: the mean of 12 trials is off by 3%, a fifth is five of its standard errors
    sides = random_sides(1)
    truth = answers(*sides)
    found = [read(sides, 1536, seed) for seed in range(12)]
    for form in FORMS:
        assert np.mean([one[form].value for one in found]) == pytest.approx(truth[form], rel=0.2)
    coverage = Coverage()
    for (seed, one), form in product(enumerate(found), FORMS):
        coverage.add(seed, one[form].low <= truth[form] <= one[form].high, form)
    coverage.check(wrong=0.71)


def test_deletes_and_merges_change_nothing():
    sides, others = random_sides(2), random_sides(3)
    for form in FORMS:
        plain, churned = [], []
        for spec, own, guests in zip(specs(384, 1), sides, others, strict=True):
            one = side_of(spec, *own)
            guest = side_of(spec, *guests)
            plain.append(one)
            churned.append(
                SketchedSide(spec, spec.subtract(spec.add(one.counters, guest.counters), guest.counters))
            )
        assert join_distinct(*plain, form) == join_distinct(*churned, form)


def test_a_small_side_is_known_whole():
    rng = np.random.default_rng(4)
    small = distinct(np.arange(300), np.arange(300))
    large = distinct(rng.integers(0, 20_000, 20_000), rng.integers(0, 1000, 20_000))
    truth = answers(small, large)
    both = [side_of(spec, *own) for spec, own in zip(specs(768, 4), (small, large), strict=True)]
    samples = samples_of(*both)
    assert samples.left.whole
    assert not samples.right.whole
    for form in FORMS:
        assert join_distinct(*both, form).value == pytest.approx(truth[form], rel=0.5)  # 6 standard errors


@pytest.mark.parametrize("skewed", ["x", "b"])
def test_heavy_values_are_counted(skewed):
    # errors of about 15% at this size: a factor of 2 is five standard errors
    rng = np.random.default_rng(5)
    chances = 1 / np.arange(1, 3001)
    chances /= chances.sum()
    sides = []
    for _ in range(2):
        heavy, plain = rng.choice(3000, 30_000, p=chances), rng.integers(0, 3000, 30_000)
        sides.append(distinct(heavy, plain) if skewed == "x" else distinct(plain, heavy))
    truth = answers(*sides)
    both = [side_of(spec, *own) for spec, own in zip(specs(768, 5), sides, strict=True)]
    if skewed == "x":
        assert len(samples_of(*both).left.heavy) > 0
    coverage = Coverage()
    for seed in range(6):
        for form, reading in read(sides, 768, seed).items():
            assert truth[form] / 2 < reading.value < truth[form] * 2
            coverage.add(seed, reading.low <= truth[form] <= reading.high, form)
    coverage.check(wrong=0.55)


def test_thin_samples_are_flagged():
    rng = np.random.default_rng(6)
    left = distinct(rng.integers(0, 3000, 30_000), rng.integers(0, 30_000, 30_000))
    right = distinct(rng.integers(0, 3000, 30_000), rng.integers(29_990, 60_000, 30_000))
    truth = answers(left, right)
    for form, reading in read([left, right], 192, 6).items():
        assert reading.note is not None
        assert reading.low <= truth[form] <= reading.high
        assert reading.high > 2 * reading.low


def test_an_x_with_too_many_tuples_is_not_lost():
    # every x has 2,000 tuples, a level 192 cells: no sample on x holds any
    b = np.arange(2000)
    sides = [(np.repeat(np.arange(10), 2000), np.tile(b, 10)) for _ in range(2)]
    truth = answers(*sides)
    reading = read(sides, 192, 7)["two-sided"]
    assert reading.low <= truth["two-sided"] <= reading.high


def test_streams_that_do_not_join_read_as_nothing():
    sides = [(np.arange(5000), np.arange(5000)), (np.arange(5000), np.arange(5000) + 10**6)]
    for reading in read(sides, 192, 8).values():
        assert reading.value == reading.low == 0
        assert reading.high > 0
        assert reading.note is not None


def test_sides_may_differ_in_size():
    # errors of about 10%: 60% is six standard errors
    sides = random_sides(10)
    truth = answers(*sides)
    one, two = JoinDistinctSpec.sized(768, 2**30, 3, 0), JoinDistinctSpec.sized(1536, 2**20, 3, 1)
    assert one.levels != two.levels
    both = side_of(one, *sides[0]), side_of(two, *sides[1])
    for form in FORMS:
        assert join_distinct(*both, form).value == pytest.approx(truth[form], rel=0.6)


def test_joins_too_large_to_list_are_thinned(monkeypatch):
    monkeypatch.setattr("eddyline.answer.distinct_joins.samples.MOST_TRIPLES", 2000)
    sides = [(np.arange(500), np.arange(500) % 50) for _ in range(2)]
    truth = answers(*sides)
    for form, reading in read(sides, 1536, 9).items():
        assert not reading.exact
        assert reading.value == pytest.approx(truth[form], rel=0.3)


def test_mismatched_sides_are_refused():
    one, two = specs(192, 1)
    empty = np.zeros(one.words, dtype=np.int64)
    other = JoinDistinctSpec.sized(192, 2**30, 2, side=1)
    with pytest.raises(IncompatibleSpecs, match="seed"):
        join_distinct(SketchedSide(one, empty), SketchedSide(other, empty), "full")
    with pytest.raises(IncompatibleSpecs, match="side"):
        join_distinct(SketchedSide(one, empty), SketchedSide(one, empty), "full")
    assert join_distinct(SketchedSide(one, empty), SketchedSide(two, empty), "semi").value == 0
