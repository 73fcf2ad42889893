"""Blocks of counters: what is packed comes back, in the fewest bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.spark.tasks import pack_block, unpack_block

WORDS = st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200) | st.just(0)


@given(st.lists(WORDS, max_size=50), st.integers(0, 300))
def test_what_is_packed_comes_back(values, zeros):
    words = np.array([*values, *[0] * zeros], dtype=np.int64)
    assert np.array_equal(unpack_block(memoryview(pack_block(words))), words)


@pytest.mark.parametrize("limit", [2**7, 2**15, 2**31])
def test_the_ends_of_each_width_come_back(limit):
    for low, high in ((-limit, limit - 1), (-limit - 1, 0), (0, limit)):
        words = np.array([low, high, 5] * 40, dtype=np.int64)
        assert np.array_equal(unpack_block(pack_block(words)), words)


def test_positions_beyond_16_bits_come_back():
    words = np.zeros(70_000, dtype=np.int64)
    words[[0, 65_535, 65_536, 69_999]] = [1, -(2**40), 3, 4]
    assert np.array_equal(unpack_block(pack_block(words)), words)


def test_few_and_small_counters_take_few_bytes():
    words = np.zeros(8192, dtype=np.int64)
    words[::1000] = 1
    assert len(pack_block(words)) < 50
    words[:] = np.arange(8192) - 4096
    assert len(pack_block(words)) < 8192 * 2 + 50
