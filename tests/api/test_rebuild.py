"""A rebuild: a second store reads the sources again and replaces the state in one commit, or nothing changes.

The source is played by batches that are delivered to both stores; real Spark is in tests/spark/test_rebuild.py.
"""

import multiprocessing
import os
import signal
from threading import Timer

import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.api.jobs import HowToRun, prepare_run
from eddyline.api.operations.rebuild import READY, counted, prepare_rebuild, ready_epoch, swap
from eddyline.api.pipeline import load_pipeline
from eddyline.api.run import checkpoint_locations
from eddyline.cli import app
from eddyline.errors import Locked, PipelineError
from eddyline.store import COMMIT_STEPS, Options, Reader, Store, verify
from tests.api.test_change_plan import PAIRS, PIPELINE, Delivered

BATCHES = 4
LOW = "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k WHERE r.x < 0"
"""It reads an explored column, whose rows do not fit."""


class Project:
    """A pipeline whose store has a small budget, and rows that do not fit it."""

    def __init__(self, root):
        self.root, self.file = root, root / "pipeline.toml"
        self.write("8 KB")
        for name in "rs":
            (root / name).mkdir()
        self.old = Delivered(root / "state")
        for _ in range(BATCHES):
            self.old.deliver(
                self.pipeline.plan(keep=self.old.state if self.old.batch["r"] >= 0 else None), rows=400
            )

    @property
    def pipeline(self):
        return load_pipeline(self.file)

    def write(self, budget):
        self.file.write_text(PIPELINE.replace("64 KB", budget))

    def read_again(self, batches=BATCHES):
        """Return the rebuild after its second store took some batches."""
        job = prepare_rebuild(self.pipeline)
        goal, before = counted(job.store), job._read()
        new = Delivered(job.folder)
        for _ in range(batches):
            new.deliver(job.prepared.plan, rows=400, rebuilt=job.number)
        job.note_pass(goal, before, 0.0)
        return job


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_a_rebuilt_state_has_the_larger_budget_and_all_rows(project):
    before = project.old.state.answer(LOW)
    assert not before.exact
    project.write("1 MB")
    job = project.read_again()
    assert project.old.state.answer(LOW).numbers() == before.numbers()  # the old state answers meanwhile
    epoch = ready_epoch(project.pipeline)
    swap(project.pipeline, epoch)
    state = project.old.state
    assert [(state.answer(LOW).value,)] == project.old.exact(LOW)
    assert state.answer(LOW).exact
    assert job.is_done
    assert not (project.root / "state" / "rebuild-1").exists()
    assert verify(project.old.where) == []
    assert el.open(project.old.where, as_of=epoch.number).answer("n").exact  # the history stays
    prepared = prepare_run(project.pipeline, HowToRun(once=True))
    at = checkpoint_locations(prepared.store, prepared.settings, "rs")
    assert at["r"].endswith("/state/checkpoints/r@1")
    assert ready_epoch(project.pipeline) is None
    assert not Store.swap(project.old.where, epoch, "again")  # it happens once


def test_a_source_that_lost_rows_is_refused(project):
    job = prepare_rebuild(project.pipeline)
    new = Delivered(job.folder)
    for _ in range(BATCHES - 1):
        new.deliver(job.prepared.plan, rows=400, rebuilt=1)
    had, goal = job._read(), counted(job.store)
    assert not job.note_pass(goal, {}, 0.0)  # the next pass may bring more
    with pytest.raises(PipelineError, match="the source gave 1,200 rows, and the store counted 1,600"):
        job.note_pass(goal, had, 0.0)
    assert ready_epoch(project.pipeline) is None
    job.fewer_rows = True
    assert job.note_pass(counted(job.store), had, 0.0)
    assert ready_epoch(project.pipeline) is not None


def test_a_rebuild_for_another_file_is_not_swapped_in_and_begins_again(project):
    job = project.read_again()
    project.write("1 MB")
    assert ready_epoch(project.pipeline) is None
    assert job.is_ready
    again = prepare_rebuild(project.pipeline)
    assert not again.is_ready
    assert not Store.exists(again.folder)


