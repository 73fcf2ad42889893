import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import CorruptState
from eddyline.sketch import distinct_compact, peeling_compact
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from tests.naive_sets import counters_of

CASES = [
    (distinct_compact, DistinctSpec(cells=64, levels=7, seed=4)),
    (peeling_compact, PeelingSpec(cells=48, levels=5, seed=4, sample_seed=4)),
]


@pytest.mark.parametrize(("form", "spec"), CASES)
@given(st.integers(0, 3000), st.integers(0, 2**32 - 1), st.sampled_from([(1, 2), (-3, 4), (-(2**40), 2**40)]))
@settings(max_examples=25, deadline=None)
def test_compact_bytes_come_back_bit_by_bit(form, spec, number, seed, weights):
    rng = np.random.default_rng(seed)
    counters = counters_of(spec, rng.integers(0, 2**62, number), weights=rng.integers(*weights, number))
    data = form.compact(spec, counters)
    assert np.array_equal(form.expand(spec, data), counters)


@pytest.mark.parametrize(("form", "spec"), CASES)
def test_damaged_bytes_are_refused(form, spec):
    data = form.compact(spec, counters_of(spec, np.arange(500)))
    for damaged in (data[:-1], data + b"\0", b"", b"\xff" * len(data)):
        with pytest.raises(CorruptState):
            form.expand(spec, damaged)


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
