"""Speed of the documents' own synopses: a pass over rows, at the sizes of figures/reproduce.py, on one core.

    python benchmarks/documents.py [--rows 1000000] [--repeat 3] [--kernels]

Prints seconds and rows per second of each pass, the best of some repeats: rows of a stream through `state.update`, as
the reproduced figures fill their states. With --kernels, the CPU time of a row in `accumulate` alone, by hash family;
this also runs on trees in which these synopses were in the package `papers`, to compare with them:

    git archive 81abb70 src | tar -x -C /tmp/earlier
    PYTHONPATH=/tmp/earlier/src python benchmarks/documents.py --kernels --rows 100000
"""

import argparse
import os
from collections.abc import Iterator
from time import perf_counter, process_time

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

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


def kernel_lines(rows: int, repeat: int) -> Iterator[str]:
    """Yield the CPU time of a row in each synopsis, by hash family."""
    try:
        from eddyline.sketch.jd_sketch import JdSketchSpec  # noqa: PLC0415 - of this tree, or of an earlier one
        from eddyline.sketch.two_level import TwoLevelSpec  # noqa: PLC0415
    except ImportError:
        from eddyline.papers.jd_sketch import JdSketchSpec  # type: ignore[no-redef] # noqa: PLC0415
        from eddyline.papers.two_level import TwoLevelSpec  # type: ignore[no-redef] # noqa: PLC0415
    specs = {
        "JD sketches, 60 copies of 8, SMALLINT": JdSketchSpec(60, 8, 22, 22, 1, 0, 16),
        "JD sketches, 20 copies of 8, INT": JdSketchSpec(20, 8, 18, 18, 1, 0, 32),
        "2-level sketches, time-efficient, 256 of INT": TwoLevelSpec(256, 16, 1, 32, True),
        "2-level sketches, 256 copies of INT": TwoLevelSpec(256, 23, 1, 32, False),
    }
    rng = np.random.default_rng(1)
    columns = rng.integers(0, 30_000, (2, rows)).astype(np.uint64)
    for name, spec in specs.items():
        for family in ("mix", "poly4") if "hash" in spec.__struct_fields__ else ("mix",):
            made = replace(spec, hash=family) if family != "mix" else spec
            counters, keys = np.zeros(made.words, dtype=np.int64), columns[: made.edges]
            taken = []
            for _ in range(repeat + 1):
                busy = process_time()
                made.accumulate(counters, keys, np.ones(rows, dtype=np.int64))
                taken.append(process_time() - busy)
            yield f"| {name} | {family} | {min(taken[1:]) / rows * 1e6:.3g} |"


def main() -> None:
    """Print a line for each synopsis."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kernels", action="store_true", help="accumulate alone, also of earlier trees")
    options = parser.parse_args()
    if options.kernels:
        print("| synopsis | hash | CPU microseconds a row |")
        print("| --- | --- | --- |")
        for line in kernel_lines(options.rows, options.repeat):
            print(line, flush=True)
        return
    print("| synopsis | bytes of both streams | seconds | CPU seconds | rows/s of CPU |")
    print("| --- | --- | --- | --- | --- |")
    for kind in KINDS:
        seconds, cpu, nbytes = measured(kind, options.rows, options.repeat)
        print(f"| {kind} | {nbytes:,} | {seconds:.2f} | {cpu:.2f} | {options.rows / cpu:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
