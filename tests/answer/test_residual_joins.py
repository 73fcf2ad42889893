from dataclasses import replace
from math import inf, isfinite, sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from eddyline.answer.joins.residual import (
    CombinedEstimate,
    _Reader,
    combine,
    read_residual_join,
    residual_combination,
    residual_sides,
)
from eddyline.answer.joins.sampled import read_sample_join
from eddyline.answer.joins.sampled_ratios import SampleEstimate
from eddyline.answer.joins.two_way import RowEstimates, SketchedRelation, skimmed_join
from eddyline.sample.join import Join
from eddyline.sample.messages import added
from eddyline.sketch.counters import key_array
from eddyline.sketch.hash_sketch import HashSketchSpec
from tests.oracles import sample_joins as naive
from tests.oracles.coverage import Coverage

SPEC = HashSketchSpec(64, 5, (9,))


def sketches(join, spec=SPEC):
    """The sketches of everything that a join holds, with all its values as candidates."""
    made = {}
    for name, term in join.shape.quantities.items():
        pair = []
        for relation in join.whole_relations(term):
            counters = np.zeros(spec.words, dtype=np.int64)
            weights = added(relation.weights, relation.places[0], len(join.values[0]))
            spec.accumulate(counters, key_array(join.values[0]), weights)
            pair.append(SketchedRelation(spec, counters, join.values[0].view(np.uint64)))
        made[name] = (pair[0], pair[1])
    return made


def two_relations(seed, function="count", size=400, exponent=0.9):
    spec, shape = naive.chain((0,), [0, 1], (0,), function=function)
    random = np.random.default_rng(seed)
    chance = np.arange(1, 201) ** -exponent
    made = []
    for part in spec.kept:
        keys = random.choice(200, size, p=chance / chance.sum())
        sums = 3 * (keys % 7) + random.integers(0, 9, size)
        rows = [((int(k),), (False,), (1, int(s), int(s * s))) for k, s in zip(keys, sums, strict=True)]
        made.append(naive.dictionary(part, rows))
    return spec, shape, made


@given(st.integers(0, 100), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.sampled_from([0.5, 1.0]))
@settings(max_examples=40, deadline=None)
def test_residual_sketches_are_those_of_the_rows_that_are_not_followed(seed, base, own):
    spec, shape, made = two_relations(seed, "sum")
    whole = Join(naive.sample(spec, made, [(1.0, {})]), shape)
    state = naive.sample(spec, made, [(base, {value: max(own, base) for value in range(20)})], seed)
    join = Join(state, shape)
    followed = np.ones(len(whole.values[0]), dtype=np.bool_)
    state.rosters[0].drop_unfollowed(whole.values[0], followed)
    for name, term in shape.quantities.items():
        for side, relation in zip(
            residual_sides(join, name, sketches(whole)[name]), whole.whole_relations(term), strict=True
        ):
            weights = added(relation.weights, relation.places[0], len(whole.values[0]))
            expected = np.zeros(SPEC.words, dtype=np.int64)
            SPEC.accumulate(expected, key_array(whole.values[0][~followed]), weights[~followed])
            assert np.array_equal(side.counters, expected)
            assert np.array_equal(np.sort(side.candidates.view(np.int64)), whole.values[0][~followed])


def test_nothing_is_left_where_everything_is_followed():
    spec, shape, made = two_relations(1)
    join = Join(naive.sample(spec, made, [(1.0, {})]), shape)
    reading = skimmed_join(*residual_sides(join, "count", sketches(join)["count"]))
    assert reading.value == reading.half_width(0.95) == 0.0
    found = read_residual_join(join, "count", {}, sketches(join), 0.95)
    assert found.low == found.value == found.high


def test_the_combined_sketch_reads_the_combination_of_the_terms():
    spec, shape, made = two_relations(4, "avg")
    whole = Join(naive.sample(spec, made, [(1.0, {})]), shape)
    join = Join(naive.sample(spec, made, [(0.2, {})], 3), shape)
    factors = {"sum": 1.0, "count": -12.25}
    sides = {
        name: tuple(replace(side, candidates=side.candidates[:0]) for side in pair)
        for name, pair in sketches(whole).items()
    }
    residuals = {name: residual_sides(join, name, sides[name]) for name in factors}
    together = residual_combination(residuals, factors)
    apart = sum(f * skimmed_join(*residuals[name]).rows for name, f in factors.items())
    assert together.rows == pytest.approx(apart, rel=1e-6)


