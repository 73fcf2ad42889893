"""A long continuous run with answers at the same time: memory of the driver, the JVM and the Python workers over time.

    .venv/bin/python benchmarks/soak.py [--minutes 20] [--rate 20000]

Two rate streams with deletes feed joins, distinct counts and a sliding window; another thread answers from the
store twice a second. Prints resident memory every half minute, and at the end how it grew in the second half.
The JVM's resident memory grows in steps up to its limit whatever the program does, so what its heap holds after a
collection is printed next to it: a leak would show there.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import eddyline as el
from eddyline.spark.session import local_session

SCHEMA = "k BIGINT, x INT, at TIMESTAMP"
KINDS = ("driver", "jvm", "workers", "heap")


def plan() -> el.Plan:
    """Return a workload of every kind of synopsis, windows among them."""
    workload = el.Workload(budget="2 MB", seed=1, samples=False)
    for name in ("a", "b"):
        workload.stream(name, SCHEMA, changes="w", event_time="at")
    workload.query("pairs", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k")
    workload.query("keys", "SELECT COUNT(DISTINCT k) FROM a")
    workload.query("net", "SELECT COUNT(*) FROM a")
    return workload.query("recent", "SELECT SUM(x) FROM b", window="2 minutes", slide="10 seconds").plan()


def resident(jvm: Any) -> dict[str, float]:
    """Return resident megabytes of this process, of the JVM below it and of the Python workers below that, and
    what the JVM's heap holds after a collection.
    """  # noqa: D205
    parents, sizes, names = {}, {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rpartition(")")
            number = int(path.name)
            parents[number] = int(stat[2].split()[1])
            sizes[number] = int((path / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
            names[number] = stat[0].partition("(")[2]
        except (FileNotFoundError, ProcessLookupError):
            continue
    me, total = os.getpid(), dict.fromkeys(KINDS, 0.0)
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    total["heap"] = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
    for number, size in sizes.items():
        above = number
        while above in parents and above != me:
            above = parents[above]
        if above == me:
            kind = "driver" if number == me else "jvm" if names[number] == "java" else "workers"
            total[kind] += size
    return total


def ask(store: Path, stop: threading.Event, asked: list[float]) -> None:
    """Answer every query from the store, as another process would, until it is stopped."""
    while not stop.wait(0.5):
        if (store / "CURRENT").exists():
            start = time.perf_counter()
            state = el.open(store)
            for name in ("pairs", "keys", "net", "recent"):
                state.answer(name)
            asked.append(time.perf_counter() - start)


def main() -> None:
    """Run, and print a line every half minute."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second of each stream")
    given = parser.parse_args()
    spark = local_session()
    jvm = spark.sparkContext._jvm.java.lang  # noqa: SLF001 - there is no other way to the JVM
    source = spark.readStream.format("rate").option("rowsPerSecond", given.rate)
    columns = ("value % 50021 AS k", "CAST(value % 100 AS INT) AS x", "timestamp AS at",
               "CASE WHEN value % 5 = 0 THEN -1 ELSE 1 END AS w")  # fmt: skip
    frames = {name: source.load().selectExpr(*columns) for name in ("a", "b")}
    stop, asked, samples = threading.Event(), [], []
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "state"
        reader = threading.Thread(target=ask, args=(store, stop, asked))
        with plan().start(spark, frames, store=store, trigger="1 second") as run:
            reader.start()
            end = time.monotonic() + 60 * given.minutes
            print(
                f"{'minute':>7} {'rows':>12} {'epoch':>7} "
                + " ".join(f"{kind + ' MB':>11}" for kind in KINDS)
            )
            while time.monotonic() < end and run.error() is None:
                time.sleep(min(30.0, max(end - time.monotonic(), 0.1)))
                memory, minute = resident(jvm), given.minutes - (end - time.monotonic()) / 60
                samples.append((minute, memory))
                fresh = run.freshness
                cells = " ".join(f"{memory[kind]:11.1f}" for kind in KINDS)
                print(f"{minute:7.1f} {fresh.rows:12,} {fresh.epoch:7,} {cells}", flush=True)
            stop.set()
            reader.join()
            if run.error() is not None:
                raise run.error()
        size = sum(file.stat().st_size for file in store.iterdir() if file.is_file())
    half = samples[len(samples) // 2 :]
    for kind in KINDS:
        grown = half[-1][1][kind] - half[0][1][kind]
        print(f"{kind}: {grown:+.1f} MB over the second half ({half[-1][0] - half[0][0]:.1f} minutes)")
    print(
        f"{len(asked):,} rounds of 4 answers, {1e3 * sum(asked) / len(asked):.0f} ms each; store {size:,} bytes"
    )
    spark.stop()


if __name__ == "__main__":
    main()
