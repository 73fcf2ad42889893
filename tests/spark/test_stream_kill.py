"""Drivers killed with -9 at the steps of a commit, workers killed in a task: counters as if nothing happened."""

import signal

import pytest

import eddyline as el
from eddyline.store import COMMIT_STEPS, Reader, Store, verify
from tests.spark.stream_job import expected, frames, plan, run_child, write_files

pytestmark = [pytest.mark.spark, pytest.mark.processes]


def killed_run(root, store, steps, **how):
    """Kill one driver after another, each in its first commit: the first one in the store's creation."""
    for step in steps:
        code, _, err = run_child(root, store, step, 1, **how)
        assert code == -signal.SIGKILL, err[-3000:]
        if Store.exists(store):
            assert {problem.kind for problem in verify(store)} <= {"leftover"}
            assert el.open(store).answer("rows_a").freshness.epoch == Reader(store).current()


def finish(spark, root, store, *, samples=False):
    """Take what is left and return how many batches came again."""
    streams = frames(spark, root, samples=samples)
    with plan(samples=samples).start(spark, streams, store=store, trigger="available now") as run:
        run.await_termination()
    return run.repeats


def compare(spark, root, store, files):
    """Hold the counters to the Arrow path's, and every section to an uninterrupted run's."""
    finish(spark, root, root / "other")
    found, other = Reader(store).latest(), Reader(root / "other").latest()
    assert el.open(store) == expected(files)
    assert found.sections == other.sections
    for stream in "ab":
        one, two = found.commit.sources[stream], other.commit.sources[stream]
        assert (one.rows, one.deletes, one.bad) == (two.rows, two.deletes, two.bad)
        assert one.rows == files * 200
    assert verify(store) == []


STEPS = ("collected", "epoch-half-written", "epoch-listed", "pointer-synced")
SOME = ("epoch-half-written", "pointer-synced")
"""Every driver takes a JVM of its own. tests/store/test_kill.py kills writers at all steps, without Spark."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_drivers_killed_in_commits(request, tmp_path):
    write_files(tmp_path, 2)
    killed_run(tmp_path, tmp_path / "state", STEPS)
    killed_run(tmp_path, tmp_path / "state", ("pointer-named",))
    spark = request.getfixturevalue("spark")
    assert finish(spark, tmp_path, tmp_path / "state") == 1
    compare(spark, tmp_path, tmp_path / "state", 2)


@pytest.mark.parametrize(
    "steps",
    [pytest.param(SOME, id="some steps"), pytest.param(STEPS, marks=pytest.mark.slow, id="all steps")],
)
def test_drivers_killed_in_commits_that_reduce_a_sample(request, tmp_path, steps):
    """Reductions are deterministic: the state after kills and replays is that of an uninterrupted run, bit by bit."""
    write_files(tmp_path, 4)
    killed_run(tmp_path, tmp_path / "state", steps, samples=True)
    spark = request.getfixturevalue("spark")
    finish(spark, tmp_path, tmp_path / "state", samples=True)
    finish(spark, tmp_path, tmp_path / "other", samples=True)
    found, other = Reader(tmp_path / "state").latest(), Reader(tmp_path / "other").latest()
    assert found.sections == other.sections
    state = el.open(tmp_path / "state")
    (sample,) = state.snapshot.samples.values()
    assert sample.grouped
    assert not sample.follows_all
    assert state.nbytes <= 1600


def test_a_python_worker_killed_in_a_task_and_a_task_that_fails(tmp_path):
    """With retries allowed, as on a cluster, the counters are as if nothing happened."""
    write_files(tmp_path, 2)
    code, _, err = run_child(
        tmp_path, tmp_path / "state", master="local[2,4]", break_tasks=tmp_path / "broken"
    )
    assert code == 0, err[-3000:]
    assert {file.name for file in (tmp_path / "broken").iterdir()} == {"killed", "failed"}
    assert el.open(tmp_path / "state") == expected(2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_drivers_killed_sixty_times_at_every_step(request, tmp_path):
    write_files(tmp_path, 8)
    killed_run(tmp_path, tmp_path / "state", COMMIT_STEPS * 5)
    spark = request.getfixturevalue("spark")
    assert finish(spark, tmp_path, tmp_path / "state") == 1
    compare(spark, tmp_path, tmp_path / "state", 8)
