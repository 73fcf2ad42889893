import numpy as np
import pytest

from eddyline.answer.joins.skimming import (
    LARGEST_SCAN,
    dense_in_range,
    places,
    point_estimates,
    refit_dense_keys,
    strongest,
    without_dense_keys,
)
from eddyline.errors import SketchError
from eddyline.kernels.skimming import noise_level
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis
from tests.data.zipf import DOMAIN, counters_of, heaviest, zipf
from tests.oracles import skimmed as naive

SPEC = HashSketchSpec(width=256, depth=7, seeds=(11,))
VALUES = zipf(1.1)
ROWS = SPEC.rows(counters_of(SPEC, VALUES)).astype(float)


def test_point_estimates_are_medians_over_rows():
    at = places(SPEC, np.arange(50, dtype=np.uint64))
    expected = [naive.point_estimate(SPEC, ROWS.tolist(), key) for key in range(50)]
    np.testing.assert_allclose(point_estimates(ROWS, at), expected)


@pytest.mark.parametrize("left_out", [-1, 0, 6])
def test_what_is_taken_off_and_what_is_left_add_up(left_out):
    at = places(SPEC, heaviest(VALUES, 300))
    everything = np.ones(300, dtype=np.bool_)
    started = without_dense_keys(ROWS, at, left_out)
    for skimmed in (started, refit_dense_keys(started, at, everything, everything, 0, left_out)):
        image = np.zeros_like(ROWS)
        for row in range(SPEC.depth):
            np.add.at(image[row], at.buckets[:, row], at.signs[:, row] * skimmed.dense)
        np.testing.assert_allclose(image + skimmed.residual, ROWS, atol=1e-6 * np.abs(ROWS).max())


def test_the_row_left_out_is_not_looked_at():
    at = places(SPEC, heaviest(VALUES, 300))
    everything = np.ones(300, dtype=np.bool_)
    changed = ROWS.copy()
    changed[4] = np.random.default_rng(0).normal(0, 1e6, SPEC.width)
    one, two = (
        refit_dense_keys(without_dense_keys(rows, at, 4), at, everything, everything, 0, 4).dense
        for rows in (ROWS, changed)
    )
    np.testing.assert_array_equal(one, two)


def test_dense_frequencies_are_close_to_the_true_ones():
    at = places(SPEC, heaviest(VALUES, 300))
    everything = np.ones(300, dtype=np.bool_)
    skimmed = refit_dense_keys(without_dense_keys(ROWS, at), at, everything, everything, 0)
    error = skimmed.dense - VALUES[at.keys.astype(np.int64)]
    # The standard error of each is one noise level; their root mean square stays below 1.3 of them.
    assert np.sqrt(np.mean(error**2)) < 1.3 * noise_level(skimmed.residual, -1)
    assert np.sqrt(np.mean(skimmed.residual**2)) < 0.1 * np.sqrt(np.mean(ROWS**2))


def test_shrinking_beats_keeping_all_or_nothing():
    at = places(SPEC, heaviest(VALUES, 1000))
    everything = np.ones(1000, dtype=np.bool_)
    truth = VALUES[at.keys.astype(np.int64)]
    started = without_dense_keys(ROWS, at)
    shrunk = refit_dense_keys(started, at, everything, everything, 0)
    kept = started.dense + point_estimates(started.residual, at)
    losses = [float(((dense - truth) ** 2).sum()) for dense in (shrunk.dense, started.dense, kept)]
    assert losses[0] < min(losses[1:])


def test_the_strongest_of_many_candidates_are_kept():
    rng = np.random.default_rng(1)
    junk = rng.integers(2**40, 2**60, 30_000).astype(np.uint64)
    at = strongest(places(SPEC, junk, heaviest(VALUES, 100)), ROWS)
    assert len(at.keys) == 12_000
    assert np.isin(heaviest(VALUES, 20), at.keys).all()


def test_a_scan_finds_what_stands_out():
    found = dense_in_range(SPEC, counters_of(SPEC, VALUES), 0, DOMAIN - 1)
    at = places(SPEC, found)
    noise = noise_level(without_dense_keys(ROWS, at).residual, -1)
    dense = np.nonzero(6 * noise <= VALUES)[0]
    assert len(dense) > 10
    assert np.isin(dense.astype(np.uint64), found).mean() >= 0.95
    assert len(found) < DOMAIN / 2


def test_a_scan_of_negative_keys():
    keys, values = np.arange(-5000, 5000), np.roll(zipf(1.5, domain=10_000), 3000)
    counters = np.zeros(SPEC.words, dtype=np.int64)
    SPEC.accumulate(counters, keys.reshape(1, -1).view(np.uint64), values)
    found = dense_in_range(SPEC, counters, -5000, 4999).view(np.int64)
    assert np.isin(np.arange(-2000, -1990), found).all()


def test_a_small_range_is_returned_whole():
    zeros = np.zeros(SPEC.words, dtype=np.int64)
    np.testing.assert_array_equal(dense_in_range(SPEC, zeros, -2, 3).view(np.int64), np.arange(-2, 4))
    assert len(dense_in_range(SPEC, zeros, 0, 99_999)) == 0


def test_too_wide_a_range_is_refused():
    with pytest.raises(SketchError, match="too wide to scan"):
        dense_in_range(SPEC, np.zeros(SPEC.words, dtype=np.int64), 0, LARGEST_SCAN)


def test_places_of_tuples_are_where_their_updates_go():
    spec = HashSketchSpec(8, 3, (1, 2))
    tuples = np.array([[5, 5, 1], [7, 7, 2]], dtype=np.uint64)
    at = places(spec, tuples)
    assert at.keys.tolist() == [[1, 5], [2, 7]]
    rows = spec.rows(Synopsis(spec).update(np.array([5]), np.array([7]), weights=np.array([9])).counters)
    for p in range(3):
        assert rows[p, at.buckets[1, p]] * at.signs[1, p] == 9
