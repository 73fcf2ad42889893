import numpy as np
import pytest

from eddyline.answer.joins.skimming import dense_in_range, places, refit_dense_keys, without_dense_keys
from eddyline.answer.joins.two_way import SketchedRelation, _skim_without, _Stream, hash_join, skimmed_join
from eddyline.errors import IncompatibleSpecs
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis
from tests.data.zipf import DOMAIN, counters_of, heaviest, zipf
from tests.oracles import skimmed as naive
from tests.oracles.coverage import Coverage


def spec_of(seed, width=128, depth=7):
    return HashSketchSpec(width, depth, (seed,))


def sides(seed, left, right, count=300):
    spec = spec_of(seed)
    return (
        SketchedRelation(spec, counters_of(spec, left), heaviest(left, count)),
        SketchedRelation(spec, counters_of(spec, right), heaviest(right, count)),
    )


def plain(left, right):
    return hash_join(left.spec, left.counters, right.spec, right.counters)


def relative_errors(read, left, right, seeds):
    exact = float(left @ right)
    return np.array([abs(read(*sides(seed, left, right)).value - exact) / exact for seed in range(seeds)])


def test_hash_join_is_the_inner_product_of_rows():
    left, right = sides(1, zipf(1.0), zipf(1.0, shift=5))
    rows = (left.spec.rows(left.counters) * left.spec.rows(right.counters)).sum(axis=1)
    np.testing.assert_array_equal(plain(left, right).rows, rows)
    assert plain(left, right).value == np.median(rows)


def test_each_row_is_the_control_variate_of_what_the_other_rows_saw():
    left, right = sides(2, zipf(1.2), zipf(1.2, shift=20))
    at = places(left.spec, left.candidates, right.candidates)
    everything = np.ones(len(at.keys), dtype=np.bool_)
    for row, estimate in enumerate(skimmed_join(left, right).rows):
        dense = []
        for side in (left, right):
            started = without_dense_keys(side.spec.rows(side.counters).astype(float), at, row)
            own = np.isin(at.keys, side.candidates)
            refitted = refit_dense_keys(started, at, everything, own, 0, row)
            dense.append(dict(zip(at.keys.tolist(), refitted.dense.tolist(), strict=True)))
        counters = [side.spec.rows(side.counters).tolist() for side in (left, right)]
        expected = naive.left_out_estimate(left.spec, *counters, *dense, row)
        assert estimate == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scanned", [(True, True), (True, False), (False, True)])
def test_what_scanned_and_other_sides_lose_is_what_their_residuals_miss(scanned):
    left, right = sides(2, zipf(1.0), zipf(1.0, shift=200))
    spec = left.spec
    left, right = (
        SketchedRelation(spec, side.counters, dense_in_range(spec, side.counters, 0, DOMAIN - 1), DOMAIN)
        if scan
        else side
        for side, scan in zip((left, right), scanned, strict=True)
    )
    at = places(spec, left.candidates, right.candidates)
    streams = [_Stream.of(side, spec.rows(side.counters).astype(float), at) for side in (left, right)]
    for stream, skimmed in zip(streams, _skim_without(3, at, *streams), strict=True):
        image = np.zeros_like(stream.rows)
        for row in range(spec.depth):
            np.add.at(image[row], at.buckets[:, row], at.signs[:, row] * skimmed.dense)
        np.testing.assert_allclose(image + skimmed.residual, stream.rows, atol=1.0)


@pytest.mark.calibration
@pytest.mark.parametrize("shift", [0, 30])
@pytest.mark.parametrize("exponent", [0.8, 1.2, 1.5])
def test_skimming_beats_the_plain_sketch_on_skewed_streams(exponent, shift):
    # Over 20 seeds the mean errors differ by a factor of 2 to 50: the chance to fail is below 1e-4.
    left, right = zipf(exponent), zipf(exponent, shift=shift)
    skimmed = relative_errors(skimmed_join, left, right, 20).mean()
    assert skimmed < 0.75 * relative_errors(plain, left, right, 20).mean()


def test_skimming_never_loses_on_uniform_streams():
    # Nothing is dense, so the row estimates of both must nearly agree: no chance is involved.
    rng = np.random.default_rng(5)
    left, right = rng.poisson(30, DOMAIN).astype(np.int64), rng.poisson(30, DOMAIN).astype(np.int64)
    for seed in range(5):
        one, two = sides(seed, left, right, 1000)
        spread = plain(one, two).rows.std()
        assert np.abs(skimmed_join(one, two).rows - plain(one, two).rows).max() < 0.3 * spread


def test_no_candidates_is_the_plain_sketch():
    left, right = sides(3, zipf(1.0), zipf(1.0, shift=9), count=0)
    np.testing.assert_array_equal(skimmed_join(left, right).rows, plain(left, right).rows)


def test_one_row_is_the_plain_row():
    spec, values = spec_of(3, depth=1), zipf(1.0)
    side = SketchedRelation(spec, counters_of(spec, values), heaviest(values, 50))
    np.testing.assert_array_equal(skimmed_join(side, side).rows, plain(side, side).rows)


