"""A small workload with stream samples, and rows for it."""

import numpy as np
import pyarrow as pa

import eddyline as el

DDL = "k BIGINT, j BIGINT, x INT"
PAIRS = "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k"
CHAIN = "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j"
STREAMS = ("a", "b", "c")


def workload(queries, budget="64 KB", **settings):
    """A workload over the streams a, b and c."""
    made = el.Workload(budget=budget, **{"seed": 1, **settings})
    for name in STREAMS:
        made.stream(name, DDL)
    for name, text in queries.items():
        made.query(name, text)
    return made


def rows(seed, count, values):
    """Rows with keys in a given number of values, all alike."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "k": rng.integers(0, values, count),
            "j": rng.integers(0, values, count),
            "x": rng.integers(-9, 10, count).astype(np.int32),
        }
    )


def skewed(seed, count, values):
    """Rows whose keys have Zipf frequencies."""
    rng = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, values + 1)
    chances /= chances.sum()
    return pa.table(
        {
            "k": rng.choice(values, count, p=chances),
            "j": rng.choice(values, count, p=chances),
            "x": rng.integers(-9, 10, count).astype(np.int32),
        }
    )


def filled(plan, count, values, make=rows):
    """The state of a plan after one batch of each stream."""
    state = plan.empty()
    for seed, name in enumerate(STREAMS):
        state.update(name, make(seed, count, values))
    return state


def in_second_stage(state):
    """Whether every sample of a state has overflowed."""
    return all(sample.grouped for sample in state.snapshot.samples.values())
