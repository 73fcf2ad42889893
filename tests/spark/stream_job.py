"""A job over two streams of files, in a process of its own that may be killed at a step of a commit.

python -m tests.spark.stream_job ROOT STORE [STEP NTH]: runs until all files are taken, and says in its last line
how many batches came again; or is killed with -9 when its NTH commit reaches STEP. KEEP_SAMPLES=1 runs the plan with
stream samples.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as el

SCHEMA = "k BIGINT, s STRING, x INT, w BIGINT"
KEYS = 40


def plan(*, samples=False):
    """A small plan; with samples its budget is so small that the batches overflow it and are reduced."""
    budget = 1600 if samples else "128 KB"
    return (
        el.Workload(budget=budget, seed=5, max_distinct=1 << 10, samples=samples)
        .stream("a", "k BIGINT, s STRING, x INT", changes="w")
        .stream("b", "k BIGINT, s STRING, x INT", changes="w")
        .query("pairs", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k")
        .query("same", "SELECT SUM(a.x) FROM a JOIN b ON a.s = b.s AND a.k = b.k WHERE b.x > 10")
        .query("chain", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN a c ON b.s = c.s")
        .query("rows_a", "SELECT COUNT(*) FROM a")
        .query("kinds", "SELECT COUNT(DISTINCT s) FROM b")
        .plan()
    )


def table(stream, number, rows=200):
    rng = np.random.default_rng([number, ord(stream)])
    k = rng.integers(0, KEYS, rows)
    return pa.table(
        {
            "k": k,
            "s": [f"s{v % 13}" for v in k],
            "x": rng.integers(0, 50, rows).astype(np.int32),
            "w": rng.choice([1, 1, 1, -1], rows),
        }
    )


def write_files(root, files):
    """Write the files of both streams, their times in order, so that every run takes them in one order."""
    for stream in "ab":
        folder = pathlib.Path(root) / stream
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(files):
            path = folder / f"{number:03d}.parquet"
            pq.write_table(table(stream, number), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def expected(files):
    state = plan().empty()
    for stream in "ab":
        for number in range(files):
            state.update(stream, table(stream, number))
    return state


def frames(spark, root, *, samples=False):
    """Both streams; with samples the second is a batch frame, so that commits come in one order."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    streams = {stream: reader.parquet(f"{root}/{stream}") for stream in "ab"}
    return {**streams, "b": spark.read.parquet(f"{root}/b")} if samples else streams


def run_child(root, store, *kill, master="local[2]", break_tasks="", samples=False):
    """Run the job in a process group of its own, end what is left of it, and return (code, output, errors)."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.stream_job", root, store, master, *kill]
    child = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "BREAK_TASKS": str(break_tasks), "KEEP_SAMPLES": str(int(samples))},
    )  # fmt: skip
    try:
        out, err = child.communicate(timeout=400)
    finally:
        end_group(child.pid)
    return child.returncode, out, err


def breaking(frame, folder):
    """Return the frame, read through a task that dies once and fails once, after half of its rows."""

    def rows(batches):
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            for name in ("killed", "failed"):
                try:
                    (pathlib.Path(folder) / name).touch(exist_ok=False)
                except FileExistsError:
                    continue
                if name == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("this task fails")
            yield batch.slice(batch.num_rows // 2)

    pathlib.Path(folder).mkdir(exist_ok=True)
    return frame.mapInArrow(rows, frame.schema)


def end_group(group):
    """Kill the JVM that a killed driver left, and wait until it is gone."""
    for _ in range(200):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
        time.sleep(0.05)


def kill_at(step, nth):
    """Let this process be killed with -9 when its NTH commit reaches a step."""
    from eddyline.api import run as start

    reached, plain = 0, start.Options

    def fault(name):
        nonlocal reached
        if name == step:
            reached += 1
            if reached == int(nth):
                os.kill(os.getpid(), signal.SIGKILL)

    start.Options = lambda **given: plain(fault=fault, **given)


def _main(root, store, master, step="", nth="0"):
    from eddyline.spark.session import local_session

    kill_at(step, nth)
    spark = local_session(master)
    samples = os.environ.get("KEEP_SAMPLES") == "1"
    streams = frames(spark, root, samples=samples)
    if folder := os.environ.get("BREAK_TASKS"):
        streams["a"] = breaking(streams["a"], folder)
    run = plan(samples=samples).start(spark, streams, store=store, trigger="available now")
    run.await_termination()
    print(run.repeats, flush=True)  # noqa: T201
    os._exit(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
