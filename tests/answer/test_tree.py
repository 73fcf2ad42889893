from collections import Counter
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.answer.joins.tree import est_join_size, hash_tree, joined_through, skim_relations, skimmed_tree
from eddyline.answer.joins.two_way import LinkTree, SketchedRelation, contract, rounding_bound
from eddyline.errors import IncompatibleSpecs, SketchError
from eddyline.plan.layout import Demand, Place
from eddyline.plan.size.specs import PlanSettings, spec_for
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.synopsis import Synopsis
from tests.oracles import multi_joins as naive
from tests.oracles.coverage import Coverage

CHAIN = ((0,), (0, 1), (1,))
STAR = ((0, 1, 2), (0,), (1,), (2,))
ONE_LINK = ((0,), (0,), (0,))
BROOM = ((0,), (0, 1), (0, 2), (1,), (2,))
SHAPES = pytest.mark.parametrize(
    "links", [CHAIN, STAR, ONE_LINK, BROOM], ids=["chain", "star", "one", "broom"]
)


def specs(links, words, seed, kind="hash"):
    """The specs that a plan gives the relations: one kind per link, members of a link in a row."""
    settings = PlanSettings(budget=0, seed=seed)
    members = LinkTree(links).members
    return [
        spec_for(
            Demand(
                "s",
                kind,
                places=tuple(
                    Place(link, members[link].index(r) if len(members[link]) > 2 else 0, len(members[link]))
                    for link in of
                ),
            ),
            words,
            settings,
        )
        for r, of in enumerate(links)
    ]


def relations(links, rows, domain, seed):
    """Random relations as key arrays (edges, n), keys skewed to the low end."""
    rng = np.random.default_rng(seed)
    return [(domain * rng.random((len(of), rows)) ** 3).astype(np.int64) for of in links]


def counted(keys):
    return Counter(tuple(int(key) for key in row) for row in keys.T)


def sides(links, data, words, seed, *, skim):
    made = []
    for spec, keys in zip(specs(links, words, seed), data, strict=True):
        tuples = np.unique(keys, axis=1).view(np.uint64)
        candidates = tuples if skim else tuples[:, :0]
        made.append(SketchedRelation(spec, Synopsis(spec).update(*keys).counters, candidates))
    return made


@SHAPES
@given(seed=st.integers(0, 1000))
def test_contraction_is_the_sum_over_all_buckets(links, seed):
    rng = np.random.default_rng(seed)
    rows = [rng.integers(-9, 9, (2, 4)).astype(np.float64) for _ in links]
    expected = [naive.contract(links, [each[p] for each in rows]) for p in range(2)]
    assert contract(LinkTree(links), rows) == pytest.approx(expected, abs=1e-6)


@SHAPES
@pytest.mark.parametrize("bits", [20, 53, 62])
def test_rounding_stays_within_its_bound_and_far_below_the_noise(links, bits):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        counters = [rng.integers(-(2**bits), 2**bits, (1, 8)) for _ in links]
        rows = [each.astype(np.float64) for each in counters]
        exact = naive.contract(links, [each[0] for each in counters])
        error = abs(int(contract(LinkTree(links), rows)[0]) - exact)
        noise = np.prod([np.linalg.norm(each) for each in rows]) / sqrt(8)
        assert error <= rounding_bound(rows) <= 1e-9 * noise


def test_products_beyond_floating_point_are_refused():
    rows = [np.full((1, 8), 1e18) for _ in range(20)]
    with pytest.raises(SketchError, match="floating point"):
        contract(LinkTree(((0,), *((i, i + 1) for i in range(18)), (18,))), rows)


@SHAPES
def test_exact_join_of_tuples(links):
    data = relations(links, 30, 6, 1)
    tuples = [np.unique(keys, axis=1) for keys in data]
    values = [
        np.array([[counted(keys)[tuple(row)] for row in t.T]]) for keys, t in zip(data, tuples, strict=True)
    ]
    frequencies = [each.astype(float) for each in values]
    exact = naive.exact_join(links, [counted(keys) for keys in data])
    for sums in joined_through(LinkTree(links), [t.view(np.uint64) for t in tuples], frequencies):
        assert sums.sum(axis=1) == pytest.approx([exact])


