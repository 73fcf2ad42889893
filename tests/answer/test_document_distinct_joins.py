from itertools import product

import numpy as np
import pytest
from figures.theta_b import ThetaBSpec, inverted_estimator, paired, theta_b_bitmaps

from eddyline.answer.distinct_joins.document import (
    compose,
    compose_by_witnesses,
    document_pairs_count,
    jd_bitmaps,
    jd_estimator,
    mapping_chance,
)
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.jd_sketch import JdSketchSpec, composable_levels
from tests.oracles.coverage import Coverage
from tests.oracles.join_distinct import answers


def counters_of(spec, x, b):
    out = np.zeros(spec.words, dtype=np.int64)
    keys = np.stack([np.asarray(x), np.asarray(b)]).astype(np.uint64)
    spec.accumulate(out, keys, np.ones(keys.shape[1], dtype=np.int64))
    return out


def parallel(kind, *shape, **more):
    return [kind(*shape, seed=3, side=side, **more) for side in (0, 1)]


def naive_bitmap(left, right, levels_a, levels_c, levels):
    """Y as a loop over joined pairs."""
    bitmap = np.zeros(levels, dtype=bool)
    for (a, b), (c, other) in product(zip(*left, strict=True), zip(*right, strict=True)):
        if b == other and levels_a[a] != levels_c[c]:
            bitmap[min(levels_a[a], levels_c[c])] = True
    return bitmap


SIDES = [tuple(np.random.default_rng(seed).integers(0, 12, (2, 15))) for seed in (1, 2)]


@pytest.mark.parametrize("kind", ["jd", "theta"])
def test_composed_bitmaps_are_those_of_the_joined_pairs(kind):
    # 12 values of b in 24 cells at each of 5 levels: a shared value is alone in one of them but once in 1e6
    if kind == "jd":
        one, two = parallel(JdSketchSpec, 6, 64, 8, 5, key_bits=8)
        bitmaps = jd_bitmaps(one, counters_of(one, *SIDES[0]), two, counters_of(two, *SIDES[1]), "witness")
    else:
        one, two = parallel(ThetaBSpec, 12, 6, 8)
        bitmaps = theta_b_bitmaps(one, counters_of(one, *SIDES[0]), two, counters_of(two, *SIDES[1]))
    domain = np.arange(12, dtype=np.uint64)
    for copy, bitmap in enumerate(bitmaps):
        a, c = (composable_levels(3, side, copy, domain, 8) for side in (0, 1))
        assert bitmap.tolist() == naive_bitmap(*SIDES, a, c, 8).tolist()


def test_the_documents_test_finds_what_is_large():
    one, two = parallel(JdSketchSpec, 1, 64, 4, 8, key_bits=12)
    b = np.arange(200)
    left, right = (counters_of(spec, np.arange(200), b) for spec in (one, two))
    literal = compose(left.reshape(one.shape)[0], right.reshape(two.shape)[0], "estimate")
    witness = compose(left.reshape(one.shape)[0], right.reshape(two.shape)[0], "witness")
    assert not (literal & ~witness).any()
    assert witness[0]


def test_the_estimator_is_the_scan_of_the_document():
    bitmaps = np.zeros((100, 6), dtype=bool)
    bitmaps[:, :3] = True
    bitmaps[:30, 3] = True
    bitmaps[:8, 4] = True
    assert jd_estimator(bitmaps, 0.1) == pytest.approx(0.08 / mapping_chance(4))
    assert jd_estimator(bitmaps, 0.3) == pytest.approx(0.08 / mapping_chance(4))
    assert jd_estimator(np.ones((100, 6), dtype=bool), 0.1) is None
    assert inverted_estimator(np.zeros((100, 6), dtype=bool)) == 0


def test_inversion_finds_the_number_of_pairs():
    # 500 bitmaps of 1,000 pairs with independent bits: an error of about 4%, checked at 25%
    rng = np.random.default_rng(4)
    chance = 1 - np.exp(-1000 * mapping_chance(np.arange(12)))
    assert inverted_estimator(rng.random((500, 12)) < chance) == pytest.approx(1000, rel=0.25)


@pytest.mark.parametrize("form", ["two-sided", "semi", "full"])
def test_all_forms_by_the_alternative(form):
    # sparse pairs; 256 copies of bitmaps: an error of about 12%, checked at 60%
    rng = np.random.default_rng(5)
    left, right = ((np.arange(300), rng.integers(0, 200, 300)) for _ in range(2))
    truth = answers(left, right)[form]
    (a, b), (c, d) = left, right
    if form == "semi":
        c, d = np.unique(d), np.unique(d)
    if form == "full":
        a, c = (
            paired(a.astype(np.uint64), b.astype(np.uint64)),
            paired(d.astype(np.uint64), c.astype(np.uint64)),
        )
    one, two = parallel(ThetaBSpec, 200, 256, 16)
    bitmaps = theta_b_bitmaps(one, counters_of(one, a, b), two, counters_of(two, c, d))
    assert inverted_estimator(bitmaps) == pytest.approx(truth, rel=0.6)


def test_sketches_that_are_not_parallel_are_refused():
    one, _ = parallel(ThetaBSpec, 12, 6, 8)
    empty = np.zeros(one.words, dtype=np.int64)
    with pytest.raises(IncompatibleSpecs, match="parallel"):
        theta_b_bitmaps(one, empty, one, empty)


@pytest.mark.parametrize("seed", range(3))
def test_all_buckets_at_once_are_composed_as_one_by_one(seed):
    one, two = parallel(JdSketchSpec, 3, 4, 6, 5, key_bits=8)
    rng = np.random.default_rng(seed)
    left, right = (
        counters_of(spec, *rng.integers(0, 40, (2, 60))).reshape(spec.shape) for spec in (one, two)
    )
    for own, other in zip(left, right, strict=True):
        assert compose_by_witnesses(own, other).tolist() == compose(own, other, "witness").tolist()


@pytest.mark.calibration
def test_intervals_of_the_documents_estimator_hold():
    # 90-100% of 40 seeds for five shapes in docs/reference/documents/settings.md
    coverage = Coverage()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        (a, b), (c, d) = ((rng.integers(0, 500, 800), rng.integers(0, 60, 800)) for _ in range(2))
        specs = [JdSketchSpec(16, 8, 14, 10, seed, side, key_bits=10) for side in (0, 1)]
        truths, left = answers((a, b), (c, d)), (specs[0], counters_of(specs[0], a, b))
        for form, other in (("semi", (np.unique(d), np.unique(d))), ("two-sided", (c, d))):
            right = specs[1], counters_of(specs[1], *other)
            reading, _ = document_pairs_count(left, right, 0.95, one_sided=form == "semi")
            coverage.add(seed, reading is None or reading.low <= truths[form] <= reading.high, form)
    coverage.check(right=0.9, wrong=0.71)