def test_the_order_and_repetition_of_candidates_do_not_matter():
    left, right = sides(4, zipf(1.0), zipf(1.0, shift=9))
    shuffled = np.random.default_rng(0).permutation(np.tile(left.candidates, 2))
    again = skimmed_join(SketchedRelation(left.spec, left.counters, shuffled), right)
    np.testing.assert_array_equal(again.rows, skimmed_join(left, right).rows)


def test_self_join_of_one_synopsis():
    # Relative error about 1%; 10% is ten standard errors.
    values = zipf(1.0)
    side, _ = sides(6, values, values)
    reading = skimmed_join(side, side)
    assert reading.value == pytest.approx(float(values @ values), rel=0.1)
    assert reading.dense > 5


def test_negative_frequencies_are_skimmed_by_their_size():
    # SUM of a measure that is negative for every other key; error below 1% against 30% for the plain sketch.
    values = zipf(1.2) * np.where(np.arange(DOMAIN) % 2, -1, 1)
    counts = zipf(1.2, seed=1)
    errors = relative_errors(skimmed_join, values, counts, 5)
    assert errors.mean() < 0.1 * relative_errors(plain, values, counts, 5).mean() + 0.02


def test_different_widths_meet_at_the_smaller():
    left, right = zipf(1.0), zipf(1.0, shift=9)
    wide, narrow = spec_of(7, width=512), spec_of(7, width=128)
    keys = heaviest(left, 300)
    mixed = skimmed_join(
        SketchedRelation(wide, counters_of(wide, left), keys),
        SketchedRelation(narrow, counters_of(narrow, right)),
    )
    same = skimmed_join(
        SketchedRelation(narrow, counters_of(narrow, left), keys),
        SketchedRelation(narrow, counters_of(narrow, right)),
    )
    np.testing.assert_array_equal(mixed.rows, same.rows)


@pytest.mark.parametrize("other", [spec_of(8), spec_of(7, depth=5), HashSketchSpec(128, 7, (7,), "poly4")])
def test_other_seeds_depths_and_families_are_refused(other):
    one = spec_of(7)
    counters = np.zeros(one.words, dtype=np.int64), np.zeros(other.words, dtype=np.int64)
    with pytest.raises(IncompatibleSpecs, match="cannot be joined"):
        hash_join(one, counters[0], other, counters[1])
    with pytest.raises(IncompatibleSpecs, match="cannot be joined"):
        skimmed_join(SketchedRelation(one, counters[0]), SketchedRelation(other, counters[1]))


def test_a_dense_value_that_is_deleted_again_leaves_no_trace():
    spec, values = spec_of(9), zipf(1.0)
    before = Synopsis(spec, counters_of(spec, values))
    dense = np.full(1, 77_777_777)
    during = before.update(dense, weights=np.array([300_000]))
    after = during.update(dense, weights=np.array([-300_000]))
    keys = np.append(heaviest(values, 300), np.uint64(77_777_777))
    readings = [
        skimmed_join(*[SketchedRelation(spec, s.counters, keys)] * 2) for s in (before, during, after)
    ]
    np.testing.assert_array_equal(readings[0].rows, readings[2].rows)
    assert readings[1].value == pytest.approx(300_000**2, rel=0.2)
    assert readings[2].value == pytest.approx(float(values @ values), rel=0.1)


def test_empty_streams_join_to_nothing():
    spec = spec_of(1)
    side = SketchedRelation(spec, np.zeros(spec.words, dtype=np.int64), np.arange(10, dtype=np.uint64))
    reading = skimmed_join(side, side)
    assert (reading.value, reading.half_width(0.95), reading.dense) == (0.0, 0.0, 0)


@pytest.mark.parametrize("exponent", [0.8, 1.2])
def test_a_scan_of_the_domain_serves_as_candidates(exponent):
    # Mean error over 10 seeds about 2% and 0.3%; the plain sketch has 8% and 5%.
    left, right = zipf(exponent), zipf(exponent, shift=10)
    exact, errors = float(left @ right), []
    for seed in range(10):
        one, two = (
            SketchedRelation(
                side.spec, side.counters, dense_in_range(side.spec, side.counters, 0, DOMAIN - 1), DOMAIN
            )
            for side in sides(seed, left, right)
        )
        errors.append(abs(skimmed_join(one, two).value - exact) / exact)
    assert np.mean(errors) < 0.75 * relative_errors(plain, left, right, 10).mean()


@pytest.mark.calibration
def test_intervals_cover():
    coverage = Coverage()
    for exponent, shift in [(0.8, 10), (1.0, 0), (1.5, 30)]:
        left, right = zipf(exponent), zipf(exponent, shift=shift)
        for seed in range(30):
            reading = skimmed_join(*sides(seed, left, right))
            inside = abs(reading.value - float(left @ right)) <= reading.half_width(0.95)
            coverage.add((exponent, seed), inside, f"Zipf {exponent}")
    coverage.check(right=0.97)  # in truth about 98%
