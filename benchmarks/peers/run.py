"""One workload through eddyline and the systems that people would use instead.

    python benchmarks/peers/run.py [--changes 1000000] [--peers eddyline-1MB,duckdb,postgres]

Each peer is a process (peer.py), fed in batches of 100,000 changes. All five queries are asked after each batch.
Measured: changes a second of all of it; the peak of the proportional resident memory (PSS) of all processes of the
peer; bytes on disk at the end; the median seconds from the first change of a batch to all answers; the largest relative
error of any answer after the last batch; the CPU seconds of all processes, start included. Lines are added to
results.csv. `--picture` draws memory against changes.
"""

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from changes import exact, worst_error

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.csv"
PICTURE = FOLDER / "memory.svg"
PEERS = ("eddyline-1MB", "eddyline-8MB", "eddyline-64MB", "duckdb", "postgres")
FIELDS = (
    "peer",
    "changes",
    "changes_per_s",
    "peak_mb",
    "disk_mb",
    "latency_s",
    "worst_error",
    "cpu_s",
    "seconds",
)


def processes(root: int, folder: Path) -> set[int]:
    """Return a process with its descendants, and the processes that work in a folder, such as PostgreSQL's."""
    parents: dict[int, int] = {}
    found = {root}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(path.name)
            parents[pid] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if str((path / "cwd").readlink()).startswith(str(folder)):
                found.add(pid)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def resident(pids: set[int]) -> float:
    """Return the proportional resident memory of processes in MB: pages that they share count once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(text.split("\nPss:")[1].split()[0])
    return total / 1024


def cpu_seconds(pids: set[int]) -> dict[int, float]:
    """Return the CPU seconds that each process has used, without its children."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[pid] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def measured(peer: str, changes: int, python: str) -> dict[str, object]:
    """Return the line of one peer; python: its interpreter."""
    script = "pathway_peer.py" if peer == "pathway" else "peer.py"
    with tempfile.TemporaryDirectory(prefix="peer") as where:
        folder = Path(where)
        folder.chmod(0o755)
        command = [python, str(FOLDER / script), peer, str(changes), where]
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            peak, used, over = [0.0], {}, threading.Event()

            def watch() -> None:
                while not over.wait(0.1):
                    own = processes(process.pid, folder)
                    peak[0] = max(peak[0], resident(own))
                    used.update(cpu_seconds(own))

            watcher = threading.Thread(target=watch)
            watcher.start()
            out = process.communicate()[0]
            over.set()
            watcher.join()
        seconds = time.perf_counter() - start
        if process.returncode:
            raise SystemExit(f"{peer} failed; its messages are above.")
        shown = json.loads(out.strip().split("\n")[-1])
    return {
        "peer": peer,
        "changes": changes,
        "changes_per_s": round(changes / shown["seconds"]),
        "peak_mb": round(peak[0]),
        "disk_mb": f"{shown['disk'] / 2**20:.1f}",
        "latency_s": f"{shown['latency']:.3f}",
        "worst_error": f"{worst_error(shown['answers'], exact(changes)):.2g}",
        "cpu_s": round(sum(used.values())),
        "seconds": round(seconds),
    }


def draw() -> None:
    """Draw memory against changes."""
    import matplotlib as mpl  # noqa: PLC0415 - only where something is drawn

    mpl.use("svg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    with RESULTS.open() as file:
        lines = list(csv.DictReader(file))
    figure, axes = plt.subplots(figsize=(7, 4))
    for peer in dict.fromkeys(line["peer"] for line in lines):
        own = sorted((int(line["changes"]), float(line["peak_mb"])) for line in lines if line["peer"] == peer)
        axes.plot(
            *zip(*own, strict=True), marker="o", label=peer, linestyle="-" if "eddyline" in peer else "--"
        )
    axes.set(xscale="log", yscale="log", xlabel="changes", ylabel="peak memory of all processes, MB")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Measure, add to the file, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", default="1000000")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--pathway", help="the interpreter of an environment that has pathway and pyarrow")
    parser.add_argument("--picture", action="store_true", help="only draw")
    options = parser.parse_args()
    if options.picture:
        draw()
        return
    for changes in map(int, options.changes.split(",")):
        for peer in options.peers.split(","):
            line = measured(peer, changes, options.pathway if peer == "pathway" else sys.executable)
            print("| " + " | ".join(map(str, line.values())) + " |", flush=True)
            fresh = not RESULTS.exists()
            with RESULTS.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                if fresh:
                    writer.writeheader()
                writer.writerow(line)


if __name__ == "__main__":
    main()
