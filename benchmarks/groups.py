"""How long a GROUP BY answer takes: 1,000 groups over a chain of three streams, on a state of 8 MB.

    .venv/bin/python benchmarks/groups.py [--rows 3000000]

Two shapes, both many-to-many: 50 groups of the first stream times 20 of the last, and 1,000 of the first. Groups have
nothing to do with keys, so that nearly every followed value stands in nearly every group: the worst that a query
can ask. Prints the seconds of the first answer and of a second one of the same epoch.
"""

import argparse
import time

import numpy as np
import pyarrow as pa

import eddyline as el

BATCH = 500_000
MEASURES = "COUNT(*) AS n, SUM(i.q) AS q, AVG(o.x) AS a FROM o JOIN i ON o.k = i.k JOIN s ON i.j = s.j"
SHAPES = {
    "50 x 20 groups of both ends": (50, f"SELECT o.g, s.h, {MEASURES} GROUP BY o.g, s.h"),
    "1,000 groups of one end": (1000, f"SELECT o.g, {MEASURES} GROUP BY o.g"),
}


def skewed(rng: np.random.Generator, rows: int, values: int) -> np.ndarray:
    """Return keys of which small ones are frequent."""
    return (values * rng.random(rows) ** 3).astype(np.int64)


def filled(text: str, groups: int, rows: int) -> el.State:
    """Return the state of one query after so many rows of the two large streams."""
    rng = np.random.default_rng(1)
    w = el.Workload(budget="8 MB", seed=1)
    w.stream("o", "k BIGINT, g BIGINT, x BIGINT").stream("i", "k BIGINT, j BIGINT, q BIGINT")
    state = w.stream("s", "j BIGINT, h BIGINT").query("q", text).plan().empty()
    for start in range(0, rows, BATCH):
        n = min(BATCH, rows - start)
        keys, few = skewed(rng, n, 400_000), max(n // 10, 1)
        state.update(
            "o", pa.table({"k": keys, "g": rng.integers(0, groups, n), "x": rng.integers(0, 100, n)})
        )
        keys = skewed(rng, n, 400_000)
        state.update("i", pa.table({"k": keys, "j": skewed(rng, n, 100_000), "q": rng.integers(0, 9, n)}))
        state.update("s", pa.table({"j": skewed(rng, few, 100_000), "h": rng.integers(0, 20, few)}))
    return state


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3_000_000)
    rows = parser.parse_args().rows
    for name, (groups, text) in SHAPES.items():
        state, seconds = filled(text, groups, rows), []
        for _ in range(2):
            started = time.perf_counter()
            found = state.answer("q")
            seconds.append(time.perf_counter() - started)
        print(f"{name:28} {len(found):,} groups, first {seconds[0]:.2f} s, again {1000 * seconds[1]:.2f} ms")


if __name__ == "__main__":
    main()
