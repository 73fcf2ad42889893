"""Orders of run, restore, --adopt, --change-plan, --full-refresh, copied, lost and moved checkpoints.

Whatever the order, a run ends with the rows of all files, each once, or is refused and leaves the store as it was. The
oracle is the number of rows that were written. docs/how-to/recover.md has the table.
"""

import copy
import itertools
import os
import random
import re
import shutil
import signal
import time
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.api import run as start
from eddyline.cli import app
from eddyline.store import COMMIT_STEPS, Options, Reader, verify
from tests.fuzz.pairs import YES, documented
from tests.spark.kafka_job import Child

pytestmark = pytest.mark.spark
PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[run]
checkpoint = "checkpoints"
[streams.s]
schema = "k BIGINT, x BIGINT"
format = "parquet"
path = "data/s"
[queries]
n = "SELECT COUNT(*) FROM s"
"""
SECOND = """
[streams.t]
schema = "k BIGINT, x BIGINT"
format = "parquet"
path = "data/t"
"""
ADDED = 'total = "SELECT SUM(x) FROM s"\n'


class Project:
    """A pipeline file with its data, its store and its checkpoints, and how many rows were written."""

    def __init__(self, root, text=PIPELINE):
        self.root = root
        self.file = root / "pipeline.toml"
        self.file.write_text(text)
        self.rows = {"s": 0, "t": 0}
        self.written = 0

    def add(self, rows, stream="s", days=0.0):
        """Write a file, dated a number of days from now."""
        self.rows[stream] += rows
        self.written += 1
        folder = self.root / "data" / stream
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.written:03d}.parquet"
        pq.write_table(pa.table({"k": range(rows), "x": [1] * rows}), path)
        moment = time.time() + 86_400 * days
        os.utime(path, (moment, moment))

    def run(self, *options, code=0):
        """Run once, and return what was said."""
        said = invoke("run", self.file, "--once", *options)
        assert said.exit_code == code, said.output
        return " ".join(said.output.split())

    def copy(self, back=False):
        """Copy the checkpoints, or put the copy back."""
        here, there = self.root / "checkpoints", self.root / "copy"
        source, target = (there, here) if back else (here, there)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)

    def lose(self):
        shutil.rmtree(self.root / "checkpoints", ignore_errors=True)

    def restore(self, epoch):
        assert invoke("restore", self.root / "state", "--epoch", epoch).exit_code == 0

    @property
    def counted(self):
        answer = el.open(self.root / "state").answer("n")
        assert answer.low == answer.value == answer.high
        assert {problem.kind for problem in verify(self.root / "state")} <= {"leftover"}
        return answer.value

    def check(self):
        assert self.counted == self.rows["s"]


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def project(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    return Project(tmp_path)


def test_an_older_checkpoint_is_refused_and_an_epoch_of_it_goes_on(project):
    project.add(10)
    project.run()
    project.copy()
    project.add(100)
    project.run()
    project.copy(back=True)
    project.add(1000)
    for options in ((), ("--adopt",), ("--change-plan",)):
        assert "older than the store" in project.run(*options, code=1)
        assert project.counted == 110
    project.restore(1)
    project.run()
    project.check()
    project.copy(back=True)
    project.add(10_000)
    assert "older than the store" in project.run(code=1)
    project.run("--full-refresh", "n")
    project.check()


def test_an_older_checkpoint_that_went_on_elsewhere_holds_other_batches(project):
    project.add(10)
    project.run()
    project.copy()
    shutil.copytree(project.root / "state", project.root / "state-copy")
    project.add(100)
    project.run()
    project.lose()
    project.copy(back=True)
    text = project.file.read_text()
    project.file.write_text(text.replace('store = "state"', 'store = "state-copy"'))
    project.add(1000)
    project.run()  # batch 1 of the same query, planned again with two files
    project.file.write_text(text)
    assert "is not the one that the store holds" in project.run(code=1)
    project.add(10_000)
    assert "is not the one that the store holds" in project.run(code=1)
    assert project.counted == 110


def test_files_are_read_whatever_their_times(project):
    project.add(10)
    project.run()
    project.add(100, days=-8)
    project.run()
    project.check()
    project.add(1000, days=30)
    project.run()
    project.add(10_000)
    project.run()
    project.check()
    text = project.file.read_text()
    project.file.write_text(
        text.replace('path = "data/s"', 'path = "data/s"\noptions = { maxFileAge = "1d" }')
    )
    assert "silently skips" in project.run(code=1)


def test_a_restored_store_reads_again_what_came_since(project):
    for rows in (10, 100, 1000):
        project.add(rows)
        project.run()
    project.restore(2)
    assert project.counted == 110
    project.run()  # nothing is new
    project.check()
    project.restore(4)
    assert project.counted == 110
    project.add(10_000)
    project.run()
    project.check()


def test_a_restored_store_reads_an_idle_stream_again(project):
    text = PIPELINE.replace("[queries]\n", SECOND + "[queries]\n") + 'm = "SELECT COUNT(*) FROM t"\n'
    project.file.write_text(text)
    for stream in "st":
        project.add(10, stream)
    project.run()
    project.add(1000)
    project.run()
    project.restore(Reader(project.root / "state").current() - 1)
    assert project.counted == 10
    for _ in range(3):
        project.add(5, "t")
        project.run()
    project.check()
    assert el.open(project.root / "state").answer("m").value == project.rows["t"]


def test_restored_before_the_first_batch(project):
    project.add(10)
    project.run()
    project.restore(0)
    project.add(100)
    project.run()
    project.check()


def test_restored_before_a_full_refresh(project):
    for rows in (10, 100):
        project.add(rows)
        project.run()
    project.run("--full-refresh", "n")
    project.check()
    project.restore(2)
    project.add(1000)
    for options in ((), ("--adopt",), ("--change-plan",)):
        assert "does not hold" in project.run(*options, code=1)
        assert project.counted == 110
    project.run("--full-refresh", "n")
    project.check()


def test_a_lost_checkpoint_is_not_adopted_where_it_would_count_twice(project):
    for rows in (10, 100):
        project.add(rows)
        project.run()
    project.restore(1)
    project.lose()
    assert "was lost" in project.run(code=1)
    assert "whose rows the store holds" in project.run("--adopt", code=1)
    assert project.counted == 10
    shutil.rmtree(project.root / "data" / "s")
    project.rows["s"] = 10
    project.add(1000)
    project.run("--adopt")
    project.check()
    project.add(7)
    project.run()
    project.check()


def test_moved_files_are_not_taken_for_new_ones(project):
    project.add(10)
    project.run()
    (project.root / "data" / "s").rename(project.root / "data" / "moved")
    project.file.write_text(PIPELINE.replace("data/s", "data/moved"))
    assert "they are now read from" in project.run(code=1)
    assert "is that of other files" in project.run("--adopt", code=1)  # so says Spark
    project.lose()
    assert "whose rows the store holds" in project.run("--adopt", code=1)
    assert project.counted == 10
    project.run("--full-refresh", "n")
    project.check()


def test_a_full_refresh_keeps_the_answers_until_it_has_new_ones(project, spark, monkeypatch):
    project.file.write_text(PIPELINE.replace('"checkpoints"', f'"file://{project.root}/checkpoints"'))
    for rows in (10, 100):
        project.add(rows)
        project.run()

    def fail(*_):
        raise el.PipelineError("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr("eddyline.spark.checkpoint.Checkpoint.clear", fail)
        assert "stopped here" in project.run("--full-refresh", "n", code=1)
    assert project.counted == 110
    with monkeypatch.context() as patch:
        patch.setattr("eddyline.spark.stream.StreamFeed.start", fail)
        assert "stopped here" in project.run("--full-refresh", "n", code=1)
    assert project.counted == 110  # and the lock is free, the checkpoint gone
    project.add(1000)
    project.run()
    project.check()
    project.run()
    project.check()


def test_a_store_of_one_pass_keeps_its_answers_until_a_run_has_new_ones(project, monkeypatch):
    project.add(10)
    assert invoke("ask", project.file).exit_code == 0

    def fail(*_):
        raise el.PipelineError("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr("eddyline.spark.stream.StreamFeed.start", fail)
        assert "stopped here" in project.run(code=1)
    assert project.counted == 10
    project.add(100)
    project.run()
    project.check()


class Pairs(Project):
    """A project whose files have 1, 3, 9, ... rows: the count shows which of them are in, and how often."""

    def __init__(self, root):
        root.mkdir()
        super().__init__(
            root, PIPELINE.replace("[queries]", 'options = { maxFilesPerTrigger = "1" }\n[queries]')
        )
        for _ in range(2):
            self.add_next()
            self.run()
            if self.written == 1:
                self.copy()

    def add_next(self):
        self.add(3**self.written)

    def tried(self, *arguments):
        """Do a command; return whether it went through, and fail unless a refusal is ours, in a sentence."""
        done = invoke(*arguments)
        assert done.exit_code == 0 or is_refusal(done), done.output
        return done.exit_code == 0

    def tried_run(self, *options):
        """Run once, right or refused."""
        is_run = self.tried("run", self.file, "--once", *options)
        if is_run:
            self.check()
        return is_run

    def check_files(self):
        """Fail if a file is counted twice or in part."""
        counted = self.counted
        assert all(counted // 3**place % 3 < 2 for place in range(self.written + 1)), counted
        assert counted < 3**self.written

    def stop(self):
        """Ask the run to stop, by SIGTERM, in the first commit of two."""
        self.add_next()
        self.add_next()
        asked = []  # once: a second signal ends the process at once

        def fault(step):
            if step == COMMIT_STEPS[0] and not asked:
                asked.append(step)
                os.kill(os.getpid(), signal.SIGTERM)

        with patch.object(start, "Options", lambda **given: Options(fault=fault, **given)):
            return self.tried("run", self.file)

    def kill(self):
        """Kill a run, a process of its own with its JVM, with -9 in the commit of a batch."""
        self.add_next()
        code, shown = Child(self.file, "pointer-written", 1).wait()
        assert code in {-signal.SIGKILL, 1}, shown
        assert code != 1 or (REFUSAL.search(shown) and "Traceback" not in shown), shown
        return code != 1

    def change_plan(self):
        text = self.file.read_text()
        self.file.write_text(text.replace(ADDED, "") if ADDED in text else text + ADDED)
        return self.tried_run("--change-plan")

    def change_budget(self):
        """Double the budget and halve it again."""
        found = set()
        for before, after in (("64 KB", "128 KB"), ("128 KB", "64 KB")):
            self.file.write_text(self.file.read_text().replace(before, after))
            found.add(self.tried_run("--change-plan"))
        (is_run,) = found
        return is_run

    def rebuild(self):
        done = self.tried("rebuild", self.file)
        self.check()
        return done

    def restore_first(self):
        """Go back to the first epoch that has a batch."""
        reader = Reader(self.root / "state")
        self.restore(min(number for number in reader.epochs() if reader.at(number).commit.sources))
        return True

    def move(self):
        """Move everything to another folder."""
        there = self.root.with_name(f"{self.root.name}-moved")
        self.root.rename(there)
        self.root, self.file = there, there / self.file.name
        return True


REFUSAL = re.compile(r"^(WrongRun|PipelineError): \S", re.MULTILINE)


def is_refusal(done):
    """Return whether a command ended with one of our sentences, and not with an exception of another kind."""
    return (
        done.exit_code == 1
        and isinstance(done.exception, SystemExit)
        and REFUSAL.search(done.output) is not None
        and "Traceback" not in done.output
    )


COMMANDS = {
    "run": Pairs.tried_run,
    "stop": Pairs.stop,
    "kill": Pairs.kill,
    "change plan": Pairs.change_plan,
    "change budget": Pairs.change_budget,
    "adopt": lambda p: p.tried_run("--adopt"),
    "full refresh": lambda p: p.tried_run("--full-refresh", "n"),
    "rebuild": Pairs.rebuild,
    "restore": Pairs.restore_first,
    "move": Pairs.move,
}
OPERATIONS = COMMANDS | {
    "lose the checkpoints": Pairs.lose,
    "put back checkpoints": lambda p: p.copy(back=True),
}
"""As in tests/fuzz/pairs.py, here with Spark itself."""


def follow(project, second, *, is_new):
    """Do a second operation; return whether it went through, and hold what follows to the files."""
    if is_new:
        project.add_next()
    done = COMMANDS[second](project)
    project.check_files()
    if not project.tried_run():
        project.run("--full-refresh", "n")
        project.check()
    return done


@pytest.fixture
def pairs(tmp_path, project):
    return Pairs(tmp_path / "pairs")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("kill", "restore"),
        ("stop", "change budget"),
        ("restore", "change plan"),
        ("rebuild", "restore"),
        ("full refresh", "adopt"),
        ("move", "run"),
        ("lose the checkpoints", "adopt"),
        ("put back checkpoints", "rebuild"),
    ],
)
def test_some_pairs_of_operations(pairs, first, second):
    OPERATIONS[first](pairs)
    assert follow(pairs, second, is_new=True) == (documented()[first, second] == YES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", OPERATIONS)
def test_every_pair_of_operations(pairs, tmp_path_factory, first):
    """After any two of them a run is right or refused; then a full refresh is right. Outcomes are those of the docs."""
    OPERATIONS[first](pairs)
    saved, top, wanted = tmp_path_factory.mktemp("saved"), pairs.root.parent, documented()
    shutil.copytree(top, saved, dirs_exist_ok=True)
    for second, is_new in itertools.product(COMMANDS, (False, True)):
        shutil.rmtree(top)
        shutil.copytree(saved, top)  # to the same folder: checkpoints have the paths of files
        done = follow(copy.deepcopy(pairs), second, is_new=is_new)
        assert done == (wanted[first, second] == YES), (second, is_new)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(12))
def test_random_orders(pairs, seed):
    """As tests/fuzz/lifecycle.py does it in thousands, here with Spark itself."""
    chosen = random.Random(seed)
    for _ in range(8):
        name = chosen.choice([*OPERATIONS, "run", "add"])
        if name == "add":
            pairs.add_next()
        elif name != "move" or pairs.root.name == "pairs":
            OPERATIONS[name](pairs)
        pairs.check_files()
    if not pairs.tried_run():
        pairs.run("--full-refresh", "n")
    pairs.check()


RICH = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "k BIGINT, name STRING, price DOUBLE, x INT"
format = "{form}"
path = "data/s"
explore = ["name", "x"]
{options}
[queries]
n = "SELECT COUNT(*) FROM s"
per = "SELECT k, COUNT(*) AS c FROM s GROUP BY k"
"""
MORE = """
names = "SELECT name, COUNT(*) AS c, SUM(x) AS t FROM s WHERE x > 1 GROUP BY name"
value = "SELECT SUM(price) FROM s"
"""


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_changed_plan_sticks_and_its_queries_count_all_rows(project, spark, form):
    options = 'options = { header = "true" }' if form == "csv" else ""
    project.file.write_text(RICH.format(form=form, options=options))
    folder = project.root / "data" / "s"

    def add(number):
        columns = (
            "id % 7 AS k",
            "concat('n', id % 3) AS name",
            "id / 4 AS price",
            "CAST(id % 5 AS INT) AS x",
        )
        frame = spark.range(10 * number, 10 * number + 10, numPartitions=1).selectExpr(*columns)
        frame.write.format(form).option("header", "true").mode("append").save(str(folder))

    add(0)
    project.run()
    project.file.write_text(project.file.read_text() + MORE)
    assert "+ names" in project.run(code=1)
    project.run("--change-plan")
    for number in (1, 2):
        state = el.open(project.root / "state")
        rows = range(10 * number)
        wanted = {}
        for i in rows:
            if i % 5 > 1:
                count, total = wanted.get(f"n{i % 3}", (0, 0))
                wanted[f"n{i % 3}"] = (count + 1, total + i % 5)
        groups = state.answer("names")
        assert groups.exact
        assert {row["name"]: (row["c"], row["t"]) for row in groups} == wanted
        value = state.answer("value")
        assert not value.exact  # price is not held: it counts since the change
        assert "since epoch 1" in value.method
        notes = [note for query in ("n", "per", "names", "value") for note in state.answer(query).notes]
        assert not [note for note in notes if "NULL in all" in note], notes
        assert invoke("ask", project.file).exit_code == 0
        add(number)
        project.run()
