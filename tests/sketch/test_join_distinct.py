import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import SketchError
from eddyline.sketch.join_distinct import JoinDistinctSpec
from tests.oracles.join_distinct import counters_of, net_tuples

SPEC = JoinDistinctSpec(cells=192, levels=3, seed=5)
KEYS = st.integers(-(2**63), 2**63 - 1)
WEIGHTS = st.integers(-1000, 1000).filter(bool)
UPDATES = st.lists(st.tuples(st.tuples(KEYS, KEYS), WEIGHTS), max_size=30)


@given(UPDATES, UPDATES, UPDATES)
@settings(max_examples=40, deadline=None)
def test_parts_equal_the_whole_and_deletes_leave_nothing(one, two, three):
    a, b, c = (counters_of(SPEC, own) for own in (one, two, three))
    assert np.array_equal(SPEC.add(a, b), counters_of(SPEC, one + two))
    assert np.array_equal(SPEC.add(a, b), SPEC.add(b, a))
    assert np.array_equal(SPEC.add(SPEC.add(a, b), c), SPEC.add(a, SPEC.add(b, c)))
    assert np.array_equal(SPEC.subtract(SPEC.add(a, b), b), a)
    assert not counters_of(SPEC, one + [(key, -weight) for key, weight in one]).any()


@given(UPDATES, UPDATES, st.lists(st.integers(1, SPEC.words - 1), max_size=8))
@settings(max_examples=40, deadline=None)
def test_chunks_of_any_size_combine_as_the_whole(one, two, cuts):
    a, b = counters_of(SPEC, one), counters_of(SPEC, two)
    pieces = list(itertools.pairwise(sorted({0, *cuts, SPEC.words})))
    for operation in (SPEC.add, SPEC.subtract):
        chunks = [operation(a[i:j], b[i:j], i) for i, j in pieces]
        assert np.array_equal(np.concatenate(chunks), operation(a, b))


@given(st.lists(st.tuples(st.tuples(KEYS, KEYS), st.integers(1, 1000)), max_size=30), st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_the_tables_hold_all_tuples_that_are_left(inserts, deleted):
    # a filter counts by join value: deletes of tuples that were never there could cancel others
    updates = inserts + [(key, -weight) for key, weight in inserts[:deleted]]
    counters, left = counters_of(SPEC, updates), net_tuples(updates)
    for sample in (SPEC.tuples_by_x(counters), SPEC.tuples_by_b(counters)):
        assert sample.complete.all()
        assert len(sample.x) == len(left)
        assert len(np.unique(sample.b)) == len({b for _, b in left})
        assert SPEC.filter_holds(counters, sample.b).all()
    assert len(SPEC.distinct_x(counters).keys) == len({x for x, _ in left})


def test_samples_hold_all_tuples_of_a_value_and_are_coordinated():
    rng = np.random.default_rng(3)
    one, two = (JoinDistinctSpec.sized(192, 2**20, 7, side) for side in (0, 1))
    samples = []
    for spec in (one, two):
        tuples = {(int(x), int(b)) for x, b in rng.integers(0, 400, (6000, 2))}
        counters = counters_of(spec, [(key, 1) for key in tuples])
        by_x, by_b = spec.tuples_by_x(counters), spec.tuples_by_b(counters)
        whole = sorted(np.unique([x for x, _ in tuples], return_counts=True)[1].tolist())
        assert 0 < by_x.rate < 1
        assert 0 < by_b.rate < 1
        for times in np.unique(by_x.x, return_counts=True)[1].tolist():
            assert times in whole
        samples.append(by_b)
    common = samples[0].complete & samples[1].complete
    found = [set(sample.b[common[sample.levels]].tolist()) for sample in samples]
    assert found[0] == found[1]  # every b of 400 occurs on both sides: fails with a chance of 400 exp(-15)


def test_the_samples_on_x_of_the_two_sides_are_independent():
    one, two = (JoinDistinctSpec.sized(192, 2**20, 7, side) for side in (0, 1))
    x = np.arange(4096, dtype=np.uint64)
    together = (one.by_x.level_of(x) == 0) & (two.by_x.level_of(x) == 0)
    assert abs(together.mean() - 0.25) < 5 * (0.25 * 0.75 / 4096) ** 0.5  # fails once in a million


def test_the_filter_knows_its_fill():
    counters = counters_of(SPEC, [((1, b), 1) for b in range(300)])
    others = np.arange(10**6, 10**6 + 4000, dtype=np.uint64)
    fill = SPEC.filter_fill(counters)
    assert abs(SPEC.filter_holds(counters, others).mean() - fill) < 5 * (fill / 4000) ** 0.5


def test_sizing():
    spec = JoinDistinctSpec.for_budget(1_500_000, 2**30, seed=5)
    assert (spec.cells, 8 * spec.words) == (1536, 1_294_336)
    assert JoinDistinctSpec.for_error(0.1, 2**30, 5, tuples=10**5, answer=10**6).cells >= 768
    small, large = (JoinDistinctSpec.for_error(error, 2**30, 5) for error in (0.2, 0.05))
    assert small.cells < large.cells
    with pytest.raises(SketchError, match="at least"):
        JoinDistinctSpec.for_budget(1000, 2**30, seed=5)
    with pytest.raises(SketchError):
        JoinDistinctSpec.for_error(0.0, 2**30, 5)
    for cells, levels, side in ((100, 3, 0), (192, 0, 0), (192, 3, 2), (96, 3, 0)):
        with pytest.raises(SketchError):
            JoinDistinctSpec(cells=cells, levels=levels, seed=1, side=side)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=JoinDistinctSpec) == spec
