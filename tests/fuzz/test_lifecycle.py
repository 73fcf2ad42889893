"""A short run of the fuzzer of a store's life; the long one is `python -m tests.fuzz.lifecycle --minutes 30`."""

import pytest

from tests.fuzz.lifecycle import REVERTS, FaultError, live, reverted


def lives(number):
    return [live(seed) for seed in range(number)]


def test_random_orders_count_each_file_once_or_say_what_to_do():
    assert lives(20)


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERTS)
def test_the_fuzzer_finds_what_was_wrong_before(name):
    with reverted(name), pytest.raises(FaultError):
        lives(60)
