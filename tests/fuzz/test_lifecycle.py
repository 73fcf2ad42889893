"""A short run of the fuzzer of a store's life; the long one is `python -m tests.fuzz.lifecycle --minutes 30`."""

import shutil
from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from unittest.mock import patch

import pytest

from eddyline.store import Reader
from tests.fuzz.lifecycle import REVERTS, FaultError, Life, live, pq, reverted, write_as_before
from tests.fuzz.pairs import COMMANDS, NO, OPERATIONS, YES, outcome, read_table

GOLDEN = Path(__file__).parents[1] / "store" / "golden"
RECOVER = Path(__file__).parents[2] / "docs" / "how-to" / "recover.md"
SEQUENCES = 3_000


def lives(number):
    return [live(seed) for seed in range(number)]


def test_random_orders_count_each_file_once_or_say_what_to_do():
    assert lives(20)


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERTS)
def test_the_fuzzer_finds_what_was_wrong_before(name):
    with reverted(name), pytest.raises(FaultError):
        lives(60)


def test_every_pair_of_operations_is_in_the_first_thousands_of_lives(tmp_path):
    found, names = Counter(), set()
    with patch.object(pq, "write_table"):
        for seed in range(SEQUENCES):
            order, does = Life(tmp_path / str(seed), seed).chosen(8)
            found.update(pairwise(order))
            names = set(does)
    missing = [(first, second) for first in names for second in names if (first, second) not in found]
    assert not missing
    assert len(found) == len(names) ** 2


def test_a_store_as_before_has_the_bytes_that_format_4_had(tmp_path):
    old, new = (GOLDEN / f"format-{number}" / "store" for number in (4, 5))
    for where in (old, new):
        store = shutil.copytree(where, tmp_path / where.parent.name)
        write_as_before(store)
        for file in where.iterdir():
            assert where is new or (store / file.name).read_bytes() == file.read_bytes()
    one, other = (Reader(tmp_path / f"format-{number}").latest() for number in (4, 5))
    assert one.sections == other.sections
    assert (other.commit.parent_hash, other.commit.kept, other.commit.plan.identity) == ("", (), {})


def documented():
    """Return the outcomes of all pairs as the docs have them."""
    lines = RECOVER.read_text().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| first, then |"))
    table = [line for line in lines[first : first + 2 + len(OPERATIONS)] if line.startswith("|")]
    return read_table("\n".join(table))


PAIRS = list(product(OPERATIONS, COMMANDS))


def test_the_docs_have_every_pair():
    assert list(documented()) == PAIRS
    assert set(documented().values()) == {YES, NO}


@pytest.mark.parametrize(("first", "second"), PAIRS[::11])
def test_some_pairs_do_what_the_docs_say(first, second):
    assert outcome(first, second) == documented()[first, second]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", OPERATIONS)
def test_all_pairs_do_what_the_docs_say(first):
    """Whatever the outcome, answers stay right, and a full refresh then counts everything."""
    assert {second: outcome(first, second) for second in COMMANDS} == {
        second: documented()[first, second] for second in COMMANDS
    }
