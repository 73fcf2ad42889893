"""The fuzzer of a store's life: random orders of run, stop, kill, restore, change plan, rebuild, upgrade, copies and moves.

Planning, opening, comparing and committing are the product's own code. Only Spark is played by a small engine that keeps
its checkpoint as Spark does, one batch for each file, and that can be killed after each step. The model is a list of
files: each holds rows of its own, so that an answer shows which files are counted, and how often.

python -m tests.fuzz.lifecycle [--minutes N] [--seed S] [--without NAME]
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as el
from eddyline.answer import query as origin
from eddyline.api import run as start
from eddyline.api.jobs import HowToRun, prepare_run
from eddyline.api.operations.rebuild import counted, prepare_rebuild, ready_epoch, swap
from eddyline.api.pipeline import load_pipeline
from eddyline.api.run import Run
from eddyline.api.workload import Workload
from eddyline.errors import EddylineError, PipelineError
from eddyline.ingest.arrow_path import project_table, read_table
from eddyline.ingest.stream_pass import StreamPass
from eddyline.plan.decide import planner, samples
from eddyline.sketch import codec
from eddyline.spark import checkpoint as checkpoints
from eddyline.spark.batch import Sketched
from eddyline.spark.checkpoint import Checkpoint, LocalFolder, plain_folder
from eddyline.spark.stream import StreamFeed, _Stopping
from eddyline.store import COMMIT_STEPS, Batch, Epoch, Options, Reader, Store, position, store, verify
from eddyline.store.layout import CURRENT, NEWEST, encode, encode_pointer

STREAMS = ("r", "s")
QUERIES = {
    "per_r": "SELECT f, SUM(w) AS c FROM r GROUP BY f",
    "per_s": "SELECT f, SUM(w) AS c FROM s GROUP BY f",
    "n": "SELECT COUNT(*) FROM r",
}
ADDED = {
    "total": "SELECT SUM(w) FROM r",
    "big": "SELECT f, COUNT(*) AS c FROM r WHERE w > 1 GROUP BY f",
    "pairs": "SELECT COUNT(*) FROM r JOIN s ON r.w = s.w",
    "a_text": "SELECT COUNT(DISTINCT t) FROM s",
    "a_texts": "SELECT COUNT(*) FROM r JOIN s ON r.t = s.t",
}
BUDGETS = ("32 KB", "48 KB", "64 KB")


class FaultError(AssertionError):
    """A store whose answer is not that of the rows that it was given."""


class Killed(BaseException):
    """The process was killed: nothing of ours may handle it."""


class Engine:
    """Spark's micro-batches over the files of a folder, as far as its checkpoint shows them."""

    def __init__(self, folder, where, step):
        self.folder, self.root, self.step = folder, Path(where), step

    def _write(self, name, *lines):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(("v1", *map(json.dumps, lines))))
        self.step(name.partition("/")[0])

    def _numbers(self, part):
        return sorted(int(path.name) for path in (self.root / part).glob("[0-9]*"))

    def _listed(self):
        entries = []
        for number in self._numbers("sources/0"):
            entries += map(json.loads, (self.root / f"sources/0/{number}").read_text().splitlines()[1:])
        return entries

    def _end(self, batch):
        if batch < 0:
            return -1
        return json.loads((self.root / f"offsets/{batch}").read_text().splitlines()[2])["logOffset"]

    def start(self):
        """Return the id of the query, which a new checkpoint gets."""
        if not (self.root / "metadata").exists():
            self.root.mkdir(parents=True, exist_ok=True)
            (self.root / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
            self.step("metadata")
        return json.loads((self.root / "metadata").read_text())["id"]

    def run(self, take):
        """Deliver the batch that was planned and not done, and then one for each new file."""
        planned, done = self._numbers("offsets"), self._numbers("commits")
        if planned and planned[-1] not in done:
            self._deliver(planned[-1], take)
        while True:
            entries, last = self._listed(), max(self._numbers("offsets"), default=-1)
            log = max((each["batchId"] for each in entries), default=-1)
            seen = {each["path"] for each in entries}
            new = sorted(p.as_uri() for p in self.folder.glob("*.parquet") if p.as_uri() not in seen)
            if new:
                log += 1
                self._write(f"sources/0/{log}", {"path": new[0], "timestamp": 0, "batchId": log})
            if log <= self._end(last):
                return
            content = "\n".join(
                ["v1", json.dumps({"batchTimestampMs": time.time_ns()}), f'{{"logOffset":{log}}}']
            )
            path = self.root / f"offsets/{last + 1}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            self.step("offsets")
            self._deliver(last + 1, take)

    def _deliver(self, batch, take):
        first, last = self._end(batch - 1) + 1, self._end(batch)
        files = [each["path"] for each in self._listed() if first <= each["batchId"] <= last]
        try:
            tables = [pq.read_table(file.removeprefix("file://")) for file in files]
        except FileNotFoundError as error:
            raise PipelineError(f"a file was moved: {error}") from error
        take(pa.concat_tables(tables), batch)
        self._write(f"commits/{batch}", {})


def sketched(_spark, snapshot, stream, table, *, skip_bad=False):
    """Return what a table adds, as `spark.batch.sketch_stream` returns it of a frame."""
    assert not skip_bad
    of = snapshot.layout.stream(stream)
    rows, counts = read_table(of, table, None)
    added = StreamPass(snapshot.stream_spec(stream), of.event_time)
    added.feed(project_table(of, rows, counts, added.projection, snapshot.layout.timezone))
    return Sketched(added, "by the fuzzer")


class Life:
    """A pipeline with its data, store and checkpoints, and the model of both."""

    def __init__(self, root, seed):
        self.root, self.random = Path(root), random.Random(seed)
        self.files = {stream: {} for stream in STREAMS}  # number -> rows, by stream
        self.data, self.number, self.moves = "data", 0, 0
        self.budget, self.queries = BUDGETS[1], dict(QUERIES)
        self.planned = dict(self.queries)
        self.is_tampered = (
            False  # a checkpoint was copied, lost or moved, or the store is of before a refresh
        )
        self.seen_by_rebuild = 0  # files that were there when the last rebuild read
        self.durable = set()  # files of checkpoints that a loss of power leaves
        self.log = []
        for stream in STREAMS:
            (self.root / self.data / stream).mkdir(parents=True)
            self.add(stream)

    @property
    def state(self):
        return str(self.root / "state")

    def pipeline(self):
        """Write the pipeline file and read it."""
        lines = [
            "[workload]",
            f'budget = "{self.budget}"',
            'store = "state"',
            "[run]",
            'checkpoint = "checkpoints"',
        ]
        for stream in STREAMS:
            lines += [f"[streams.{stream}]", 'schema = "f BIGINT, w BIGINT, t STRING"', 'format = "parquet"']
            lines += [f'path = "{self.data}/{stream}"', 'explore = ["f", "w"]']
        lines += ["[queries]", *(f'{name} = "{sql}"' for name, sql in self.queries.items())]
        path = self.root / "pipeline.toml"
        path.write_text("\n".join(lines))
        return load_pipeline(path)

    def add(self, stream=None):
        """Write a file."""
        stream = stream or self.random.choice(STREAMS)
        self.number += 1
        weights = [self.random.randint(1, 3) for _ in range(self.random.randint(1, 4))]
        self.files[stream][self.number] = weights
        table = pa.table({"f": [self.number] * len(weights), "w": weights, "t": [f"t{w}" for w in weights]})
        pq.write_table(table, self.root / self.data / stream / f"{self.number:04d}.parquet")

    def _flush(self, root):
        self.durable |= {path for path in Path(root).rglob("*") if path.is_file()}

    def lose_power(self):
        """Run until some step, and lose what was not written through to the disk."""
        self._flush(self.root / "checkpoints")
        self.run(kill=self.random.randint(1, 2 * len(COMMIT_STEPS)), power=False)

    def run(self, kill=0, power=True, stop=0, **how):
        """Run once, killed or asked to stop at some step if `kill` or `stop` says which; check what it left."""
        before = self.counted() if Store.exists(self.state) else None
        wanted = dict(self.queries)
        try:
            is_whole = self._run(kill, stop, HowToRun(once=True, **how))
        except Killed:
            self.log.append("killed")
            for path in (self.root / "checkpoints").rglob("*") if not power else ():
                if path.is_file() and path not in self.durable:
                    path.unlink()
            is_whole = False
        except EddylineError as error:
            self.log.append(f"refused: {str(error)[:90]}")
            self._check_refused(before, error, how)
            return
        if not is_whole:
            if self.planned != wanted and Store.exists(self.state):
                self._plan_of_store()
            self.check()
            return
        self.planned = wanted
        if how.get("full_refresh"):
            self.is_tampered = False
        self.check(complete=True)

    def _run(self, kill, stop, how):
        return self._take(prepare_run(self.pipeline(), how), _killer(kill), stop)

    def _take(self, prepared, kill_step, stop=0):
        """Let the streams of a run take what there is; return False if it was stopped before."""
        feeds, stops = [], iter(range(1, 10**9))

        def step(name):
            kill_step(name)
            if next(stops) == stop:
                for feed in feeds:
                    feed._stopping.set()

        where, settings = prepared.store, prepared.settings
        followed = start.checkpoint_locations(where, settings, STREAMS)
        opened = {name: Checkpoint(LocalFolder(Path(at)), at) for name, at in followed.items()}
        folders = {name: plain_folder(str(self.root / self.data / name)) for name in STREAMS}
        with patch.object(start, "Options", lambda **given: Options(fault=step, **given)):
            held = start.open_store(prepared.plan.layout, where, settings, opened, folders)
        run = Run(None, prepared.plan.layout, held, "fail", None)
        try:
            with (
                patch("eddyline.spark.batch.sketch_stream", sketched),
                patch.object(LocalFolder, "sync", lambda folder: self._flush(folder.where)),
            ):
                feeds += [StreamFeed(name, run.take_batch, opened[name]) for name in STREAMS]
                for feed in self.random.sample(feeds, 2):
                    name = feed.stream
                    engine = Engine(self.root / self.data / name, followed[name], step)
                    feed._query = SimpleNamespace(id=engine.start(), isActive=False, exception=lambda: None)
                    feed._folder = folders[name]
                    feed._named.set()
                    try:
                        engine.run(feed._batch)
                    except _Stopping:
                        self.log.append("stopped")
                        return False
            held.settle()
        finally:
            held.close()
        return True

    def rebuild(self, kill=0):
        """Read all files again into a second store and swap, killed at some step if `kill` says which."""
        if not Store.exists(self.state):
            return
        step, before = _killer(kill), Reader(self.state).latest().commit.rebuilt
        try:
            job = prepare_rebuild(self.pipeline())
            if not job.is_ready:
                goal, had = counted(self.state), job._read()
                self._clear(job)
                self._take(job.prepared, step)
                job.note_pass(goal, had, 0.0)
            epoch = ready_epoch(job.pipeline)
            with patch(
                "eddyline.api.operations.rebuild.Options", lambda **given: Options(fault=step, **given)
            ):
                swap(job.pipeline, epoch)
        except Killed:
            self.log.append("killed")
        except EddylineError as error:
            raise FaultError(f"a rebuild was refused: {error}") from error
        is_swapped = Reader(self.state).latest().commit.rebuilt > before
        if is_swapped:
            self.planned, self.is_tampered = dict(self.queries), False
        elif not kill:
            raise FaultError("a rebuild that was not killed did not swap")
        self.check(complete=is_swapped and self.number == self.seen_by_rebuild)

    def _clear(self, job):
        """Remove old checkpoints as the command does, with Spark."""
        with patch("eddyline.spark.checkpoint.open_checkpoint", _local_checkpoint):
            job.clear_checkpoints(None)
        self.seen_by_rebuild = self.number

    def _check_refused(self, before, error, how):
        if before is not None and self.counted() != before and "lost" not in str(error):
            # batches of one stream may have been taken before another stream was refused
            self.check()
        excused = self.is_tampered or self.planned != self.queries or how.get("adopt")
        if not excused:
            raise FaultError(f"a run was refused that should go on: {error}")
        self.check()

    def counted(self):
        """Return the rows of each file that the store counts, by stream; None where it does not say so exactly."""
        state = el.open(self.state)
        found = {}
        for stream in STREAMS:
            answer = state.answer(f"per_{stream}")
            if not answer.exact:
                raise FaultError(f"per_{stream} is not exact: {answer!r}")
            found[stream] = {row["f"]: row["c"] for row in answer}
        return found

    def check(self, *, complete=False):
        """Raise FaultError unless every file is counted once or not at all; complete: once."""
        if not Store.exists(self.state):
            return
        problems = [each for each in verify(self.state) if each.kind != "leftover"]
        if problems:
            raise FaultError(f"the store is damaged: {problems}")
        found = self.counted()
        for stream, counts in found.items():
            files = {number: sum(weights) for number, weights in self.files[stream].items()}
            wrong = {
                number: (count, files.get(number))
                for number, count in counts.items()
                if files.get(number) != count
            }
            if wrong:
                raise FaultError(f"files of {stream} are counted in part or twice: {wrong}")
            if complete and counts.keys() != files.keys():
                raise FaultError(f"files of {stream} are missing: {sorted(files.keys() - counts.keys())}")
        if complete:
            self._check_answers()

    def _check_answers(self):
        state = el.open(self.state)
        r, s = ([w for weights in self.files[name].values() for w in weights] for name in STREAMS)
        truth = {
            "n": len(r),
            "total": sum(r),
            "pairs": sum(r.count(w) * s.count(w) for w in (1, 2, 3)),
            "a_texts": sum(r.count(w) * s.count(w) for w in (1, 2, 3)),
            "a_text": len(set(s)),
        }
        for name in self.queries:
            answer = state.answer(name)
            if any("NULL in all" in note for note in answer.notes):
                raise FaultError(f"{name}: {answer.notes}")
            if not answer.exact:
                if "since epoch" not in answer.method:
                    raise FaultError(f"{name} is neither exact nor counted since an epoch: {answer!r}")
            elif name == "big":
                wanted = {f: sum(w > 1 for w in ws) for f, ws in self.files["r"].items() if max(ws) > 1}
                if {row["f"]: row["c"] for row in answer} != wanted:
                    raise FaultError(f"big: {answer!r} for {wanted}")
            elif name in truth and answer.value != truth[name]:
                raise FaultError(f"{name}: {answer!r} for {truth[name]}")

    def restore(self):
        """Go back to some epoch."""
        if not Store.exists(self.state):
            return
        kept = Reader(self.state).epochs()
        epoch = self.random.choice(kept)
        old = Reader(self.state).at(epoch).commit
        now = Reader(self.state).latest().commit
        if any(
            each.again or (name in old.sources and old.sources[name].query_id != each.query_id)
            for name, each in now.sources.items()
        ):
            self.is_tampered = True  # a refresh has removed the checkpoint that belongs to the epoch
        Store.restore(self.state, epoch)
        self._plan_of_store()
        self.check()

    def _plan_of_store(self):
        """Note by which plan the store was made: a plain run with another one is refused."""
        layout = el.open(self.state).snapshot.layout
        self.planned = {name: (QUERIES | ADDED)[name] for name in layout.query_names}
        if layout.budget != 1000 * int(self.budget.split()[0]):
            self.planned["budget"] = ""

    def change(self):
        """Add or remove a query, or change the budget, in the file."""
        name = self.random.choice([*ADDED, "budget"])
        if name == "budget":
            self.budget = self.random.choice(BUDGETS)
            self.planned = {**self.planned, "budget": ""}  # a plain run may be refused
        elif name in self.queries:
            del self.queries[name]
        else:
            self.queries[name] = ADDED[name]

    def change_and_go_on(self):
        """Change the file, let a run take the change, and run again."""
        self.change()
        self.run(change_plan=True)
        self.run()

    def change_budget(self):
        """Double the budget and halve it again: each takes effect without a row being read again."""
        for factor in (2, 0.5):
            self.budget = f"{int(factor * int(self.budget.split()[0]))} KB"
            self.planned = {**self.planned, "budget": ""}
            self.run(change_plan=True)

    def upgrade(self):
        """Turn the store into the files that the release before this one would have written."""
        if Store.exists(self.state):
            write_as_before(Path(self.state))
            self.check()

    def copy(self, back=False):
        here, there = self.root / "checkpoints", self.root / "copy"
        source, target = (there, here) if back else (here, there)
        if source.exists():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
            self.is_tampered = self.is_tampered or back

    def lose(self):
        names = self.random.choice([STREAMS, STREAMS[:1], STREAMS[1:]])
        for name in names:
            shutil.rmtree(self.root / "checkpoints" / name, ignore_errors=True)
        self.is_tampered = True

    def move(self):
        self.moves += 1
        (self.root / self.data).rename(self.root / f"data{self.moves}")
        self.data = f"data{self.moves}"
        self.is_tampered = True

    def choices(self):
        """Return the operations by their names, each with its weight and what does it."""
        return {
            "add": (4, self.add),
            "run": (4, self.run),
            "kill": (3, lambda: self.run(kill=self.random.randint(1, 2 * len(COMMIT_STEPS)))),
            "power loss": (2, self.lose_power),
            "stop": (2, lambda: self.run(stop=self.random.randint(1, 2 * len(COMMIT_STEPS)))),
            "restore": (2, self.restore),
            "change": (1, self.change),
            "change plan": (2, lambda: self.run(change_plan=True)),
            "change and go on": (2, self.change_and_go_on),
            "change budget": (1, self.change_budget),
            "upgrade": (1, self.upgrade),
            "adopt": (1, lambda: self.run(adopt=True)),
            "refresh": (1, lambda: self.run(full_refresh=tuple(QUERIES))),
            "killed refresh": (
                1,
                lambda: self.run(
                    kill=self.random.randint(1, 2 * len(COMMIT_STEPS)), full_refresh=tuple(QUERIES)
                ),
            ),
            "rebuild": (1, self.rebuild),
            "killed rebuild": (1, lambda: self.rebuild(kill=self.random.randint(1, 4 * len(COMMIT_STEPS)))),
            "copy": (1, self.copy),
            "copy back": (1, lambda: self.copy(back=True)),
            "lose": (0.5, self.lose),
            "move": (0.5, self.move),
        }

    def chosen(self, operations):
        """Return the names of random operations."""
        choices = self.choices()
        return self.random.choices(list(choices), [weight for weight, _ in choices.values()], k=operations)

    def live(self, operations):
        """Do some operations, and end."""
        for name in self.chosen(operations):
            self.do(name)
        self.end()

    def do(self, name):
        """Do the operation of this name."""
        self.log.append(name)
        self.choices()[name][1]()

    def end(self):
        """Run once more, right or refused, and then a full refresh, which counts everything."""
        self.log.append("end")
        self.run()
        self.run(full_refresh=tuple(QUERIES))
        if self.is_tampered:
            raise FaultError("a full refresh did not repair the store")


def write_as_before(root):
    """Write the files of a store as format 4 had them: no hashes of parents, no list of kept epochs, no digests of parts.

    Only a rebuild is kept, which format 4 did not know: its number names the checkpoints.
    """
    for path in root.glob("epoch-*.eddy"):
        epoch = Reader(str(root)).load(int(path.name[6:-5]))
        plan = msgspec.structs.replace(epoch.commit.plan, identity={})
        commit = msgspec.structs.replace(epoch.commit, plan=plan, parent_hash="", kept=())
        with patch.object(codec, "VERSION", 4):
            path.write_bytes(encode(Epoch(commit, epoch.sections)))
    pointer = Reader(str(root)).current()
    (root / CURRENT).write_bytes(encode_pointer(pointer))
    (root / NEWEST).unlink(missing_ok=True)


def _killer(kill):
    """Return a step that kills at its `kill`-th call, never for 0."""
    steps = iter(range(1, 10**9))

    def step(_name):
        if next(steps) == kill:
            raise Killed

    return step


def _local_checkpoint(_spark, at):
    return Checkpoint(LocalFolder(Path(at)), at)


def live(seed, operations=8):
    """Live one life; raise FaultError with what was done if it goes wrong."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as root:
        life = Life(root, seed)
        try:
            life.live(operations)
        except FaultError as fault:
            raise FaultError(f"seed {seed}: {' > '.join(life.log)}: {fault}") from fault
        return life.log


def _is_settled(*arguments, **how):
    """`Store.replace_plan` that commits what is emptied before anything is read again."""
    made = _REPLACE_PLAN(*arguments, **how)
    try:
        made.settle()
    except BaseException:
        made.close()
        raise
    return made


_REPLACE_PLAN = Store.replace_plan
_BLIND = [
    lambda: patch.object(start, "last_to_keep", lambda *_, **__: None),
    lambda: patch.object(start, "check_folder", lambda *_, **__: None),
    lambda: patch.object(StreamFeed, "_held", lambda *_: Batch()),
]
REVERTS = {
    "batches are known by their ids only": _BLIND,
    "nothing is compared at the start": _BLIND[:2],
    "a run after restore does not read again": [
        lambda: patch.object(checkpoints.Checkpoint, "rewind", lambda *_: None)
    ],
    "restore forgets streams without a batch": [lambda: patch.object(store, "_before_first", lambda *_: {})],
    "adopting counts files twice": [lambda: patch.object(position, "known_file", lambda *_: None)],
    "checkpoints are not synced": [lambda: patch.object(Life, "_flush", lambda *_: None)],
    "a refresh commits an empty epoch first": [
        lambda: patch.object(Store, "replace_plan", _is_settled),
    ],
    "a changed plan does not stick": [
        lambda: patch.object(Workload, "_is_asked_by", lambda *_: False),
        lambda: patch.object(samples, "_shares", _by_queries),
    ],
    "added queries are exact and empty": [
        lambda: patch.object(planner, "filled_queries", lambda *_: []),
        lambda: patch.object(origin, "_only_since", lambda answer, _: answer),
    ],
}
"""Faults of before, to be made again: a fuzzer that misses one of them is too coarse."""


def _by_queries(staying, budget, fresh, _held):
    """Share the budget out by the number of queries each time, as it was done before."""
    asked = fresh + sum(len(queries) for queries, _ in staying.values())
    return {name: budget * len(queries) // max(asked, 1) for name, (queries, _) in staying.items()}


@contextmanager
def reverted(name):
    """Make a fault of before again."""
    with ExitStack() as stack:
        for each in REVERTS[name]:
            stack.enter_context(each())
        yield


def main():
    """Live lives until the time is up; print each fault; exit 1 if there was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default a random one")
    parser.add_argument("--without", choices=REVERTS, help="leave a fix out, to see that its lack is found")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(10**9)
    end, lives, found = time.monotonic() + 60 * given.minutes, 0, 0
    with reverted(given.without) if given.without else nullcontext():
        while time.monotonic() < end:
            try:
                live(seed + lives)
            except FaultError as fault:
                found += 1
                print(f"FOUND {fault}", flush=True)
            lives += 1
    print(f"{lives} lives, {found} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