def test_a_running_writer_keeps_the_lock(project):
    project.read_again()
    epoch = ready_epoch(project.pipeline)
    current = Reader(project.old.where).latest().commit
    with Store.open(project.old.where, current.plan, "run"), pytest.raises(Locked):
        swap(project.pipeline, epoch)
    assert Reader(project.old.where).latest().commit == current


def swap_and_die(where, folder, step):
    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    Store.swap(where, Reader(folder).latest(), "rebuild", options=Options(fault=kill))


@pytest.mark.parametrize("step", COMMIT_STEPS)
def test_a_swap_killed_at_a_step_leaves_the_old_state_or_the_new_one(project, step):
    project.write("1 MB")
    folder = project.read_again().folder
    epoch, old = ready_epoch(project.pipeline), Reader(project.old.where).latest()
    # Not os.fork: the threads of this process may hold locks that the child would wait for, or crash on.
    swapping = multiprocessing.get_context("forkserver").Process(
        target=swap_and_die, args=(project.old.where, folder, step)
    )
    swapping.start()
    swapping.join()
    assert swapping.exitcode == -signal.SIGKILL
    found = Reader(project.old.where).latest()
    if step in COMMIT_STEPS[: COMMIT_STEPS.index("pointer-named")]:
        assert (found.commit, found.sections) == (old.commit, old.sections)
    else:
        assert found.sections == epoch.sections
        assert (found.commit.sources, found.commit.rebuilt) == (epoch.commit.sources, 1)
    assert {problem.kind for problem in verify(project.old.where)} <= {"leftover"}
    if found.commit.rebuilt == 0:
        swap(project.pipeline, ready_epoch(project.pipeline))
    assert prepare_rebuild(project.pipeline).number == 2
    assert not (project.root / "state" / "rebuild-1" / READY).exists()
    assert [(project.old.state.answer("pairs").value,)] == project.old.exact(PAIRS)


def test_what_cannot_be_rebuilt_is_refused(project, tmp_path):
    text = project.file.read_text()
    project.file.write_text(text.replace('store = "state"', 'store = "none"'))
    with pytest.raises(PipelineError, match="no store to rebuild"):
        prepare_rebuild(project.pipeline)
    project.file.write_text(text.replace('format = "parquet"\npath = "r"', 'format = "rate"'))
    with pytest.raises(PipelineError, match="'rate' does not give its rows a second time"):
        prepare_rebuild(project.pipeline)
    project.file.write_text(text.replace('format = "parquet"\npath = "r"', 'format = "eddyline-postgres"'))
    with pytest.raises(PipelineError, match=r"replication slot away from the run\. .*--full-refresh QUERY"):
        prepare_rebuild(project.pipeline)


def test_the_command_swaps_what_is_ready_without_spark_and_waits_for_the_lock(project):
    """As after a kill between the last pass and the swap. A run that ends releases the lock."""
    project.write("1 MB")
    project.read_again()
    held = Store.open(project.old.where, Reader(project.old.where).latest().commit.plan, "run")
    Timer(2.0, held.close).start()
    done = CliRunner().invoke(app, ["rebuild", str(project.file)])
    assert done.exit_code == 0, done.output
    assert "now holds what its sources have" in done.output
    assert "starting Spark" not in done.output
    assert Reader(project.old.where).latest().commit.rebuilt == 1
    assert [(project.old.state.answer("pairs").value,)] == project.old.exact(PAIRS)


def test_the_command_shows_no_secret_of_the_store(project):
    project.write("1 MB")
    project.read_again()
    text = project.file.read_text()
    secret = f'store = "file://{project.root}/state?key=SECRET"'
    project.file.write_text(text.replace('store = "state"', secret))
    done = CliRunner().invoke(app, ["rebuild", str(project.file)])
    assert "SECRET" not in done.output
    assert "rebuilt: file:///" in done.output, done.output
