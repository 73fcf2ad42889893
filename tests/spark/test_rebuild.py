"""`eddyline rebuild` with real Spark over files: next to a run, alone, and killed with -9 at random moments."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el
from eddyline.store import Reader, verify

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.processes]
PIPELINE = """
[workload]
budget = "{budget}"
seed = 3
store = "state"
[streams.r]
schema = "k BIGINT, x BIGINT"
format = "parquet"
path = "r"
options = {{ maxFilesPerTrigger = "1" }}
[queries]
n = "SELECT COUNT(*) FROM r"
pairs = "SELECT COUNT(*) FROM r a JOIN r b ON a.k = b.k"
"""


class Project:
    def __init__(self, root):
        self.root, self.keys = root, []
        (root / "r").mkdir()
        self.write("8 KB")

    def write(self, budget):
        (self.root / "pipeline.toml").write_text(PIPELINE.format(budget=budget))

    def add(self, rows=4000):
        keys = np.random.default_rng(len(self.keys)).integers(0, 20_000, rows)  # more than fit 8 KB
        self.keys.append(keys)
        name = self.root / "r" / f"{len(self.keys):03d}.parquet"
        pq.write_table(pa.table({"k": keys, "x": keys}), f"{name}.tmp")
        os.rename(f"{name}.tmp", name)  # noqa: PTH104

    def start(self, *arguments):
        command = [sys.executable, "-m", "eddyline.cli", *arguments]
        with (self.root / f"{arguments[0]}.log").open("ab") as out:
            return subprocess.Popen(command, cwd=self.root, stdout=out, stderr=out, start_new_session=True)

    def do(self, *arguments):
        assert self.start(*arguments).wait(400) == 0, (self.root / f"{arguments[0]}.log").read_text()

    @property
    def state(self):
        return el.open(self.root / "state")

    @property
    def rebuilt(self):
        return Reader(self.root / "state").latest().commit.rebuilt

    def pairs(self, files=None):
        _, counts = np.unique(np.concatenate(self.keys[:files]), return_counts=True)
        return int((counts**2).sum())

    def check(self):
        """Hold the state to NumPy: exact over all rows, in a store without problems."""
        answer = self.state.answer("pairs")
        assert answer.exact
        assert answer.value == self.pairs()
        assert {problem.kind for problem in verify(self.root / "state")} <= {"leftover"}


def until(condition, process, seconds=300):
    """Wait until something holds while a process lives."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the process ended"
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    for _ in range(3):
        made.add()
    made.do("run", "pipeline.toml", "--once")
    assert not made.state.answer("pairs").exact
    made.write("4 MB")
    return made


def test_a_rebuild_alone_swaps_and_a_run_goes_on(project):
    project.do("rebuild", "pipeline.toml")
    assert project.rebuilt == 1
    project.check()
    project.add()
    project.do("run", "pipeline.toml", "--once")
    project.check()


@pytest.mark.timeout(1200)
def test_a_run_swaps_the_rebuilt_state_in_and_goes_on(project):
    project.write("8 KB")  # a run of the old plan, which the file then leaves behind
    run = project.start("run", "pipeline.toml")
    try:
        project.add()
        until(lambda: project.state.answer("n").value == sum(map(len, project.keys)), run)
        project.write("4 MB")
        rebuild = project.start("rebuild", "pipeline.toml")
        project.add()
        assert rebuild.wait(400) == 0, (project.root / "rebuild.log").read_text()
        assert run.poll() is None
        assert project.rebuilt == 1
        project.add()
        until(lambda: project.state.answer("n").value == sum(map(len, project.keys)), run)
        project.check()
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) == 0
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(6))
def test_a_rebuild_that_is_killed_leaves_the_old_state_or_the_new_one(project, seed):
    """Killed at random moments, then continued; every state found is that of the old store or of the new one."""
    chosen = random.Random(seed)
    before, files = project.state.answer("pairs").numbers(), len(project.keys)
    for _ in range(2):
        rebuild = project.start("rebuild", "pipeline.toml")
        try:
            rebuild.wait(chosen.uniform(4, 30))
        except subprocess.TimeoutExpired:
            os.killpg(rebuild.pid, signal.SIGKILL)
            rebuild.wait()
        found = project.state.answer("pairs")
        if project.rebuilt == 0:
            assert found.numbers() == before
        else:
            assert found.value == project.pairs(files)
            break
        assert {problem.kind for problem in verify(project.root / "state")} <= {"leftover"}
    if project.rebuilt == 0:
        project.do("rebuild", "pipeline.toml")
    project.add()
    project.do("run", "pipeline.toml", "--once")
    project.check()
