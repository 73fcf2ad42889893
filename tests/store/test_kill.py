"""A writer killed with -9 at every step of a commit, and what the next one finds."""

import os
import random
import signal

import numpy as np
import pytest

from eddyline.store import COMMIT_STEPS, Reader, Store, verify
from eddyline.store.layout import CURRENT, LOCK, NEWEST, TEMPORARY, epoch_name
from tests.store.runs import (
    ARROW_STEPS,
    batch_counters,
    deliver,
    new_store,
    open_store,
    run_child,
    run_until_killed,
)

KILLED = (-signal.SIGKILL, "")
BEFORE_POINTER = COMMIT_STEPS[: COMMIT_STEPS.index("pointer-named")]


def run_with_kills(where, uninterrupted, steps):
    """Kill batch after batch, each at its step, and hold every state found to the uninterrupted run."""
    undisturbed = new_store(uninterrupted)
    for batch_id, step in enumerate(steps):
        assert run_child(where, batch_id + 1, kill=step) == KILLED
        old = undisturbed.current
        deliver(undisturbed, batch_id)
        found = Reader(where).latest()
        assert found == (old if step in BEFORE_POINTER else undisturbed.current), step
        assert {problem.kind for problem in verify(where)} <= {"leftover"}
        with open_store(where) as store:
            assert verify(where) == []
            assert deliver(store, batch_id) == (step in BEFORE_POINTER)
            assert store.current == undisturbed.current
    undisturbed.close()
    return undisturbed.current.number


def test_killed_sixty_times_at_every_step(tmp_path):
    where, other = tmp_path / "killed", tmp_path / "undisturbed"
    last = run_with_kills(where, other, COMMIT_STEPS * 5)
    expected = {CURRENT, LOCK, NEWEST, *(epoch_name(last - age) for age in range(3))}
    assert {file.name for file in where.iterdir()} == expected
    for name in expected - {LOCK}:
        assert (where / name).read_bytes() == (other / name).read_bytes()


def test_killed_at_every_step_in_an_object_store(tmp_path, s3):
    run_with_kills(s3, tmp_path, ARROW_STEPS)


@pytest.mark.parametrize("step", ["epoch-half-written", "epoch-listed", "pointer-synced", "collected"])
def test_killed_while_it_is_created(tmp_path, step):
    assert run_child(tmp_path, 0, kill=step) == KILLED
    assert Store.exists(tmp_path) == (step == "collected")
    assert run_child(tmp_path, 2) == (0, "")
    assert Reader(tmp_path).latest().number == 2
    assert not [file for file in tmp_path.iterdir() if file.name.endswith(TEMPORARY)]


def test_every_step_is_reached_in_order(anywhere, tmp_path):
    steps = []
    with new_store(anywhere, fault=steps.append) as store:
        steps.clear()
        deliver(store, 0)
    assert tuple(steps) == (COMMIT_STEPS if anywhere == tmp_path / "state" else ARROW_STEPS)


KILLS = int(os.environ.get("KILLS", "200"))
MANY_WORDS = 1 << 15
"""Counters of 256 KB, so that many kills fall into a write."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_two_hundred_times_at_random_moments(tmp_path):
    """Whatever the moment, the store holds a prefix of the batches, each once, with all that were confirmed."""
    chosen, counters, batches, kills = random.Random(5), np.zeros(MANY_WORDS, np.int64), 0, 0
    while kills < KILLS:
        confirmed = run_until_killed(tmp_path, chosen, MANY_WORDS)
        kills += confirmed >= 0
        if not Store.exists(tmp_path):
            assert confirmed <= 0
            continue
        assert {problem.kind for problem in verify(tmp_path)} <= {"leftover"}
        found = Reader(tmp_path).latest()
        position = found.commit.sources.get("orders")
        now = position.batch_id + 1 if position is not None else 0
        assert now >= max(confirmed, batches)
        for batch in range(batches, now):
            counters += batch_counters(batch, MANY_WORDS)
        batches = now
        if batches:
            assert found.sections["orders-key"] == counters.tobytes()
            assert position.rows == 10 * batches
    assert batches > KILLS // 4  # the runs came on