@pytest.mark.parametrize(
    ("noise", "doubt", "weight"), [(0.0, 4.0, 0.0), (2.0, 2.0, 0.5), (3.0, 1.0, 0.75), (5.0, inf, 0.0)]
)
def test_weights_are_by_variance(noise, doubt, weight):
    sample = SampleEstimate(
        0, 0, 0, followed=10.0, unfollowed=8.0, cautious_variance=doubt, base=0.5, carriers=50
    )
    residual = RowEstimates(rows=np.full(5, 4.0), row_variance=5 * noise)
    found = combine(sample, residual, 0.95)
    assert found.weight == weight
    assert found.value == 10.0 + weight * 8.0 + (1 - weight) * 4.0
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize(("noise", "variance"), [(5.0, 11.0), (15.5, 1.0), (100.0, 1.0)])
def test_caution_moves_the_ends_where_the_sketch_does_not_confirm_it(noise, variance):
    """A and B are 4 apart, which shows that A is off by 16 - noise at most; B alone bounds how far it may be off."""
    sample = SampleEstimate(
        0, 0, 0, unfollowed=8.0, cautious_variance=1e9, followed_variance=1.0, base=0.5, carriers=50
    )
    residual = RowEstimates(rows=np.full(5, 4.0), row_variance=5 * noise)
    found = combine(sample, residual, 0.95)
    assert found.weight == pytest.approx(noise / (variance + noise))
    half = residual.half_width(0.95)
    assert found.low <= 4.0 - half + 1e-9
    assert found.high >= 4.0 + half - 1e-9


def test_dense_values_that_the_sample_does_not_follow_take_its_weight():
    sample = SampleEstimate(0, 0, 0, unfollowed=8.0, cautious_variance=1.0, base=0.1)
    residual = RowEstimates(rows=np.full(5, 4.0), row_variance=5.0, dense_squares=(100.0,))
    assert combine(sample, residual, 0.95).weight == pytest.approx(1 / (1 + 100 * 9))


@pytest.mark.calibration
def test_coverage_over_seeds():
    coverage = Coverage()
    for function in ("sum", "avg", "stddev_samp"):
        errors, alone = errors_over_seeds(function, coverage)
        if function == "sum":
            assert sqrt(np.mean(np.square(errors))) < sqrt(np.mean(np.square(alone)))
    coverage.check()


def errors_over_seeds(function, coverage):
    """Return the errors of 60 samples and a sketch, and those of the samples alone."""
    spec, shape, made = two_relations(11, function, size=1500)
    whole = Join(naive.sample(spec, made, [(1.0, {})]), shape)
    answer = read_sample_join(whole, function, {}, 0.95).value
    totals = {
        name: [float(each.weights.sum()) for each in whole.whole_relations(term)]
        for name, term in shape.quantities.items()
    }
    errors, alone = [], []
    for seed in range(60):
        sides = sketches(whole, HashSketchSpec(64, 5, (100 + seed,)))
        join = Join(naive.sample(spec, made, [(0.15, dict.fromkeys(range(15), 0.6))], seed), shape)
        found = read_residual_join(join, function, totals, sides, 0.95)
        sample = read_sample_join(join, function, totals, 0.95)
        assert isfinite(found.value)
        coverage.add(seed, found.low <= answer <= found.high, function)
        errors.append(found.value - answer)
        alone.append(sample.value - answer)
    return errors, alone


def test_a_variance_over_a_join_that_may_be_empty_is_not_its_mean(monkeypatch):
    """Where sketches do not show that a join has rows, only the sample shows its variance: it was the mean, -20, once."""
    spec, shape, made = two_relations(1, "var_pop")
    state = naive.sample(spec, made, [(0.5, {})], 1)
    monkeypatch.setattr(_Reader, "mean", lambda *_: CombinedEstimate(-20.0, -inf, inf, 1.0))
    join = Join(state, shape)
    for function in ("var_pop", "stddev_samp"):
        alone = read_sample_join(join, function, {}, 0.95)
        found = read_residual_join(join, function, {}, sketches(join), 0.95)
        assert found.value == alone.value > 0.0
        assert (found.low, found.high) == (0.0, inf)


def orders_and_items(seed, orders=25_000, items=100_000):
    """A state whose heaviest key of items has an order that the predicate drops; the count, by the rows."""
    rng = np.random.default_rng(seed)
    region = rng.integers(0, 50, orders)
    region[0] = 48
    order = (orders * rng.random(items) ** 5).astype(np.int64)
    w = el.Workload(budget="8 KB", seed=seed)
    w.stream("orders", "o BIGINT, region BIGINT").stream("items", "o BIGINT")
    w.query("kept", "SELECT COUNT(*) FROM orders JOIN items ON orders.o = items.o WHERE orders.region < 20")
    state = w.plan().empty()
    for part in range(10):
        mine = slice(part * orders // 10, (part + 1) * orders // 10)
        state.update("orders", pa.table({"o": np.arange(orders)[mine], "region": region[mine]}))
        state.update("items", {"o": order[part * items // 10 : (part + 1) * items // 10]})
    return state, int((region[order] < 20).sum())


@pytest.mark.calibration
def test_a_heavy_key_without_a_partner_leaves_the_sample_its_weight():
    """20 seeds: the heaviest key of items, if not followed, times the noise of the sketch of orders exceeds the join.

    Before, such states were off by a quarter in the median and by up to 4.6 times the answer.
    """
    coverage, errors = Coverage(), []
    for seed in range(20):
        state, truth = orders_and_items(seed)
        answer = state.answer("kept")
        coverage.add(seed, answer.low <= truth <= answer.high)
        errors.append(abs(answer.value / truth - 1.0))
    coverage.check(wrong=0.63)
    assert np.median(errors) <= 0.1, errors
    assert max(errors) <= 2.0, errors
