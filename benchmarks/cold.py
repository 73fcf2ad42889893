"""What a fresh process and a fresh machine wait for: imports, kernels to compile, the first pass.

    .venv/bin/python benchmarks/cold.py [--runs 5]

Each figure is the median of processes of their own. "cold" has an empty NUMBA_CACHE_DIR, "warmed" one that
`eddyline warm` filled; the first pass is that of the demo's queries over 200,000 changes of each stream, without
Spark, and all its answers.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

IMPORTS = {
    "import eddyline": "import eddyline",
    "from eddyline import Workload": "from eddyline import Workload",
    "import eddyline.cli": "import eddyline.cli",
    "import numpy, pyarrow, sqlglot": "import numpy, pyarrow.compute, sqlglot",
}
FIRST_PASS = """
import time
import numpy as np, pyarrow as pa
import eddyline as el
w = el.Workload(budget="256 KB", seed=7)
w.stream("orders", "customer BIGINT, region STRING, total DECIMAL(12,2)", changes="change_type")
w.stream("visits", "customer BIGINT, seconds INT", changes="weight")
both = "FROM orders o JOIN visits v ON o.customer = v.customer"
for name, text in {
    "revenue": "SELECT SUM(total) FROM orders WHERE region = 'north'",
    "pairs": f"SELECT COUNT(*) {both}",
    "long": f"SELECT COUNT(*) {both} WHERE o.region = 'north' AND v.seconds >= 60",
    "mean": f"SELECT AVG(o.total) {both}",
    "itself": "SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer = b.customer",
    "buyers": "SELECT COUNT(DISTINCT customer) FROM orders",
    "unseen": "SELECT COUNT(*) FROM (SELECT customer FROM orders EXCEPT SELECT customer FROM visits)",
}.items():
    w.query(name, text)
rng, n = np.random.default_rng(0), 200_000
orders = pa.table({
    "customer": (20_000 * rng.random(n) ** 2.5).astype(np.int64),
    "region": np.array(["north", "south", "east", "west"])[rng.integers(0, 4, n)],
    "total": pa.array(rng.integers(0, 80_000, n) / 4).cast(pa.decimal128(12, 2)),
    "_change_type": np.full(n, "insert"),
})
visits = pa.table({
    "customer": (20_000 * rng.random(n) ** 2.5).astype(np.int64),
    "seconds": rng.integers(0, 300, n, dtype=np.int32),
    "weight": np.ones(n, dtype=np.int64),
})
plan = w.plan()
start = time.perf_counter()
state = plan.empty().update("orders", orders).update("visits", visits)
state.answers()
print(time.perf_counter() - start)
"""


def run(code: str, cache: str | None = None) -> tuple[float, str]:
    """Return (seconds of a fresh process that runs some code, what it printed)."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    return time.perf_counter() - start, done.stdout


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    bare = statistics.median(run("pass")[0] for _ in range(runs))
    print(f"a bare Python starts in {bare:.2f} s, which is taken off below; medians of {runs}")
    for name, code in IMPORTS.items():
        print(f"  {name:32s} {statistics.median(run(code)[0] for _ in range(runs)) - bare:6.2f} s")
    cold, warming, warmed = [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as cache:
            cold.append(float(run(FIRST_PASS, empty)[1]))
            warming.append(run("from eddyline.api.warm import warm; warm()", cache)[0])
            warmed.append(float(run(FIRST_PASS, cache)[1]))
    for name, measured in (("cold", cold), ("warmed", warmed)):
        print(f"  first pass and answers, {name:8s} {statistics.median(measured):6.2f} s")
    print(f"  eddyline warm, once              {statistics.median(warming):6.2f} s")


if __name__ == "__main__":
    main()
