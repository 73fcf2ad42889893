"""One workload through eddyline and the systems that people would use instead.

    python benchmarks/peers/run.py [--changes 1000000] [--peers eddyline-1MB,duckdb,postgres]

Each peer is a process (peer.py), fed in ten batches. All five queries are asked after each batch.
Measured: changes a second of all of it; the peak of the proportional resident memory (PSS) of all processes of the
peer; bytes on disk at the end; the median seconds from the first change of a batch to all answers; after the last
batch the largest relative error of any number, its query, and the median over the five queries of their largest; after
each batch, how many numbers were intervals and how many of those held; the CPU seconds of all processes, start
included; the date and the mean load of the machine. Lines are added to results.csv. `--picture` draws memory against
changes, `--table` prints the tables of docs/compared.md and README.md, both from the last line of each peer and size.
"""

import argparse
import contextlib
import csv
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from changes import coverage, debezium, errors, exact, folder_of, signed

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.csv"
PICTURE = FOLDER / "memory.svg"
PEERS = ("eddyline-1MB", "eddyline-8MB", "eddyline-64MB", "duckdb", "postgres")
FIELDS = (
    "peer", "changes", "changes_per_s", "peak_mb", "disk_mb", "latency_s", "worst_error", "worst_query",
    "median_error", "intervals", "held", "cpu_s", "seconds", "date", "load", "note",
)  # fmt: skip
NAMES = {
    "duckdb": "DuckDB",
    "postgres": "PostgreSQL",
    "pathway": "Pathway",
    "flink": "Flink, RocksDB",
    "flink-heap": "Flink, heap",
    "spark": "Spark",
}
"""The peers as the docs call them, in the order of the tables, after eddyline at its budgets."""
OWN = ("pathway", "flink")  # in environments that `environment` makes
SCRIPTS = {"pathway": "pathway_peer.py", "flink": "flink_peer.py", "spark": "spark_peer.py"}
SHOWN = 10_000_000
"""The changes after which README.md compares."""
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
        start, note, loads = time.perf_counter(), "", []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            peak, used, over = [0.0], {}, threading.Event()

            def watch() -> None:
                while not over.wait(INTERVAL):
                    own = processes(process.pid, folder)
                    peak[0] = max(peak[0], resident(own))
                    used.update(cpu_seconds(own))
                    loads.append(os.getloadavg()[0])

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
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "load": round(statistics.mean(loads)),
        "note": note,
    }
    if not note:
        shown = json.loads(out.strip().split("\n")[-1])
        line |= {
            "changes_per_s": round(changes / shown["seconds"]),
            "disk_mb": f"{shown['disk'] / 2**20:.1f}",
            "latency_s": f"{shown['latency']:.3f}",
        } | judged(shown["answers"], shown.get("ends", []), truth)
    return {field: line.get(field, "") for field in FIELDS}


def judged(answers: dict, ends: list[dict], truth: list[dict]) -> dict[str, object]:
    """Return the errors of the last answers, and how often intervals held after each batch."""
    by_query = errors(answers, truth[-1])
    worst = max(by_query, key=lambda name: by_query[name])
    wide, held = map(sum, zip(*map(coverage, ends, truth), strict=True)) if ends else (0, 0)
    return {
        "worst_error": f"{by_query[worst]:.2g}",
        "worst_query": worst if by_query[worst] else "",
        "median_error": f"{statistics.median(by_query.values()):.2g}",
        "intervals": wide,
        "held": held,
    }


def lines() -> list[dict[str, str]]:
    """Return the last line of each peer and size, smallest size first."""
    with RESULTS.open(encoding="utf-8") as file:
        last = {(line["peer"], int(line["changes"])): line for line in csv.DictReader(file)}
    order = [*PEERS[:3], *NAMES]
    return [last[key] for key in sorted(last, key=lambda key: (key[1], order.index(key[0])))]


def shown_as(peer: str) -> str:
    """Return a peer as the docs call it."""
    kind, _, budget = peer.partition("-")
    return f"eddyline, {budget.replace('MB', ' MB')}" if kind == "eddyline" else NAMES[peer]


def percent(text: str) -> str:
    """Return an error with two digits."""
    error = 100 * float(text)
    return f"{error:.0f}%" if error >= 10 else f"{error:.2g}%" if error else "exact"


def table() -> str:
    """Return the table of docs/compared.md."""
    heads = (
        "changes",
        "peer",
        "peak memory, MB",
        "on disk, MB",
        "CPU seconds",
        "changes per second",
        "latency, s",
    )
    heads += ("error: median query", "worst", "intervals that held", "load")
    out = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    for line in lines():
        cells = [f"{int(line['changes']):,}", shown_as(line["peer"]), f"{int(line['peak_mb']):,}"]
        if line["note"]:
            cells += ["", f"{int(line['cpu_s']):,}", line["note"], "", "", "", "", line["load"]]
        else:
            disk = f"{float(line['disk_mb']):,.1f}" if float(line["disk_mb"]) else "none kept"
            cells += [disk, f"{int(line['cpu_s']):,}", f"{int(line['changes_per_s']):,}"]
            cells += [f"{float(line['latency_s']):.1f}"]
            worst = percent(line["worst_error"]) + (
                f" ({line['worst_query']})" if line["worst_query"] else ""
            )
            held = f"{line['held']} of {line['intervals']}" if int(line["intervals"]) else ""
            cells += [percent(line["median_error"]), worst, held, line["load"]]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def caption() -> str:
    """Return the sentence of README.md."""
    at = {line["peer"]: line for line in lines() if line["changes"] == f"{SHOWN}"}

    def took(peer: str) -> str:
        return f"{int(at[peer]['peak_mb']):,} MB of memory and {float(at[peer]['disk_mb']):,.0f} MB of disk"

    return (
        f"After {SHOWN // 10**6} million changes of three tables, eddyline with 8 MB takes {took('eddyline-8MB')}, all "
        f"processes together, and is off by at most {percent(at['eddyline-8MB']['worst_error'])}. DuckDB takes "
        f"{took('duckdb')}, PostgreSQL {took('postgres')}."
    )


def draw() -> None:
    """Draw memory and disk against changes; a cross is a peer that was stopped there."""
    import matplotlib as mpl  # noqa: PLC0415 - only where something is drawn

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "peers"
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, panels = plt.subplots(1, 2, figsize=(11, 4))
    measured = lines()
    fields = {"peak_mb": "peak memory of all processes, MB", "disk_mb": "on disk, MB"}
    for axes, (field, title) in zip(panels, fields.items(), strict=True):
        for peer in dict.fromkeys(line["peer"] for line in measured):
            own = [line for line in measured if line["peer"] == peer and float(line[field] or 0)]
            style = "-" if "eddyline" in peer else "--"
            color = f"C{[*PEERS[:3], *NAMES].index(peer)}"
            sizes, found = [int(line["changes"]) for line in own], [float(line[field]) for line in own]
            axes.plot(sizes, found, style, marker="o", color=color, label=shown_as(peer))
            for line, at, value in zip(own, sizes, found, strict=True):
                if line["note"]:
                    axes.plot(at, value, marker="x", markersize=12, color=color)
        axes.set(xscale="log", yscale="log", xlabel="changes", title=title)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_minor_formatter("{x:,.0f}" if field == "peak_mb" else "")
        axes.grid(alpha=0.3)
    panels[1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
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
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if options.picture:
        draw()
        return
    if options.table:
        print(table() + "\n\n" + caption())
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
