import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import CorruptState
from eddyline.sketch import distinct_compact
from eddyline.sketch.distinct import DistinctSpec
from tests.naive_sets import counters_of

SPEC = DistinctSpec(cells=64, levels=7, seed=4)


@given(st.integers(0, 3000), st.integers(0, 2**32 - 1), st.sampled_from([(1, 2), (-3, 4), (-(2**40), 2**40)]))
@settings(max_examples=25, deadline=None)
def test_compact_bytes_come_back_bit_by_bit(number, seed, weights):
    rng = np.random.default_rng(seed)
    counters = counters_of(SPEC, rng.integers(0, 2**62, number), weights=rng.integers(*weights, number))
    data = distinct_compact.compact(SPEC, counters)
    assert np.array_equal(distinct_compact.expand(SPEC, data), counters)


def test_damaged_bytes_are_refused():
    data = distinct_compact.compact(SPEC, counters_of(SPEC, np.arange(500)))
    for damaged in (data[:-1], data + b"\0", b"", b"\xff" * len(data)):
        with pytest.raises(CorruptState):
            distinct_compact.expand(SPEC, damaged)


def test_nearly_empty_levels_cost_little():
    spec = DistinctSpec.sized(1024, 2**30, 1)
    full = 8 * spec.words
    sizes = [
        len(distinct_compact.compact(spec, counters_of(spec, np.arange(n)))) for n in (0, 10, 10**3, 10**6)
    ]
    assert sizes[0] < 200
    assert sizes[1] < 600
    assert sizes[2] < 0.1 * full
    assert sizes[3] < 0.45 * full
