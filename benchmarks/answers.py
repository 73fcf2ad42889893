"""How long a dashboard waits: the first answer to each query of an epoch, later ones, and asking a run's store.

    .venv/bin/python benchmarks/answers.py [--sizes 8,64] [--runs 5]

The states are those of benchmarks/samples.py, whose samples are overfull, and one with sketches only. "alone" is the
first answer of a state that was just read from bytes; "after" the first one after the queries above it; "again" is
an answer to the same query at the same epoch. Medians, after everything is compiled. Bytes are what the state keeps,
and what the process has grown by once all queries were answered.
"""

import argparse
import resource
import statistics
import time

from samples import BATCH, QUERIES, drawn, filled, plan, state_of

import eddyline as el

AGAIN = 200


def timed(state: el.State, name: str) -> float:
    """Return how long an answer takes, in seconds."""
    start = time.perf_counter()
    state.answer(name)
    return time.perf_counter() - start


def sketched(size: int) -> el.State:
    """Return a state of the same queries with sketches only."""
    return filled(
        plan(size, samples=False), {name: drawn(BATCH, 1 << 20, seed) for seed, name in enumerate("abc")}
    )


def latencies(title: str, state: el.State, runs: int) -> None:
    """Print the times of all queries of a state."""
    data = state.to_bytes()
    for name in QUERIES:
        state.answer(name)  # compiled before the clock runs
    alone, after, again = ({name: list[float]() for name in QUERIES} for _ in range(3))
    for _ in range(runs):
        state = el.State.from_bytes(data)
        for name in QUERIES:
            alone[name].append(timed(el.State.from_bytes(data), name))
            after[name].append(timed(state, name))
            again[name] += [timed(state, name) for _ in range(AGAIN)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{title}: {state.nbytes / 1e6:.1f} MB of state; the process held {peak:.0f} MB at most")
    for name in QUERIES:
        first, next_, later = (statistics.median(each[name]) for each in (alone, after, again))
        print(
            f"  {name:9s} alone {first * 1e3:7.1f} ms, after {next_ * 1e3:7.1f} ms, again {later * 1e3:.4f} ms"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="8,64", help="of the state, in MB")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for megabytes in map(float, arguments.sizes.split(",")):
        latencies(f"sample and sketches, {megabytes:g} MB", state_of(int(megabytes * 1e6)), arguments.runs)
        latencies(f"sketches only, {megabytes:g} MB", sketched(int(megabytes * 1e6)), arguments.runs)


if __name__ == "__main__":
    main()
