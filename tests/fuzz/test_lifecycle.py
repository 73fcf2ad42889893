"""A short run of the fuzzer of a store's life; the long one is `python -m tests.fuzz.lifecycle --minutes 30`."""

import shutil
import tempfile
from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from eddyline.api.jobs import HowToRun, build_without_spark
from eddyline.api.operations.rebuild import prepare_rebuild
from eddyline.api.operations.sites import merge_stores
from eddyline.errors import CorruptState
from eddyline.store import Reader, Store
from tests.fuzz.lifecycle import QUERIES, REVERTS, FaultError, Life, live, pq, reverted, write_as_before
from tests.fuzz.pairs import COMMANDS, NO, OPERATIONS, YES, documented, outcomes

GOLDEN = Path(__file__).parents[1] / "store" / "golden"
SEQUENCES = 3_000


def lives(number, first=0):
    return [live(seed) for seed in range(first, first + number)]


@pytest.mark.parametrize("part", range(8))
def test_random_orders_count_each_file_once_or_say_what_to_do(part):
    assert lives(25, 25 * part)


@pytest.mark.parametrize("kill", range(10, 60, 10))
def test_a_rebuild_that_was_killed_begins_again_where_its_files_were_moved(tmp_path, kill):
    """It was refused, and a rebuild has no --full-refresh. Found as life 630."""
    life = Life(tmp_path, 0)
    life.run()
    life.rebuild(kill=kill)
    life.move()
    life.rebuild()
    life.run()


def test_a_store_of_which_nothing_can_be_read_is_removed_and_read_again(tmp_path):
    """As the message says. A rebuild or a full refresh over it is refused."""
    life = Life(tmp_path, 0)
    life.run()
    for epoch in Path(life.state).glob("epoch-*"):
        epoch.unlink()
    for try_again in (
        lambda: life._run(0, 0, HowToRun(once=True, full_refresh=tuple(QUERIES))),
        lambda: prepare_rebuild(life.pipeline()),
    ):
        with pytest.raises(CorruptState, match=r"remove the store's folder.*eddyline run.*--full-refresh"):
            try_again()
    shutil.rmtree(life.state)
    life.run(full_refresh=tuple(QUERIES))


def test_a_restored_store_stays_what_it_was(tmp_path):
    """A restored store of one pass was refused by a run, and a restored merge by the next merge."""
    life = Life(tmp_path, 0)
    pipeline = life.pipeline()
    build_without_spark(pipeline, pipeline.plan())
    merged = str(tmp_path / "merged")
    merge_stores([life.state], merged)
    Store.restore(merged, Reader(merged).current())
    assert merge_stores([life.state], merged).answer("n").exact
    life.add("r")
    Store.restore(life.state, 0)
    life.run()
    first = min(Reader(life.state).epochs())
    Store.restore(life.state, first)
    life.run()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(30))
def test_thousands_of_random_orders(part):
    size = SEQUENCES // 30
    assert lives(size, part * size)


class LifeMachine(RuleBasedStateMachine):
    """The same operations, drawn by hypothesis, which takes up to five minutes to shorten an order that fails."""

    @initialize(drawn=st.randoms(use_true_random=False))
    def begin(self, drawn):
        self.folder = tempfile.TemporaryDirectory()
        self.life = Life(self.folder.name, 0)
        self.life.random = drawn

    @rule(name=st.sampled_from(list(Life.choices(Mock()))))
    def do(self, name):
        self.life.do(name)

    def teardown(self):
        if hasattr(self, "life"):
            with self.folder:
                self.life.end()


def orders(number, **how):
    chosen = settings(max_examples=number, stateful_step_count=8, database=None, deadline=None, **how)
    run_state_machine_as_test(LifeMachine, settings=chosen)


def test_orders_that_hypothesis_draws():
    orders(20)


@pytest.mark.slow
def test_hypothesis_finds_what_was_wrong_before():
    with reverted("a run after restore does not read again"), pytest.raises(FaultError):
        orders(200, phases=[Phase.generate])


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERTS)
def test_the_fuzzer_finds_what_was_wrong_before(name):
    with reverted(name), pytest.raises(FaultError):
        lives(150)


def test_every_pair_of_operations_is_in_the_first_thousands_of_lives(tmp_path):
    found = Counter()
    with patch.object(pq, "write_table"):
        for seed in range(SEQUENCES):
            life = Life(tmp_path / str(seed), seed)
            found.update(pairwise(life.chosen(8)))
    assert set(found) == set(product(life.choices(), repeat=2))


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


PAIRS = list(product(OPERATIONS, COMMANDS))


def test_the_docs_have_every_pair():
    assert list(documented()) == PAIRS
    assert set(documented().values()) == {YES, NO}


@pytest.mark.parametrize("first", OPERATIONS)
def test_all_pairs_do_what_the_docs_say(first):
    """Whatever the outcome, answers stay right, and a full refresh then counts everything."""
    assert outcomes(first) == {second: documented()[first, second] for second in COMMANDS}
