"""How many files of the package take part in each call path: a plan, an update, a micro-batch and four answers.

    .venv/bin/python scripts/call_paths.py            # with --stream also a micro-batch, which starts Spark

The workload is a two-way join whose stream sample no longer holds everything. Counted are the files of the package
that run, the pairs of files of which one calls the other, and how many of these pairs go back to a file that came
earlier on the path. Files that only define a class or a constant do not count, and files that Spark tasks run in
other processes do not either. Each path is run once before it is traced, so that imports and compilation of kernels
are not on it; answers are then computed again, from a state of its own. `--files` lists the files.
"""

import sys
import tempfile
import threading
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import eddyline as el

ROOT = str(Path(el.__file__).parent)
GROUPED = "SELECT a.g, COUNT(*) AS n, SUM(b.x) AS x FROM a JOIN b ON a.k = b.k GROUP BY a.g"
AD_HOC = "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE a.g = 3 AND b.x > 5"
Calls = list[tuple[str, str]]


def traced(work: Callable[[], object], *, other_threads: bool = False) -> Calls:
    """Return the calls from one file of the package to another, in their order.

    other_threads: only those of threads that start meanwhile, as Spark's callbacks do.
    """
    found: Calls = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        callee = frame.f_code.co_filename
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        inside = callee.startswith(ROOT) and caller.startswith(ROOT)
        if event == "call" and inside and callee != caller:
            found.append((caller, callee))

    install = threading.setprofile if other_threads else sys.setprofile
    install(watch)
    try:
        work()
    finally:
        install(None)
    return found


def show(name: str, calls: Calls, *, files: bool) -> None:
    """Print the numbers of a path, and its files in the order in which they are first called."""
    order: dict[str, int] = {}
    for pair in calls:
        for file in pair:
            order.setdefault(file, len(order))
    pairs = set(calls)
    back = sum(order[callee] < order[caller] for caller, callee in pairs)
    print(f"| {name} | {len(order)} | {len(pairs)} | {back} |")
    if files:
        print("".join(f"    {file.removeprefix(ROOT + '/')}\n" for file in order), end="")


def workload() -> el.Workload:
    """Return a workload of two streams, a join with and without groups, and columns for ad hoc queries."""
    made = el.Workload(budget="64 KB", seed=1)
    for stream in "ab":
        made.stream(stream, "k BIGINT, g INT, x BIGINT")
        made.explore(stream, "g", "x")
    made.query("total", "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.x > 3")
    made.query("grouped", GROUPED)
    return made


def rows(seed: int) -> dict[str, np.ndarray]:
    """Return 60,000 rows, more than the budget holds."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 20_000, 60_000)
    return {"k": keys, "g": (keys % 7).astype(np.int32), "x": rng.integers(0, 9, 60_000)}


def filled() -> el.State:
    """Return a state that no longer holds everything."""
    state = workload().plan().empty()
    for seed, stream in enumerate("ab"):
        state.update(stream, rows(seed))
    return state


def micro_batch() -> Calls:
    """Return the calls of one micro-batch in the driver, from Spark's callback to the commit."""
    import pyarrow as pa  # noqa: PLC0415 - only for this path, as Spark
    import pyarrow.parquet as pq  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for seed, stream in enumerate("ab"):
            Path(folder, stream).mkdir()
            pq.write_table(pa.table(rows(seed)), f"{folder}/{stream}/rows.parquet")
        schema = "k BIGINT, g INT, x BIGINT"
        frames = {each: spark.readStream.schema(schema).parquet(f"{folder}/{each}") for each in "ab"}

        def run() -> None:
            started = workload().plan().start(spark, frames, store=f"{folder}/store", trigger="availableNow")
            started.await_termination()

        calls = traced(run, other_threads=True)
    spark.stop()
    return calls


def main() -> None:
    """Trace each path and print the table."""
    options = ArgumentParser()
    options.add_argument("--files", action="store_true", help="list the files of each path")
    options.add_argument("--stream", action="store_true", help="also trace a micro-batch, which starts Spark")
    given = options.parse_args()
    paths: dict[str, Callable[[el.State], object]] = {
        "`state.update()`": lambda state: state.update("a", rows(2)),
        "`state.answer()`": lambda state: state.answer("total"),
        "`state.answer()`, GROUP BY": lambda state: state.answer("grouped"),
        "`state.answer()`, ad hoc": lambda state: state.answer(AD_HOC),
        "`state.sql()`": lambda state: state.sql("SELECT MAX(n) AS most FROM grouped"),
    }
    print("| call path | files | pairs of caller and called | of them back |\n| --- | --- | --- | --- |")
    workload().plan()
    show("`w.plan()`", traced(lambda: workload().plan()), files=given.files)
    for path in paths.values():
        path(filled())
    for name, path in paths.items():
        state = filled()
        show(name, traced(lambda path=path, state=state: path(state)), files=given.files)  # type: ignore[misc]
    if given.stream:
        show("a micro-batch", micro_batch(), files=given.files)


if __name__ == "__main__":
    main()
