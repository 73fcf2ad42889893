import numpy as np
import pytest

from eddyline.answer.lookups import frequencies, frequent
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis
from tests.data.zipf import counters_of, heaviest, zipf

VALUES = zipf(1.1)
CANDIDATES = heaviest(VALUES, 500)


@pytest.mark.calibration
def test_intervals_of_point_frequencies_cover():
    # 10 sketches of 400 keys each, nominal 95%; neighbours share buckets, so the share varies by about 1%.
    keys, hits = np.arange(400, dtype=np.uint64), []
    for seed in range(10):
        spec = HashSketchSpec(256, 7, (seed,))
        found = frequencies(spec, counters_of(spec, VALUES), keys, CANDIDATES)
        hits.append(np.abs(found.values - VALUES[:400]) <= found.half_widths)
        assert np.median(found.half_widths) < 0.01 * VALUES.sum()
    assert 0.93 <= np.mean(hits) <= 0.995


def test_frequencies_keep_the_order_and_repetition_of_keys():
    spec = HashSketchSpec(256, 7, (1,))
    counters = counters_of(spec, VALUES)
    keys = np.array([9, 0, 9, 3], dtype=np.uint64)
    found = frequencies(spec, counters, keys, CANDIDATES)
    assert found.keys.tolist() == [9, 0, 9, 3]
    assert found.values[0] == found.values[2]
    assert found.values[1] == pytest.approx(VALUES[0], rel=0.02)


def test_the_top_keys_in_order():
    spec = HashSketchSpec(256, 7, (2,))
    found = frequent(spec, counters_of(spec, VALUES), CANDIDATES, top=5)
    assert found.keys.tolist() == [0, 1, 2, 3, 4]
    assert (np.diff(found.values) <= 0).all()


def test_keys_from_a_threshold_on():
    spec = HashSketchSpec(256, 7, (3,))
    counters = counters_of(spec, VALUES)
    found = frequent(spec, counters, CANDIDATES, threshold=5000.0)
    assert (found.values >= 5000).all()
    assert set(np.nonzero(VALUES > 6000)[0]) <= set(found.keys.tolist())
    standing = frequent(spec, counters, CANDIDATES)
    assert (standing.values > standing.half_widths).all()


def test_a_deleted_key_is_frequent_no_more():
    spec = HashSketchSpec(256, 7, (4,))
    before = Synopsis(spec, counters_of(spec, VALUES))
    after = before.update(np.zeros(1, dtype=np.int64), weights=-VALUES[:1])
    found = frequent(spec, after.counters, CANDIDATES, top=3)
    assert found.keys.tolist() == [1, 2, 3]
