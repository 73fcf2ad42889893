from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.answer.joins.document import (
    document_side,
    est_skim_join_size,
    est_sub_join_size,
    skim_dense_document,
    sub_joins,
)
from eddyline.answer.joins.tree import est_join_size
from eddyline.answer.joins.two_way import SketchedRelation
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis
from tests.data.zipf import counters_of, zipf
from tests.oracles import skimmed as naive
from tests.oracles.coverage import Coverage

SPEC = HashSketchSpec(width=32, depth=5, seeds=(3,))
DOMAIN = np.arange(300, dtype=np.uint64)
FREQUENCIES = st.lists(st.integers(0, 50), min_size=300, max_size=300).map(
    lambda values: np.array(values, dtype=np.int64) ** 2
)


@given(left=FREQUENCIES, right=FREQUENCIES)
@settings(max_examples=10, deadline=None)
def test_est_join_size_is_the_median_of_mean_products(left, right):
    spec = AgmsSpec(width=4, depth=5, seeds=(9,))
    keys = np.arange(300)
    one, two = Synopsis(spec).update(keys, weights=left), Synopsis(spec).update(keys, weights=right)
    reading = est_join_size([(spec, one.counters), (spec, two.counters)])
    rows = spec.rows(one.counters).tolist(), spec.rows(two.counters).tolist()
    assert reading.value == pytest.approx(naive.est_join_size(*rows))


@given(values=FREQUENCIES, multiple=st.sampled_from([0.1, 0.5, 1.0]))
@settings(max_examples=10, deadline=None)
def test_skim_dense_takes_off_what_the_document_takes_off(values, multiple):
    counters = counters_of(SPEC, values)
    sketch, keys, frequencies = skim_dense_document(SPEC, counters, DOMAIN, values.sum(), multiple)
    expected, dense = naive.skim_dense(SPEC, SPEC.rows(counters).tolist(), range(300), values.sum(), multiple)
    assert dict(zip(keys.tolist(), frequencies.tolist(), strict=True)) == dense
    np.testing.assert_allclose(sketch, expected)


def test_est_sub_join_size_is_the_median_of_its_rows():
    sketch = SPEC.rows(counters_of(SPEC, zipf(1.0, 1000, domain=300))).astype(float)
    dense = {5: 12.0, 17: 3.5, 250: 1.0}
    found = est_sub_join_size(
        SPEC, np.array(list(dense), dtype=np.uint64), np.array([*dense.values()]), sketch
    )
    assert found == pytest.approx(naive.est_sub_join_size(SPEC, dense, sketch.tolist()))


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("multiple", [0.2, 1.0])
def test_est_skim_join_size_is_the_sum_of_four_sub_joins(exponent, multiple):
    left, right = zipf(exponent, 5000, domain=300), zipf(exponent, 5000, shift=3, domain=300)
    one, two = counters_of(SPEC, left), counters_of(SPEC, right)
    reading = est_skim_join_size(
        SketchedRelation(SPEC, one, DOMAIN), SketchedRelation(SPEC, two, DOMAIN), (5000.0, 5000.0), multiple
    )
    rows = SPEC.rows(one).tolist(), SPEC.rows(two).tolist()
    expected = naive.est_skim_join_size(SPEC, *rows, range(300), (5000, 5000), multiple)
    assert reading.value == pytest.approx(expected)


def test_other_seeds_are_refused():
    other = HashSketchSpec(32, 5, (4,))
    zeros = np.zeros(SPEC.words, dtype=np.int64)
    with pytest.raises(IncompatibleSpecs):
        est_skim_join_size(SketchedRelation(SPEC, zeros), SketchedRelation(other, zeros))
    agms = AgmsSpec(4, 5, (1,)), AgmsSpec(4, 5, (2,))
    with pytest.raises(IncompatibleSpecs):
        est_join_size([(agms[0], zeros[:20]), (agms[1], zeros[:20])])


@pytest.mark.calibration
def test_intervals_of_the_documents_procedure_hold():
    # 98-100% of 60 seeds each in docs/reference/documents/settings.md
    keys, coverage = np.arange(1 << 12, dtype=np.uint64).reshape(1, -1), Coverage()
    for (exponent, shift), seed in product([(0.5, 50), (0.8, 300), (1.0, 50), (1.5, 0)], range(40)):
        left, right = (zipf(exponent, 100_000, shift=each, domain=1 << 12) for each in (0, shift))
        spec = DyadicSpec(12, 128, 7, seed, is_scanned=True)
        sides = []
        for values in (left, right):
            counters = np.zeros(spec.words, dtype=np.int64)
            spec.accumulate(counters, keys, values)
            sides.append(document_side(spec, counters))
        reading = sub_joins(sides[0][0], sides[1][0], (sides[0][1], sides[1][1])).reading
        inside = abs(reading.value - float(left @ right)) <= reading.half_width(0.95)
        coverage.add((exponent, seed), inside, f"Zipf {exponent}")
    coverage.check()
