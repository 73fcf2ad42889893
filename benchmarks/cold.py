"""What a fresh process and a fresh machine wait for: imports, kernels to compile, the first pass.

    .venv/bin/python benchmarks/cold.py [--runs 5] [--commands]

Each figure is the median of processes of their own. "cold" has an empty NUMBA_CACHE_DIR, "warmed" one that
`eddyline warm` filled; the first pass is that of the demo's queries over 200,000 changes of each stream, without
Spark, and all its answers. Modules are compiled to bytecode in a folder of the benchmark, as pip does when it installs
a package; the first process, which compiles them, is not counted.
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


BYTECODE = tempfile.TemporaryDirectory()
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
    "PYTHONPYCACHEPREFIX": BYTECODE.name
}


def run(code: str, cache: str | None = None) -> tuple[float, str]:
    """Return (seconds of a fresh process that runs some code, what it printed)."""
    environment = ENVIRONMENT | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    return time.perf_counter() - start, done.stdout


STORE = """
import sys
import eddyline as el, pyarrow as pa, pyarrow.parquet as pq
from eddyline.api.jobs import build_without_spark
from eddyline.api.pipeline import load_pipeline
from pathlib import Path
folder = Path(sys.argv[1])
keys = list(range(1000)) * 10
pq.write_table(pa.table({"k": keys}), folder / "rows.parquet")
(folder / "rows.csv").write_text("k\\n" + "".join(f"{key}\\n" for key in keys))
(folder / "rows.json").write_text("".join(f'{{"k": {key}}}\\n' for key in keys))
text = f'''
[workload]
budget = "1 MB"
STORE
[streams.s]
format = "parquet"
path = "{folder}/rows.parquet"
schema = "k BIGINT"
[queries.rows]
sql = "SELECT COUNT(*) FROM s WHERE k > 10"
[queries.pairs]
sql = "SELECT COUNT(*) FROM s a JOIN s b ON a.k = b.k"
'''
(folder / "files.toml").write_text(text.replace("STORE", ""))
for form, options in (("csv", 'options = { header = "true" }'), ("json", "")):
    other = text.replace('format = "parquet"', f'format = "{form}"\\n{options}')
    (folder / f"{form}.toml").write_text(other.replace("parquet", form).replace("STORE", ""))
(folder / "stored.toml").write_text(text.replace("STORE", f'store = "{folder}/state"'))
wrong = text.replace("k BIGINT", "x BIGINT").replace(" k >", " x >").replace(".k", ".x")
(folder / "wrong.toml").write_text(wrong.replace("STORE", f'store = "{folder}/no"'))
pipeline = load_pipeline(folder / "stored.toml")
build_without_spark(pipeline, pipeline.plan())
(folder / "rows").mkdir()
pq.write_table(pa.table({"k": list(range(1000))}), folder / "rows" / "rows.parquet")
followed = text.replace("rows.parquet", "rows")
(folder / "columns.toml").write_text(
    wrong.replace("rows.parquet", "rows").replace("STORE", f'store = "{folder}/no"')
)
(folder / "path.toml").write_text(followed.replace("STORE", f'store = "{folder}/files.toml/state"'))
(folder / "held.toml").write_text(followed.replace("STORE", f'store = "{folder}/held"'))
other = followed.replace("k > 10", "k > 20")
(folder / "other.toml").write_text(other.replace("STORE", f'store = "{folder}/run"'))
login = f'''
[workload]
store = "{folder}/login"
[streams.s]
format = "eddyline-postgres"
schema = "k BIGINT"
options = {{ dsn = "host=127.0.0.1 port=1 dbname=shop connect_timeout=2", table = "s" }}
[queries]
n = "SELECT COUNT(*) FROM s"
'''
(folder / "login.toml").write_text(login)
from eddyline.api.durable import stamp
from eddyline.ingest.sections import to_sections
from eddyline.store import Store
for name in ("held", "run"):
    plan = load_pipeline(folder / "held.toml").plan()
    Store.create(str(folder / name), stamp(plan.layout), "run-1", to_sections(plan.empty().snapshot)).close()
"""
HOLD = """
import sys, time
from pathlib import Path
from eddyline.store.filesystem import open_files
from eddyline.store.lock import acquire
lock = acquire(open_files(Path(sys.argv[1])), break_lock=False)
print("held", flush=True)
time.sleep(3600)
"""
COMMANDS = {
    "ask of a store": ("ask", "state"),
    "ask of a file of Parquet, no Spark": ("ask", "files.toml"),
    "ask of a CSV file, no Spark": ("ask", "csv.toml"),
    "ask of a JSON file, no Spark": ("ask", "json.toml"),
    "ask that fails: no such column": ("ask", "wrong.toml"),
    "run that fails: one file, not a folder": ("run", "stored.toml"),
    "run that fails: no such column": ("run", "columns.toml"),
    "run that fails: the store's path is a file": ("run", "path.toml"),
    "run that fails: another plan": ("run", "other.toml"),
    "run that fails: a lock that is held": ("run", "held.toml"),
    "run that fails: no login at PostgreSQL": ("run", "login.toml"),
}


def command(folder: str, arguments: tuple[str, str], *, fails: bool) -> tuple[float, float]:
    """Return (seconds, seconds of processor) of a command on a file or folder; it must fail, or must not."""
    name, about = arguments
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "eddyline.cli", name, f"{folder}/{about}"],
        check=False,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    took, after = time.perf_counter() - start, os.times()
    if (done.returncode == 1) != fails or "Traceback" in done.stderr or "starting Spark" in done.stderr:
        raise SystemExit(f"{name} {about}: {done.returncode}\n{done.stdout}{done.stderr}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return took, used


def measure_commands(runs: int) -> None:
    """Print how long commands take that need no Spark, or find out before it starts that they cannot work."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", STORE, folder], check=True, capture_output=True)
        holder = subprocess.Popen([sys.executable, "-c", HOLD, f"{folder}/held"], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        holder.stdout.readline()
        for name, arguments in COMMANDS.items():
            command(folder, arguments, fails="fails" in name)  # compiles modules
            taken = [command(folder, arguments, fails="fails" in name) for _ in range(runs)]
            wall, used = (statistics.median(each) for each in zip(*taken, strict=True))
            print(f"  {name:44s} {wall:6.2f} s, {used:5.2f} s of processor", flush=True)
        holder.kill()
        holder.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--commands", action="store_true", help="only how long commands take")
    given = parser.parse_args()
    runs = given.runs
    if given.commands:
        measure_commands(runs)
        return
    bare = statistics.median(run("pass")[0] for _ in range(runs))
    print(f"a bare Python starts in {bare:.2f} s, which is taken off below; medians of {runs}")
    for name, code in IMPORTS.items():
        run(code)  # compiles modules
        print(f"  {name:32s} {statistics.median(run(code)[0] for _ in range(runs)) - bare:6.2f} s")
    measure_commands(runs)
    cold, warming, warmed = [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as cache:
            cold.append(float(run(FIRST_PASS, empty)[1]))
            warming.append(run("from eddyline.api.operations.warm import warm; warm()", cache)[0])
            warmed.append(float(run(FIRST_PASS, cache)[1]))
    for name, measured in (("cold", cold), ("warmed", warmed)):
        print(f"  first pass and answers, {name:8s} {statistics.median(measured):6.2f} s")
    print(f"  eddyline warm, once              {statistics.median(warming):6.2f} s")


if __name__ == "__main__":
    main()
