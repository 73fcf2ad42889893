"""One workload through eddyline and the systems that people would use instead.

    python benchmarks/peers/run.py [--changes 1000000] [--peers eddyline-1MB,duckdb,postgres]

Each peer is a process (peer.py), fed in ten batches. All five queries are asked after each batch.
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
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from changes import debezium, exact, folder_of, signed, worst_error

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
    "note",
)
OWN = ("pathway", "flink")  # in environments that `environment` makes
SCRIPTS = {"pathway": "pathway_peer.py", "flink": "flink_peer.py", "spark": "spark_peer.py"}
INTERVAL = 0.2  # seconds between two looks at a peer's memory


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


def measured(peer: str, changes: int, minutes: float) -> dict[str, object]:
    """Return the line of one peer; what was measured so far, and a note, if it takes longer than some minutes."""
    kind = peer.partition("-")[0]
    script, python = (FOLDER / SCRIPTS.get(kind, "peer.py")), sys.executable
    if kind in OWN:
        python = str(Path("build/peers", kind, "bin/python").absolute())
    folder_of(changes)
    for prepared, needed in ((signed, kind == "spark"), (debezium, kind == "flink")):
        if needed:
            prepared(changes)
    truth = exact(changes)
    with tempfile.TemporaryDirectory(prefix="peer") as where:
        folder = Path(where)
        folder.chmod(0o755)
        command = [python, str(script), peer, str(changes), where]
        start, note = time.perf_counter(), ""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            peak, used, over = [0.0], {}, threading.Event()

            def watch() -> None:
                while not over.wait(INTERVAL):
                    own = processes(process.pid, folder)
                    peak[0] = max(peak[0], resident(own))
                    used.update(cpu_seconds(own))

            watcher = threading.Thread(target=watch)
            watcher.start()
            try:
                out = process.communicate(timeout=60 * minutes)[0]
            except subprocess.TimeoutExpired:
                note = f"not finished after {minutes:g} minutes"
                for pid in processes(process.pid, folder):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                process.communicate()
            over.set()
            watcher.join()
        seconds = time.perf_counter() - start
        if process.returncode and not note:
            raise SystemExit(f"{peer} failed; its messages are above.")
    line: dict[str, object] = {
        "peer": peer,
        "changes": changes,
        "peak_mb": round(peak[0]),
        "cpu_s": round(sum(used.values())),
        "seconds": round(seconds),
        "note": note,
    }
    if not note:
        shown = json.loads(out.strip().split("\n")[-1])
        line |= {
            "changes_per_s": round(changes / shown["seconds"]),
            "disk_mb": f"{shown['disk'] / 2**20:.1f}",
            "latency_s": f"{shown['latency']:.3f}",
            "worst_error": f"{worst_error(shown['answers'], truth[-1]):.2g}",
        }
    return {field: line.get(field, "") for field in FIELDS}


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
    parser.add_argument("--minutes", type=float, default=10, help="until a peer is stopped")
    parser.add_argument("--picture", action="store_true", help="only draw")
    options = parser.parse_args()
    if options.picture:
        draw()
        return
    for changes in map(int, options.changes.split(",")):
        for peer in options.peers.split(","):
            line = measured(peer, changes, options.minutes)
            print("| " + " | ".join(map(str, line.values())) + " |", flush=True)
            fresh = not RESULTS.exists()
            with RESULTS.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                if fresh:
                    writer.writeheader()
                writer.writerow(line)


if __name__ == "__main__":
    main()
