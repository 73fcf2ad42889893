"""What the processes around a store take: those of a continuous run, a reader and a server, at several budgets.

    .venv/bin/python benchmarks/processes.py [--budgets 1,16,64,256] [--fill 2.5]

For each budget in MB: `eddyline run --once` reads Parquet files of the rows of memory.py (three streams, `fill` times
the budget, in batches of four files of each stream) with two tasks; then `eddyline ask` answers the four queries from
the store in a process of its own; then `eddyline serve` answers each over HTTP, ten times. Looked at every 50 ms:
resident memory and its peak (VmRSS and VmHWM) of the driver's Python, of Spark's JVM, of the largest Python worker, of
the reader and the server. Prints lines of the table in docs/reference/memory.md.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from memory import MB, QUERIES, drawn

ROWS = 65_536
LOOKS = 0.05
Sizes = dict[str, list[float]]


def pipeline(folder: Path, budget: float, fill: float) -> Path:
    """Write the rows and a pipeline file; return the file."""
    values = max(int(budget * MB) // 8, 1000)
    rows = int(fill * budget * MB / 16 / 3)
    parts = ["[workload]", f'budget = "{budget:g} MB"', 'store = "state"']
    for seed, name in enumerate("abc"):
        (folder / name).mkdir()
        for number in range(max(4, -(-rows // ROWS))):
            table = pa.table(drawn(min(ROWS, rows), values, 1000 * seed + number))
            pq.write_table(table, folder / name / f"{number:04}.parquet")
        schema = ", ".join(f"{column} BIGINT" for column in "kjgxy")
        parts += [f"[streams.{name}]", f'schema = "{schema}"', 'format = "parquet"', f'path = "{name}"']
        parts += ['options = { maxFilesPerTrigger = "4" }']
    parts += ["[queries]", *(f'{name} = "{text}"' for name, text in QUERIES.items())]
    parts += ["[spark]", 'conf = { "spark.master" = "local[2]", "spark.ui.enabled" = "false" }']
    file = folder / "pipeline.toml"
    file.write_text("\n".join(parts), encoding="utf-8")
    return file


def family(root: int) -> dict[int, str]:
    """Return a process and its descendants, by kind: python, jvm or worker."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            head, _, rest = (path / "stat").read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(path.name)] = int(rest.split()[1])
        names[int(path.name)] = head.partition("(")[2]
    found = {root: "python"}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found.keys()
        if not more:
            return found
        found |= {pid: "jvm" if names[pid] == "java" else "worker" for pid in more}


@contextmanager
def watched(process: subprocess.Popen, sizes: Sizes) -> Iterator[None]:
    """Look at a process and its descendants until the end; `sizes` gets, by kind, [last resident, largest peak]."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOKS):
            for pid, kind in family(process.pid).items():
                try:
                    text = Path(f"/proc/{pid}/status").read_text()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                found = [re.search(rf"{name}:\s+(\d+) kB", text) for name in ("VmRSS", "VmHWM")]
                if all(found):
                    now, peak = (int(match[1]) / 1024 for match in found if match)
                    before = sizes.setdefault(kind, [0.0, 0.0])
                    sizes[kind] = [now, max(before[1], peak)]

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def ended(*arguments: str) -> Sizes:
    """Run a command of eddyline to its end; return its sizes."""
    sizes: Sizes = {}
    command = [sys.executable, "-m", "eddyline.cli", *arguments]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
        watched(process, sizes),
    ):
        messages = process.communicate()[1]
    if process.returncode:
        raise SystemExit(f"eddyline {' '.join(arguments)} failed:\n{messages}")
    return sizes


def served(store: str, history: str) -> Sizes:
    """Serve a store, ask every query ten times, and return the sizes of the server."""
    sizes: Sizes = {}
    command = [sys.executable, "-m", "eddyline.cli", "serve", store, "--port", "0", "--history", history]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        address = None
        for line in process.stdout:
            address = re.search(r"http://[\d.]+:\d+", line)
            if address:
                break
        if address is None:
            raise SystemExit("eddyline serve did not start.")
        with watched(process, sizes):
            for _ in range(10):
                for name in QUERIES:
                    urllib.request.urlopen(f"{address[0]}/api/v1/answers/{name}").read()
            time.sleep(2 * LOOKS)
        process.terminate()
    return sizes


def measured(budget: float, fill: float) -> list[str]:
    """Return the cells of a budget: peaks of driver, JVM, worker and reader; memory and peak of the server; store."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = pipeline(folder, budget, fill)
        run = ended("run", str(file), "--once")
        store = str(folder / "state")
        asked = ended("ask", store, "--format", "json")
        server = served(store, str(folder / "history.json"))
        size = sum(path.stat().st_size for path in Path(store).rglob("*") if path.is_file()) / MB
    peaks = [
        sizes[kind][1] for sizes, kind in ((run, "python"), (run, "jvm"), (run, "worker"), (asked, "python"))
    ]
    figures = [budget, *peaks, *server["python"], size]
    return [f"{figure:,.0f}" for figure in figures]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budgets", default="1,16,64,256", help="in MB")
    parser.add_argument("--fill", type=float, default=2.5, help="budgets of rows that are fed")
    options = parser.parse_args()
    for budget in map(float, options.budgets.split(",")):
        print("| " + " | ".join(measured(budget, options.fill)) + " |", flush=True)


if __name__ == "__main__":
    main()