def skimmed(tree, made):
    """The skimmed reading of one join."""
    (relations,) = skim_relations([(tree, made)])
    return skimmed_tree(tree, made, relations)


@SHAPES
def test_a_tree_whose_tuples_are_all_known_is_read_almost_exactly(links):
    data = relations(links, 60, 5, 2)
    exact = naive.exact_join(links, [counted(keys) for keys in data])
    reading = skimmed(LinkTree(links), sides(links, data, 2000, 7, skim=True))
    assert reading.value == pytest.approx(exact, rel=0.01)
    assert abs(reading.value - exact) <= reading.half_width(0.95) + 1e-6 * exact


@pytest.mark.calibration
@SHAPES
@pytest.mark.parametrize("skim", [False, True])
def test_readings_are_unbiased_and_cover(links, skim):
    # The mean over 80 seeds lies within 4 of its standard errors (chance 1e-4 each to fail).
    data = relations(links, 40, 9, 3)
    exact = naive.exact_join(links, [counted(keys) for keys in data])
    values, coverage = [], Coverage()
    for seed in range(80):
        made = sides(links, data, 16 * 7, seed, skim=skim)
        reading = skimmed(LinkTree(links), made) if skim else hash_tree(LinkTree(links), made)
        values.append(reading.rows.mean())
        coverage.add(seed, abs(reading.value - exact) <= reading.half_width(0.95))
    error = np.std(values, ddof=1) / sqrt(len(values))
    assert abs(np.mean(values) - exact) <= 4 * error + 1e-9 * exact
    coverage.check(right=0.97)  # measured at 97% and more


@pytest.mark.calibration
@SHAPES
def test_atomic_sketches_are_the_median_of_mean_products_and_unbiased(links):
    data = relations(links, 40, 4, 4)
    exact = naive.exact_join(links, [counted(keys) for keys in data])
    values = []
    for seed in range(60):
        made = [
            (spec, Synopsis(spec).update(*keys).counters)
            for spec, keys in zip(specs(links, 7 * 40, seed, "agms"), data, strict=True)
        ]
        reading = est_join_size(made)
        assert reading.value == pytest.approx(naive.est_multi_join([s.rows(c) for s, c in made]))
        values.append(reading.rows.mean())
    # within 4 standard errors of the mean: a chance of 1e-4 to fail
    assert abs(np.mean(values) - exact) <= 4 * np.std(values, ddof=1) / sqrt(len(values))


def test_deleted_rows_leave_no_trace():
    data = relations(CHAIN, 50, 9, 5)
    extra = relations(CHAIN, 50, 9, 6)
    for spec, keys, more in zip(specs(CHAIN, 300, 1), data, extra, strict=True):
        there = Synopsis(spec).update(*keys).update(*more)
        assert there.update(*more, weights=-np.ones(50, dtype=np.int64)) == Synopsis(spec).update(*keys)


def test_sketches_of_other_shapes_are_refused():
    data = relations(CHAIN, 5, 5, 1)
    made = sides(CHAIN, data, 300, 1, skim=False)
    other = sides(CHAIN, data, 3000, 1, skim=False)
    with pytest.raises(IncompatibleSpecs, match="differ in shape"):
        hash_tree(LinkTree(CHAIN), [made[0], made[1], other[2]])


@pytest.mark.calibration
def test_guaranteed_sizes_are_those_of_the_theorem_and_hold():
    spec = AgmsSpec.guaranteed(0.5, 0.25, [100.0, 50.0, 80.0], 400.0, (1,))
    assert (spec.width, spec.depth) == (8 * 10 * 400_000 / 200**2, 4)
    data = relations(ONE_LINK[:2], 30, 3, 8)
    counts = [counted(keys) for keys in data]
    exact = naive.exact_join(ONE_LINK[:2], counts)
    squares = [float(sum(count**2 for count in each.values())) for each in counts]
    misses = 0
    for seed in range(40):
        spec = AgmsSpec.guaranteed(0.3, 0.1, squares, exact, (seed,))
        made = [(spec, Synopsis(spec).update(*keys).counters) for keys in data]
        misses += abs(est_join_size(made).value - exact) > 0.3 * exact
    assert misses <= 10  # 4 expected at most; more than 10 has a chance below 0.002
