"""Speed of the documents' own synopses: a pass over rows, at the sizes of figures/reproduce.py, on one core.

    python benchmarks/documents.py [--rows 1000000] [--repeat 3]

Prints seconds and rows per second of each pass, the best of some repeats: rows of a stream through `state.update`, as
the reproduced figures fill their states.
"""

import argparse
import os
from time import perf_counter, process_time

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa

import eddyline as el

PAIRS = "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.b = s.b"
BOTH = "SELECT COUNT(*) FROM (SELECT b FROM r INTERSECT SELECT b FROM s)"
TWO = "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b"
KINDS = {
    "JD sketches, SMALLINT": ("SMALLINT", "document", PAIRS, "64 MB", 1 << 20),
    "JD sketches, INT, max_distinct 2^16": ("INT", "document", PAIRS, "64 MB", 1 << 16),
    "2-level sketches, time-efficient, 256 of INT": (
        "INT",
        "document",
        BOTH,
        2 * (256 * 16 * 33 * 8 + 1000),
        1 << 20,
    ),
    "2-level sketches, 256 copies of INT": (
        "INT",
        "document-copies",
        BOTH,
        2 * (256 * 23 * 33 * 8 + 1000),
        1 << 20,
    ),
    "hash sketches, 2,000 words, SMALLINT": ("SMALLINT", "document", TWO, 32_000, 1 << 20),
    "hash sketches of 32 dyadic levels, INT": ("INT", "document", TWO, "1 MB", 1 << 20),
    "AGMS, 2,000 words": ("INT", "agms", TWO, 32_000, 1 << 20),
}
"""Type of the columns, method, query, budget and max_distinct of each line."""


def measured(kind: str, rows: int, repeat: int) -> tuple[float, float, int]:
    """Return the least seconds and CPU seconds of a pass over one stream, and the bytes of its state."""
    column, method, sql, budget, most = KINDS[kind]
    made = el.Workload(budget=budget, seed=1, samples=False, max_distinct=most)
    made.stream("r", f"a {column}, b {column}").stream("s", f"b {column}, c {column}")
    plan = made.query("q", sql, method=method).plan()
    rng = np.random.default_rng(1)
    width = np.int16 if column == "SMALLINT" else np.int32
    table = pa.table({name: rng.integers(0, 30_000, rows).astype(width) for name in "ab"})
    times, cpu = [], []
    for _ in range(repeat + 1):
        state = plan.empty()
        start, busy = perf_counter(), process_time()
        state.update("r", table)
        times.append(perf_counter() - start)
        cpu.append(process_time() - busy)
    return min(times[1:]), min(cpu[1:]), plan.nbytes


def main() -> None:
    """Print a line for each synopsis."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print("| synopsis | bytes of both streams | seconds | CPU seconds | rows/s of CPU |")
    print("| --- | --- | --- | --- | --- |")
    for kind in KINDS:
        seconds, cpu, nbytes = measured(kind, options.rows, options.repeat)
        print(f"| {kind} | {nbytes:,} | {seconds:.2f} | {cpu:.2f} | {options.rows / cpu:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
