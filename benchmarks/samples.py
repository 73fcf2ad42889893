"""What stream samples cost: rows per second of an update, the time of a reduction, and of an answer.

    .venv/bin/python benchmarks/samples.py [--rows 4000000] [--sizes 8,64]

Three streams are joined in a chain and in pairs, on keys with Zipf frequencies 0.8. The same rows go into

    sketches only      Workload(samples=False), from the first row
    sample that fits   the first stage: exact dictionaries
    sample that is     an eighth of the bytes that the exact dictionaries take: the second stage, reductions included
    overfull

Prints rows per second, and those of sketches only, in one run and without Spark; then, for each size in MB of a state,
the time of a reduction by a tenth, and of the first and of a second answer to each query.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import eddyline as el
from eddyline.sample.reduction import bytes_of, shrink_to_fit

BATCH = 262_144
QUERIES = {
    "pairs": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "filtered": "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.x < 50",
    "chain": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j",
    "average": "SELECT AVG(a.x) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j WHERE c.x < 50",
}
Rows = dict[str, np.ndarray]


def plan(size: int, *, samples: bool = True) -> el.Plan:
    """Return the plan of all queries within a given number of bytes."""
    made = el.Workload(budget=size, samples=samples, seed=1)
    for name in "abc":
        made.stream(name, "k BIGINT, j BIGINT, x INT")
    for name, text in QUERIES.items():
        made.query(name, text)
    return made.plan()


def drawn(rows: int, values: int, seed: int) -> Rows:
    """Return rows whose keys have Zipf frequencies."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(np.arange(1, values + 1) ** -0.8)
    keys = (np.searchsorted(ends, rng.random(rows) * ends[-1]) for _ in range(2))
    k, j = (key.astype(np.int64) for key in keys)
    return {"k": k, "j": j, "x": rng.integers(0, 100, rows).astype(np.int32)}


def filled(made: el.Plan, streams: dict[str, Rows]) -> el.State:
    """Return the state of a plan after all rows, the streams taking turns by the batch."""
    state = made.empty()
    for start in range(0, len(streams["a"]["k"]), BATCH):
        for name, columns in streams.items():
            state.update(name, {column: each[start : start + BATCH] for column, each in columns.items()})
    return state


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speeds(rows: int) -> None:
    """Print the rows per second of updates."""
    streams = {name: drawn(rows // 3, rows // 10, seed) for seed, name in enumerate("abc")}
    exact = filled(plan(1 << 32), streams).nbytes
    plans = {
        "sketches only": plan(exact // 8, samples=False),
        "sample that fits": plan(2 * exact),
        "sample that is overfull": plan(exact // 8),
    }
    print(f"{rows:,} rows, {exact / 1e6:.1f} MB of exact dictionaries; medians of 3")
    measured = {
        name: statistics.median(seconds_of(lambda made=made: filled(made, streams)) for _ in range(3))
        for name, made in plans.items()
    }
    for name, seconds in measured.items():
        ratio = seconds / measured["sketches only"]
        print(
            f"{name:25s} {rows / seconds / 1e6:6.2f} million rows/s  {ratio:5.2f} x the time of sketches only"
        )


def state_of(size: int) -> el.State:
    """Return a state whose sample fills a given number of bytes, in the second stage."""
    made, state = plan(size), None
    for round_ in range(1000):
        streams = {name: drawn(BATCH, 1 << 22, 1000 * round_ + seed) for seed, name in enumerate("abc")}
        state = filled(made, streams) if state is None else state
        for name, columns in streams.items():
            state.update(name, columns)
        if all(sample.grouped for sample in state.snapshot.samples.values()):
            return state
    raise AssertionError("the sample never overflowed")


def latencies(megabytes: float) -> None:
    """Print the times of a reduction and of answers at a size of the state."""
    state = state_of(int(megabytes * 1e6))
    (sample,) = state.snapshot.samples.values()
    held = bytes_of([sample])
    took = statistics.median(seconds_of(lambda: shrink_to_fit([sample], held - 1)) for _ in range(3))
    print(f"{megabytes:g} MB: {held / 1e6:.1f} MB of sample; a reduction {took:.2f} s")
    for name in QUERIES:
        first, again = (seconds_of(lambda name=name: state.answer(name)) for _ in range(2))
        print(f"  {name:9s} answered in {first:.3f} s, again in {again:.3f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--sizes", default="8,64", help="of the state, in MB")
    arguments = parser.parse_args()
    filled(
        plan(1_000_000), {name: drawn(1000, 100, 0) for name in "abc"}
    ).explain()  # compiled before the clock runs
    speeds(arguments.rows)
    for megabytes in arguments.sizes.split(","):
        latencies(float(megabytes))


if __name__ == "__main__":
    main()
