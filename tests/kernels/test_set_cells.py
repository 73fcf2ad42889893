import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.kernels.distinct import LANE_PRIME
from eddyline.kernels.sets import MOST_COUNT, cell_patterns, small_inverses
from eddyline.sketch.distinct import DistinctSpec
from tests.oracles.sets import counters_of, pattern_of

ONE_CELL = DistinctSpec(cells=64, levels=1, seed=9)
LOOK_ALIKE = [  # keys that all fall into one cell
    key
    for key in range(2000)
    if np.flatnonzero(counters_of(ONE_CELL, [key])[:64])[0]
    == np.flatnonzero(counters_of(ONE_CELL, [0])[:64])[0]
]
CLASSES = st.lists(st.integers(1, 7), max_size=6)


def pattern(streams, resolvable):
    """The pattern of the one cell for streams given as {key: count}."""
    words = [counters_of(ONE_CELL, list(net), weights=list(net.values()))[:64] for net in streams]
    at = np.flatnonzero(counters_of(ONE_CELL, [LOOK_ALIKE[0]])[:64])
    read = [ONE_CELL.cells_of_words(own[at]) for own in words]
    out = np.empty(1, dtype=np.int64)
    cell_patterns(
        np.stack([own[at] for own in words], axis=1),
        np.stack([cells.kinds for cells in read], axis=1),
        np.stack([cells.fingerprints for cells in read], axis=1),
        resolvable,
        ONE_CELL.params,
        small_inverses(),
        out,
    )
    return int(out[0])


@given(CLASSES, st.integers(0, 7), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_patterns_say_which_elements_are_known(classes, resolvable, random):
    assert len(LOOK_ALIKE) > 6
    streams = [
        {
            key: random.randint(1, MOST_COUNT)
            for key, mask in zip(LOOK_ALIKE, classes, strict=False)
            if mask >> j & 1
        }
        for j in range(3)
    ]
    numbers = {mask: classes.count(mask) for mask in range(1, 8)}
    assert pattern(streams, resolvable) == pattern_of(numbers, 3, resolvable)


@pytest.mark.parametrize("count", [-1, MOST_COUNT + 1, 10**9])
def test_large_and_negative_counts_are_not_looked_for(count):
    first, second = LOOK_ALIKE[:2]
    assert pattern([{first: 1}, {first: count, second: 1}], 3) == 0b01_10


def test_inverses():
    inverses = small_inverses().astype(object)
    for c in range(1, MOST_COUNT + 1):
        assert c * int(inverses[c]) % LANE_PRIME == 1
