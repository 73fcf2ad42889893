import numpy as np
import pytest
from figures.theta_b import ThetaBSpec

from eddyline.answer.distinct_joins.document import mapping_chance
from eddyline.errors import SketchError
from eddyline.sketch.jd_sketch import JdSketchSpec, composable_levels


@pytest.mark.calibration
def test_composable_hash_functions():
    # p_i = 2 * 4^-(i+1) over independent functions: 4,000 copies, five standard errors
    levels = np.array(
        [
            [composable_levels(seed, side, 0, np.array([77], dtype=np.uint64), 16)[0] for side in (0, 1)]
            for seed in range(4000)
        ]
    )
    least = np.where(levels[:, 0] != levels[:, 1], levels.min(axis=1), -1)
    for index in range(3):
        chance = mapping_chance(index)
        assert abs((least == index).mean() - chance) < 5 * (chance * (1 - chance) / 4000) ** 0.5


@pytest.mark.parametrize(
    "spec",
    [
        JdSketchSpec(2, 2, 4, 4, 1, key_bits=8),
        JdSketchSpec(2, 2, 4, 4, 1, key_bits=8, hash="poly4"),
        ThetaBSpec(16, 2, 4, 1),
    ],
)
def test_deletes_leave_nothing_and_parts_equal_the_whole(spec):
    rng = np.random.default_rng(6)
    keys, weights = rng.integers(0, 16, (2, 50)).astype(np.uint64), np.ones(50, dtype=np.int64)
    whole, part, rest = (np.zeros(spec.words, dtype=np.int64) for _ in range(3))
    spec.accumulate(whole, keys, weights)
    spec.accumulate(part, keys[:, :20], weights[:20])
    spec.accumulate(rest, keys[:, 20:], weights[20:])
    assert np.array_equal(spec.add(part, rest), whole)
    assert np.array_equal(spec.subtract(whole, rest), part)
    spec.accumulate(whole, keys, -weights)
    assert not whole.any()


def test_impossible_shapes_and_values_are_refused():
    with pytest.raises(SketchError):
        JdSketchSpec(0, 2, 4, 4, 1)
    with pytest.raises(SketchError):
        JdSketchSpec(2, 2, 4, 4, 1, side=2)
    spec = ThetaBSpec(16, 2, 4, 1)
    keys = np.array([[1], [16]], dtype=np.uint64)
    with pytest.raises(SketchError, match="below 16"):
        spec.accumulate(np.zeros(spec.words, dtype=np.int64), keys, np.ones(1, dtype=np.int64))
